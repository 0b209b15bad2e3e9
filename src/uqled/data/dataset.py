"""`Dataset`: inputs, given labels and ids of labelled samples, as `load` returns them."""

from __future__ import annotations

import hashlib
import re
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


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Labelled samples.

    Made by `load` from files, or by `Dataset.from_arrays` from arrays in memory.
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
    """Samples that could not be read and were left out: id -> reason."""
    source: Mapping[str, Any] | None = None
    """The arguments of `load` that load these samples again; None if `load` did not make them."""
    columns: tuple[Column, ...] = ()
    """The role of each column of a table, and whether a model sees it."""
    groups: NDArray[Any] | None = None
    """[N] groups, such as patients: samples of one group must share a fold."""
    unlabelled: tuple[str, ...] = ()
    """The ids of samples that were set aside because they have no label."""
    unlabelled_inputs: Any = None
    """Their inputs, in the same order; None if there are none, or they were not kept."""
    unlabelled_rows: tuple[int, ...] | None = None
    """Their row numbers among all samples of the source; None if unknown."""
    notes: tuple[tuple[str, str], ...] = ()
    """What the user should know about how the data was read: (what was done, how to change it)."""
    embeddings: NDArray[np.float32] | None = None
    """[N,D] the user's own vectors, which the model sees instead of the samples."""
    index: Any = field(default=None, repr=False)
    """[N] the index of the pandas frame that the samples came from, of its own type; else None."""
    n_appended: int = 0
    """How many samples at the end are only there to be predicted; their class numbers mean
    nothing."""

    def __post_init__(self) -> None:
        _check_kind(self.kind, self.inputs)
        N = len(self.labels)
        lengths = {"inputs": len(self.inputs), "ids": len(self.ids)}
        lengths |= {} if self.truth is None else {"truth": len(self.truth)}
        lengths |= {} if self.groups is None else {"groups": len(self.groups)}
        lengths |= {} if self.index is None else {"index": len(self.index)}
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
        """Make a data set from arrays in memory.

        uint8 of three or four axes is images (channels last or second), strings are texts, a
        pandas frame or numbers [N,D] a table. `classes` names the class numbers 0 to K-1.

        >>> data = Dataset.from_arrays(np.zeros((4, 2)), ["cat", "dog", "cat", "dog"])
        >>> data.kind, data.labels.names, data.labels.codes.tolist()
        ('table', ('cat', 'dog'), [0, 1, 0, 1])
        """
        kind, inputs = _convert_inputs(inputs)
        given_labels = encode_column(labels, names=classes)
        names = np.arange(len(given_labels)) if ids is None else np.asarray(ids)
        return cls(kind, inputs, given_labels, names.astype(str).astype(object), name)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        kind = {"table": "rows"}.get(self.kind, self.kind)
        return f"<Dataset {self.name}: {len(self):,} {kind}, {self.n_classes:,} classes>"

    def _repr_html_(self) -> str:
        """Its size, classes and some samples, in a notebook."""
        from uqled.report.notebook import render_dataset

        return render_dataset(self)

    @property
    def n_classes(self) -> int:
        return self.labels.n_classes

    @property
    def row_names(self) -> Any:
        """[N] a pandas index: that of the frame the samples came from; for other sources the ids,
        as integers where they are row numbers."""
        import pandas as pd

        if self.index is not None:
            return self.index
        is_numbered = all(re.fullmatch("0|[1-9][0-9]{0,17}", name) for name in self.ids)
        return pd.Index(self.ids.astype(np.int64) if is_numbered else self.ids, name="id")

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
        """The columns that are not text, as a frame or floats [N,D]; None if there are none."""
        if self.kind != "table":
            return None
        names = self.text_columns
        features = self.inputs.drop(columns=names) if names else self.inputs
        return features if features.shape[1] else None

    @property
    def text_columns(self) -> list[str]:
        """Columns of a table's `inputs` that hold texts."""
        if not is_frame(self.inputs):
            return []
        texts = {column.name for column in self.columns if column.role == "text"}
        return [name for name in self.inputs.columns if name in texts]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of inputs, labels and class names: equal for equal data, wherever it is stored."""
        digest = self._inputs_digest.copy()
        digest.update(self.labels.codes.tobytes())
        digest.update(repr((self.labels.names, self.labels.values.tolist())).encode())
        return digest.hexdigest()

    @property
    def inputs_fingerprint(self) -> str:
        """A hash of the inputs alone: equal for the same samples, whatever their labels."""
        return self._inputs_digest.hexdigest()

    @cached_property
    def _inputs_digest(self) -> hashlib.blake2b:
        digest = hashlib.blake2b(self.kind.encode(), digest_size=16)
        hash_inputs(self.inputs, digest)
        return digest

    def subset(self, indices: ArrayLike | slice) -> Dataset:
        """Select samples, in this order; evenly spaced indices give a view of the inputs."""
        if not isinstance(indices, slice):
            indices = _check_indices(indices, len(self))
        rows = _convert_to_slice(indices)
        return replace(
            self,
            inputs=take_rows(self.inputs, rows),
            labels=replace(self.labels, codes=self.labels.codes[rows]),
            ids=self.ids[rows],
            truth=None if self.truth is None else self.truth[rows],
            groups=None if self.groups is None else self.groups[rows],
            embeddings=None if self.embeddings is None else self.embeddings[rows],
            index=None if self.index is None else self.index[rows],
            source=None,
        )

    def draw_samples(self, n: int, seed: int = 0) -> Dataset:
        """Draw `n` samples at random, stratified by class, with each class at least once."""
        return self.subset(draw_stratified(self.labels.codes, n, seed=seed))

    def without_rare_classes(self, least: int) -> Dataset:
        """Drop the classes with fewer than `least` samples, and their samples.

        Returns the data set unchanged if that would leave fewer than two classes, or all of them.
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
        """Append the samples without a label, to be predicted."""
        n = len(self.unlabelled)
        codes = np.concatenate([self.labels.codes, np.zeros(n, np.int32)])
        return replace(
            self,
            inputs=join_inputs(self.inputs, self.unlabelled_inputs),
            labels=replace(self.labels, codes=codes),
            ids=np.concatenate([self.ids, np.array(self.unlabelled, dtype=object)]),
            truth=None,
            groups=None,
            index=None,
            source=None,
            n_appended=n,
        )

    @property
    def input_parts(self) -> list[Any]:
        """The inputs, with appended samples as a separate part, so that features cached for the
        others can be reused."""
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
    """Draw the indices of `n` samples at random, stratified by class, in ascending order.

    The j-th sample of a class of c samples is due after a share j/c of every class, so that each
    class has one sample before any has two.
    """
    n = arrays.check_whole_number(n, "limit", low=2)
    order = np.random.default_rng(arrays.check_whole_number(seed, "seed", low=0)).permutation(
        len(codes)
    )
    by_class = order[np.argsort(codes[order], kind="stable")]  # [N] class by class, each shuffled
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    classes = codes[by_class]
    due = (np.arange(len(codes)) - starts[classes]) / counts[classes]
    return np.sort(by_class[np.argsort(due, kind="stable")[:n]])


