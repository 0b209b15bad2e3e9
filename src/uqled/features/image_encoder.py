"""A frozen torch network over images: scaled, normalised, in half precision where that pays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from uqled.errors import InputError
from uqled.features.encoders import EncoderOptions
from uqled.models.hardware import check_device, has_bfloat16
from uqled.storage.reading import first_line, read_file
from uqled.storage.tensor_files import read_tensors

Colour = tuple[float, float, float]
IMAGENET_MEAN: Colour = (0.485, 0.456, 0.406)
IMAGENET_STD: Colour = (0.229, 0.224, 0.225)
_GPU_BATCH = 256
_HASHED_BYTES = 1 << 24  # of weights, read at a time


@dataclass(frozen=True)
class ImageEncoder:
    """A network [n,3,H,W] -> [n,D] or [n,D,h,w], and what its images have to look like."""

    network: nn.Module
    key: str
    image_size: int | None
    """The side that images are scaled to; None: as they are."""
    mean: Colour
    std: Colour
    device: torch.device
    bfloat16: bool
    batch_size: int = 16
    """Small: the activations of a layer stay in the processor's cache."""
    kind = "images"

    def encode(self, batch: NDArray[np.uint8]) -> NDArray[np.float32]:
        images = self._prepare(batch)
        try:
            with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16, self.bfloat16):
                output = self.network(images)
        except AssertionError as error:  # so vision transformers refuse a side they do not take
            height, width = images.shape[2:]
            raise InputError(
                "encoder",
                f"refuses images of {height} x {width} pixels ({first_line(error)})",
                "Append a size in pixels that it accepts to its name, such as @224",
            ) from error
        if not isinstance(output, Tensor) or output.ndim not in (2, 4) or len(output) != len(batch):
            shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise InputError(
                "encoder",
                f"returns {shape} for {len(batch)} images",
                "Return features [n,D] or [n,D,h,w]",
            )
        rows = output if output.ndim == 2 else output.mean(dim=(2, 3))
        vectors: NDArray[np.float32] = rows.float().cpu().numpy()
        return vectors

    def _prepare(self, batch: NDArray[np.uint8]) -> Tensor:
        """[n,3,H,W] of the size and scale that the network was trained with."""
        images = torch.from_numpy(np.array(batch))  # a copy: a memory map may be read-only
        images = images.to(self.device).permute(0, 3, 1, 2).float() / 255
        images = images.expand(-1, 3, -1, -1)  # grey counts as three equal colours
        side = self.image_size
        if side is not None and images.shape[2:] != (side, side):
            images = functional.interpolate(
                images, size=(side, side), mode="bilinear", antialias=True
            )
        mean, std = (
            torch.tensor(colour, device=self.device).view(3, 1, 1)
            for colour in (self.mean, self.std)
        )
        return ((images - mean) / std).contiguous(memory_format=torch.channels_last)


def make_image_encoder(
    network: nn.Module,
    name: str,
    options: EncoderOptions,
    *,
    image_size: int | None,
    mean: Colour = IMAGENET_MEAN,
    std: Colour = IMAGENET_STD,
) -> ImageEncoder:
    """The network ready to encode: on its device, in evaluation mode, channels last."""
    device = choose_device(options.device)
    bfloat16 = has_bfloat16(device.type) if options.bfloat16 is None else options.bfloat16
    side = options.image_size or image_size
    network = network.to(device, memory_format=torch.channels_last).eval()
    return ImageEncoder(
        network,
        f"{name} {side} {bfloat16}",
        side,
        mean,
        std,
        device,
        bfloat16,
        options.batch_size or (ImageEncoder.batch_size if device.type == "cpu" else _GPU_BATCH),
    )


def choose_device(device: str) -> torch.device:
    """The fastest device there is, or the one of this name."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    check_device(device)
    return torch.device(device)


def load_weights(network: nn.Module, path: str) -> None:
    """Weights of a local file (`.safetensors`, or what `torch.save` wrote) for a network.

    The file may have a classifier that the network does not; a weight that the network needs and
    the file lacks is refused.
    """
    try:
        if path.endswith(".safetensors"):
            from safetensors.torch import load

            state = load(read_file(path))
        else:
            state = read_tensors(path)
        for key in ("state_dict", "model"):  # as training scripts wrap them
            if isinstance(state, dict) and isinstance(state.get(key), dict):
                state = state[key]
        missing, _ = network.load_state_dict(state, strict=False)
    except Exception as error:  # torch may raise anything on a file that it did not write
        raise InputError(
            "encoder",
            f"has weights {path!r} that cannot be read ({first_line(error)})",
            "Name another file",
        ) from error
    if missing:
        raise InputError(
            "encoder",
            f"needs the weight {missing[0]!r}, which {path!r} lacks",
            "Name the weights of this very network",
        )


def hash_weights(network: nn.Module) -> str:
    """A hash of a network's class and weights."""
    key = hashlib.blake2b(type(network).__qualname__.encode(), digest_size=16)
    for name, value in network.state_dict().items():
        key.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        flat = value.detach().cpu().float().contiguous().numpy().reshape(-1)
        for begin in range(0, len(flat), _HASHED_BYTES):
            key.update(flat[begin : begin + _HASHED_BYTES].data)
    return key.hexdigest()


def drop_classifier(network: nn.Module) -> nn.Module:
    """The network without its last layer, by the names that torchvision gives it.

    Where the classifier pools over the image, as SqueezeNet's does, the pooling stays.
    """
    for last in ("fc", "classifier", "head", "heads"):
        if hasattr(network, last):
            parts = getattr(network, last).modules()
            pools = any(isinstance(part, nn.AdaptiveAvgPool2d) for part in parts)
            setattr(network, last, nn.AdaptiveAvgPool2d(1) if pools else nn.Identity())
    return network


def describe_pooling(network: nn.Module) -> str:
    """For the key of features that were cached before the pooling stayed."""
    last = getattr(network, "classifier", None)
    return " pooled" if isinstance(last, nn.AdaptiveAvgPool2d) else ""


def repeat_colour(value: float) -> Colour:
    return (value, value, value)


def check_module(network: Any) -> nn.Module:
    """Refuse anything but a torch module."""
    if not isinstance(network, nn.Module):
        raise InputError(
            "encoder", f"is a {type(network).__name__}", "Pass a name or a torch.nn.Module"
        )
    return network
