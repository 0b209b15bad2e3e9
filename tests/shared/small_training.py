"""A network, data and options that train in a second."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

from uqled.data.dataset import Dataset

QUICK_TRAINING = {"folds": 3, "passes": 2, "epochs": 2, "batch_size": 32, "lr": 0.05, "seed": 5}


def digits(n=240):
    result = load_digits()
    images = (result.images * 15.9).astype(np.uint8)[..., None]
    return Dataset.from_arrays(images[:n], result.target[:n], name="digits")


def tiny(n_classes, image_shape):
    """A network that trains in a second."""
    channels = image_shape[2]
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(8 * image_shape[0] * image_shape[1], n_classes),
    )


def same(one, other):
    assert (one.pred_probs == other.pred_probs).all()
    assert (one.passes == other.passes).all()
    assert (one.folds == other.folds).all()


class StopError(Exception):
    """Stands for a kill."""
