"""What the loaders give: inputs, given labels, and what a person calls each sample."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uqled import arrays
from uqled.arrays import Labels
from uqled.data.classes import encode_column
from uqled.data.tables.columns import Column
from uqled.errors import InputError

Kind = Literal["images", "texts", "table"]

_HASHED_BYTES = 1 << 26  # of inputs, at a time


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled samples.

    `load` makes them of files, `Dataset.from_arrays` of what is in memory.
    """

    kind: Kind
    inputs: Any
    """images: uint8 [N,H,W,C] with one or three channels, perhaps a read-only memory map;
    texts: [N] strings as objects; table: a pandas frame of features, or floats [N,D]."""
    labels: Labels
    ids: NDArray[Any]
    """[N] strings: the path inside the data, or the row."""
    name: str
    truth: NDArray[np.int32] | None = None
    """[N] true class numbers, where they are known."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """What could not be read and was left out: the id, and the reason."""
    source: Mapping[str, Any] | None = None
    """The arguments of `load` that give these samples again; None where it was not `load`."""
    columns: tuple[Column, ...] = ()
    """Of a table: what each of its columns is, and whether a model sees it."""
    groups: NDArray[Any] | None = None
    """[N] what belongs together, such as a patient: one group's samples must share a fold."""
    unlabelled: tuple[str, ...] = ()
    """The ids of samples that were set aside because they have no label."""
    unlabelled_inputs: Any = None
    """Their inputs, in the same order; None where there are none, or nobody kept them."""
    unlabelled_rows: tuple[int, ...] | None = None
    """Where they lie among all samples of the source; None where that is not known."""
    notes: tuple[tuple[str, str], ...] = ()
    """What the user should know of how it was read: (what was done, how to have it otherwise)."""
    embeddings: NDArray[np.float32] | None = None
    """[N,D] vectors of the samples that the user has, for the model to see in their place."""
    n_appended: int = 0
    """How many samples at the end are there to be predicted alone: their class numbers mean
    nothing."""

    def __post_init__(self) -> None:
        _check_inputs(self.kind, self.inputs)
        N = len(self.labels)
        lengths = {"inputs": len(self.inputs), "ids": len(self.ids)}
        lengths |= {} if self.truth is None else {"truth": len(self.truth)}
        lengths |= {} if self.groups is None else {"groups": len(self.groups)}
        for name, length in lengths.items():
            if length != N:
                raise InputError(
                    name, f"have {length} entries for {N} labels", "Give one per sample"
                )

    @classmethod
    def from_arrays(
        cls,
        inputs: Any,
        labels: Any,
        *,
        classes: list[str] | None = None,
        ids: ArrayLike | None = None,
        name: str = "arrays",
    ) -> Dataset:
        """Samples that are in memory.

        uint8 of three or four axes is images (channels last or second), strings are texts, a
        pandas frame or numbers [N,D] a table. `classes` names the class numbers 0 to K-1.

        >>> data = Dataset.from_arrays(np.zeros((4, 2)), ["cat", "dog", "cat", "dog"])
        >>> data.kind, data.labels.names, data.labels.codes.tolist()
        ('table', ('cat', 'dog'), [0, 1, 0, 1])
        """
        kind, inputs = _as_inputs(inputs)
        given_labels = encode_column(labels, names=classes)
        names = np.arange(len(given_labels)) if ids is None else np.asarray(ids)
        return cls(kind, inputs, given_labels, names.astype(str).astype(object), name)

    def __len__(self) -> int:
        return len(self.labels)

    def _repr_html_(self) -> str:
        """Its size, classes and some samples, in a notebook."""
        from uqled.report.notebook import render_dataset

        return render_dataset(self)

    @property
    def n_classes(self) -> int:
        return self.labels.n_classes

    @property
    def images(self) -> NDArray[np.uint8] | None:
        """[N,H,W,C] where the samples are images."""
        return self.inputs if self.kind == "images" else None

    @property
    def texts(self) -> NDArray[Any] | None:
        """[N] strings: the texts, or the text columns of a table joined; None without any."""
        if self.kind == "texts":
            return cast("NDArray[Any]", self.inputs)
        names = self.text_columns
        return join_texts(self.inputs[names]) if names else None

    @property
    def features(self) -> Any | None:
        """A frame, or floats [N,D], of all that is neither text nor image; None without any."""
        if self.kind != "table":
            return None
        names = self.text_columns
        features = self.inputs.drop(columns=names) if names else self.inputs
        return features if features.shape[1] else None

    @property
    def text_columns(self) -> list[str]:
        """Columns of a table's `inputs` that hold texts."""
        if not hasattr(self.inputs, "columns"):
            return []
        texts = {column.name for column in self.columns if column.role == "text"}
        return [name for name in self.inputs.columns if name in texts]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of inputs, labels and class names: equal for equal data, wherever it lay."""
        digest = self._hashed_inputs.copy()
        digest.update(self.labels.codes.tobytes())
        digest.update(repr((self.labels.names, self.labels.values.tolist())).encode())
        return digest.hexdigest()

    @property
    def inputs_fingerprint(self) -> str:
        """The same of the inputs alone: equal for the same samples, whatever their labels."""
        return self._hashed_inputs.hexdigest()

    @cached_property
    def _hashed_inputs(self) -> hashlib.blake2b:
        digest = hashlib.blake2b(self.kind.encode(), digest_size=16)
        hash_inputs(self.inputs, digest)
        return digest

    def subset(self, indices: ArrayLike | slice) -> Dataset:
        """These samples, in this order; a view of the inputs where they are evenly spaced."""
        if not isinstance(indices, slice):
            indices = _checked_indices(indices, len(self))
        rows = _evenly_spaced(indices)
        by_row = self.inputs.iloc if hasattr(self.inputs, "iloc") else self.inputs
        return replace(
            self,
            inputs=by_row[rows],
            labels=replace(self.labels, codes=self.labels.codes[rows]),
            ids=self.ids[rows],
            truth=None if self.truth is None else self.truth[rows],
            groups=None if self.groups is None else self.groups[rows],
            embeddings=None if self.embeddings is None else self.embeddings[rows],
            source=None,
        )

    def limited(self, n: int, seed: int = 0) -> Dataset:
        """`n` samples drawn at random with the classes' shares, each class at least once."""
        return self.subset(draw_stratified(self.labels.codes, n, seed=seed))

    def without_rare_classes(self, least: int) -> Dataset:
        """The samples whose class has `least` samples or more, and these classes alone.

        The data set itself where that would leave fewer than two classes, or all of them.
        """
        counts = np.bincount(self.labels.codes, minlength=self.n_classes)
        common = np.flatnonzero(counts >= least)
        if len(common) < 2 or len(common) == self.n_classes:
            return self
        rows = np.flatnonzero(counts[self.labels.codes] >= least)
        numbers = np.zeros(self.n_classes, np.int32)
        numbers[common] = np.arange(len(common))
        labels = Labels(
            numbers[self.labels.codes[rows]],
            self.labels.values[common],
            tuple(self.labels.names[k] for k in common),
        )
        truth = None if self.truth is None else numbers[self.truth[rows]]
        return replace(self.subset(rows), labels=labels, truth=truth, source=self.source)

    def with_unlabelled(self) -> Dataset:
        """These samples, and behind them those without a label, to be predicted."""
        n = len(self.unlabelled)
        codes = np.concatenate([self.labels.codes, np.zeros(n, np.int32)])
        return replace(
            self,
            inputs=join_inputs(self.inputs, self.unlabelled_inputs),
            labels=replace(self.labels, codes=codes),
            ids=np.concatenate([self.ids, np.array(self.unlabelled, dtype=object)]),
            truth=None,
            groups=None,
            source=None,
            n_appended=n,
        )

    @property
    def input_parts(self) -> list[Any]:
        """The inputs, with samples that are there to be predicted alone as a part of their own:
        what was computed of the others is of use again."""
        start = len(self) - self.n_appended
        return [self.inputs[:start], self.inputs[start:]] if self.n_appended else [self.inputs]

    def with_labels(self, codes: ArrayLike) -> Dataset:
        """The same samples with other class numbers [N]; the truth stays."""
        numbers = arrays.read_label_column(codes, "codes")
        if len(numbers) != len(self) or numbers.dtype.kind not in "iu":
            raise InputError(
                "codes",
                f"are {numbers.dtype} of length {len(numbers)}",
                f"Pass {len(self)} integers",
            )
        if numbers.min() < 0 or numbers.max() >= self.n_classes:
            raise InputError(
                "codes",
                f"reach from {numbers.min()} to {numbers.max()}",
                f"Pass class numbers from 0 to {self.n_classes - 1}",
            )
        return replace(self, labels=replace(self.labels, codes=numbers.astype(np.int32)))


