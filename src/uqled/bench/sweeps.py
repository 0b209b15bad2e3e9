"""Sweeps: a suite's data sets once more for every value of a setting.

    [sweep]
    passes = [2, 10]
    uncertainty = ["ensemble"]

adds `mnist-passes-2`, `mnist-passes-10` and `mnist-uncertainty-ensemble` to a suite that has
`mnist`: one setting changes at a time. The uncertainty `committee` is that of a committee of
models, which takes the network's place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from uqled.arrays import show_value
from uqled.errors import InputError

COMMITTEE = "committee"
#: Settings that a suite may sweep: how a title names a value.
SWEEPS = {
    "passes": "{} passes",
    "folds": "{} folds",
    "dropout": "dropout {}",
    "uncertainty": "uncertainty: {}",
    "batch_norm": "batch norm {}",
}
_OF_TRAINING = ("uncertainty", "batch_norm")  # a data set has these among its training options


def expand_sweeps(
    entries: Sequence[Mapping[str, Any]], sweep: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """The `[[data]]` entries of a suite, each followed by its variants."""
    for key, values in sweep.items():
        if key not in SWEEPS:
            raise InputError(f"sweep.{key}", "cannot be swept", f"Choose among {', '.join(SWEEPS)}")
        if not isinstance(values, list) or not values:
            raise InputError(
                f"sweep.{key}",
                f"is {show_value(values)}",
                "Write a list of values, such as [2, 10]",
            )
    return [
        one
        for entry in entries
        for one in (
            entry,
            *(_vary_entry(entry, key, value) for key, values in sweep.items() for value in values),
        )
    ]


def _vary_entry(entry: Any, key: str, value: Any) -> Any:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        return entry  # refused later, when entries are read
    title = entry.get("title") or entry["name"]
    variant = {**entry, "name": f"{entry['name']}-{key}-{value}"}
    variant["title"] = f"{title}, {SWEEPS[key].format(value)}"
    if (key, value) == ("uncertainty", COMMITTEE):  # a model of its own, not a network's passes
        variant = {
            name: options for name, options in variant.items() if name not in ("dropout", "passes")
        }
        return {**variant, "model": COMMITTEE, "training": {}}
    if key not in _OF_TRAINING:
        return {**variant, key: value}
    return {**variant, "training": {**entry.get("training", {}), key: value}}
