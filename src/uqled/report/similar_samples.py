"""Samples that help to judge another one: its neighbours, its near duplicates with another label,
and typical samples of a class. Neighbours are read from the run's folder; for a row of a table
without any, the most similar rows are computed.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.errors import UqledError
from uqled.report.table_rows import TableRows
from uqled.storage.arrays.numpy_files import open_array

Side = Literal["given", "suggested"]

_NEAREST = 3  # rows of a table, of each class
_MAX_EXACT = 5  # duplicates; one text may come a hundred times
_MAX_COLUMNS = 50  # of an array of neighbours or of vectors: a file may claim any number
_MAX_PAIRS = 50  # near duplicates, per sample
_LARGEST = 1e12  # coordinate whose square can still be summed in 32 bits


class SimilarSamples:
    """Samples that resemble one of N samples with these labels and probabilities.

    `duplicate_sets` [N] number the sets of exact duplicates with different labels; -1 for none.
    """

    def __init__(
        self,
        codes: NDArray[Any],
        pred_probs: NDArray[Any],
        is_flagged: NDArray[np.bool_],
        run: Path | None,
        duplicate_sets: NDArray[Any] | None = None,
        rows: TableRows | None = None,
    ) -> None:
        self._codes = codes
        self._pred_probs = pred_probs
        self._is_flagged = is_flagged
        self._run = run
        self._duplicate_sets = duplicate_sets
        self._rows = rows
        self._typical: dict[tuple[int, int], NDArray[np.intp]] = {}

    def list_typical(self, k: int, n: int) -> list[int]:
        """The `n` samples of a class that the model is most confident of, flagged ones left out."""
        if (k, n) not in self._typical:
            members = np.flatnonzero((self._codes == k) & ~self._is_flagged)
            probability = np.asarray(self._pred_probs[members, k])
            self._typical[k, n] = members[np.argsort(-probability, kind="stable")[:n]]
        typical: list[int] = self._typical[k, n].tolist()
        return typical

    def list_neighbours(self, index: int, side: Side, k: int) -> list[int]:
        """The nearest samples of the given or of the suggested class k, nearest first.

        The run keeps those of the class that its model suggested. A method, or decisions, may
        suggest another one; its nearest samples are found by the run's vectors.
        """
        nearest = self._arrays.get(side)
        if nearest is not None:
            nearest_samples = [int(i) for i in nearest[index] if i >= 0]
            if side == "given" or all(self._codes[i] == k for i in nearest_samples):
                return nearest_samples
            return self._find_nearest(index, k)
        return [] if self._rows is None else self._rows.find_nearest(index, k, _NEAREST)

    def _find_nearest(self, index: int, k: int) -> list[int]:
        if self.vectors is None:
            return []
        members = np.flatnonzero(self._codes == k)
        members = members[members != index]
        distance = ((self.vectors[members] - self.vectors[index]) ** 2).sum(axis=1)
        nearest: list[int] = members[np.argsort(distance, kind="stable")[:_NEAREST]].tolist()
        return nearest

    def list_duplicates(self, index: int) -> list[int]:
        """Duplicates with another label, exact ones first: of each pair, one is wrong."""
        exact: list[int] = []
        sets, codes = self._duplicate_sets, self._codes
        if sets is not None and sets[index] >= 0:
            others = (sets == sets[index]) & (codes != codes[index])
            exact = np.flatnonzero(others)[:_MAX_EXACT].tolist()
        pairs = self._arrays.get("duplicates")
        near_duplicates = (
            [] if pairs is None else np.unique(pairs[(pairs == index).any(axis=1)]).tolist()
        )
        return [*exact, *(i for i in near_duplicates if i != index and i not in exact)]

    @cached_property
    def vectors(self) -> NDArray[np.float32] | None:
        """[N,d] the vectors that samples are compared by; None where the run has no features."""
        array = self._open_array("vectors")
        N = len(self._codes)
        if array is None or array.ndim != 2 or len(array) != N or array.dtype != np.float32:
            return None
        is_sound = 0 < array.shape[1] <= _MAX_COLUMNS and all(
            (np.abs(array[at : at + 65_536]) < _LARGEST).all() for at in range(0, N, 65_536)
        )
        return array if is_sound else None

    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the run's folder `neighbours` that exist and have the expected shape."""
        N, arrays = len(self._codes), {}
        for name, length in (("given", N), ("suggested", N), ("duplicates", None)):
            array = self._open_array(name)
            if array is None:
                continue
            fits = array.ndim == 2 and array.dtype.kind in "iu" and array.shape[1] <= _MAX_COLUMNS
            fits = fits and (
                len(array) <= _MAX_PAIRS * N if length is None else len(array) == length
            )
            if fits and (not array.size or -1 <= array.min() <= array.max() < N):
                arrays[name] = np.asarray(array)
        return arrays

    def _open_array(self, name: str) -> NDArray[Any] | None:
        if self._run is None or not (self._run / "neighbours" / f"{name}.npy").is_file():
            return None
        try:
            return open_array(self._run / "neighbours" / f"{name}.npy", "Predict again")
        except UqledError:  # a page without neighbours is better than none
            return None
