"""Texts that are nearly the same: other punctuation, a misspelt word, more words at an end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.inspection.equal_samples import number_keys
from uqled.data.inspection.text_keys import fold_text, is_one_edit, strip_punctuation

Pairs = NDArray[np.intp]

_FEW_WORDS = 3  # below which punctuation may be all that is said: "really?" and "really!"
_LONG = 20  # words of a text whose copy may differ in words
_CHANGED_SHARE = 0.05  # of the words
_MISSPELT = 5  # letters of a word that may be misspelt
_SHINGLE = 5  # words in a row
_HASHES = 8  # smallest hashes of such rows, one of which two near texts share
_CROWD = 200  # texts with one hash, beyond which only the first ones are compared with the others
_PAIRS = _CROWD**2  # of texts with one hash that are compared, unless there are more texts
#: Words compared, at least, and for each word of the texts: a stranger's could take for ever.
_LEAST_WORK, _WORK = 10_000_000, 100
#: Words that turn a text into its opposite.
_NEGATIONS = frozenset(
    (
        *("no", "not", "never", "none", "nor", "cannot", "without", "hardly", "barely"),
        *("nicht", "kein", "keine", "nie", "ohne", "ne", "pas", "non", "jamais", "sans"),
        *("nunca", "sin", "ni", "mai", "senza", "não", "sem"),
    )
)
_DIGIT = re.compile(r"\d")


def find_near_texts(texts: Sequence[str], codes: NDArray[Any]) -> Pairs:
    """[M,2] pairs of texts with different labels that are nearly the same.

    They are equal but for punctuation; or they are long, and one has a misspelt word or a few more
    words before or after. A word that was replaced by another may turn the meaning round: such
    texts are not taken for copies. The work grows as the texts do: of texts that are made so that
    each is compared with many others for long, not all are compared.
    """
    words = [strip_punctuation(fold_text(text)) for text in texts]
    keys = [" ".join(one) if len(one) >= _FEW_WORDS else None for one in words]
    sets = number_keys(keys)
    pairs = {
        (a, b)
        for rows in _split_sets(sets, codes)
        for a, b in _pair_rows(rows, codes)
    }  # fmt: skip
    long = np.array([row for row, one in enumerate(words) if len(one) >= _LONG], np.intp)
    if len(long):
        lists = [words[row] for row in long.tolist()]
        work_left = max(_LEAST_WORK, _WORK * sum(map(len, lists)))
        for a, b in _list_candidates(lists, long, codes):
            if (a, b) not in pairs and work_left > 0:
                is_copy, work = _compare_texts(words[a], words[b], work_left)
                work_left -= work
                if is_copy:
                    pairs.add((a, b))
    return np.array(sorted(pairs), np.intp).reshape(-1, 2)


def _list_candidates(
    lists: list[list[str]], rows: NDArray[np.intp], codes: NDArray[Any]
) -> Iterator[tuple[int, int]]:
    """Pairs of `rows` with different labels, whose words `lists` have some in a row in common."""
    for hashes in _hash_shingles(lists):
        for at in _split_sets(number_keys(hashes), codes[rows]):
            yield from _pair_rows(rows[at], codes)


def is_near_copy(first: list[str], second: list[str]) -> bool:
    """Whether a text is another one with a misspelt word, or a few words more before or after.

    >>> words = "the quick brown fox jumps over the lazy dog and runs to the small".split()
    >>> end = ["by", "the", "old", "river", "bank"]
    >>> is_near_copy([*words, "house", *end], [*words, "hause", *end])
    True
    >>> is_near_copy([*words, "house", *end], [*words, "boat", *end])
    False
    """
    return _compare_texts(first, second, max(_LEAST_WORK, _WORK * len(first)))[0]


def _compare_texts(first: list[str], second: list[str], most_work: int) -> tuple[bool, int]:
    """(whether one is a near copy of the other, words that were compared), not if it takes more."""
    short, long = sorted((first, second), key=len)
    n, extra = len(short), len(long) - len(short)
    most = max(1, int(_CHANGED_SHARE * len(long)))
    if extra > most:
        return False, 1
    # None of the words before the copy or after it may turn its meaning round.
    before = next((at for at in range(extra) if _is_telling(long[at])), extra)
    after = next((at for at in range(extra, 0, -1) if _is_telling(long[n + at - 1])), 0)
    work = 1 + extra
    for start in range(after, before + 1):
        n_changed = 0
        pairs = enumerate(zip(short, islice(long, start, None), strict=False), 1)
        for at, (a, b) in pairs:
            if a != b:
                n_changed += 1
                if n_changed + extra > most or not _is_misspelt(a, b):
                    work += start + at
                    break
        else:
            return True, work + n
        if work > most_work:
            break
    return False, work


def _is_telling(word: str) -> bool:
    return word in _NEGATIONS or _DIGIT.search(word) is not None


def _is_misspelt(a: str, b: str) -> bool:
    """Whether one letter was mistaken; another first letter is another word: moral, amoral."""
    short, long = sorted((a, b), key=len)
    if len(short) < _MISSPELT or a[0] != b[0] or len(long) - len(short) > 1:
        return False
    return is_one_edit(short, long)


def _hash_shingles(lists: list[list[str]]) -> Iterator[NDArray[np.uint64]]:
    """[n] of each text the smallest hash of its rows of words, by several ways to hash."""
    import pandas as pd

    lengths = np.array([len(one) for one in lists])
    numbers = pd.factorize(np.array([word for one in lists for word in one], dtype=object))[0]
    random = np.random.default_rng(0)
    starts = np.cumsum(lengths) - lengths
    # A row of words that begins in one text and ends in the next belongs to none.
    is_whole = np.arange(len(numbers)) - np.repeat(starts, lengths) <= np.repeat(
        lengths - _SHINGLE, lengths
    )
    for _ in range(_HASHES):
        factors = random.integers(1, 2**63, _SHINGLE, np.uint64) | np.uint64(1)
        padded = np.concatenate([numbers, np.zeros(_SHINGLE, np.intp)]).astype(np.uint64)
        values = sum(
            (padded[at : at + len(numbers)] * factors[at] for at in range(_SHINGLE)), np.uint64(0)
        )
        values ^= values >> np.uint64(31)
        values *= random.integers(1, 2**63, 1, np.uint64) | np.uint64(1)
        values ^= values >> np.uint64(29)
        values[~is_whole] = np.iinfo(np.uint64).max
        yield np.minimum.reduceat(values, starts)


def _split_sets(sets: NDArray[np.intp], codes: NDArray[Any]) -> Iterator[NDArray[np.intp]]:
    """The members of each set in which there are different class numbers [N]."""
    members = np.flatnonzero(sets >= 0)
    members = members[np.argsort(sets[members], kind="stable")]
    starts = np.flatnonzero(np.diff(sets[members]))
    for rows in np.split(members, starts + 1):
        if len(rows) > 1 and (codes[rows] != codes[rows[0]]).any():
            yield rows


def _pair_rows(rows: NDArray[np.intp], codes: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Pairs of rows with different class numbers, the lower first; of a crowd the first ones with
    all, and at least the first of each of two classes."""
    n_first = min(_CROWD, max(1, _PAIRS // len(rows)))
    first = [*range(n_first), int(np.argmax(codes[rows] != codes[rows[0]]))]
    for at in dict.fromkeys(one for one in first if one < len(rows)):
        row, others = int(rows[at]), rows[at + 1 :] if at < n_first else rows
        for other in others[codes[others] != codes[row]].tolist():
            yield min(row, other), max(row, other)
