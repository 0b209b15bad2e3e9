"""What a reader of one format hands to `load`: samples whose images may still be encoded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import Labels
from uqled.data.dataset import Kind
from uqled.errors import InputError

SPLITS = ("train", "training", "test", "testing", "val", "valid", "validation", "dev")
_SAME_SPLIT = {
    "training": "train",
    "testing": "test",
    "valid": "val",
    "validation": "val",
    "dev": "val",
}


@dataclass(frozen=True)
class RawDataset:
    """Samples of one format."""

    kind: Kind
    inputs: Any
    """As in `Dataset`, or `EncodedImages` images."""
    labels: Labels
    ids: NDArray[Any]
    truth: NDArray[np.int32] | None = None


def make_ids(names: Iterable[Any]) -> NDArray[Any]:
    """[N] strings as objects, any of which can be written as UTF-8."""
    plain = [
        str(name).encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name in names
    ]
    return make_object_array(plain)


def make_object_array(entries: Sequence[Any]) -> NDArray[Any]:
    """[N] Python objects, whatever they are."""
    found = np.empty(len(entries), dtype=object)
    found[:] = entries
    return found


def choose_split(split: str | None, there: Sequence[str], place: Any) -> str:
    """The one of the splits `there` that was asked for; the training one unless asked."""
    for one in there:
        if _plain(one) == _plain(split or "train"):
            return one
    if split is None and len(there) == 1:
        return there[0]
    raise InputError(
        "split",
        f"is {split!r}, and {quoted(place)} has {', '.join(there)}",
        f"Choose one of {', '.join(there)}",
    )


def refuse_split(split: str | None, place: Any) -> None:
    """Refuse a choice among splits where there is one set of samples."""
    if split is not None:
        raise InputError(
            "split", f"is {split!r}, but {quoted(place)} has no splits", "Leave it out"
        )


def quoted(place: Any) -> str:
    return f"{'folder' if Path(place).is_dir() else 'file'} {str(place)!r}"


def _plain(split: str) -> str:
    return _SAME_SPLIT.get(split.lower(), split.lower())
