"""Cuts of a ranking by probability: those of sorting, and the same however samples are divided."""

from __future__ import annotations

import numpy as np
import pytest

from uqled.detect.auto import levels as levels_module
from uqled.detect.auto.levels import LEVELS, Levels, find_levels
from uqled.detect.parts.store import pack_arrays, unpack_arrays
from uqled.storage.location import Location


def make_readings(seed, N=2_000):
    rng = np.random.default_rng(seed)
    first = rng.beta(0.3, 2, N)
    return {"a": first, "b": np.clip(first * rng.uniform(0.3, 1.5), 0, 1)}


@pytest.mark.parametrize("seed", range(5))
def test_the_best_f1_is_that_of_trying_every_cut(seed):
    readings = make_readings(seed)
    mean = (readings["a"] + readings["b"]) / 2
    cut = Levels.of(mean, readings).best_f1({"a": 1.0, "b": 1.0})
    levels = find_levels(mean)

    def f1(flags):
        return sum(
            2 * r[flags].sum() / (np.count_nonzero(flags) + r.sum()) for r in readings.values()
        )

    f1_of_level = {level: f1(levels >= level) for level in np.unique(levels)}
    assert f1(levels >= cut) == pytest.approx(max(f1_of_level.values()), rel=1e-9)


@pytest.mark.parametrize("target", [0.3, 0.6, 0.9])
def test_precision_and_recall_are_reached_and_not_missed_by_much(target):
    readings = make_readings(7)
    p = readings["a"]
    table, levels = Levels.of(p, readings), find_levels(p)
    flags = levels >= table.at_precision("a", target)
    lower = levels >= table.at_precision("a", target) - 1
    assert p[flags].mean() >= target
    assert np.array_equal(lower, flags) or p[lower].mean() < target
    flags = levels >= table.at_recall("a", target)
    higher = levels >= table.at_recall("a", target) + 1
    assert p[flags].sum() >= target * p.sum() * (1 - 1e-9)
    assert p[higher].sum() < target * p.sum()


def test_nothing_reaches_an_impossible_precision():
    p = np.full(10, 0.5)
    assert Levels.of(p, {"a": p}).at_precision("a", 0.9) == LEVELS
    assert Levels.of(p * 0, {"a": p * 0}).best_f1({"a": 1.0}) == LEVELS


def test_parts_add_up_to_the_whole_in_any_order():
    readings = make_readings(3)
    mean = readings["b"]
    expected = Levels.of(mean, readings)
    order = np.random.default_rng(0).permutation(len(mean))
    parts = [Levels.of(mean[chunk], {k: r[chunk] for k, r in readings.items()})
             for chunk in np.array_split(order, 7)]  # fmt: skip
    total = parts[0]
    for part in parts[1:]:
        total = part.merge_with(total)
    assert np.array_equal(total.counts, expected.counts)
    assert all(np.array_equal(total.errors[k], expected.errors[k]) for k in readings)


def test_arrays_come_out_as_they_went_in(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "small": np.arange(5, dtype=np.int32),
        "empty": np.zeros((0, 3)),
        "large": rng.random((300, 200)),
        "bits": rng.random(1_000) < 0.5,
        "last": np.array(7, np.uint64),
    }
    place = Location.of(tmp_path / "x.bin")
    place.write(pack_arrays(arrays))
    for names in (None, ["small"], ["last", "empty"], ["large"], []):
        result = unpack_arrays(place, names)
        assert list(result) == (list(arrays) if names is None else names)
        for name, array in result.items():
            assert array.dtype == arrays[name].dtype
            assert np.array_equal(array, arrays[name])
    place.write(pack_arrays({"a": np.arange(3)}))
    assert unpack_arrays(place)["a"].tolist() == [0, 1, 2]


def test_sums_per_level_are_exact_however_long(monkeypatch):
    readings = make_readings(4)
    monkeypatch.setattr(levels_module, "_EXACT_SAMPLES", 300)
    result = Levels.of(readings["a"], readings)
    for name, values in readings.items():
        expected = [0] * LEVELS
        for at, value in zip(find_levels(readings["a"]).tolist(), values.tolist(), strict=True):
            expected[at] += round(value * 2**32)
        assert result.errors[name].tolist() == expected
