"""The only validators: labels, pred_probs and passes come in here and leave coerced, or refused.

Axes, always in this order: F passes, N samples, K classes.

Large arrays are not read here: shapes and types are checked at once, and the values of a row when
a sweep first reads it (`describe_bad_row` says what is wrong with one). `check_pred_probs` and
`check_passes` are for functions that hold everything in memory anyway; they check the values too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uqled.array_likes import check_tensor, refuse_masked
from uqled.array_likes import to_numpy as to_numpy
from uqled.errors import InputError

Floats = NDArray[np.floating[Any]]

#: How far the sum of a row may be from 1.
TOLERANCE = 1e-3
#: The same for half precision, whose rounding alone moves the sum of many classes.
TOLERANCE_HALF = 0.02

#: The largest seed that scikit-learn and NumPy both take.
LARGEST_SEED = 2**32 - 1

_MOST_CLASSES = 2**63  # class numbers are read as 64 bits
_CHECKED_ROWS = 65_536  # rows whose values are checked at a time
_LONGEST_SHOWN = 200  # characters of a value in an error


@dataclass(frozen=True)
class Labels:
    """Given labels as class numbers, and what the numbers stand for."""

    codes: NDArray[np.int32]
    """[N] class number of each sample, 0 to K-1."""
    values: NDArray[Any]
    """[K] each class as the user writes it: what `codes` decode to."""
    names: tuple[str, ...]
    """[K] each class as it is shown."""

    def __post_init__(self) -> None:
        # Compiled loops use class numbers as indices without looking at them again.
        codes, K = self.codes, len(self.values)
        if codes.ndim != 1 or codes.dtype.kind not in "iu":
            raise InputError(
                "labels", f"are {codes.dtype} of shape {codes.shape}", "Pass class numbers [N]"
            )
        if len(self.names) != K:
            raise InputError("labels", f"have {len(self.names)} names for {K} classes", "Name each")
        if len(codes) and (codes.min() < 0 or codes.max() >= K):
            wrong = int(np.argmax((codes < 0) | (codes >= K)))
            raise InputError(
                "labels",
                f"have class number {codes[wrong]} at index {wrong}, of {K} classes",
                f"Class numbers are 0 to {K - 1}",
            )

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def n_classes(self) -> int:
        return len(self.values)


def encode_labels(
    labels: Any, *, n_classes: int, classes: Sequence[Any] | None = None, name: str = "labels"
) -> Labels:
    """Given labels as class numbers, for `n_classes` columns of probabilities.

    Integers are column numbers. Anything else is sorted, as scikit-learn's `classes_` are, unless
    `classes` (or a pandas categorical) gives the columns' order.
    """
    if classes is None and (known := get_categories(labels)) is not None:
        classes = known if len(known) == n_classes else None
    column = read_label_column(labels, name)
    if classes is not None:
        values = _rows_in_memory(classes, "classes")
        if values.ndim != 1 or len(values) != n_classes:
            raise InputError(
                "classes",
                f"has {values.size if values.ndim == 1 else 'no'} entries for {n_classes} columns "
                "of probabilities",
                "Name every column once, in the order of the columns",
            )
        if twice := _names_given_twice(values):
            raise InputError("classes", f"name {twice[0]!r} twice", "Name every column once")
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
            wrong = low if low < 0 else high
            raise InputError(
                name,
                f"contain {wrong} at index {int(np.argmax(column == wrong))}, but the "
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
        raise InputError("classes", "have entries that are no names", "Pass texts") from None


def count_labels(labels: Any, name: str = "labels") -> int:
    """The number of labels, before anything else is known of them."""
    try:
        return len(labels)
    except Exception:  # no length, or none that it tells
        raise InputError(
            name, f"are a {type(labels).__name__}", "Pass one label per sample"
        ) from None


def check_two_classes(labels: Labels, name: str = "labels") -> None:
    """Refuse data in which no label could be another one."""
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


def check_array_like(array: Any, name: str) -> Any:
    """What has a shape as it is, anything else as an array; what cannot be rows is refused."""
    refuse_masked(array, name)
    check_tensor(array, name)
    if type(array).__module__.startswith("scipy.sparse"):
        raise InputError(name, "is a sparse matrix", "Pass array.toarray()")
    if hasattr(array, "shape") and (hasattr(array, "dtype") or hasattr(array, "iloc")):
        return array
    return _rows_in_memory(array, name)


def _rows_in_memory(array: Any, name: str) -> NDArray[Any]:
    try:
        return to_numpy(array, name)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            name,
            f"is a {type(array).__name__} that is no array ({error})",
            "Pass rows of equal length",
        ) from None


def check_shape(array: Any, *, ndim: int, name: str) -> tuple[int, ...]:
    """The shape of probabilities of any kind, without reading them."""
    shape, axes = tuple(int(n) for n in np.shape(array)), "N,K" if ndim == 2 else "F,N,K"
    if len(shape) != ndim:
        hint = {
            ("N,K", 1): "For two classes, stack both columns: np.column_stack([1 - p, p])",
            ("N,K", 3): "Arrays of several passes go in as `passes`",
            ("F,N,K", 2): "One set of probabilities goes in as `pred_probs`, or as passes[None]",
        }.get((axes, len(shape)), f"Reshape it to [{axes}]")
        raise InputError(name, f"has shape {shape}, but must be [{axes}]", hint)
    if 0 in shape:
        raise InputError(name, f"is empty (shape {shape})", "Pass at least two samples")
    if shape[-1] < 2:
        raise InputError(
            name,
            f"has {shape[-1]} column (shape {shape})",
            "Give one column per class: for two classes np.column_stack([1 - p, p])",
        )
    return shape


def check_numeric_dtype(array: Any, name: str) -> np.dtype[Any]:
    """The type of probabilities of any kind; text, objects and complex numbers are refused."""
    try:
        dtype: np.dtype[Any] = np.dtype(array.dtype)
    except TypeError:  # torch.bfloat16 and the like, which NumPy does not have
        dtype = np.dtype(np.float16)
    if dtype.kind not in "fiu":
        raise InputError(
            name, f"has type {dtype}", "Pass real numbers: float16, float32 or float64"
        )
    return dtype


def get_tolerance(dtype: np.dtype[Any]) -> float:
    """How far the sum of a row of this type may be from 1."""
    return TOLERANCE_HALF if dtype == np.float16 else TOLERANCE


def check_shapes_match(
    n_labels: int, probs_shape: tuple[int, ...] | None, passes_shape: tuple[int, ...] | None
) -> None:
    """Refuse labels, pred_probs [N,K] and passes [F,N,K] that do not belong together."""
    if passes_shape is not None and passes_shape[1] != n_labels:
        turned = passes_shape[0] == n_labels
        raise InputError(
            "passes",
            f"has shape {passes_shape}, but there are {n_labels} labels and the axes are [F,N,K]",
            "It looks like [N,F,K]: pass passes.transpose(1, 0, 2)"
            if turned
            else f"Its second axis must have {n_labels} entries, one per label",
        )
    if probs_shape is not None and probs_shape[0] != n_labels:
        raise InputError(
            "pred_probs",
            f"has {probs_shape[0]} rows (shape {probs_shape}), but there are {n_labels} labels",
            "Pass one row per label"
            if probs_shape[1] != n_labels
            else "It looks transposed: pass pred_probs.T",
        )
    if probs_shape is not None and passes_shape is not None and probs_shape[1] != passes_shape[2]:
        raise InputError(
            "passes",
            f"has {passes_shape[2]} classes (shape {passes_shape}), but pred_probs has "
            f"{probs_shape[1]}",
            "Both must have one column per class, in the same order",
        )


def describe_bad_row(name: str, where: str, row: NDArray[Any], tolerance: float) -> InputError:
    """What is wrong with one row of probabilities, for a row known to be wrong."""
    values = row.astype(np.float64)
    total = float(values.sum())
    if np.isnan(values).any():
        first = int(np.argmax(np.isnan(values)))
        return InputError(
            name,
            f"contains NaN at {where}, class {first}",
            "Leave such samples out, or predict them again",
        )
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1 + tolerance:
        extreme = low if low < 0 else high
        if math.isclose(total, 1, abs_tol=tolerance):
            fix = "Probabilities lie between 0 and 1"
        else:
            fix = "If these are logits, pass their softmax: scipy.special.softmax(logits, axis=-1)"
        return InputError(name, f"contains {extreme:.6g} at {where}", fix)
    return InputError(
        name,
        f"sums to {total:.6g} instead of 1 at {where} (allowed: {tolerance:g} either way)",
        "Divide each row by its sum if these are unnormalised probabilities",
    )


def check_pred_probs(array: ArrayLike, name: str = "pred_probs") -> Floats:
    """[N,K] probabilities in memory, checked whole: float32 or float64."""
    return _check_values(array, ndim=2, name=name)


def check_passes(array: ArrayLike, name: str = "passes") -> Floats:
    """[F,N,K] probabilities of F passes in memory, checked whole: float32 or float64."""
    return _check_values(array, ndim=3, name=name)


def check_whole_number(value: Any, name: str, *, low: int, high: int | None = None) -> int:
    """An integer option within its limits."""
    wanted = f"a whole number of at least {low}" if high is None else f"one of {low} to {high}"
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < low or (high is not None and value > high):
        raise InputError(name, f"is {show_value(value)}", f"Pass {wanted}")
    return int(value)


def check_fraction(value: Any, name: str) -> float:
    """A number from 0 to 1."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or isinstance(value, bool) or not 0 <= value <= 1:
        raise InputError(name, f"is {show_value(value)}", "Pass a number from 0 to 1")
    return float(value)


