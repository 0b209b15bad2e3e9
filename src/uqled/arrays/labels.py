"""Given labels: read from any column, checked, and numbered by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.arrays.array_likes import to_numpy, to_rows
from uqled.arrays.options import show_value
from uqled.errors import InputError

_MOST_CLASSES = 2**63  # class numbers are read as 64 bits
_BYTES = (bytes, bytearray, memoryview)


@dataclass(frozen=True)
class Labels:
    """Given labels as class numbers, and what the numbers stand for."""

    codes: NDArray[np.int32]
    """[N] class number of each sample, 0 to K-1."""
    values: NDArray[Any]
    """[K] the value of each class as the user writes it: what `codes` decode to."""
    names: tuple[str, ...]
    """[K] the name of each class, for display."""

    def __post_init__(self) -> None:
        # Compiled loops use class numbers as indices without checking them.
        codes, K = self.codes, len(self.values)
        if codes.ndim != 1 or codes.dtype.kind not in "iu":
            raise InputError(
                "labels", f"are {codes.dtype} of shape {codes.shape}", "Pass class numbers [N]"
            )
        if len(self.names) != K:
            raise InputError(
                "labels", f"have {len(self.names)} names for {K} classes", "Name every class"
            )
        for name in self.names:
            check_writable(name, "class")
        if len(codes) and (codes.min() < 0 or codes.max() >= K):
            error_index = int(np.argmax((codes < 0) | (codes >= K)))
            raise InputError(
                "labels",
                f"have class number {codes[error_index]} at index {error_index}, of {K} classes",
                f"Class numbers are 0 to {K - 1}",
            )

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def n_classes(self) -> int:
        return len(self.values)


def check_writable(name: str, what: str) -> None:
    """Refuse a name that no file can hold, such as that of a folder in another encoding."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        problem = "has a name that UTF-8 cannot write"
        raise InputError(f"{what} {name!r}", problem, "Rename it") from error


def encode_labels(
    labels: Any, *, n_classes: int, classes: Sequence[Any] | None = None, name: str = "labels"
) -> Labels:
    """Given labels as class numbers, for `n_classes` columns of probabilities.

    Integers are column numbers. Anything else is sorted, as scikit-learn's `classes_` are, unless
    `classes` (or a pandas categorical) gives the columns' order.
    """
    if classes is None and (categories := get_categories(labels)) is not None:
        classes = categories if len(categories) == n_classes else None
    column = read_label_column(labels, name)
    if classes is not None:
        values = decode_bytes(to_rows(classes, "classes"), "classes")
        if values.ndim != 1 or len(values) != n_classes:
            raise InputError(
                "classes",
                f"has {values.size if values.ndim == 1 else 'no'} entries for {n_classes} columns "
                "of probabilities",
                "Name every column once, in the order of the columns",
            )
        if duplicates := _names_given_twice(values):
            raise InputError("classes", f"name {duplicates[0]!r} twice", "Name every column once")
        texts = values.dtype.kind not in "iu" and column.dtype.kind in "iu"
        if texts and all(str(value).isdecimal() for value in values):  # the columns of a CSV
            values, texts = np.array([int(value) for value in values]), False
        if not texts:
            return Labels(
                _look_up_codes(column, values, name), values, tuple(map(str, values.tolist()))
            )
        names = tuple(map(str, values.tolist()))
    else:
        names = tuple(map(str, range(n_classes)))

    if column.dtype.kind in "iu":
        low, high = int(column.min()), int(column.max())
        if low < 0 or high >= n_classes:
            wrong_code = low if low < 0 else high
            raise InputError(
                name,
                f"contain {wrong_code} at index {int(np.argmax(column == wrong_code))}, but the "
                f"probabilities have {n_classes} columns (0 to {n_classes - 1})",
                "Number the classes from 0 in the order of the columns, or name the columns with "
                "`classes`",
            )
        codes = column.astype(np.int32, copy=False)
        return Labels(codes, np.arange(n_classes), names)

    values = np.array(sorted(set(column.tolist())))
    if len(values) != n_classes:
        raise InputError(
            name,
            f"have {len(values)} different values, but the probabilities have {n_classes} columns",
            "Give the columns' order with `classes`, so that a class without samples has a name",
        )
    return Labels(_look_up_codes(column, values, name), values, tuple(map(str, values.tolist())))


def _names_given_twice(values: NDArray[Any]) -> list[str]:
    try:
        return sorted(str(value) for value, n in Counter(values.tolist()).items() if n > 1)
    except TypeError:  # lists, dictionaries
        raise InputError("classes", "have entries that are not names", "Pass texts") from None


def count_labels(labels: Any) -> int:
    """The number of labels, before anything else is known of them."""
    try:
        return len(labels)
    except Exception:  # it has no length, or does not know it
        raise InputError(
            "labels", f"are a {type(labels).__name__}", "Pass one label per sample"
        ) from None


def check_two_classes(labels: Labels, name: str = "labels") -> None:
    """Refuse data with fewer than two classes: no label could be another one."""
    if len(labels) < 2:
        raise InputError(
            name, f"have {len(labels)} sample", "Label errors need at least two samples to compare"
        )
    if (labels.codes == labels.codes[0]).all():
        only = labels.names[int(labels.codes[0])]
        raise InputError(
            name,
            f"contain one class only ({only!r}, {len(labels)} samples)",
            "Pass the whole data set: a wrong label can only be seen beside another class",
        )


