"""Finds nearly equal texts: other punctuation, a misspelt word, a few extra words at an end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.inspection.equal_samples import number_keys
from uqled.data.inspection.text_keys import fold_text, is_one_edit, strip_punctuation

TextPairs = NDArray[np.intp]

_FEW_WORDS = 3  # below which punctuation may carry the meaning: "really?" and "really!"
_MIN_WORDS = 20  # words of a text whose copy may differ in some words
_CHANGED_SHARE = 0.05  # of the words that may differ
_MISSPELT = 5  # letters that a misspelt word has at least
_SHINGLE = 5  # consecutive words that are hashed together
_HASHES = 8  # min-hashes per text; near texts share at least one
_CROWD = 200  # texts with one hash beyond which only the first ones are compared with the others
_PAIRS = _CROWD**2  # of texts with one hash that are compared, unless there are more texts
#: Limit on compared words, overall and per word of the texts: crafted texts could take forever.
_LEAST_WORK, _WORK = 10_000_000, 100
#: Words that reverse the meaning of a text.
_NEGATIONS = frozenset(
    (
        *("no", "not", "never", "none", "nor", "cannot", "without", "hardly", "barely"),
        *("nicht", "kein", "keine", "nie", "ohne", "ne", "pas", "non", "jamais", "sans"),
        *("nunca", "sin", "ni", "mai", "senza", "não", "sem"),
    )
)
_DIGIT = re.compile(r"\d")


def find_near_texts(texts: Sequence[str], codes: NDArray[Any]) -> TextPairs:
    """[M,2] pairs of texts with different labels that are nearly the same.

    They are equal up to punctuation; or they are long, and one has a misspelt word or a few extra
    words before or after. Texts with a replaced word are not copies, because it may reverse the
    meaning. The work is linear in the length of the texts: beyond a limit, texts crafted to need
    many comparisons are not compared.
    """
    words = [strip_punctuation(fold_text(text)) for text in texts]
    keys = [" ".join(one) if len(one) >= _FEW_WORDS else None for one in words]
    sets = number_keys(keys)
    pairs = {
        (a, b)
        for rows in _split_sets(sets, codes)
        for a, b in _pair_rows(rows, codes)
    }  # fmt: skip
    long = np.array([row for row, one in enumerate(words) if len(one) >= _MIN_WORDS], np.intp)
    if len(long):
        lists = [words[row] for row in long.tolist()]
        work_left = max(_LEAST_WORK, _WORK * sum(map(len, lists)))
        for a, b in _pair_shared_shingles(lists, long, codes):
            if (a, b) not in pairs and work_left > 0:
                is_copy, work = compare_texts(words[a], words[b], work_left)
                work_left -= work
                if is_copy:
                    pairs.add((a, b))
    return np.array(sorted(pairs), np.intp).reshape(-1, 2)


def _pair_shared_shingles(
    lists: list[list[str]], rows: NDArray[np.intp], codes: NDArray[Any]
) -> Iterator[tuple[int, int]]:
    """Pairs of `rows` with different labels whose words `lists` share consecutive words."""
    for hashes in _hash_shingles(lists):
        for at in _split_sets(number_keys(hashes), codes[rows]):
            yield from _pair_rows(rows[at], codes)


def compare_texts(first: list[str], second: list[str], most_work: int) -> tuple[bool, int]:
    """(whether one is a near copy of the other, words compared); gives up beyond `most_work`.

    A near copy differs by a misspelt word, or by a few extra words at an end.

    >>> words = "the quick brown fox jumps over the lazy dog and runs to the small".split()
    >>> end = ["by", "the", "old", "river", "bank"]
    >>> compare_texts([*words, "house", *end], [*words, "hause", *end], 100)[0]
    True
    >>> compare_texts([*words, "house", *end], [*words, "boat", *end], 100)[0]
    False
    """
    short, long = sorted((first, second), key=len)
    n, extra = len(short), len(long) - len(short)
    most = max(1, int(_CHANGED_SHARE * len(long)))
    if extra > most:
        return False, 1
    # None of the extra words before or after may change the meaning.
    before = next((at for at in range(extra) if _changes_meaning(long[at])), extra)
    after = next((at for at in range(extra, 0, -1) if _changes_meaning(long[n + at - 1])), 0)
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


def _changes_meaning(word: str) -> bool:
    return word in _NEGATIONS or _DIGIT.search(word) is not None


def _is_misspelt(a: str, b: str) -> bool:
    """Whether two words differ by one letter, but not the first: moral and amoral differ."""
    short, long = sorted((a, b), key=len)
    if len(short) < _MISSPELT or a[0] != b[0] or len(long) - len(short) > 1:
        return False
    return is_one_edit(short, long)


def _hash_shingles(lists: list[list[str]]) -> Iterator[NDArray[np.uint64]]:
    """Yield [n] the smallest hash of each text's shingles, for several hash functions."""
    import pandas as pd

    lengths = np.array([len(one) for one in lists])
    numbers = pd.factorize(np.array([word for one in lists for word in one], dtype=object))[0]
    random = np.random.default_rng(0)
    starts = np.cumsum(lengths) - lengths
    # A shingle that spans two texts belongs to neither.
    is_whole = np.arange(len(numbers)) - np.repeat(starts, lengths) <= np.repeat(
        lengths - _SHINGLE, lengths
    )
    for _ in range(_HASHES):
        factors = random.integers(1, 2**63, _SHINGLE, np.uint64) | np.uint64(1)
        padded_numbers = np.concatenate([numbers, np.zeros(_SHINGLE, np.intp)]).astype(np.uint64)
        values = sum(
            (padded_numbers[at : at + len(numbers)] * factors[at] for at in range(_SHINGLE)),
            np.uint64(0),
        )
        values ^= values >> np.uint64(31)
        values *= random.integers(1, 2**63, 1, np.uint64) | np.uint64(1)
        values ^= values >> np.uint64(29)
        values[~is_whole] = np.iinfo(np.uint64).max
        yield np.minimum.reduceat(values, starts)


def _split_sets(sets: NDArray[np.intp], codes: NDArray[Any]) -> Iterator[NDArray[np.intp]]:
    """Yield the members of each set that contains different class numbers [N]."""
    members = np.flatnonzero(sets >= 0)
    members = members[np.argsort(sets[members], kind="stable")]
    starts = np.flatnonzero(np.diff(sets[members]))
    for rows in np.split(members, starts + 1):
        if len(rows) > 1 and (codes[rows] != codes[rows[0]]).any():
            yield rows


def _pair_rows(rows: NDArray[np.intp], codes: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield pairs of rows with different class numbers, the lower first.

    In a large set only the first rows are paired with all others, including at least the first row
    of two classes.
    """
    n_first = min(_CROWD, max(1, _PAIRS // len(rows)))
    first = [*range(n_first), int(np.argmax(codes[rows] != codes[rows[0]]))]
    for at in dict.fromkeys(one for one in first if one < len(rows)):
        row, others = int(rows[at]), rows[at + 1 :] if at < n_first else rows
        for other in others[codes[others] != codes[row]].tolist():
            yield min(row, other), max(row, other)
