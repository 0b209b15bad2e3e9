"""The networks: VGG-11 and ResNet-50 of the paper, and `small` for a machine without a GPU.

Each takes normalised images [n,C,H,W] and returns logits [n,K]. Dropout is element-wise, after a
unit's last ReLU and before any pooling. With `p=0` the layers are left out; the parameters keep
their names.
"""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor, nn

from uqled.errors import InputError
from uqled.models.dropout import Dropout, draw_masks_faster

ImageShape = tuple[int, int, int]
"""Height, width, channels."""

VGG11 = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")
RESNET50 = ((3, 64), (4, 128), (6, 256), (3, 512))  # blocks, width of each stage
SMALL_WIDTHS = (32, 64, 128, 128)
SMALL_HIDDEN = 128
SMALL_SIDE = 4  # at most, of what the hidden layer sees
DROPOUT_LAYERS = 5
MIN_SIDE = 32  # of VGG-11, which halves the image five times


def vgg11(n_classes: int, image_shape: ImageShape, p: float = 0.5) -> nn.Module:
    """VGG-11 with batch norm and one linear classifier; dropout after its last five convolutions.

    The network itself pads images below 32x32 (MNIST) to that size, by repeating the outermost
    pixels: for MNIST that is black, whatever the normalisation.
    """
    height, width, channels = image_shape
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    if min(height, width) < MIN_SIDE:
        layers["pad"] = nn.ReplicationPad2d((*_compute_padding(width), *_compute_padding(height)))
    first = sum(isinstance(entry, int) for entry in VGG11) - DROPOUT_LAYERS + 1
    i = 0
    for entry in VGG11:
        if isinstance(entry, int):
            i += 1
            layers[f"conv{i}"] = nn.Conv2d(channels, entry, 3, padding=1)
            layers[f"norm{i}"] = nn.BatchNorm2d(entry)
            layers[f"relu{i}"] = nn.ReLU(inplace=True)
            if p > 0 and i >= first:
                layers[f"dropout{i}"] = Dropout(p)
            channels = entry
        else:
            layers[f"pool{i}"] = nn.MaxPool2d(2)
    return _initialise_weights(
        nn.Sequential(OrderedDict([*layers.items(), *_make_head(channels, n_classes)]))
    )


def resnet50(n_classes: int, image_shape: ImageShape, p: float = 0.5) -> nn.Module:
    """ResNet-50 with the stem for 32x32 and 64x64 images; dropout after its last five blocks.

    The stem is one 3x3 convolution of stride 1 without pooling, and a stage's stride is in its
    first block's 3x3 convolution.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    layers["stem"] = nn.Sequential(*_make_convolution(image_shape[2], 64, 3), nn.ReLU(inplace=True))
    channels, i = 64, 0
    first = sum(blocks for blocks, _ in RESNET50) - DROPOUT_LAYERS + 1
    for stage, (blocks, width) in enumerate(RESNET50):
        for block in range(blocks):
            i += 1
            stride = 2 if stage > 0 and block == 0 else 1
            layers[f"block{i}"] = Bottleneck(channels, width, stride)
            channels = width * Bottleneck.EXPANSION
            if p > 0 and i >= first:
                layers[f"dropout{i}"] = Dropout(p)
    return _initialise_weights(
        nn.Sequential(OrderedDict([*layers.items(), *_make_head(channels, n_classes)]))
    )


def small(n_classes: int, image_shape: ImageShape, p: float = 0.5) -> nn.Module:
    """Four convolutions and a hidden layer for a machine without a GPU; dropout after the last two.

    Most of the work lies before the first dropout, so that Monte Carlo passes are cheap. No batch
    norm follows a dropout: its statistics would be those of the training, with dropout, and the
    softmax, without, would be less accurate than the mean of its own passes.
    """
    height, width, channels = image_shape
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, out in enumerate(SMALL_WIDTHS, start=1):
        layers[f"conv{i}"], layers[f"norm{i}"] = _make_convolution(channels, out, 3)
        layers[f"relu{i}"] = nn.ReLU(inplace=True)
        if p > 0 and i == len(SMALL_WIDTHS):
            layers["dropout1"] = Dropout(p)
        if min(height, width) > SMALL_SIDE + 1:
            layers[f"pool{i}"] = nn.MaxPool2d(2)
            height, width = height // 2, width // 2
        channels = out
    side = min(height, SMALL_SIDE), min(width, SMALL_SIDE)
    layers["pool"], layers["flatten"] = nn.AdaptiveAvgPool2d(side), nn.Flatten()
    layers["hidden"] = nn.Linear(channels * side[0] * side[1], SMALL_HIDDEN)
    layers["relu"] = nn.ReLU(inplace=True)
    if p > 0:
        layers["dropout2"] = Dropout(p)
    layers["classifier"] = nn.Linear(SMALL_HIDDEN, n_classes)
    return _initialise_weights(nn.Sequential(layers))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with a shortcut; the last ReLU comes after their sum."""

    EXPANSION = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * self.EXPANSION
        self.branch = nn.Sequential(
            *_make_convolution(channels, width, 1),
            nn.ReLU(inplace=True),
            *_make_convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *_make_convolution(width, out, 1),
        )
        same = stride == 1 and channels == out
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(*_make_convolution(channels, out, 1, stride))
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.branch(x) + self.shortcut(x))


