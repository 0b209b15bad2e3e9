"""Inputs of a network, resident in memory, as batches of normalised floats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

PADDING = 4  # of random crops
_SMALL_SIDE = 0.75  # of images in the epochs that see them small


@dataclass(frozen=True)
class Samples:
    """Images [n,H,W,C] in bytes, or features [n,D]; batches come out as floats on the device."""

    inputs: Tensor
    mean: Tensor
    scale: Tensor
    """What batches are shifted by and multiplied with, per channel or feature."""
    crop_and_flip: bool = False

    @property
    def are_images(self) -> bool:
        return self.inputs.ndim == 4

    def __len__(self) -> int:
        return len(self.inputs)

    def to(self, device: Any) -> Samples:
        tensors = {name: getattr(self, name).to(device) for name in ("inputs", "mean", "scale")}
        return replace(self, **tensors)

    def batch(self, selection: Tensor | slice, draws: torch.Generator | None = None) -> Tensor:
        """[m,C,H,W] or [m,D]; augmented where these samples are and `draws` is given."""
        rows = self.inputs[
            selection.to(self.inputs.device) if isinstance(selection, Tensor) else selection
        ]
        if not self.are_images:
            return (rows - self.mean) * self.scale
        if self.crop_and_flip and draws is not None:
            rows = _crop_and_flip(rows, draws)
        floats = (rows.float() - self.mean) * self.scale
        return floats.permute(0, 3, 1, 2)  # lies in memory with the channels last


def normalise_samples(
    inputs: NDArray[Any], train: NDArray[np.intp], *, crop_and_flip: bool = False
) -> Samples:
    """The samples `train`, with the mean and deviation of their own."""
    part = torch.from_numpy(np.ascontiguousarray(inputs[train]))
    if part.ndim == 4:
        counts = torch.stack(
            [torch.bincount(part[..., c].reshape(-1), minlength=256) for c in range(part.shape[3])]
        ).double()
        levels = torch.arange(256).double()
        share = counts / counts.sum(dim=1, keepdim=True)
        mean = share @ levels
        deviation = ((share @ levels**2) - mean**2).clamp_min(1.0).sqrt()
        return Samples(part, mean.float(), (1 / deviation).float(), crop_and_flip)
    wide = part.double()
    deviation = wide.std(dim=0, correction=0)
    scale = torch.where(deviation > 1e-12, 1 / deviation.clamp_min(1e-12), 1.0)
    return Samples(part.float(), wide.mean(dim=0).float(), scale.float())


def normalise_like(like: Samples, inputs: NDArray[Any], rows: NDArray[np.intp]) -> Samples:
    """Other samples, normalised as `like` is, and never augmented."""
    part = torch.from_numpy(np.ascontiguousarray(inputs[rows]))
    part = part if like.are_images else part.float()
    return replace(like, inputs=part, crop_and_flip=False)


def shrink_images(images: Tensor) -> Tensor:
    """[m,C,h,w] of [m,C,H,W]: three quarters of their side."""
    sides = [round(side * _SMALL_SIDE) for side in images.shape[2:]]
    small = functional.interpolate(images, sides, mode="bilinear", antialias=True)
    return small.contiguous(memory_format=torch.channels_last)


def _crop_and_flip(images: Tensor, draws: torch.Generator) -> Tensor:
    """[m,H,W,C] each shifted by up to the padding, and half of them mirrored."""
    m, H, W, _ = images.shape
    padded_images = functional.pad(images, (0, 0, PADDING, PADDING, PADDING, PADDING))
    shift = torch.randint(0, 2 * PADDING + 1, (2, m, 1), generator=draws)
    is_mirrored = torch.rand(m, 1, generator=draws) < 0.5
    rows = shift[0] + torch.arange(H)  # [m,H]
    columns = shift[1] + torch.arange(W)  # [m,W]
    columns = torch.where(is_mirrored, columns.flip(1), columns)
    at = torch.arange(m)[:, None, None].to(images.device)
    rows, columns = rows[:, :, None].to(images.device), columns[:, None, :].to(images.device)
    return padded_images[at, rows, columns]
