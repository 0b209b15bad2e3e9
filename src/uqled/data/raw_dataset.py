"""`RawDataset`: what a reader returns to `load`; images may still be encoded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import Labels
from uqled.data.dataset import Kind, take_rows
from uqled.data.tables.columns import Column
from uqled.errors import InputError

_SPLITS = ("train", "training", "test", "testing", "val", "valid", "validation", "dev")
_SPLIT_SET = re.compile(r"[_\s-]?(set|data|split)$")
_SAME_SPLIT = {
    "training": "train",
    "testing": "test",
    "valid": "val",
    "validation": "val",
    "dev": "val",
}


@dataclass(frozen=True)
class RawDataset:
    """Samples as their source holds them."""

    kind: Kind
    inputs: Any
    """As in `Dataset`, or `EncodedImages`."""
    labels: Labels
    ids: NDArray[Any]
    truth: NDArray[np.int32] | None = None
    is_unlabelled: NDArray[np.bool_] | None = None
    """[N] True where the label is missing and its class number means nothing; None if no label is
    missing."""
    columns: tuple[Column, ...] = ()
    """The role of each column of a table."""
    groups: NDArray[Any] | None = None
    """[N] the user's groups, whose samples must share a fold."""
    index: Any = None
    """[N] the index of the pandas frame that the samples came from; None for other sources."""
    locate_rows: Callable[[Sequence[int]], str] | None = None
    """Describes where rows are in the file: "line 7, 12"."""
    notes: tuple[tuple[str, str], ...] = ()
    """What the user should know about how the data was read: (what was done, how to change it)."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of a class in the source -> the class's name."""

    @property
    def labelled_rows(self) -> NDArray[np.intp]:
        """Where labels are not missing."""
        if self.is_unlabelled is None:
            return np.arange(len(self.ids))
        return np.flatnonzero(~self.is_unlabelled)

    def take(self, rows: NDArray[np.intp]) -> RawDataset:
        """Some of the samples."""
        if len(rows) == len(self.ids):
            return self
        return replace(
            self,
            inputs=take_rows(self.inputs, rows),
            labels=replace(self.labels, codes=self.labels.codes[rows]),
            ids=self.ids[rows],
            truth=None if self.truth is None else self.truth[rows],
            is_unlabelled=None if self.is_unlabelled is None else self.is_unlabelled[rows],
            groups=None if self.groups is None else self.groups[rows],
            index=None if self.index is None else self.index[rows],
            locate_rows=None,
        )


def make_ids(names: Iterable[Any]) -> NDArray[Any]:
    """[N] strings as objects, all of them valid UTF-8."""
    return make_object_array([_make_writable(str(name)) for name in names])


def _make_writable(text: str) -> str:
    """Replace lone surrogates, which come from undecodable bytes in file names."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")


def make_object_array(entries: Sequence[Any]) -> NDArray[Any]:
    """[N] an array of Python objects."""
    objects = np.empty(len(entries), dtype=object)
    objects[:] = entries
    return objects


def is_split_name(name: str) -> bool:
    """Whether a folder or file of this name is a split of the data, not a class.

    >>> is_split_name("train"), is_split_name("Test_Set"), is_split_name("trains")
    (True, True, False)
    """
    return _SPLIT_SET.sub("", name.lower()) in _SPLITS


def note_split(
    chosen_split: str, names: Sequence[str], split: str | None
) -> tuple[tuple[str, str], ...]:
    """A note about which split is read, if there are others and the user chose none."""
    others = [name for name in names if name != chosen_split]
    if not others or split is not None:
        return ()
    return (
        (
            f"the split {chosen_split!r} is read, not {', '.join(map(repr, others))}",
            "Choose another one with --split NAME",
        ),
    )


def choose_split(split: str | None, names: Sequence[str], place: Any) -> str:
    """Choose the user's split, or the training split by default."""
    for one in names:
        if _normalise_split(one) == _normalise_split(split or "train"):
            return one
    if split is None and len(names) == 1:
        return names[0]
    raise InputError(
        "split",
        f"is {split!r}, but {name_source(place)} has {', '.join(names)}",
        f"Choose one of {', '.join(names)}",
    )


def refuse_split(split: str | None, place: Any) -> None:
    """Refuse a choice of split for data without splits."""
    if split is not None:
        raise InputError(
            "split", f"is {split!r}, but {name_source(place)} has no splits", "Leave it out"
        )


def is_dataset_name(place: Any) -> bool:
    """Whether this is the name of a data set rather than a file or folder."""
    return isinstance(place, str) and (place == "digits" or place.startswith("hf:"))


class ObjectName(str):
    """The name of an object in memory in error messages: "the DataFrame"."""

    __slots__ = ()


def name_source(place: Any) -> str:
    """The name of a source in error messages."""
    if isinstance(place, ObjectName):
        return str(place)
    if is_dataset_name(place):
        return repr(place)
    path = Path(place).expanduser()
    return f"{'folder' if path.is_dir() else 'file'} {str(path)!r}"


def _normalise_split(split: str) -> str:
    name = _SPLIT_SET.sub("", split.lower())
    return _SAME_SPLIT.get(name, name)
