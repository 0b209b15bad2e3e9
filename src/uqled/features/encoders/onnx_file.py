"""`onnx:FILE`: a network of images in an ONNX file, normalised as ImageNet's are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import InputError
from uqled.features.encoders import Encoder, EncoderOptions, import_package
from uqled.storage.reading import first_line, read_file

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
_STD = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
_USUAL_SIDE = 224


@dataclass(frozen=True)
class OnnxEncoder:
    """A session that takes normalised images [n,3,H,W] and returns features."""

    session: Any
    key: str
    image_size: int
    kind = "images"
    batch_size = 64

    def encode(self, batch: NDArray[np.uint8]) -> NDArray[np.float32]:
        images = np.stack([_scale(image, self.image_size) for image in batch])
        normalised_images = (images.transpose(0, 3, 1, 2) / np.float32(255) - _MEAN) / _STD
        name = self.session.get_inputs()[0].name
        output: NDArray[Any] = self.session.run(None, {name: normalised_images.astype(np.float32)})[
            0
        ]
        if output.ndim not in (2, 4) or len(output) != len(batch):
            raise InputError(
                "encoder",
                f"returns {output.shape} for {len(batch)} images",
                "Export a network that returns features [n,D] or [n,D,h,w]",
            )
        vectors = output if output.ndim == 2 else output.mean(axis=(2, 3))
        return vectors.astype(np.float32)


def make_encoder(name: str, options: EncoderOptions) -> Encoder:
    path = Path(name)
    if not path.is_file():
        raise InputError("encoder", f"is 'onnx:{name}', which is not a file", "Write onnx:FILE")
    digest = hashlib.blake2b(read_file(path), digest_size=16).hexdigest()
    runtime = import_package("onnxruntime", encoder=f"onnx:{name}", install="onnxruntime")
    try:
        session = runtime.InferenceSession(str(path), providers=runtime.get_available_providers())
    except Exception as error:  # the runtime has a tree of errors of its own
        raise InputError(
            "encoder",
            f"'onnx:{name}' cannot be loaded ({first_line(error)})",
            "Export the network again",
        ) from error
    shape = session.get_inputs()[0].shape
    own_side = shape[2] if len(shape) == 4 and isinstance(shape[2], int) else _USUAL_SIDE
    side = options.image_size or own_side
    return OnnxEncoder(session, f"onnx {digest} {side}", side)


def _scale(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    from PIL import Image

    picture = Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image).convert("RGB")
    return np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR))
