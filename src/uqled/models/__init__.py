"""Networks with dropout, dropout for any network, and Monte Carlo passes; needs PyTorch.

build                                    vgg11, resnet50, small, or a network of the user's own
add_dropout, enable_dropout,
    dropout_layers, has_dropout          dropout in any network
stochastic_passes, split_at_dropout      Monte Carlo dropout that does not repeat itself
reestimate_batch_norm                    batch norm after dropout, put right for the softmax
make_head                                a small network with dropout for features
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from uqled.errors import InputError

if TYPE_CHECKING:
    from uqled.models.batch_norm import SoftmaxStatistics, reestimate_batch_norm
    from uqled.models.dropout import (
        Dropout,
        add_dropout,
        dropout_layers,
        enable_dropout,
        has_dropout,
    )
    from uqled.models.heads import make_head
    from uqled.models.monte_carlo import SplitNetwork, split_at_dropout, stochastic_passes
    from uqled.models.networks import build

#: Where each public name lives; loaded when it is first used, because torch takes a while.
_HOMES = {
    "Dropout": "dropout",
    "SoftmaxStatistics": "batch_norm",
    "SplitNetwork": "monte_carlo",
    "add_dropout": "dropout",
    "build": "networks",
    "dropout_layers": "dropout",
    "enable_dropout": "dropout",
    "has_dropout": "dropout",
    "make_head": "heads",
    "reestimate_batch_norm": "batch_norm",
    "split_at_dropout": "monte_carlo",
    "stochastic_passes": "monte_carlo",
}

__all__ = [
    "Dropout",
    "SoftmaxStatistics",
    "SplitNetwork",
    "add_dropout",
    "build",
    "dropout_layers",
    "enable_dropout",
    "has_dropout",
    "make_head",
    "reestimate_batch_norm",
    "split_at_dropout",
    "stochastic_passes",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'uqled.models' has no attribute {name!r}")
    try:
        home = import_module(f"uqled.models.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise InputError(
            "model", "needs PyTorch, which is not installed", "Run: pip install 'uqled[torch]'"
        ) from error
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