def _make_convolution(channels: int, out: int, size: int, stride: int = 1) -> Iterator[nn.Module]:
    yield nn.Conv2d(channels, out, size, stride=stride, padding=size // 2, bias=False)
    yield nn.BatchNorm2d(out)


def _make_head(channels: int, n_classes: int) -> Iterator[tuple[str, nn.Module]]:
    yield "pool", nn.AdaptiveAvgPool2d((1, 1))
    yield "flatten", nn.Flatten()
    yield "classifier", nn.Linear(channels, n_classes)


def _compute_padding(side: int) -> tuple[int, int]:
    missing = max(0, MIN_SIDE - side)
    return missing // 2, missing - missing // 2


def _initialise_weights(model: nn.Module) -> nn.Module:
    """Convolutions as He et al. start them; the rest as torch does."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "small": small,
    "vgg11": vgg11,
    "resnet50": resnet50,
}


def build(
    network: str | Callable[..., nn.Module],
    *,
    n_classes: int,
    image_shape: ImageShape,
    seed: int,
) -> nn.Module:
    """A new network for images [n,C,H,W] that returns logits [n,K]; the seed sets its weights.

    Parameters
    ----------
    network
        `vgg11`, `resnet50`, `small`; `module:function` of your own (the current folder is searched
        too), or a function. A function is called with `n_classes` and `image_shape`.
    image_shape
        Height, width and channels of the images.
    """
    factory = _find_factory(network)
    try:
        inspect.signature(factory).bind(n_classes=n_classes, image_shape=image_shape)
    except TypeError as error:
        raise InputError(
            "model",
            f"{network!r} does not take n_classes and image_shape: {error}",
            "Write it as def network(n_classes, image_shape), image_shape being (H, W, C)",
        ) from None
    except ValueError:
        pass  # a built-in, which has no signature
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        model = factory(n_classes=n_classes, image_shape=image_shape)
        if not isinstance(model, nn.Module):
            raise InputError(
                "model", f"{network!r} returns a {type(model).__name__}", "Return a torch.nn.Module"
            )
        if network not in NETWORKS:
            _try_out(model, n_classes, image_shape)
            draw_masks_faster(model)
    return model


def _find_factory(network: str | Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    if isinstance(network, nn.Module):
        raise InputError(
            "model",
            f"is one {type(network).__name__}, but every fold trains a network of its own",
            "Pass the function or class that makes it",
        )
    if not isinstance(network, str):
        return network
    if network in NETWORKS:
        return NETWORKS[network]
    module, colon, name = network.partition(":")
    if not colon:
        names = ", ".join(NETWORKS)
        raise InputError(
            "model", f"is {network!r}", f"Use one of {names}, or module:function of your own"
        )
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        function: Callable[..., nn.Module] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            "model",
            f"{network!r} cannot be loaded: {error}",
            "Write module:function for a module that Python finds from this folder",
        ) from error
    finally:
        sys.path.remove(folder)
    if not callable(function):
        raise InputError("model", f"{network!r} is not a function", "Name a function or a class")
    return function


def _try_out(model: nn.Module, n_classes: int, image_shape: ImageShape) -> None:
    """Refuse immediately what would fail an hour later."""
    height, width, channels = image_shape
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            logits = model(torch.zeros(2, channels, height, width))
    except Exception as error:  # the user's own network may raise anything
        raise InputError(
            "model",
            f"fails on images [2,{channels},{height},{width}]: {error}",
            "Its forward should take such a batch",
        ) from error
    finally:
        for module, mode in modes:
            module.training = mode
    if not isinstance(logits, Tensor) or logits.shape != (2, n_classes):
        what = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise InputError(
            "model",
            f"returns {what} for 2 images and {n_classes} classes",
            f"Return logits of the shape (2, {n_classes})",
        )
