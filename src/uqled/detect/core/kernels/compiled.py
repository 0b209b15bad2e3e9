"""All kernels, compiled."""

from uqled.detect.core.kernels.compiled_heaps import (
    count_in_ranges,
    merge_heaps,
    raise_cuts,
    select_rows,
)
from uqled.detect.core.kernels.compiled_rows import (
    add_class_sums,
    average_passes,
    count_pairs,
    count_votes,
    find_alternatives,
    find_bad_row,
    find_best_other,
    find_confident_within_limits,
    measure_deviations,
    measure_margins,
    measure_uncertainty,
    measure_variation_ratios,
    read_given_probability,
    scan_rows,
)

__all__ = [
    "add_class_sums",
    "average_passes",
    "count_in_ranges",
    "count_pairs",
    "count_votes",
    "find_alternatives",
    "find_bad_row",
    "find_best_other",
    "find_confident_within_limits",
    "measure_deviations",
    "measure_margins",
    "measure_uncertainty",
    "measure_variation_ratios",
    "merge_heaps",
    "raise_cuts",
    "read_given_probability",
    "scan_rows",
    "select_rows",
]
