"""Plain PyTorch as a careful engineer writes it: what `uqled.cross_validate` is measured against.

Images are decoded before the clock starts and augmented in batches, on tensors; weights and
activations lie with the channels last; the arithmetic is bfloat16 where the processor has it; the
passes are predicted in large batches in inference mode. One process, with PyTorch's own threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn
from torch.nn import functional

PREDICTION_BATCH, PADDING = 512, 4


@dataclass(frozen=True)
class Recipe:
    """What both train with."""

    epochs: int
    batch_size: int
    lr: float
    folds: int = 4
    passes: int = 5
    momentum: float = 0.9
    weight_decay: float = 5e-4


def cross_validate(
    images: np.ndarray,
    labels: np.ndarray,
    make: Callable[[], nn.Module],
    recipe: Recipe,
    *,
    seed: int,
    bfloat16: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Out-of-fold softmax [N,K] and passes [F,N,K] of images [N,H,W,C] in bytes."""
    torch.manual_seed(seed)
    n_classes = int(labels.max()) + 1
    pixels, targets = torch.from_numpy(np.array(images)), torch.from_numpy(labels.astype(np.int64))
    softmax = np.empty((len(labels), n_classes), np.float32)
    passes = np.empty((recipe.passes, len(labels), n_classes), np.float32)
    splitter = StratifiedKFold(recipe.folds, shuffle=True, random_state=seed)
    for train, test in splitter.split(images, labels):
        x = pixels[torch.from_numpy(train)]
        mean, std = (
            getattr(x.float(), name)(dim=(0, 1, 2)).view(1, 1, 1, -1) for name in ("mean", "std")
        )
        network = make().to(memory_format=torch.channels_last)
        _train(network, (x.float() - mean) / std, targets[train], recipe, bfloat16)
        held_out = (pixels[torch.from_numpy(test)].float() - mean) / std
        softmax[test], passes[:, test] = _predict(network, held_out, recipe.passes, bfloat16)
    return softmax, passes


def _train(network: nn.Module, x: Tensor, y: Tensor, recipe: Recipe, bfloat16: bool) -> None:
    steps = len(x) // recipe.batch_size
    optimiser = torch.optim.SGD(
        network.parameters(),
        recipe.lr,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        nesterov=True,
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.lr, total_steps=recipe.epochs * steps, pct_start=0.25
    )
    network.train()
    for _ in range(recipe.epochs):
        order = torch.randperm(len(x))
        for step in range(steps):
            rows = order[step * recipe.batch_size : (step + 1) * recipe.batch_size]
            batch = _crop_and_flip(x[rows]).permute(0, 3, 1, 2)  # with the channels last
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                loss = functional.cross_entropy(network(batch).float(), y[rows])
            loss.backward()
            optimiser.step()
            schedule.step()


def _crop_and_flip(images: Tensor) -> Tensor:
    """[m,H,W,C] each shifted by up to the padding, and half of them mirrored."""
    m, side = images.shape[:2]
    padded = functional.pad(images, (0, 0, PADDING, PADDING, PADDING, PADDING))
    shift = torch.randint(0, 2 * PADDING + 1, (2, m, 1))
    columns = shift[1] + torch.arange(side)
    columns = torch.where(torch.rand(m, 1) < 0.5, columns.flip(1), columns)
    rows = shift[0] + torch.arange(side)
    return padded[torch.arange(m)[:, None, None], rows[:, :, None], columns[:, None, :]]


def _predict(network: nn.Module, x: Tensor, passes: int, bfloat16: bool) -> Any:
    dropout = [layer for layer in network.modules() if isinstance(layer, nn.Dropout)]
    network.eval()
    softmax, stochastic = [], []
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        for start in range(0, len(x), PREDICTION_BATCH):
            batch = x[start : start + PREDICTION_BATCH].permute(0, 3, 1, 2)
            for layer in dropout:
                layer.train(False)
            softmax.append(network(batch).float().softmax(dim=1))
            for layer in dropout:
                layer.train(True)
            several = [network(batch).float().softmax(dim=1) for _ in range(passes)]
            stochastic.append(torch.stack(several))
    return torch.cat(softmax).numpy(), torch.cat(stochastic, dim=1).numpy()
