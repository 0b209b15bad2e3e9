"""How much work a network is, before it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ForwardWork:
    """Of one sample."""

    operations: float
    """Multiplications and additions of the weight matrices."""
    values: int
    """That all layers together return."""


def measure_forward(model: nn.Module, batch: Tensor) -> ForwardWork:
    """The work of one sample's forward pass; the network does not change.

    >>> measure_forward(nn.Sequential(nn.Linear(5, 3), nn.ReLU()), torch.zeros(2, 5))
    ForwardWork(operations=30.0, values=6)
    """
    operations, values = 0.0, 0

    def add(layer: nn.Module, _: Any, output: Any) -> None:
        nonlocal operations, values
        if isinstance(output, Tensor):
            values += output.numel()
            weight = getattr(layer, "weight", None)
            if isinstance(weight, Tensor) and weight.ndim > 1:
                operations += 2.0 * weight.numel() * output.numel() / weight.shape[0]

    layers = [layer for layer in model.modules() if next(layer.children(), None) is None]
    hooks = [layer.register_forward_hook(add) for layer in layers]
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            model(batch)
    finally:
        for hook in hooks:
            hook.remove()
        for module, mode in modes:
            module.training = mode
    return ForwardWork(operations / len(batch), values // len(batch))
