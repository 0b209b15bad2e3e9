"""Spellings of one class: names that differ in spaces, Unicode form, or rarely in case are one."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from uqled.arrays import Labels
from uqled.data.raw_dataset import RawDataset
from uqled.errors import InputError

Spellings = Literal["merge", "keep"]

_RARE_SHARE = 0.1  # of the common spelling's samples, up to which another case is a slip
_MIN_COMMON = (
    5  # samples of the common spelling, from which on a single one of another case is a slip
)
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff"))
_MAX_SPELLINGS = 5  # spellings in a line


def check_spellings(spellings: str | None) -> None:
    if spellings not in (None, "merge", "keep"):
        raise InputError("spellings", f"is {spellings!r}", "Choose merge or keep")


def merge_spellings(raw: RawDataset) -> RawDataset:
    """Merge the spellings of a class into one class, called by the most common spelling."""
    labels = raw.labels
    if labels.values.dtype.kind not in "OUT":
        return raw
    counts = np.bincount(labels.codes[raw.labelled_rows], minlength=labels.n_classes)
    leaders = choose_spellings(labels.names, counts.tolist())
    merged_classes = [k for k, leader in enumerate(leaders) if leader != k]
    if not merged_classes:
        return raw
    classes = np.flatnonzero(np.array(leaders) == np.arange(len(leaders)))
    number = np.zeros(len(leaders), np.int32)
    number[classes] = np.arange(len(classes))
    codes = number[np.array(leaders)]
    return replace(
        raw,
        labels=Labels(
            codes[labels.codes], labels.values[classes], tuple(labels.names[k] for k in classes)
        ),
        truth=None if raw.truth is None else codes[raw.truth],
        spellings={labels.names[k]: labels.names[leaders[k]] for k in merged_classes},
        notes=(*raw.notes, _describe_merges(labels.names, counts.tolist(), leaders)),
    )


def choose_spellings(names: Sequence[str], counts: Sequence[int]) -> list[int]:
    """[K] the class that each is a spelling of: itself, or the most common of its spellings.

    >>> choose_spellings(["Adelie", "Adelie ", "adelie", "a", "A"], [50, 20, 3, 40, 2])
    [0, 0, 0, 3, 4]
    """
    leaders = list(range(len(names)))
    spelling_of: dict[str, int] = {}
    for k in sorted(leaders, key=lambda k: (-counts[k], names[k] != fold_name(names[k]))):
        leaders[k] = spelling_of.setdefault(fold_name(names[k]), k)
    sizes = defaultdict[int, int](int)
    for k, leader in enumerate(leaders):
        sizes[leader] += counts[k]
    cases = defaultdict[str, list[int]](list)
    for key, k in spelling_of.items():
        cases[key.casefold()].append(k)
    slips: dict[int, int] = {}
    for key, group in cases.items():
        group.sort(key=lambda k: -sizes[k])
        if len(key) > 1:
            slips |= {k: group[0] for k in group[1:] if _is_slip(sizes[k], sizes[group[0]])}
    return [slips.get(leader, leader) for leader in leaders]


def fold_name(name: str) -> str:
    """A name without invisible differences: surrounding spaces, composed letters, full-width forms.

    >>> fold_name(" Ａdelie\u3000penguin ")
    'Adelie penguin'
    """
    narrow = "".join(map(_narrow_character, name.translate(_INVISIBLE)))
    return " ".join(unicodedata.normalize("NFC", narrow).split())


def match_names(names: Sequence[str], class_names: Sequence[str]) -> list[int]:
    """[K] each name's place among `class_names`, or its only spelling's; -1 for none."""
    exact = {name: at for at, name in enumerate(class_names)}
    keys: tuple[Callable[[str], str], ...] = (fold_name, _fold_case)
    places = [_group_positions(class_names, key) for key in keys]

    def match(name: str) -> int:
        if name in exact:
            return exact[name]
        for key, by_key in zip(keys, places, strict=True):
            spots = by_key.get(key(name), [])
            if len(spots) == 1 and len(key(name)) > 1:
                return spots[0]
        return -1

    return [match(name) for name in names]


def _group_positions(names: Sequence[str], key: Callable[[str], str]) -> dict[str, list[int]]:
    places = defaultdict[str, list[int]](list)
    for at, name in enumerate(names):
        places[key(name)].append(at)
    return places


def _fold_case(name: str) -> str:
    return fold_name(name).casefold()


def _is_slip(rare: int, common: int) -> bool:
    return rare <= _RARE_SHARE * common or (rare <= 1 and common >= _MIN_COMMON)


def _narrow_character(character: str) -> str:
    """A full-width or half-width character as the usual one."""
    kind, _, code = unicodedata.decomposition(character).partition(" ")
    return chr(int(code, 16)) if kind in ("<wide>", "<narrow>") and " " not in code else character


def _describe_merges(
    names: Sequence[str], counts: Sequence[int], leaders: list[int]
) -> tuple[str, str]:
    groups = defaultdict[int, list[str]](list)
    for k, leader in enumerate(leaders):
        if k != leader:
            groups[leader].append(f"{names[k]!r} ({counts[k]:,})")
    sentences = [
        f"{' and '.join(group)} {'is' if len(group) == 1 else 'are'} read as {names[leader]!r} "
        f"({counts[leader]:,})"
        for leader, group in groups.items()
    ]
    more = f" and {len(sentences) - _MAX_SPELLINGS} more" if len(sentences) > _MAX_SPELLINGS else ""
    return (
        f"spellings of one class: {'; '.join(sentences[:_MAX_SPELLINGS])}{more}",
        "Keep them apart with --spellings keep (spellings='keep')",
    )
