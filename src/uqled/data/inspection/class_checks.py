"""Checks of the classes: variant spellings, numeric targets, rare classes, missing labels."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.data.inspection.findings import Finding, format_count
from uqled.data.inspection.text_keys import is_one_edit

_SEPARATORS = re.compile(r"[\s_\-]+")
_MANY_NUMBERS = 30  # distinct whole numbers beyond which a regression target is likely
_RARE = 10  # median samples per number below which they look like amounts
_SOME_NUMBERS = 15  # distinct whole numbers, with few gaps, that may be amounts
_DENSE_SHARE = 0.8  # of the numbers between the lowest and the highest that occur
_SIMILAR_COUNTS = 0.2  # coefficient of variation of the counts of balanced classes
_SMOOTH = 0.6  # correlation between the counts of neighbouring numbers
_RARE_SHARE = 0.1  # size of a misspelt class relative to the correctly spelt one
_SHORTEST = 4  # letters of a name that may be misspelt: A and B are not variants
_MANY_CLASSES = 2_000  # beyond which names are not compared with each other
_MAX_NAMES = 5  # in a message


def check_classes(data: Dataset, *, folds: int) -> list[Finding]:
    counts = np.bincount(data.labels.codes, minlength=data.n_classes)
    names = [name for name, count in zip(data.labels.names, counts, strict=True) if count]
    sizes = {n: int(c) for n, c in zip(data.labels.names, counts, strict=True) if c}
    findings = []
    is_numeric = data.labels.values.dtype.kind in "iu"
    if is_numeric and are_amounts(numbers := data.labels.values[counts > 0], counts[counts > 0]):
        findings.append(
            Finding(
                "numeric-target",
                "warning",
                f"the labels are {len(names):,} different whole numbers from "
                f"{numbers.min():,} to {numbers.max():,}",
                "If they are amounts, this looks like a regression: name a column of classes, or "
                "group the numbers",
            )
        )
    if not is_numeric and (variants := _find_variants(names, sizes)):
        examples = "; ".join(" and ".join(map(repr, one)) for one in variants[:_MAX_NAMES])
        more = f" and {len(variants) - _MAX_NAMES} more" if len(variants) > _MAX_NAMES else ""
        findings.append(
            Finding(
                "class-names",
                "error",
                f"some classes look like spellings of one: {examples}{more}",
                "Spell each class the same way everywhere",
            )
        )
    if rare := [name for name in names if sizes[name] < folds]:
        count = format_count(len(rare), "class has", "classes have")
        examples = ", ".join(f"{name!r} ({sizes[name]})" for name in rare[:_MAX_NAMES])
        more = f" and {len(rare) - _MAX_NAMES} more" if len(rare) > _MAX_NAMES else ""
        findings.append(
            Finding(
                "rare-classes",
                "warning",
                f"{count} fewer than {folds} samples: {examples}{more}",
                f"{'It is' if len(rare) == 1 else 'They are'} set aside: add samples, or merge "
                "classes",
            )
        )
    if data.unlabelled:
        findings.append(
            Finding(
                "missing-labels",
                "note",
                f"{format_count(len(data.unlabelled), 'sample has', 'samples have')} no label",
                "They are set aside, and `find` predicts them at the end",
                data.unlabelled,
            )
        )
    return findings


def are_amounts(values: NDArray[Any], counts: NDArray[Any]) -> bool:
    """Whether distinct whole numbers [K] with these counts [K] look like ages or quantities.

    Amounts are many and mostly rare; or they have few gaps, and each occurs about as often as its
    neighbours. Class numbers start at 0 or 1 and have equal or unrelated counts.

    >>> are_amounts(np.arange(100), np.full(100, 500))
    False
    >>> are_amounts(np.arange(18, 80), np.full(62, 90))
    True
    """
    K = len(values)
    if K > _MANY_NUMBERS and np.median(counts) < _RARE:
        return True
    span = int(values.max()) - int(values.min()) + 1
    if K < _SOME_NUMBERS or K / span < _DENSE_SHARE:
        return False
    by_value = counts[np.argsort(values)].astype(np.float64)
    spread = by_value.std() / by_value.mean()
    if spread < _SIMILAR_COUNTS:
        return int(values.min()) not in (0, 1)
    neighbours = np.corrcoef(np.log(by_value[:-1]), np.log(by_value[1:]))[0, 1]
    return bool(neighbours > _SMOOTH)


def _find_variants(names: list[str], sizes: dict[str, int]) -> list[tuple[str, ...]]:
    """Find names that are variants of one class: case, spaces, Unicode form, one letter."""
    groups = defaultdict(list)
    for name in names:
        normalised_name = unicodedata.normalize("NFKC", name).casefold().strip()
        groups[_SEPARATORS.sub(" ", normalised_name)].append(name)
    # Single letters are separate classes, such as handwritten a and A.
    variants = [tuple(g) for key, g in groups.items() if len(g) > 1 and len(key) > 1]
    if len(groups) > _MANY_CLASSES:
        return variants
    sorted_groups = sorted(groups, key=len)
    for at, short in enumerate(sorted_groups):
        for long in sorted_groups[at + 1 :]:
            if len(long) - len(short) > 1:
                break
            if len(short) < _SHORTEST or not is_one_edit(short, long):
                continue
            pair = groups[short][0], groups[long][0]
            small, large = sorted((sizes[pair[0]], sizes[pair[1]]))
            if small <= max(1, _RARE_SHARE * large):
                variants.append(pair)
    return variants
