"""The operating point: which flags a probabilistic method gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from uqled import arrays
from uqled.detect.auto.levels import Levels
from uqled.errors import InputError


@dataclass(frozen=True)
class OperatingPoint:
    """Which flags are wanted."""

    kind: Literal["f1", "precision", "recall", "budget", "cost"]
    value: float = 0.0
    missed_cost: float = 0.0

    def __str__(self) -> str:
        if self.kind == "f1":
            return "the best F1"
        if self.kind == "cost":
            return f"cost {self.value:g} per review, {self.missed_cost:g} per missed error"
        if self.kind == "budget":
            return f"the {self.value:g} most probably wrong"
        return f"{self.kind} {self.value:g}"


def make_operating_point(
    target: str | None = None,
    precision: float | None = None,
    recall: float | None = None,
    budget: int | None = None,
    cost: tuple[float, float] | None = None,
) -> OperatingPoint | None:
    """The operating point that was asked for; None if none was."""
    options = {
        name: value
        for name, value in {
            "target": target,
            "precision": precision,
            "recall": recall,
            "budget": budget,
            "cost": cost,
        }.items()
        if value is not None
    }
    if not options:
        return None
    if len(options) > 1:
        raise InputError(
            next(iter(options)),
            f"cannot be combined with `{list(options)[1]}`",
            "Pass only one of them",
        )
    if target is not None:
        if target != "f1":
            raise InputError("target", f"is {target!r}", "Pass 'f1', or precision, recall, ...")
        return OperatingPoint("f1")
    if precision is not None:
        return OperatingPoint("precision", arrays.check_fraction(precision, "precision"))
    if recall is not None:
        return OperatingPoint("recall", arrays.check_fraction(recall, "recall"))
    if budget is not None:
        return OperatingPoint("budget", arrays.check_whole_number(budget, "budget", low=0))
    assert cost is not None
    try:
        review, missed_cost = (float(part) for part in cost)
    except (TypeError, ValueError):
        review = missed_cost = -1.0
    if not (review >= 0 and missed_cost > 0 and np.isfinite(review + missed_cost)):
        raise InputError(
            "cost",
            f"is {cost!r}",
            "Pass (cost of a review, cost of a missed error), such as (1, 20)",
        )
    return OperatingPoint("cost", review, missed_cost)


def find_lowest_level(levels: Levels, point: OperatingPoint, weights: Mapping[str, float]) -> int:
    """The lowest probability level that a point flags, for points that are a level."""
    if point.kind == "precision":
        return levels.at_precision("mean", point.value)
    if point.kind == "recall":
        return levels.at_recall("mean", point.value)
    return levels.best_f1(weights)
