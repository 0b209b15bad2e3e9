"""The columns in which a table's row is unusual for its label and usual for the suggested class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_COLUMNS = 400  # compared
_LISTED = 4  # the most telling ones


@dataclass(frozen=True)
class UnusualColumn:
    """A number of a row, and the quartiles between which it usually lies in either class."""

    name: str
    value: str
    usual_given: str
    usual_suggested: str


def find_unusual_columns(
    inputs: Any, codes: NDArray[Any], index: int, given: int, suggested: int
) -> list[UnusualColumn]:
    """Of row `index` of `inputs` [N,D], a frame or an array with labels `codes` [N]: the most
    telling columns first. Only numbers are compared."""
    if given == suggested:
        return []
    is_frame = hasattr(inputs, "columns")
    members = [codes == k for k in (given, suggested)]
    telling = []
    for at in range(min(inputs.shape[1], _MAX_COLUMNS)):
        column = inputs.iloc[:, at].to_numpy() if is_frame else inputs[:, at]
        if column.dtype.kind not in "iuf" or not np.isfinite(column[index]):
            continue
        quartiles = [np.nanpercentile(column[mask], [25, 75]) for mask in members]
        widths = [max(high - low, 1e-12) for low, high in quartiles]
        distances = [
            max(low - column[index], column[index] - high, 0) / width
            for (low, high), width in zip(quartiles, widths, strict=True)
        ]
        if distances[0] > 1 > distances[1]:  # outside of one, within or near the other
            name = str(inputs.columns[at]) if is_frame else str(at)
            usual = [f"{low:.4g} to {high:.4g}" for low, high in quartiles]
            row = UnusualColumn(name, f"{column[index]:.4g}", *usual)
            telling.append((distances[1] - distances[0], at, row))
    return [row for _, _, row in sorted(telling, key=lambda one: one[:2])[:_LISTED]]
