"""Given labels of any column as class numbers, where the data alone says what the classes are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from uqled.arrays import Labels, decode_bytes, read_label_column
from uqled.errors import InputError


def encode_column(
    column: Any,
    *,
    names: Sequence[str] | None = None,
    values: Sequence[Any] | None = None,
    name: str = "labels",
) -> Labels:
    """Class numbers of a column of labels.

    `names` of classes 0 to K-1 keep classes without samples; integers are then numbers among them
    and strings names, unless `values` says how the classes are written. A pandas categorical
    brings its own. Otherwise the classes are the values that occur, sorted.

    >>> labels = encode_column([3, 7, 3])
    >>> labels.codes.tolist(), labels.values.tolist(), labels.names
    ([0, 1, 0], [3, 7], ('3', '7'))
    """
    if names is None and values is None and hasattr(getattr(column, "dtype", None), "categories"):
        values = column.dtype.categories.tolist()
    is_bool = getattr(getattr(column, "dtype", None), "kind", None) == "b"
    labels = read_label_column(column, name)
    if labels.dtype.kind == "u" and len(labels) and labels.max() > np.iinfo(np.int64).max:
        problem = f"contain {int(labels.max())}, which is beyond 64 bits"
        raise InputError(name, problem, "Number the classes from 0")
    if values is None and names is not None:
        values = range(len(names)) if labels.dtype.kind in "iu" else list(names)
    if values is None:
        values = sorted(set(labels.tolist()))
    class_values = decode_bytes(np.asarray(values), name)
    number = {value: code for code, value in enumerate(class_values.tolist())}
    codes = np.fromiter((number.get(value, -1) for value in labels.tolist()), np.int32, len(labels))
    if (codes < 0).any():
        at = int(np.argmax(codes < 0))
        raise InputError(
            name,
            f"contain {labels.tolist()[at]!r} at index {at} ({int((codes < 0).sum())} such), which "
            f"is not one of the {len(class_values)} classes",
            "Leave unlabelled samples out (-1 stands for them in many data sets)"
            if labels.dtype.kind in "iu"
            else "Correct the labels",
        )
    if is_bool:
        class_values = class_values.astype(bool)
    class_names = names if names is not None else class_values.tolist()
    return Labels(codes, class_values, tuple(map(str, class_names)))
