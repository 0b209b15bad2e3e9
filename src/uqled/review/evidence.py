"""The evidence for either label of a sample: typical samples of both classes, its nearest samples,
the vote of each member, the words or columns that distinguish the classes."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple
from functools import cached_property, partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from uqled.report.samples import SampleSource
from uqled.report.similar_samples import Side, SimilarSamples
from uqled.report.suspects import read_probabilities
from uqled.report.table_rows import TableRows
from uqled.review.decisions.state import DecisionState
from uqled.review.flag_list import FlagList
from uqled.review.sample_content import read_preview
from uqled.storage.run import Predictions

_TYPICAL = 3  # samples of each class
_MAX_TEXTS = 2000  # texts in which words are counted, per class and in all
_MAX_WORDS = 12  # marked in a text
_WORD = re.compile(r"[^\W\d_]{2,}(?:['\u2019][^\W\d_]+)*")
_PRIOR_TEXTS = 10  # pseudo-texts with the overall word frequencies, added to each class
_CLEAR_ODDS = 1.0  # a word is marked from here on: e times as frequent in one class


class Evidence:
    """The evidence about the samples of a run, each part computed when first asked for."""

    def __init__(
        self,
        predictions: Predictions,
        source: SampleSource | None,
        state: DecisionState,
        similar: SimilarSamples,
        rows: TableRows | None = None,
    ) -> None:
        self._predictions = predictions
        self._source = source
        self._state = state
        self.similar = similar
        self._rows = rows
        self._odds: dict[tuple[int, int], dict[str, float]] = {}
        self._lock = threading.Lock()

    def collect(self, index: int, flags: FlagList) -> dict[str, Any]:
        """Everything about one sample, as the page gets it."""
        label = int(self._predictions.labels.codes[index])
        suggested = int(flags.current.suggested_codes[index])
        other = self._find_other_class(index) if suggested == label else suggested
        with self._lock:  # one request's result serves the others
            columns = self.list_unusual_columns(index, label, suggested)
            describe = partial(
                self.describe, flags=flags, leading_columns=[name for name, *_ in columns]
            )
            return {
                "votes": self._count_votes(index),
                "typical": {
                    "given": describe(self._list_typical(label, index)),
                    "suggested": describe(self._list_typical(other, index)),
                },
                "neighbours": {
                    side: describe(self.similar.list_neighbours(index, side, k))
                    for side, k in zip(get_args(Side), (label, other), strict=True)
                },
                "other": other,
                "duplicates": describe(self.similar.list_duplicates(index)),
                "is_exact": flags.current.duplicates.get(index, (-1, False))[1],
                "words": self._weigh_words(index, label, suggested),
                "columns": columns,
            }

    def _find_other_class(self, index: int) -> int:
        """The most probable class besides the given one: what a label that no other one is
        suggested for is compared with."""
        about = self._predictions
        row = read_probabilities(about.pred_probs, about.passes, np.array([index]))
        assert row is not None  # a run has a softmax
        row[0, about.labels.codes[index]] = -1.0
        return int(row[0].argmax())

    def _count_votes(self, index: int) -> list[list[Any]]:
        """[[class, members that predict it, their names], ...], most votes first; empty without
        members."""
        passes, quality = self._predictions.passes, self._predictions.quality
        if passes is None:
            return []
        votes = np.asarray(passes[:, index]).argmax(axis=1).tolist()
        names = [] if quality is None else [member.name for member in quality.members]
        by_class: dict[int, list[str]] = {}
        for at, k in enumerate(votes):
            by_class.setdefault(k, []).append(names[at] if len(names) == len(votes) else "")
        most = sorted(by_class.items(), key=lambda item: -len(item[1]))
        return [[k, len(who), [name for name in who if name]] for k, who in most]

    def _list_typical(self, k: int, index: int) -> list[int]:
        """Typical samples of a class, without those that were relabelled or dropped."""
        is_rejected = self._state.actions > 1
        candidates = self.similar.list_typical(k, 4 * _TYPICAL)
        return [i for i in candidates if i != index and not is_rejected[i]][:_TYPICAL]

    def describe(
        self, indices: list[int], flags: FlagList, leading_columns: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Samples beside another one, or of a class, as the page gets them: of a table's row, the
        columns in `leading_columns` come first."""
        labels, is_flagged = self._predictions.labels, flags.current.mask
        return [
            {
                "index": i,
                "id": self._predictions.ids[i],
                "given": int(labels.codes[i]),
                "flagged": bool(is_flagged[i]),
                "preview": read_preview(self._source, i, leading=leading_columns),
                **self._state.describe(i),
            }
            for i in indices
        ]

    def _weigh_words(self, index: int, label: int, suggested: int) -> list[list[Any]]:
        """[[word, side], ...]: the words of a text that are much more frequent in one class."""
        texts = None if self._source is None else self._source.data.texts
        if texts is None or label == suggested:
            return []
        if (label, suggested) not in self._odds:
            self._odds[label, suggested] = self._count_odds(texts, label, suggested)
        odds = self._odds[label, suggested]
        words = {word.lower() for word in _WORD.findall(str(texts[index]))}
        telling_words = sorted((w for w in words if w in odds), key=lambda w: -abs(odds[w]))[
            :_MAX_WORDS
        ]
        return [[word, "suggested" if odds[word] > 0 else "given"] for word in telling_words]

    def _count_odds(self, texts: NDArray[Any], label: int, suggested: int) -> dict[str, float]:
        """Word -> log odds that a text with it is of the suggested class rather than the given.

        To each class, `_PRIOR_TEXTS` texts are added in which words are as frequent as in all
        texts: a frequent word needs more evidence, because it is in some texts of every class by
        chance.
        """
        everywhere, n_all = self._background
        codes = self._predictions.labels.codes
        counts, totals = [], []
        for k in (label, suggested):
            words, n = _count_words(texts, np.flatnonzero(codes == k))
            counts.append(words)
            totals.append(n)
        odds = {}
        for word in counts[0].keys() | counts[1].keys():
            if counts[0][word] + counts[1][word] >= 3:  # rarer ones are chance
                prior = _PRIOR_TEXTS * (everywhere[word] + 0.5) / (n_all + 1)
                shares = [
                    (c[word] + prior) / (n + _PRIOR_TEXTS)
                    for c, n in zip(counts, totals, strict=True)
                ]
                value = float(np.log(shares[1] / shares[0]))
                if abs(value) >= _CLEAR_ODDS:
                    odds[word] = value
        return odds

    @cached_property
    def _background(self) -> tuple[Counter[str], int]:
        """The frequencies of words in texts of all classes, and the number of texts."""
        assert self._source is not None
        texts = self._source.data.texts
        assert texts is not None
        return _count_words(texts, np.arange(len(texts)))

    def list_unusual_columns(self, index: int, label: int, suggested: int) -> list[list[str]]:
        """[[column, value, usual in the given class, usual in the suggested class], ...] of a
        table's row; empty for texts and images."""
        if self._rows is None:
            return []
        columns = self._rows.find_unusual_columns(index, label, suggested)
        return [list(astuple(one)) for one in columns]


def _count_words(texts: NDArray[Any], rows: NDArray[np.intp]) -> tuple[Counter[str], int]:
    """In how many of these texts each word occurs, and the number of texts; of many texts, evenly
    spaced ones."""
    if len(rows) > _MAX_TEXTS:
        rows = rows[np.linspace(0, len(rows) - 1, _MAX_TEXTS).astype(np.intp)]
    words = (word for i in rows for word in {w.lower() for w in _WORD.findall(str(texts[i]))})
    return Counter(words), len(rows)
