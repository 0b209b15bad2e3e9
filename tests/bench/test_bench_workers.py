"""Where cells run: GPUs in turn, Ray, devices, places of data, and what the pilot lets through."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import uqled
from uqled.bench import benchmark_data, runner
from uqled.bench.results.collection import PilotRanking
from uqled.bench.runner import Benchmark, run_benchmark
from uqled.bench.suite import Suite, SuiteData, read_suite
from uqled.bench.workers import Workers, list_gpus, start_workers
from uqled.engines.local import Threads
from uqled.predict.training_options import resolve_training


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("two_gpus")
def test_cells_take_the_gpus_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert list_gpus("auto") == list_gpus("cuda") == ["0", "1"]
    assert list_gpus("cpu") == []
    assert Workers(jobs_per_gpu=3).count("cuda") == 6
    assert Workers(jobs=4, jobs_per_gpu=3).count("cuda") == 4
    assert Workers(jobs_per_gpu=3).count("cpu") == Workers().count("cpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert list_gpus("auto") == ["4", "7"]
    with start_workers(2, ["4", "7"], tmp_path) as submit:
        # Both at a time, or one process would answer twice.
        result = [submit(os.getenv, "CUDA_VISIBLE_DEVICES") for _ in range(8)]
        assert {future.result() for future in result} <= {"4", "7"}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with start_workers(2, ["1"], tmp_path) as submit:
        assert submit(os.getenv, "CUDA_VISIBLE_DEVICES").result() == "1"


def test_an_address_without_ray_is_refused() -> None:
    with pytest.raises(uqled.InputError, match="--engine ray"):
        Workers(address="auto")
    with pytest.raises(uqled.InputError, match="jobs_per_gpu"):
        Workers(jobs_per_gpu=0)


def test_an_engine_computes_the_same_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wave of cells after what it needs; Ray itself only replaces the engine."""
    suite = small_suite()
    expected, _ = run_benchmark(
        Benchmark(suite, tmp_path, tmp_path / "here"), workers=Workers(1), progress=False
    )
    options: dict[str, Any] = {}

    def choose(name: str, **choice: Any) -> Any:
        options.update(choice, name=name)
        return nullcontext(Threads(1))

    monkeypatch.setattr(runner, "make_engine", choose)
    results, _ = run_benchmark(
        Benchmark(suite, tmp_path, tmp_path / "ray"),
        workers=Workers(engine="ray", address="auto"),
        progress=False,
    )
    assert options == {"name": "ray", "workers": None, "gpus": 0, "address": "auto"}
    assert results.stage1.equals(expected.stage1)


def small_suite(**changes: Any) -> Suite:
    data = SuiteData("digits", "digits", test_share=0.3, limit=200, model="logistic")
    data = replace(data, training={"uncertainty": "bootstrap"})
    suite = Suite("own", (data,), rates=(0.1,), seeds=(0,), folds=2, passes=2, stage2=None)
    return replace(suite, methods=("cl-pbnr", "cl-mcd"), **changes)


def test_networks_are_trained_on_the_device_that_is_asked_for() -> None:
    network = SuiteData("digits", "digits", training={"epochs": 2})
    assert benchmark_data.list_training_options(network, "cuda") == {"device": "cuda", "epochs": 2}
    cpu_network = replace(network, training={"device": "cpu"})
    assert benchmark_data.list_training_options(cpu_network, "cuda") == {"device": "cpu"}
    assert benchmark_data.list_training_options(network, "auto") == {"epochs": 2}
    assert benchmark_data.list_training_options(small_suite().data[0], "cuda") == {
        "uncertainty": "bootstrap"
    }


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("hf:ylecun/mnist", "hf:ylecun/mnist"),
        ("s3://bucket/set", "s3://bucket/set"),
        ("set", Path("folder/set")),
    ],
)
def test_places_of_data(place: str, expected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    places = []

    def load(source: Any, **_: Any) -> Any:
        places.append(source)
        raise uqled.InputError("place", "is read", "Stop here")

    monkeypatch.setattr(benchmark_data, "load", load)
    with pytest.raises(uqled.InputError, match="is read"):
        benchmark_data.load_samples(SuiteData("a", place, test_split="test"), Path("folder"))
    assert places == [expected]


def test_what_the_pilot_drops_is_said() -> None:
    mean = {"cl-pbnr": 0.5, "cl-mcd": 0.4, "cl-mcd-e": 0.6}
    text = PilotRanking(mean, ["cl-pbnr", "cl-mcd-e"]).describe()
    assert text.startswith("The pilot dropped CL-MCD (40.0): mean F1 in per cent")
    assert "CL-PBNR has 50.0" in text
    assert PilotRanking(mean, list(mean)).describe() == "The pilot dropped no method."


def test_suites_keep_enough_and_repeat_nothing() -> None:
    assert read_suite("smoke").pilot_keeps == 4
    paper = read_suite("paper")
    assert paper.stage2 is not None
    assert paper.stage2.relabel == ()


def test_a_presets_schedule_moves_with_its_length() -> None:
    assert resolve_training({"preset": "paper"}).milestones == (150, 250)
    assert resolve_training({"preset": "paper", "epochs": 35}).milestones == (15, 25)
    training = resolve_training({"preset": "paper", "epochs": 35, "milestones": (3,)})
    assert training.milestones == (3,)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("capability", "has_bfloat16", "precision"),
    [((6, 1), False, "32-true"), ((7, 0), False, "16-mixed"), ((8, 0), True, "bf16-mixed")],
)
def test_half_precision_is_what_the_card_has(
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    has_bfloat16: bool,
    precision: str,
) -> None:
    """A V100 says that it supports bfloat16, which it emulates."""
    from uqled.predict.training import resolve_precision

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(
        torch.cuda,
        "is_bf16_supported",
        lambda including_emulation=True: including_emulation or has_bfloat16,
    )
    assert resolve_precision(resolve_training({"device": "cuda"})) == precision