def draw_stratified(codes: NDArray[np.int32], n: int, *, seed: int) -> NDArray[np.intp]:
    """Indices of `n` samples drawn at random with the classes' shares, in ascending order.

    The j-th sample drawn from a class of c comes when j/c of every class has come, so that each
    class has one before any has two.
    """
    n = arrays.check_whole_number(n, "limit", low=2)
    order = np.random.default_rng(arrays.check_whole_number(seed, "seed", low=0)).permutation(
        len(codes)
    )
    by_class = order[np.argsort(codes[order], kind="stable")]  # [N] class by class, each shuffled
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    own = codes[by_class]
    due = (np.arange(len(codes)) - starts[own]) / counts[own]
    return np.sort(by_class[np.argsort(due, kind="stable")[:n]])


def as_images(array: NDArray[Any], name: str = "inputs") -> NDArray[np.uint8]:
    """uint8 [N,H,W,C] with one or three channels, of bytes with or without channels, or NCHW."""
    if array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and array.shape[3] not in (1, 3, 4) and array.shape[1] in (1, 3, 4):
        array = array.transpose(0, 2, 3, 1)
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] not in (1, 3, 4):
        raise InputError(
            name,
            f"are {array.dtype} of shape {array.shape}",
            "Images are uint8 [N,H,W] or [N,H,W,C] with 1, 3 or 4 channels: for floats from 0 to "
            "1, (255 * images).round().astype('uint8')",
        )
    return array if array.shape[3] != 4 else on_white(array)


