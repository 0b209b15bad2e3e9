"""A fast small residual network of today, as a user would write it: plain PyTorch modules."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

WIDTH, DROPOUT, MULTIPLE = 32, 0.2, 0.125


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(*_unit(channels, channels), *_unit(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


class Scale(nn.Module):
    """Small logits, so that the first steps are not too sure."""

    def forward(self, x: Tensor) -> Tensor:
        return x * MULTIPLE


def resnet9(n_classes: int, image_shape: tuple[int, int, int]) -> nn.Module:
    """Eight convolutions and a linear layer; dropout after the five deepest units."""
    w = WIDTH
    return nn.Sequential(
        *_unit(image_shape[2], w),
        *_unit(w, 2 * w, pool=True),
        Residual(2 * w),
        nn.Dropout(DROPOUT),
        *_unit(2 * w, 4 * w, pool=True),
        nn.Dropout(DROPOUT),
        *_unit(4 * w, 8 * w, pool=True),
        nn.Dropout(DROPOUT),
        Residual(8 * w),
        nn.Dropout(DROPOUT),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Dropout(DROPOUT),
        nn.Linear(8 * w, n_classes, bias=False),
        Scale(),
    )


def _unit(channels: int, out: int, *, pool: bool = False) -> list[nn.Module]:
    layers: list[Any] = [
        nn.Conv2d(channels, out, 3, padding=1, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU(inplace=True),
    ]
    return [*layers, nn.MaxPool2d(2)] if pool else layers
