"""The only validators: labels, pred_probs and passes come in here and leave coerced, or refused.

Axes, always in this order: F passes, N samples, K classes.
"""

from __future__ import annotations

from uqled.arrays.array_likes import (
    check_array_like,
    to_numpy,
)
from uqled.arrays.labels import (
    Labels,
    check_two_classes,
    check_writable,
    count_labels,
    decode_bytes,
    encode_labels,
    get_categories,
    read_label_column,
)
from uqled.arrays.options import (
    LARGEST_SEED,
    check_fraction,
    check_whole_number,
    show_value,
)
from uqled.arrays.probabilities import (
    Floats,
    check_numeric_dtype,
    check_passes,
    check_pred_probs,
    check_shape,
    check_shapes_match,
    describe_bad_row,
    get_tolerance,
)

__all__ = [
    "LARGEST_SEED",
    "Floats",
    "Labels",
    "check_array_like",
    "check_fraction",
    "check_numeric_dtype",
    "check_passes",
    "check_pred_probs",
    "check_shape",
    "check_shapes_match",
    "check_two_classes",
    "check_whole_number",
    "check_writable",
    "count_labels",
    "decode_bytes",
    "describe_bad_row",
    "encode_labels",
    "get_categories",
    "get_tolerance",
    "read_label_column",
    "show_value",
    "to_numpy",
]