def show_value(value: Any) -> str:
    """A value as errors show it: cut if it is long, described if Python refuses to print it."""
    try:
        text = repr(value)
    except Exception:  # integers of more than 4,300 digits, and objects of somebody else
        return f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def _check_values(array: ArrayLike, *, ndim: int, name: str) -> Floats:
    probs = _rows_in_memory(array, name)
    shape = check_shape(probs, ndim=ndim, name=name)
    dtype = check_numeric_dtype(probs, name)
    probs = probs if dtype in (np.float32, np.float64) else probs.astype(np.float64)
    for f, rows in enumerate(probs[None] if ndim == 2 else probs):
        tolerance = get_tolerance(dtype)
        for start in range(0, shape[-2], _CHECKED_ROWS):
            block = rows[start : start + _CHECKED_ROWS]
            sums = block.sum(axis=1, dtype=np.float64)  # [n]
            good = (np.abs(sums - 1) <= tolerance) & (block.min(axis=1) >= 0)
            if not good.all():
                at = start + int(np.argmin(good))
                where = f"row {at}" if ndim == 2 else f"pass {f}, row {at}"
                raise describe_bad_row(name, where, rows[at], tolerance)
    return probs


def get_categories(labels: Any) -> list[Any] | None:
    """The classes of a pandas categorical, in their order; None for anything else."""
    dtype = getattr(labels, "dtype", None)
    return list(dtype.categories) if dtype is not None and hasattr(dtype, "categories") else None


