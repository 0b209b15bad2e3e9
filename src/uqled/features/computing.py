"""Features of a whole data set: computed once, kept on disk by content, resumed after a kill.

A file's name is a hash of the samples and the encoder; labels play no part. While it is computed,
finished blocks of rows are in a folder next to it, and a killed process continues after them.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import hash_inputs
from uqled.engines.local import Threads
from uqled.errors import FileError, InputError
from uqled.features.encoders import Encoder, EncoderOptions, load_encoder
from uqled.progress import Progress
from uqled.storage.arrays.numpy_files import read_array
from uqled.storage.atomic import write_array
from uqled.storage.reading import name_file

_BLOCK = 1_024  # rows: what a kill costs at most


def compute_features(
    inputs: Any,
    encoder: Any,
    *,
    cache_folder: Path | None,
    options: EncoderOptions | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """[N,D] features of images [N,H,W,C] or texts [N], read from `cache_folder` if they are there.

    Parameters
    ----------
    inputs
        Images as bytes, C = 1 or 3, perhaps a memory map; or strings.
    encoder
        A name such as `efficientnet-lite2@160`, several joined by `+`, whose features are put side
        by side, or a torch module that takes normalised images [n,3,H,W].
    cache_folder
        None: nothing is kept.
    """
    names = encoder.split("+") if isinstance(encoder, str) else [encoder]
    progress = progress or Progress(False)
    views = [
        _compute_view(
            inputs,
            load_encoder(name, options),
            cache_folder,
            progress,
            f" ({number} of {len(names)})" if len(names) > 1 else "",
        )
        for number, name in enumerate(names, 1)
    ]
    return views[0] if len(views) == 1 else np.concatenate(views, axis=1)


def are_features_cached(
    inputs: Any, encoder: Any, *, cache_folder: Path, options: EncoderOptions | None = None
) -> bool:
    """Whether `compute_features` would only read a file."""
    names = encoder.split("+") if isinstance(encoder, str) else [encoder]
    return all(
        _locate_cache_file(inputs, load_encoder(name, options), cache_folder).exists()
        for name in names
    )


def _compute_view(
    inputs: Any, encoder: Encoder, cache_folder: Path | None, progress: Progress, which: str
) -> NDArray[np.float32]:
    """The features of one encoder; `which` says of how many it is one, where it is not alone."""
    _check_encoder_inputs(inputs, encoder)
    path = None if cache_folder is None else _locate_cache_file(inputs, encoder, cache_folder)
    if path is not None and path.exists():
        return _read_features(path, len(inputs))
    parts = None if path is None else path.with_suffix(".parts")
    blocks = []
    with progress.stage(
        f"computing features of {len(inputs):,} {encoder.kind}{which}", len(inputs)
    ) as advance:
        for begin in range(0, len(inputs), _BLOCK):
            rows = inputs[begin : begin + _BLOCK]
            part = None if parts is None else parts / f"{begin}.npy"
            block = None if part is None else _read_part(part, len(rows))
            if block is None:
                block = _encode_block(rows, encoder, advance)
                if part is not None and begin + _BLOCK < len(inputs):
                    part.parent.mkdir(parents=True, exist_ok=True)
                    write_array(part, block)
            else:
                advance(len(rows))
            blocks.append(block)
    features: NDArray[np.float32] = np.concatenate(blocks)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_array(path, features)
        if parts is not None and parts.exists():
            shutil.rmtree(parts)
    return features


def _encode_block(rows: Any, encoder: Encoder, advance: Any) -> NDArray[np.float32]:
    """[n,D]; texts of like length share a batch, so that little is padded."""
    order = np.arange(len(rows))
    if encoder.kind == "texts":
        measure = getattr(encoder, "measure_lengths", lambda texts: [len(text) for text in texts])
        order = np.argsort(measure(rows), kind="stable")
    size = encoder.batch_size
    # The longest first, so that no thread has one to itself at the end while others wait.
    batches = [order[begin : begin + size] for begin in range(0, len(rows), size)][::-1]
    vectors = []
    with Threads(getattr(encoder, "batches_at_once", 1)) as engine:
        for batch in engine.map(encoder.encode, (rows[batch] for batch in batches)):
            vectors.append(batch)
            advance(len(batch))
    together = np.concatenate(vectors)
    in_order = np.empty_like(together)
    in_order[np.concatenate(batches)] = together
    return in_order


def _locate_cache_file(inputs: Any, encoder: Encoder, cache_folder: Path) -> Path:
    key = hashlib.blake2b(encoder.key.encode(), digest_size=16)
    hash_inputs(inputs, key)
    return cache_folder / f"features-{key.hexdigest()}.npy"


def _check_encoder_inputs(inputs: Any, encoder: Encoder) -> None:
    is_images = inputs.ndim == 4 and inputs.dtype == np.uint8 and inputs.shape[3] in (1, 3)
    is_texts = inputs.ndim == 1 and inputs.dtype == object
    if not (is_images if encoder.kind == "images" else is_texts):
        expectation = (
            "images as bytes [N,H,W,C], C = 1 or 3" if encoder.kind == "images" else "texts [N]"
        )
        raise InputError(
            "inputs",
            f"have the shape {inputs.shape} and type {inputs.dtype}",
            f"Pass {expectation}, or choose another encoder",
        )


def _read_part(path: Path, n: int) -> NDArray[np.float32] | None:
    """A finished block; None if it is missing or damaged."""
    if not path.exists():
        return None
    try:
        return _read_features(path, n)
    except FileError:
        return None


def _read_features(path: Path, n: int) -> NDArray[np.float32]:
    fix = "Delete it: it is computed again"
    features: NDArray[np.float32] = read_array(path, fix)
    if features.ndim != 2 or len(features) != n or features.dtype != np.float32:
        raise FileError(name_file(path), f"is {features.dtype} of shape {features.shape}", fix)
    if not np.isfinite(features).all():
        raise FileError(name_file(path), "has features that are not finite", fix)
    return features
