"""Means, spreads, who is best, and the sensitivity analyses."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.feature_selection import r_regression

from bench_frames import build_column, build_results, stage1_frame, stage2_frame
from uqled.bench.results import statistics
from uqled.bench.results.statistics import make_sample
from uqled.errors import InputError


class TestStatistics:
    @pytest.mark.parametrize("n", [3, 4, 6, 30])
    def test_correlation_is_scipys_and_scikit_learns(self, n: int) -> None:
        x, noise = np.random.default_rng(n).normal(size=(2, n))
        y = 0.5 * x + noise
        result = statistics.compute_correlation(x, y)
        reference = stats.pearsonr(x, y)
        assert result is not None
        assert result.r == pytest.approx(reference.statistic)
        assert result.r == pytest.approx(r_regression(x[:, None], y)[0])
        assert result.p == pytest.approx(reference.pvalue)
        assert result.t == pytest.approx(
            stats.linregress(x, y).slope / stats.linregress(x, y).stderr
        )
        if n > 3:
            assert (result.low, result.high) == pytest.approx(reference.confidence_interval(0.95))

    def test_correlation_of_too_little_is_none(self) -> None:
        assert statistics.compute_correlation([1, 2], [1, 2]) is None
        assert statistics.compute_correlation([1, 1, 1], [1, 2, 3]) is None
        exact = statistics.compute_correlation([1, 2, 3, 4], [2, 4, 6, 8])
        assert exact is not None
        assert (exact.r, exact.p) == pytest.approx((1, 0))

    def test_mean_and_spread_are_pandas(self) -> None:
        frame = stage1_frame()
        reference = frame.groupby(["rate", "method"])["f1"].agg(["mean", "std", "count"])
        for rate, by_method in statistics.group_samples(frame, "mnist", "f1").items():
            for method, sample in by_method.items():
                row = reference.loc[(rate, method)]
                assert (sample.mean, sample.sd) == pytest.approx((row["mean"], row["std"]))
                assert sample.n == row["count"] == 3

    def test_a_cell_that_is_there_twice_is_refused(self) -> None:
        frame = stage1_frame()
        with pytest.raises(InputError, match="twice"):
            statistics.group_samples(pd.concat([frame, frame[:1]]), "mnist", "f1")

    def test_mean_over_rates_needs_every_rate_and_the_same_seeds_for_a_spread(self) -> None:
        by_rate = {
            0.1: build_column(a=[1, 2, 3], b=[1, 2, 3], c=[5, 5, 5]),
            0.2: build_column(a=[3, 4, 8], b=[7]),
        }
        result = statistics.average_over_rates(by_rate)
        assert set(result) == {"a", "b"}
        assert (result["a"].mean, result["a"].n) == (3.5, 3)
        assert result["a"].sd == pytest.approx(np.std([2, 3, 5.5], ddof=1))
        assert (result["b"].mean, result["b"].n) == (4.5, 0)
        assert math.isnan(result["b"].sd)

    @pytest.mark.parametrize(
        ("values", "names", "is_clear"),
        [
            ({"a": [5, 6, 7], "b": [1, 2, 3]}, {"a"}, True),
            ({"a": [5, 6, 7], "b": [5, 5, 7]}, {"a"}, False),  # differences 0, 1, 0
            ({"a": [1, 51, 101], "b": [0, 50, 100]}, {"a"}, True),  # paired, always 1 above
            ({"a": [5], "b": [1]}, {"a"}, False),  # one seed has no spread
            ({"a": [5, 6], "b": [5, 6]}, {"a", "b"}, False),
            ({"a": [5, 6, 7], "b": [1, 2, 3], "c": [0, 0, 17]}, {"a"}, False),  # c may be better
            ({"a": [5, 6, 7]}, set(), False),  # nothing to be better than
            ({"a": [5, 6, 7], "b": [1]}, {"a"}, False),  # one seed in common
        ],
    )
    def test_bold_is_outside_the_spread(
        self, values: dict[str, list[float]], names: set[str], is_clear: bool
    ) -> None:
        result = statistics.find_leaders(build_column(**values))
        assert (set(result.names), result.is_clear) == (names, is_clear)

    def test_means_are_compared_over_the_same_seeds(self) -> None:
        samples = {"a": make_sample({0: 5.0}), "b": make_sample({0: 4.0, 1: 9.0})}
        assert statistics.find_leaders(samples) == statistics.Leaders(frozenset({"a"}), False)
        samples_of_other_seeds = {"a": make_sample({0: 5.0}), "b": make_sample({1: 9.0})}
        assert statistics.find_leaders(samples_of_other_seeds) == statistics.Leaders(
            frozenset(), False
        )

    def test_relative_improvement_is_paired(self) -> None:
        change = statistics.compute_improvements(
            {0.1: build_column(**{"cl-pbnr": [1, 2], "cl-mcd": [2, 3]})}
        )
        assert list(change[0.1]) == ["cl-mcd"]
        assert change[0.1]["cl-mcd"].by_seed == {0: 1.0, 1: 0.5}
        assert change[0.1]["cl-mcd"].mean == 0.75

    def test_data_sets_that_lack_a_stage_take_no_part(self) -> None:
        results = build_results(stage1=stage1_frame(("a", "b", "c")), stage2=stage2_frame(("a",)))
        result = statistics.analyse_sensitivity(results)
        assert list(result.initial.points) == ["a"]
        assert result.initial.correlation is None
        assert list(result.within) == ["a"]
        assert set(result.final.points) == {"cl-pbnr", "cl-mcd", "cl-mcd-e", "alg-ens-3"}

    def test_f1_beside_final_accuracy_is_of_the_same_rates_and_seeds(self) -> None:
        results = build_results(stage2=stage2_frame(seeds={0.1: (1, 2), 0.2: (0,)}))
        frame = results.stage1.set_index(["rate", "seed", "method"])["f1"]
        result = statistics.analyse_sensitivity(results)
        for points in (result.final.points, result.within["mnist"].points):
            for method, (f1, _) in points.items():
                at_01 = np.mean([frame[0.1, seed, method] for seed in (1, 2)])
                assert f1 == pytest.approx((at_01 + frame[0.2, 0, method]) / 2)
        assert result.mean_f1["mnist"][0.2].n == 3  # the first analysis keeps all

    def test_a_data_set_without_the_papers_methods_does_not_narrow_the_comparison(self) -> None:
        frame_of_one = stage1_frame(("c",), methods=["cl-pbnr", "argmax"])
        result = statistics.analyse_sensitivity(
            build_results(stage1=pd.concat([stage1_frame(("a", "b")), frame_of_one]))
        )
        assert result.methods == ("cl-pbnr", "cl-mcd", "cl-mcd-e", "alg-ens-3")
        assert list(result.mean_f1) == ["a", "b"]