def read_label_column(labels: Any, name: str) -> NDArray[Any]:
    """[N] integers or objects without a missing one."""
    if hasattr(labels, "dictionary_decode"):  # an Arrow dictionary column
        labels = labels.dictionary_decode()
    if hasattr(labels, "to_numpy") and type(labels).__module__.startswith("pyarrow"):
        labels = labels.to_numpy(zero_copy_only=False)
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
            wrong = int(np.argmax((column != np.floor(column)) | np.isinf(column)))
            raise InputError(
                name,
                f"contain {column[wrong]} at index {wrong}",
                "Class numbers are whole: check that labels and scores were not swapped",
            )
        if (large := np.abs(column) >= _MOST_CLASSES).any():
            raise _too_large(column[int(np.argmax(large))], int(np.argmax(large)), name)
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
            raise _too_large(objects[at], at, name) from None
    if not all(issubclass(kind, str | bytes) for kind in kinds) or len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(name, f"mix types or are no labels ({names})", "Pass integers or strings")
    for text in dict.fromkeys(objects.tolist()):
        if (b"\0" if isinstance(text, bytes) else "\0") in text:
            raise InputError(
                name,
                f"contain {show_value(text)} at index {objects.tolist().index(text)}",
                "Leave NUL characters out: NumPy takes labels that end in one for those without",
            )
    return objects


def _too_large(value: Any, at: int, name: str) -> InputError:
    return InputError(
        name, f"contain {show_value(value)} at index {at}", "Number the classes from 0"
    )


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _refuse_missing(missing: NDArray[np.bool_], name: str) -> None:
    if missing.any():
        raise InputError(
            name,
            f"have {int(missing.sum())} missing values, the first at index {int(missing.argmax())}",
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
