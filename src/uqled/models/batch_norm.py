"""Batch norm after dropout: its statistics, estimated again without dropout, for the softmax.

In training, a batch norm layer after dropout keeps the mean and variance of activations with
dropout. At inference without dropout the activations have another variance, and the plain softmax
suffers, while Monte Carlo passes, which have dropout, do not. So the softmax gets statistics of its
own: those of training samples that go through the trained network without dropout. The weights
and the passes stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from uqled.models.dropout import dropout_layers


@dataclass(frozen=True)
class SoftmaxStatistics:
    """Mean and variance of each batch norm layer after dropout; empty if there is none."""

    layers: list[nn.Module]
    means: list[Tensor]
    variances: list[Tensor]

    @contextmanager
    def use_statistics(self) -> Iterator[None]:
        """Within the block the layers have these statistics, and afterwards their own again."""
        trained_statistics = [(layer.running_mean, layer.running_var) for layer in self.layers]
        try:
            self._set_statistics(list(zip(self.means, self.variances, strict=True)))
            yield
        finally:
            self._set_statistics(trained_statistics)

    def _set_statistics(self, statistics: list[tuple[Tensor, Tensor]]) -> None:
        for layer, (mean, variance) in zip(self.layers, statistics, strict=True):
            layer.running_mean, layer.running_var = mean, variance


#: For a network whose own statistics are right.
AS_TRAINED = SoftmaxStatistics([], [], [])


def may_have_batch_norm_after_dropout(model: nn.Module) -> bool:
    """Whether one of the network's layers may be such a layer, as far as can be told without data.

    A sequence calls its layers in the order they were defined. Any other module may call them in
    another order, such as a dropout layer that was defined last before all others.
    """
    parts = list(model.modules())
    return bool(_select_after_dropout(model, parts)) or any(
        dropout_layers(part) and _list_batch_norm(part)
        for part in parts
        if not isinstance(part, nn.Sequential)
    )


def reestimate_batch_norm(model: nn.Module, batches: Iterable[Tensor]) -> SoftmaxStatistics:
    """Statistics for the softmax of a trained network: means over the batches, without dropout.

    A layer's mean and variance are the averages of those of the batches, which should be of one
    size. The network itself does not change.

    >>> from torch import nn
    >>> network = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(1, affine=False))
    >>> statistics = reestimate_batch_norm(network, [torch.tensor([[1.0], [3.0]])])
    >>> [float(mean) for mean in statistics.means], [float(v) for v in statistics.variances]
    ([2.0], [2.0])
    """
    modes = [(module, module.training) for module in model.modules()]
    originals: list[tuple[nn.Module, dict[str, Tensor], float | None]] = []
    try:
        model.eval()
        with torch.no_grad():
            for batch in batches:
                if not originals:
                    layers = find_batch_norm_after_dropout(model, batch)
                    if not layers:
                        return AS_TRAINED
                    originals = [(layer, dict(layer._buffers), layer.momentum) for layer in layers]
                    for layer in layers:
                        _begin_average(layer)
                model(batch)
        layers = [layer for layer, _, _ in originals]
        return SoftmaxStatistics(
            layers,
            [layer.running_mean for layer in layers],
            [layer.running_var for layer in layers],
        )
    finally:
        for layer, buffers, momentum in originals:
            layer._buffers.update(buffers)
            layer.momentum = momentum
        for module, mode in modes:
            module.training = mode


def find_batch_norm_after_dropout(model: nn.Module, batch: Tensor) -> list[nn.Module]:
    """The batch norm layers with statistics that `forward` calls after a dropout layer."""
    calls: list[nn.Module] = []
    hooks = [
        module.register_forward_hook(lambda layer, *_: calls.append(layer))
        for module in (*dropout_layers(model), *_list_batch_norm(model))
    ]
    try:
        model(batch[:2])
    finally:
        for hook in hooks:
            hook.remove()
    return _select_after_dropout(model, calls)


def _select_after_dropout(model: nn.Module, order: list[nn.Module]) -> list[nn.Module]:
    dropout, batch_norm = set(dropout_layers(model)), set(_list_batch_norm(model))
    first = next((at for at, layer in enumerate(order) if layer in dropout), len(order))
    return list(dict.fromkeys(layer for layer in order[first:] if layer in batch_norm))


def _list_batch_norm(model: nn.Module) -> list[nn.Module]:
    return [
        layer
        for layer in model.modules()
        if isinstance(layer, _BatchNorm) and layer.running_mean is not None
    ]


def _begin_average(layer: nn.Module) -> None:
    """Statistics of its own, averaged over all batches from now on."""
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        layer._buffers[name] = torch.zeros_like(layer._buffers[name])
    layer.momentum = None  # torch's way to ask for a plain average
    layer.training = True
