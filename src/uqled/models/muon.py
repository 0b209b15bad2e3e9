"""Muon: an optimiser whose steps are equally strong in all directions of a convolution.

Source of the method: K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks"
(2024), used by the fastest public recipes for CIFAR-10. Few directions dominate a gradient, and
plain momentum hardly moves along the others; Muon replaces the momentum matrix by the nearest
orthogonal one. Here a step is also measured against the weight it changes, so that one learning
rate fits all layers, with or without normalisation after them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from uqled.models.hardware import has_bfloat16

# Coefficients of the odd polynomial that moves all singular values towards 1, from the same source.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 3  # as for CIFAR-10 in the same source; more cost time and change little
_SHORTEST = 0.1  # of the weights' length, beside an orthogonal matrix: weights may begin at zero
_TINY = 1e-30  # instead of dividing by zero


class Muon(torch.optim.SGD):
    """Muon for the weights of convolutions; SGD with momentum for all other parameters.

    With a learning rate of 0.05 a step of a convolution is a twentieth as long as its weights.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None and _is_matrix_of_filters(weight):
                    self._step_convolution(weight, group)
                    weight.grad = None  # and so SGD leaves it alone
        super().step()
        return loss

    def _step_convolution(self, weight: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        momentum = state.get("momentum_buffer")
        if momentum is None:
            momentum = state["momentum_buffer"] = torch.zeros_like(weight)
        gradient = weight.grad
        assert gradient is not None
        momentum.mul_(group["momentum"]).add_(gradient)
        direction = momentum
        if group["nesterov"]:
            direction = gradient.add(momentum, alpha=group["momentum"])
        rows = direction.permute(0, 2, 3, 1)  # as they lie in memory with the channels last
        update = orthogonalise(rows.flatten(1)).view_as(rows).permute(0, 3, 1, 2)
        if group["weight_decay"]:
            weight.mul_(1 - group["lr"] * group["weight_decay"])
        length = weight.norm() / update.norm().clamp_min(_TINY)
        weight.sub_(update * (group["lr"] * length.clamp_min(_SHORTEST)))


def _is_matrix_of_filters(weight: Tensor) -> bool:
    """Whether filters see several channels together: not in depthwise convolutions, whose rows have
    nothing to do with each other."""
    return weight.ndim == 4 and weight.shape[1] > 1


def orthogonalise(matrix: Tensor) -> Tensor:
    """[m,n] with the same singular vectors, and singular values that are all near 1.

    Each iteration multiplies by a polynomial of the rows' products, a square matrix of the shorter
    side: these are multiplied with each other, and the long matrix only twice.
    """
    x = matrix / matrix.norm().clamp_min(_TINY)
    x = x.to(_choose_precision(x.device.type))
    is_tall = x.shape[0] > x.shape[1]
    x = x.T if is_tall else x
    products = x @ x.T
    factor = polynomial = _apply_polynomial(products)
    for _ in range(_ITERATIONS - 1):
        products = polynomial @ (products @ polynomial)
        polynomial = _apply_polynomial(products)
        factor = polynomial @ factor
    x = factor @ x
    return (x.T if is_tall else x).to(matrix.dtype)


@cache
def _choose_precision(device: str) -> torch.dtype:
    """bfloat16 is precise enough, where it is faster: the direction is a noisy one anyway."""
    return torch.bfloat16 if has_bfloat16(device) else torch.float32


def _apply_polynomial(products: Tensor) -> Tensor:
    """The factor by which one iteration multiplies the matrix, from the products of its rows."""
    a, b, c = _COEFFICIENTS
    factor = torch.addmm(products, products, products, beta=b, alpha=c)
    factor.diagonal().add_(a)
    return factor