def on_white(rgba: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[..., 4] colours with opacity as they look on white paper: [..., 3]."""
    alpha = rgba[..., 3:].astype(np.uint32)
    blend = rgba[..., :3] * alpha + 255 * (255 - alpha)
    return ((blend + 127) // 255).astype(np.uint8)


def join_texts(frame: Any) -> NDArray[Any]:
    """[N] one text per row: the columns one below the other; a missing one is empty."""
    columns = [frame[name].fillna("").astype(str).tolist() for name in frame.columns]
    texts = np.empty(len(frame), dtype=object)
    texts[:] = ["\n".join(row) for row in zip(*columns, strict=True)]
    return texts


def join_inputs(first: Any, second: Any) -> Any:
    """Inputs of one kind, one behind the other."""
    if hasattr(first, "columns"):
        import pandas as pd

        return pd.concat([first, second], ignore_index=True)
    return np.concatenate([first, second])


def _as_inputs(inputs: Any) -> tuple[Kind, Any]:
    if hasattr(inputs, "columns"):
        return "table", inputs
    array = arrays.to_numpy(inputs)
    if array.ndim >= 3 or (array.dtype == np.uint8 and array.ndim != 2):
        return "images", as_images(array)
    if array.ndim == 1 and array.dtype.kind in "OUT":
        return "texts", array.astype(object)
    if array.ndim == 2 and array.dtype.kind in "fiub":
        return "table", array.astype(np.result_type(array.dtype, np.float32), copy=False)
    raise InputError(
        "inputs",
        f"are {array.dtype} of shape {array.shape}",
        "Pass uint8 images [N,H,W,C], texts [N], numbers [N,D] or a pandas frame",
    )


def _check_inputs(kind: Kind, inputs: Any) -> None:
    shape, dtype = np.shape(inputs), getattr(inputs, "dtype", None)
    letter = "" if dtype is None else dtype.kind
    fits = {
        "images": dtype == np.uint8 and len(shape) == 4 and shape[3] in (1, 3),
        "texts": letter == "O" and len(shape) == 1,
        "table": hasattr(inputs, "columns") or (len(shape) == 2 and letter == "f"),
    }
    if kind not in fits:
        raise InputError("kind", f"is {kind!r}", f"Choose one of {', '.join(fits)}")
    if not fits[kind]:
        raise InputError(
            "inputs",
            f"of kind {kind!r} are {dtype or type(inputs).__name__} of shape {shape}",
            "Let Dataset.from_arrays bring them into their form",
        )


def _checked_indices(indices: ArrayLike, N: int) -> NDArray[np.intp]:
    rows = np.asarray(indices)
    if rows.dtype == bool and rows.shape == (N,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise InputError(
            "indices",
            f"are {rows.dtype} of shape {rows.shape}",
            "Pass a mask, a slice, or integers",
        )
    if rows.size and (rows.min() < -N or rows.max() >= N):
        raise InputError(
            "indices", f"reach from {rows.min()} to {rows.max()}", f"There are {N} samples"
        )
    return rows.astype(np.intp)


def _evenly_spaced(indices: NDArray[np.intp] | slice) -> NDArray[np.intp] | slice:
    """The indices as a slice, where they are one: it needs no copy."""
    if isinstance(indices, slice) or len(indices) < 2:
        return indices
    steps = np.diff(indices)
    step = int(steps[0])
    if step <= 0 or indices[0] < 0 or (steps != step).any():
        return indices
    return slice(int(indices[0]), int(indices[-1]) + 1, step)


def hash_inputs(inputs: Any, digest: hashlib.blake2b) -> None:
    """Add images, texts or a table to a hash."""
    if hasattr(inputs, "columns"):
        from pandas.util import hash_pandas_object

        digest.update(repr([(str(c), str(t)) for c, t in inputs.dtypes.items()]).encode())
        digest.update(hash_pandas_object(inputs, index=False).to_numpy().tobytes())
    elif inputs.dtype == object:
        for text in inputs:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    else:
        digest.update(repr((inputs.shape, inputs.dtype.str)).encode())
        rows = max(1, _HASHED_BYTES // max(1, cast(int, inputs[:1].nbytes)))
        for start in range(0, len(inputs), rows):
            digest.update(np.ascontiguousarray(inputs[start : start + rows]).data)