def get_categories(labels: Any) -> list[Any] | None:
    """The classes of a pandas categorical, in their order; None for anything else."""
    dtype = getattr(labels, "dtype", None)
    return list(dtype.categories) if dtype is not None and hasattr(dtype, "categories") else None


def read_label_column(labels: Any, name: str) -> NDArray[Any]:
    """[N] integers or objects without a missing one; bytes become the text that they hold."""
    if hasattr(labels, "dictionary_decode"):  # an Arrow dictionary column
        labels = labels.dictionary_decode()
    if hasattr(labels, "to_numpy") and type(labels).__module__.startswith("pyarrow"):
        labels = labels.to_numpy(zero_copy_only=False)
    if isinstance(labels, list | tuple) and any(isinstance(one, _BYTES) for one in labels):
        # NumPy decodes some of them as ASCII, and makes rows of others.
        entries = [bytes(one) if isinstance(one, _BYTES) else one for one in labels]
        labels = np.fromiter(entries, object, len(entries))
    try:
        column = to_numpy(labels, name)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            name, "are a list whose entries have different lengths", "Pass one label per sample"
        ) from error
    if column.dtype.kind in "US" and isinstance(labels, list | tuple):
        column = np.array(labels, dtype=object)  # NumPy makes strings of numbers among strings
    if column.ndim == 2 and 1 in column.shape:
        column = column.reshape(-1)
    if column.ndim != 1:
        raise InputError(
            name,
            f"have shape {column.shape}",
            "Pass one label per sample; for one-hot rows, labels.argmax(axis=1)",
        )
    if len(column) == 0:
        raise InputError(name, "are empty", "Pass one label per sample")
    if column.dtype.kind == "b":
        return column.astype(np.int64)
    if column.dtype.kind in "iu":
        return column
    if column.dtype.kind == "f":
        _refuse_missing(np.isnan(column), name)
        if (column != np.floor(column)).any() or np.isinf(column).any():
            error_row = int(np.argmax((column != np.floor(column)) | np.isinf(column)))
            raise InputError(
                name,
                f"contain {column[error_row]} at index {error_row}",
                "Class numbers are whole: check that labels and scores were not swapped",
            )
        if (large := np.abs(column) >= _MOST_CLASSES).any():
            raise _make_too_large_error(column[int(np.argmax(large))], int(np.argmax(large)), name)
        return column.astype(np.int64)
    if column.dtype.kind not in "OUST":
        raise InputError(name, f"have type {column.dtype}", "Pass integers or strings")
    objects = column.astype(object)
    _refuse_missing(np.fromiter(map(_is_missing, objects), bool, len(objects)), name)
    kinds = {type(value) for value in objects.tolist()}
    if all(issubclass(kind, int | np.integer) for kind in kinds):
        try:
            return objects.astype(np.int64)
        except OverflowError:
            at = next(i for i, value in enumerate(objects) if abs(value) >= _MOST_CLASSES)
            raise _make_too_large_error(objects[at], at, name) from None
    if not all(issubclass(kind, str | bytes) for kind in kinds) or len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(name, f"mix types or are not labels ({names})", "Pass integers or strings")
    for text in dict.fromkeys(objects.tolist()):
        if (b"\0" if isinstance(text, bytes) else "\0") in text:
            raise InputError(
                name,
                f"contain {show_value(text)} at index {objects.tolist().index(text)}",
                "Leave NUL characters out: NumPy takes labels that end in one for those without",
            )
    return decode_bytes(objects, name).astype(object, copy=False)


def decode_bytes(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Labels that are bytes (NumPy's `S`, HDF5, binary columns) as text; others unchanged."""
    if values.ndim != 1 or not len(values) or not isinstance(values[0], bytes):
        return values
    entries = values.tolist()
    if not all(isinstance(entry, bytes) for entry in entries):
        return values
    texts = dict[bytes, str]()
    for entry in dict.fromkeys(entries):
        try:
            texts[entry] = entry.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                name,
                f"contain {show_value(entry)} at index {entries.index(entry)}, which is not text "
                "in UTF-8",
                "Decode them first, such as [label.decode('latin-1') for label in labels]",
            ) from error
    return np.array([texts[entry] for entry in entries])


def _make_too_large_error(value: Any, at: int, name: str) -> InputError:
    return InputError(
        name, f"contain {show_value(value)} at index {at}", "Number the classes from 0"
    )


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _refuse_missing(is_missing: NDArray[np.bool_], name: str) -> None:
    if is_missing.any():
        raise InputError(
            name,
            f"have {int(is_missing.sum())} missing values, the first at index "
            f"{int(is_missing.argmax())}",
            "Leave unlabelled samples out (and their rows of probabilities)",
        )


def _look_up_codes(column: NDArray[Any], values: NDArray[Any], name: str) -> NDArray[np.int32]:
    """[N] the position of each label among `values`."""
    number = {value: code for code, value in enumerate(values.tolist())}
    entries = column.tolist()
    try:
        return np.fromiter((number[entry] for entry in entries), np.int32, len(entries))
    except KeyError as error:
        at = entries.index(error.args[0])
        raise InputError(
            name,
            f"contain {error.args[0]!r} at index {at}, which is not among the classes "
            f"{list(number)[:10]}{' ...' if len(number) > 10 else ''}",
            "Correct the label, or give all columns' names with `classes`",
        ) from None
