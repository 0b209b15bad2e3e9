"""A head on features: a small network with dropout, of which a fold trains in seconds."""

from __future__ import annotations

import torch
from torch import nn

from uqled.models.dropout import Dropout

_HIDDEN_UNITS = 256


def make_head(n_features: int, n_classes: int, seed: int) -> nn.Sequential:
    """A network on features [n,D]: scaling, one hidden layer, dropout before both matrices."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.BatchNorm1d(n_features, affine=False),
            Dropout(0.5),
            nn.Linear(n_features, _HIDDEN_UNITS),
            nn.ReLU(inplace=True),
            Dropout(0.5),
            nn.Linear(_HIDDEN_UNITS, n_classes),
        )
