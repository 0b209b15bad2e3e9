"""Classes that are plainly odd: two spellings of one, numbers, rare ones, missing labels."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict

import numpy as np

from uqled.data.dataset import Dataset
from uqled.data.inspection.findings import Finding

_SEPARATORS = re.compile(r"[\s_\-]+")
_MANY_NUMBERS = 30  # whole numbers as classes, from which on a regression is likely
_RARE_SHARE = 0.1  # of a class whose name differs by one letter from a larger one's
_SHORTEST = 4  # letters of a name that may be misspelt: A and B are no variants
_MANY_CLASSES = 2_000  # beyond which names are not compared with each other
_SHOWN = 5  # names in a line


def check_classes(data: Dataset, *, folds: int) -> list[Finding]:
    counts = np.bincount(data.labels.codes, minlength=data.n_classes)
    names = [name for name, count in zip(data.labels.names, counts, strict=True) if count]
    sizes = {n: int(c) for n, c in zip(data.labels.names, counts, strict=True) if c}
    findings = []
    is_numeric = data.labels.values.dtype.kind in "iu"
    if is_numeric and len(names) > _MANY_NUMBERS and np.median(counts[counts > 0]) < 10:
        findings.append(
            Finding(
                "numeric-target",
                "warning",
                f"the labels are {len(names):,} different numbers, most of them rare",
                "This looks like a regression: name a column of classes, or group the numbers",
            )
        )
    if not is_numeric and (variants := _find_variants(names, sizes)):
        listed = "; ".join(" and ".join(map(repr, one)) for one in variants[:_SHOWN])
        more = f" and {len(variants) - _SHOWN} more" if len(variants) > _SHOWN else ""
        findings.append(
            Finding(
                "class-names",
                "error",
                f"some classes look like spellings of one: {listed}{more}",
                "Write each class in one way",
            )
        )
    if rare := [name for name in names if sizes[name] < folds]:
        listed = ", ".join(f"{name!r} ({sizes[name]})" for name in rare[:_SHOWN])
        more = f" and {len(rare) - _SHOWN} more" if len(rare) > _SHOWN else ""
        findings.append(
            Finding(
                "rare-classes",
                "warning",
                f"{len(rare):,} classes have fewer than {folds} samples: {listed}{more}",
                "They are set aside: add samples, or merge them with another class",
            )
        )
    if data.unlabelled:
        findings.append(
            Finding(
                "missing-labels",
                "note",
                f"{len(data.unlabelled):,} samples have no label",
                "They are set aside: label them, or remove them",
                data.unlabelled,
            )
        )
    return findings


def _find_variants(names: list[str], sizes: dict[str, int]) -> list[tuple[str, ...]]:
    """Names of one class written in several ways: case, spaces, Unicode, one letter."""
    groups = defaultdict(list)
    for name in names:
        plain = unicodedata.normalize("NFKC", name).casefold().strip()
        groups[_SEPARATORS.sub(" ", plain)].append(name)
    variants = [tuple(group) for group in groups.values() if len(group) > 1]
    if len(groups) > _MANY_CLASSES:
        return variants
    ordered = sorted(groups, key=len)
    for at, short in enumerate(ordered):
        for long in ordered[at + 1 :]:
            if len(long) - len(short) > 1:
                break
            if len(short) < _SHORTEST or not _is_one_edit(short, long):
                continue
            pair = groups[short][0], groups[long][0]
            small, large = sorted((sizes[pair[0]], sizes[pair[1]]))
            if small <= max(1, _RARE_SHARE * large):
                variants.append(pair)
    return variants


def _is_one_edit(short: str, long: str) -> bool:
    """Whether one letter makes one name of the other; a digit is no slip of the pen."""
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if any(text[at : at + 1].isdigit() for text in (short, long)):
        return False
    rest = at + 1 if len(short) == len(long) else at
    return short[rest:] == long[at + 1 :]
