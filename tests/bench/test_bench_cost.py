"""How right flags are, and what a benchmark would cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from bench_frames import SMALLEST, suite_of
from uqled.bench.benchmark_data import load_benchmark_data
from uqled.bench.cost_estimate import estimate_benchmark_cost
from uqled.bench.metrics import score_detection
from uqled.bench.runner import Benchmark
from uqled.bench.workers import Workers
from uqled.features.encoders import load_encoder


@pytest.mark.parametrize("seed", range(20))
def test_metrics_are_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 200))
    is_error, mask = rng.random(n) < 0.3, rng.random(n) < 0.4
    ranking = rng.permutation(n)
    result = score_detection(mask, ranking, is_error)
    for name, beta in (("f1", 1.0), ("f05", 0.5)):
        precision, recall, f, _ = precision_recall_fscore_support(
            is_error, mask, beta=beta, average="binary", zero_division=0
        )
        assert result["precision"] == pytest.approx(precision)
        assert result["recall"] == pytest.approx(recall)
        assert result[name] == pytest.approx(f)
    if is_error.any():
        scores = np.empty(n)
        scores[ranking] = -np.arange(n)
        assert result["aupr"] == pytest.approx(average_precision_score(is_error, scores))


def test_no_errors_and_no_flags():
    nothing = np.zeros(3, bool)
    result = score_detection(nothing, np.arange(3), nothing)
    assert set(result.values()) == {0}
    errors = np.array([True, False, True])
    area = score_detection(errors, np.arange(3), errors)["aupr"]
    assert area == pytest.approx((1 + 2 / 3) / 2)


def test_the_plan_counts_and_estimates(tmp_path):
    benchmark = Benchmark(suite_of(tmp_path), tmp_path, tmp_path / "out")
    estimate = estimate_benchmark_cost(benchmark, workers=Workers(1))
    assert {(kind, n, todo) for _, kind, n, todo, *_ in estimate.rows} == {
        ("pretraining", 1, 1),
        ("fold", 2, 2),
        ("detection", 1, 1),
        ("retraining, clean", 1, 1),
        ("retraining, noisy", 1, 1),
        ("retraining, remove", 1, 1),
    }
    assert 0 < estimate.seconds < 600
    assert not (tmp_path / "out").exists()


def test_a_plan_computes_features_of_a_few_images_only(tmp_path, monkeypatch):
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path / "cache"))
    network = RecordingModel()
    monkeypatch.setattr(
        "uqled.features.computing.load_encoder",
        lambda _, options: load_encoder(network, replace(options, image_size=8)),
    )
    text = SMALLEST.replace("limit = 200", "limit = 1500")
    text = text.replace('model = "logistic"', 'model = "probe"\ntraining = { epochs = 2 }')
    suite = suite_of(tmp_path, text)
    benchmark = Benchmark(suite, tmp_path, tmp_path / "out")

    def features():
        rows = estimate_benchmark_cost(benchmark, workers=Workers(1)).rows
        return [(row.total, row.todo, row.seconds > 0) for row in rows if row.kind == "features"]

    assert features() == [(1, 1, True)]
    assert 0 < network.images < 150
    load_benchmark_data(suite.data[0], tmp_path)  # as the benchmark does first
    assert network.images > 1500
    before = network.images
    assert features() == [(1, 0, False)]
    assert network.images == before


def test_the_cost_of_the_papers_networks_is_estimated_from_a_few_steps(tmp_path, monkeypatch):
    """One image set of its own size stands for the four: the network is what takes the time."""
    steps = []
    step = torch.optim.SGD.step
    monkeypatch.setattr(
        torch.optim.SGD, "step", lambda *args, **kwargs: steps.append(1) or step(*args, **kwargs)
    )
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for name in ("a", "b"):
            folder = tmp_path / "data" / split / name
            folder.mkdir(parents=True)
            for i in range(40):
                pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.png")
    text = SMALLEST.replace('place = "digits"', 'place = "data/train"\ntest_place = "data/test"')
    text = text.replace("test_share = 0.5\nlimit = 200\n", "")
    text = text.replace('"logistic"', '"resnet50"\ntraining = { preset = "paper" }')
    benchmark = Benchmark(suite_of(tmp_path, text), tmp_path, tmp_path / "out")
    cost = estimate_benchmark_cost(benchmark, workers=Workers(1))
    assert 0 < len(steps) < 350  # the suite asks for 350 epochs of each training
    trainings = 0.8 + 2 * 0.5 + 3
    assert cost.seconds > 80 * 350 * trainings * 1e-4


class RecordingModel(torch.nn.Module):
    """A backbone that counts the images it is shown."""

    def __init__(self):
        super().__init__()
        self.images = 0

    def __deepcopy__(self, _):
        return self

    def forward(self, x):
        self.images += len(x)
        return x.mean(dim=(2, 3)).repeat(1, 2)
