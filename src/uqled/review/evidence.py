"""What speaks for either label of a sample: typical samples of both classes, its nearest samples,
the vote of each member, the words or columns that tell the classes apart."""

from __future__ import annotations

import re
import threading
from collections import Counter
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.errors import UqledError
from uqled.report.samples import SampleSource
from uqled.review.decision_state import DecisionState
from uqled.review.flag_list import FlagList
from uqled.review.sample_content import read_preview
from uqled.storage.arrays.numpy_files import open_array
from uqled.storage.run import Predictions

Side = Literal["given", "suggested"]

_TYPICAL = 3  # samples of each class
_MAX_TEXTS = 2000  # of each class, that words are counted in
_MAX_WORDS = 12  # marked in a text
_MAX_COLUMNS = 4  # of a row
_WORD = re.compile(r"[^\W\d_]{2,}")
_CLEAR_ODDS = 1.0  # a word is marked from here on: e times as frequent in one class


class Evidence:
    """The evidence about the samples of a run, each part computed when first asked for."""

    def __init__(
        self, predictions: Predictions, source: SampleSource | None, state: DecisionState
    ) -> None:
        self._predictions = predictions
        self._source = source
        self._state = state
        self._typical: dict[int, NDArray[np.intp]] = {}
        self._odds: dict[tuple[int, int], dict[str, float]] = {}
        self._lock = threading.Lock()

    def collect(self, index: int, flags: FlagList) -> dict[str, Any]:
        """Everything about one sample, as the page gets it."""
        given = int(self._predictions.labels.codes[index])
        suggested = int(flags.current.best[index])
        with self._lock:  # what is computed for one request serves the others
            return {
                "votes": self._count_votes(index),
                "typical": {
                    "given": self._describe(self._list_typical(given, index, flags)),
                    "suggested": self._describe(self._list_typical(suggested, index, flags)),
                },
                "neighbours": {
                    side: self._describe(self._list_neighbours(index, side))
                    for side in ("given", "suggested")
                },
                "duplicates": self._describe(self._list_duplicates(index)),
                "words": self._weigh_words(index, given, suggested),
                "columns": self._compare_columns(index, given, suggested),
            }

    def _count_votes(self, index: int) -> list[list[int]]:
        """[[class, members that predict it], ...], most votes first; empty without members."""
        passes = self._predictions.passes
        if passes is None:
            return []
        votes = Counter(np.asarray(passes[:, index]).argmax(axis=1).tolist())
        return [[k, n] for k, n in votes.most_common()]

    def _list_typical(self, k: int, index: int, flags: FlagList) -> list[int]:
        """The samples of a class that the model is most sure of, without suspects."""
        if k not in self._typical:
            members = np.flatnonzero((self._predictions.labels.codes == k) & ~flags.first.mask)
            sure = np.asarray(self._predictions.pred_probs[members, k])
            order = np.argsort(-sure, kind="stable")[: 4 * _TYPICAL]
            self._typical[k] = members[order]
        rejected = self._state.actions > 1  # relabelled or dropped
        chosen = [i for i in self._typical[k].tolist() if i != index and not rejected[i]]
        return chosen[:_TYPICAL]

    def _list_neighbours(self, index: int, side: Side) -> list[int]:
        nearest = self._neighbours.get(side)
        return [] if nearest is None else [int(i) for i in nearest[index] if i >= 0]

    def _list_duplicates(self, index: int) -> list[int]:
        """Near duplicates with another label: of each pair, one is wrong."""
        pairs = self._neighbours.get("duplicates")
        if pairs is None:
            return []
        mine = pairs[(pairs == index).any(axis=1)]
        return [int(i) for i in np.unique(mine) if i != index]

    @cached_property
    def _neighbours(self) -> dict[str, NDArray[Any]]:
        """The arrays of the run's folder `neighbours` that are there and fit."""
        N, arrays = len(self._predictions), {}
        for name, length in (("given", N), ("suggested", N), ("duplicates", None)):
            path = self._predictions.path / "neighbours" / f"{name}.npy"
            if not path.is_file():
                continue
            try:
                array = np.asarray(open_array(path, "Predict again"))
            except UqledError:  # a page without neighbours is better than none
                continue
            fits = array.ndim == 2 and array.dtype.kind in "iu" and array.shape[1] <= 50
            fits = fits and (length is None or len(array) == length)
            if fits and (not array.size or -1 <= array.min() <= array.max() < N):
                arrays[name] = array
        return arrays

    def _describe(self, indices: list[int]) -> list[dict[str, Any]]:
        labels = self._predictions.labels
        return [
            {
                "index": i,
                "id": self._predictions.ids[i],
                "given": int(labels.codes[i]),
                "preview": read_preview(self._source, i),
                **self._state.describe(i),
            }
            for i in indices
        ]

    def _weigh_words(self, index: int, given: int, suggested: int) -> list[list[Any]]:
        """[[word, side], ...]: the words of a text that are much more frequent in one class."""
        texts = None if self._source is None else self._source.data.texts
        if texts is None or given == suggested:
            return []
        if (given, suggested) not in self._odds:
            self._odds[given, suggested] = self._count_odds(texts, given, suggested)
        odds = self._odds[given, suggested]
        words = {word.lower() for word in _WORD.findall(str(texts[index]))}
        clear = sorted((w for w in words if w in odds), key=lambda w: -abs(odds[w]))[:_MAX_WORDS]
        return [[word, "suggested" if odds[word] > 0 else "given"] for word in clear]

    def _count_odds(self, texts: NDArray[Any], given: int, suggested: int) -> dict[str, float]:
        """Word -> log odds that a text with it is of the suggested class rather than the given."""
        codes = self._predictions.labels.codes
        counts, totals = [], []
        for k in (given, suggested):
            rows = np.flatnonzero(codes == k)[:_MAX_TEXTS]
            words = Counter(
                word for i in rows for word in {w.lower() for w in _WORD.findall(str(texts[i]))}
            )
            counts.append(words)
            totals.append(len(rows))
        odds = {}
        for word in counts[0].keys() | counts[1].keys():
            if counts[0][word] + counts[1][word] >= 3:  # rarer ones are chance
                shares = [(c[word] + 0.5) / (n + 1) for c, n in zip(counts, totals, strict=True)]
                value = float(np.log(shares[1] / shares[0]))
                if abs(value) >= _CLEAR_ODDS:
                    odds[word] = value
        return odds

    def _compare_columns(self, index: int, given: int, suggested: int) -> list[list[str]]:
        """[[column, value, usual in the given class, usual in the suggested class], ...]: numbers
        that are unusual for the given class and usual for the suggested one, most telling first."""
        source = self._source
        if source is None or source.kind != "table" or given == suggested:
            return []
        inputs, codes = source.data.inputs, self._predictions.labels.codes
        is_frame = hasattr(inputs, "columns")
        telling = []
        for at in range(min(inputs.shape[1], 400)):
            column = inputs.iloc[:, at].to_numpy() if is_frame else inputs[:, at]
            if column.dtype.kind not in "iuf" or not np.isfinite(column[index]):
                continue
            quartiles = [np.nanpercentile(column[codes == k], [25, 75]) for k in (given, suggested)]
            widths = [max(high - low, 1e-12) for low, high in quartiles]
            distances = [
                max(low - column[index], column[index] - high, 0) / width
                for (low, high), width in zip(quartiles, widths, strict=True)
            ]
            if distances[0] > 1 > distances[1]:  # outside of one, within or near the other
                name = str(inputs.columns[at]) if is_frame else str(at)
                usual = [f"{low:.4g} to {high:.4g}" for low, high in quartiles]
                telling.append(
                    (distances[1] - distances[0], [name, f"{column[index]:.4g}", *usual])
                )
        return [row for _, row in sorted(telling)[:_MAX_COLUMNS]]
