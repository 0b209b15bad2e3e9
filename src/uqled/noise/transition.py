"""How true classes turn into given ones: a matrix with names, checked, printed and saved.

Rows are the true class, columns the given one, and each row sums to 1 (cleanlab's noise matrices
are the transpose). `uqled.noise` makes such matrices and flips labels with them.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uqled.arrays import check_fraction, check_whole_number
from uqled.errors import FileError, InputError
from uqled.storage.atomic import replace_file
from uqled.storage.reading import first_line, name_file, parse_json, read_file

Matrix = NDArray[np.float64]
Classes = Sequence[Any] | int
"""Class names in the order of rows and columns, or their number (then the names are 0 to K-1)."""

_SUM_TOLERANCE = 1e-6  # how far the sum of a row may be from 1
_CORNER = "true \\ given"


@dataclass(frozen=True, eq=False, init=False)
class TransitionMatrix:
    """How often a true class (row) is given as another (column). Every row sums to 1.

    >>> print(TransitionMatrix([[0.8, 0.2], [0.1, 0.9]], ["cat", "dog"]))
    true \\ given    cat    dog
    cat           80.0%  20.0%
    dog           10.0%  90.0%
    """

    probabilities: Matrix
    """[K,K] read-only: rows true, columns given."""
    classes: tuple[str, ...]
    """[K] names, in the order of rows and columns."""

    def __init__(self, probabilities: ArrayLike, classes: Classes | None = None) -> None:
        T = make_square_matrix(probabilities, "probabilities")
        is_number = isinstance(classes, int | np.integer)
        names = list_class_names(len(T) if classes is None or is_number else classes)
        # Compare the number first, before making that many names: it may be huge.
        count = int(classes) if is_number else len(names)  # type: ignore[arg-type]
        if count != len(T):
            raise InputError(
                "classes",
                f"has {count} names for a matrix of {len(T)} rows",
                "Name every row once, in the order of the rows",
            )
        _refuse_wrong_sums(T, names)
        T.setflags(write=False)
        object.__setattr__(self, "probabilities", T)
        object.__setattr__(self, "classes", names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TransitionMatrix):
            return NotImplemented
        same = np.array_equal(self.probabilities, other.probabilities)
        return same and self.classes == other.classes

    def __hash__(self) -> int:
        return hash((self.classes, self.probabilities.tobytes()))

    def __str__(self) -> str:
        """The paper's table: percentages, true classes down, given classes across."""
        cells = [[f"{p:.1%}" for p in row] for row in self.probabilities.tolist()]
        table = [[_CORNER, *self.classes]]
        table += [[name, *row] for name, row in zip(self.classes, cells, strict=True)]
        first, *widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join(
            name.ljust(first) + "".join(f"  {c:>{w}}" for c, w in zip(row, widths, strict=True))
            for name, *row in table
        )

    def flips(self) -> Matrix:
        """[K,K] where a mislabelled sample of each class goes: off-diagonals scaled to sum to 1.

        The row of a class that is never mislabelled is all zeros.
        """
        flips = self.probabilities.copy()
        np.fill_diagonal(flips, 0)
        totals = flips.sum(axis=1, keepdims=True)
        np.divide(flips, totals, out=flips, where=totals > 0)
        return flips

    def at_rate(self, rate: float) -> TransitionMatrix:
        """The same targets, but `rate` of each class mislabelled: the diagonal is 1 - rate."""
        rate, flips = check_fraction(rate, "rate"), self.flips()
        if rate > 0:
            refuse_classes_without_target(flips.max(axis=1) > 0, self.classes, rate)
        return TransitionMatrix(rate * flips + (1 - rate) * np.eye(len(flips)), self.classes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.csv` (names in the first row and column) or `.json` file, whole or not at all.

        Reading it with `load` gives an equal matrix: every digit is kept.
        """
        path = Path(path)
        rows = self.probabilities.tolist()
        if _check_suffix(path) == ".json":
            content = {"rows": "true", "columns": "given", "classes": self.classes, "matrix": rows}
            text = json.dumps(content, indent=1) + "\n"
        else:
            buffer = io.StringIO()
            writer = csv.writer(buffer, lineterminator="\n")
            writer.writerow([_CORNER, *self.classes])
            writer.writerows([name, *row] for name, row in zip(self.classes, rows, strict=True))
            text = buffer.getvalue()
        with replace_file(path) as part:
            part.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TransitionMatrix:
        """Read what `save` wrote, or a `.csv` of K rows of K numbers without names."""
        path = Path(path)
        read = _parse_json if _check_suffix(path) == ".json" else _parse_csv
        try:
            content = read_file(path, "json_bytes")
            return cls(*read(content.decode("utf-8-sig")))  # Excel writes a byte-order mark
        except Exception as error:  # JSON too deep, cells too long, numbers too large
            if isinstance(error, FileError) and error.__cause__ is None:
                why = error.problem  # a pipe, or too large
            else:
                why = first_line(error.__cause__ or error)
            raise FileError(
                name_file(path),
                f"is not a transition matrix ({why})",
                "Write K rows of K numbers separated by commas, rows true and columns given",
            ) from error


def list_class_names(classes: Classes) -> tuple[str, ...]:
    """[K] names, each once, of names or of a number of classes."""
    if isinstance(classes, int | np.integer):
        return tuple(map(str, range(check_whole_number(classes, "classes", low=2))))
    names = () if isinstance(classes, str) else tuple(map(str, classes))
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError(
            "classes", f"is {classes!r}", "Pass at least two names, each once, or their number"
        )
    return names


def make_square_matrix(array: ArrayLike, argument: str) -> Matrix:
    """A [K,K] copy of finite numbers that are not negative."""
    try:
        matrix = np.array(array, dtype=np.float64) + 0.0  # no -0.0: equal matrices hash alike
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(argument, f"is not a table of numbers ({error})", "Pass [K,K]") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InputError(
            argument, f"has shape {matrix.shape}", "Pass one row and one column per class, K >= 2"
        )
    is_error = ~(np.isfinite(matrix) & (matrix >= 0))
    if is_error.any():
        i, j = map(int, np.argwhere(is_error)[0])
        raise InputError(
            argument,
            f"contains {matrix[i, j]} at row {i}, column {j}",
            "Its entries are shares of a class: finite, and at least 0",
        )
    return matrix


def refuse_classes_without_target(
    can_flip: NDArray[np.bool_], names: Sequence[str], rate: float
) -> None:
    """Refuse a rate for classes of which one has no target."""
    if not can_flip.all():
        raise InputError(
            "rate",
            f"is {rate}, but class {names[int(can_flip.argmin())]!r} has nowhere to flip to: its "
            "row in the matrix is zero off the diagonal",
            "Leave the rate out, so that each sample draws from its row and this class stays "
            "clean, or give the row an off-diagonal entry",
        )


def _refuse_wrong_sums(T: Matrix, names: tuple[str, ...]) -> None:
    is_wrong = np.abs(T.sum(axis=1) - 1) > _SUM_TOLERANCE
    if not is_wrong.any():
        return
    k = int(is_wrong.argmax())
    is_transposed = (np.abs(T.sum(axis=0) - 1) <= _SUM_TOLERANCE).all()
    raise InputError(
        "probabilities",
        f"has a row that sums to {T[k].sum():.6g} instead of 1 (row {k}, {names[k]!r})",
        "Its columns sum to 1, so it is given x true as in cleanlab: pass its transpose, matrix.T"
        if is_transposed
        else "Divide each row by its sum: matrix / matrix.sum(axis=1, keepdims=True)",
    )


def _check_suffix(path: Path) -> str:
    if path.suffix.lower() in (".csv", ".json"):
        return path.suffix.lower()
    raise FileError(name_file(path), f"has the ending {path.suffix!r}", "Use one of .csv, .json")


def _parse_json(text: str) -> tuple[Any, Sequence[Any]]:
    content = parse_json(text)
    if not isinstance(content, dict) or not {"matrix", "classes"} <= content.keys():
        raise ValueError("it has no matrix, or no classes")
    if not isinstance(content["classes"], list):
        raise ValueError("its classes are not a list")
    return content["matrix"], content["classes"]


def _parse_csv(text: str) -> tuple[list[list[float]], Sequence[str] | None]:
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    try:
        float(rows[0][0])
    except ValueError:  # the empty corner of the header
        names = rows[0][1:]
    else:
        return [[float(cell) for cell in row] for row in rows], None
    if [row[0] for row in rows[1:]] != names:
        raise ValueError("the names down the side are not those across the top")
    return [[float(cell) for cell in row[1:]] for row in rows[1:]], names