def convert_images(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert uint8 images [N,H,W], NHWC or NCHW to [N,H,W,C] with one or three channels."""
    if array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and array.shape[3] not in (1, 3, 4) and array.shape[1] in (1, 3, 4):
        array = array.transpose(0, 2, 3, 1)
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] not in (1, 3, 4):
        raise InputError(
            "inputs",
            f"are {array.dtype} of shape {array.shape}",
            "Images are uint8 [N,H,W] or [N,H,W,C] with 1, 3 or 4 channels: for floats from 0 to "
            "1, (255 * images).round().astype('uint8')",
        )
    return array if array.shape[3] != 4 else blend_on_white(array)


def blend_on_white(rgba: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Blend colours with opacity [..., 4] on a white background: [..., 3]."""
    alpha = rgba[..., 3:].astype(np.uint32)
    blend = rgba[..., :3] * alpha + 255 * (255 - alpha)
    return ((blend + 127) // 255).astype(np.uint8)


def join_texts(frame: Any) -> NDArray[Any]:
    """[N] one text per row: the columns joined by newlines; missing values are empty."""
    columns = [frame[name].fillna("").astype(str).tolist() for name in frame.columns]
    texts = np.empty(len(frame), dtype=object)
    texts[:] = ["\n".join(row) for row in zip(*columns, strict=True)]
    return texts


def is_frame(inputs: Any) -> bool:
    """Whether samples are a pandas frame, not an array."""
    return hasattr(inputs, "columns")


def take_rows(inputs: Any, rows: Any) -> Any:
    """Some rows of an array, a pandas frame or encoded images."""
    return inputs.iloc[rows] if is_frame(inputs) else inputs[rows]


def join_inputs(first: Any, second: Any) -> Any:
    """Concatenate inputs of the same kind."""
    if is_frame(first):
        import pandas as pd

        return pd.concat([first, second], ignore_index=True)
    return np.concatenate([first, second])


def _convert_inputs(inputs: Any) -> tuple[Kind, Any]:
    if is_frame(inputs):
        return "table", inputs
    array = arrays.to_numpy(inputs)
    if array.ndim >= 3 or (array.dtype == np.uint8 and array.ndim != 2):
        return "images", convert_images(array)
    if array.ndim == 1 and array.dtype.kind in "OUT":
        return "texts", _convert_texts(array.astype(object))
    if array.ndim == 2 and array.dtype.kind in "fiub":
        return "table", array.astype(np.result_type(array.dtype, np.float32), copy=False)
    raise InputError(
        "inputs",
        f"are {array.dtype} of shape {array.shape}",
        "Pass uint8 images [N,H,W,C], texts [N], numbers [N,D] or a pandas frame",
    )


def _convert_texts(texts: NDArray[Any]) -> NDArray[Any]:
    """Texts [N], of which missing ones are empty, as in tables."""
    for at, text in enumerate(texts.tolist()):
        if text is None or text != text:
            texts[at] = ""
        elif not isinstance(text, str):
            raise InputError(
                "inputs", f"contain a {type(text).__name__} at index {at}", "Pass texts alone"
            )
    return texts


def _check_kind(kind: Kind, inputs: Any) -> None:
    shape, dtype = np.shape(inputs), getattr(inputs, "dtype", None)
    letter = "" if dtype is None else dtype.kind
    fits = {
        "images": dtype == np.uint8 and len(shape) == 4 and shape[3] in (1, 3),
        "texts": letter == "O" and len(shape) == 1,
        "table": is_frame(inputs) or (len(shape) == 2 and letter == "f"),
    }
    if kind not in fits:
        raise InputError("kind", f"is {kind!r}", f"Choose one of {', '.join(fits)}")
    if not fits[kind]:
        raise InputError(
            "inputs",
            f"of kind {kind!r} are {dtype or type(inputs).__name__} of shape {shape}",
            "Convert them with Dataset.from_arrays",
        )


def _check_indices(indices: ArrayLike, N: int) -> NDArray[np.intp]:
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


def _convert_to_slice(indices: NDArray[np.intp] | slice) -> NDArray[np.intp] | slice:
    """Return evenly spaced indices as a slice, which needs no copy."""
    if isinstance(indices, slice) or len(indices) < 2:
        return indices
    steps = np.diff(indices)
    step = int(steps[0])
    if step <= 0 or indices[0] < 0 or (steps != step).any():
        return indices
    return slice(int(indices[0]), int(indices[-1]) + 1, step)


def hash_inputs(inputs: Any, digest: hashlib.blake2b) -> None:
    """Add images, texts or a table to a hash."""
    if is_frame(inputs):
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
