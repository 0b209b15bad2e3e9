"""Folds side by side: the arrays of one thread in this process, and only where it pays."""

from __future__ import annotations

import pytest
import torch

from small_training import QUICK, digits, same, tiny
from uqled.engines.processes import Processes
from uqled.models.cost import measure_forward
from uqled.models.networks import build
from uqled.predict import crossval
from uqled.predict import folds as folds_module
from uqled.predict.crossval import cross_validate
from uqled.predict.folds import choose_processes
from uqled.predict.learners import choose_learner


@pytest.fixture
def set_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def learner():
    return choose_learner(tiny, digits(), uncertainty="auto", epochs=10, batch_size=32)


def list_files(run):
    return sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())


def test_processes_compute_the_arrays_of_this_one(tmp_path, monkeypatch):
    options = {"folds": 3, "passes": 2, "uncertainty": "bootstrap"}
    alone = cross_validate(digits(), "logistic", out=tmp_path / "alone", **options)
    monkeypatch.setattr(crossval, "choose_processes", lambda *_: Processes(2, 2))
    together = cross_validate(digits(), "logistic", out=tmp_path / "together", **options)
    same(together, alone)
    assert list_files(together.path) == list_files(alone.path)
    monkeypatch.setattr(crossval, "choose_processes", None)  # which nobody can call
    cross_validate(digits(), "logistic", out=tmp_path / "local", engine="local", **options)
    cross_validate(digits(), "logistic", out=tmp_path / "together", **options)  # it is finished


@pytest.mark.slow  # each process loads PyTorch
def test_the_arrays_of_a_network_are_those_of_one_thread(tmp_path, set_threads, monkeypatch):
    set_threads(1)
    alone = cross_validate(digits(), tiny, out=tmp_path / "alone", **QUICK)
    set_threads(2)
    monkeypatch.setattr(folds_module, "_WORTH_SECONDS", 0.0)
    began = []
    init = Processes.__init__
    monkeypatch.setattr(Processes, "__init__", lambda *a: began.append(a[1:]) or init(*a))
    together = cross_validate(digits(), tiny, out=tmp_path / "together", **QUICK)
    assert began == [(2, 2)]  # workers, threads
    same(together, alone)
    assert list_files(together.path) == list_files(alone.path)


def test_only_long_work_is_done_side_by_side(learner, set_threads, monkeypatch):
    set_threads(4)
    assert choose_processes(learner, digits(), 3, 5) is None  # seconds
    monkeypatch.setattr(folds_module, "_WORTH_SECONDS", 0.0)
    chosen = choose_processes(learner, digits(), 3, 5)
    assert (chosen.workers, chosen.threads) == (3, 1)
    chosen = choose_processes(learner, digits(), 2, 5)
    assert (chosen.workers, chosen.threads) == (2, 2)
    set_threads(1)
    assert choose_processes(learner, digits(), 3, 5) is None  # one core
    set_threads(4)
    logistic = choose_learner("logistic", digits(), uncertainty="auto")
    assert choose_processes(logistic, digits(), 3, 5) is None


def test_memory_limits_how_many(learner, set_threads, monkeypatch):
    set_threads(4)
    monkeypatch.setattr(folds_module, "_WORTH_SECONDS", 0.0)
    memory = learner.estimate_fold(digits(), 3, 5).memory
    monkeypatch.setattr(folds_module, "measure_memory", lambda: 4 * memory + 2)
    assert choose_processes(learner, digits(), 3, 5).workers == 2
    monkeypatch.setattr(folds_module, "measure_memory", lambda: 4 * memory - 2)
    assert choose_processes(learner, digits(), 3, 5) is None


def test_what_cannot_be_copied_stays_in_this_process(set_threads, monkeypatch):
    set_threads(4)
    monkeypatch.setattr(folds_module, "_WORTH_SECONDS", 0.0)
    generator = (number for number in ())

    def network(n_classes, image_shape):
        list(generator)
        return tiny(n_classes, image_shape)

    learner = choose_learner(network, digits(), uncertainty="auto", epochs=2)
    assert choose_processes(learner, digits(), 3, 5) is None


def test_the_work_of_a_network_that_is_known():
    network = build("resnet50", n_classes=10, image_shape=(32, 32, 3), seed=0)
    work = measure_forward(network, torch.zeros(2, 3, 32, 32))
    assert work.operations == pytest.approx(2 * 1.298e9, rel=0.01)  # 1.30 G multiply-adds, as known
    assert network.training


def test_a_fold_costs_its_epochs_and_its_passes(learner):
    work = measure_forward(learner.make(0), torch.zeros(2, 1, 8, 8))
    cost = learner.estimate_fold(digits(240), 3, 5)
    forwards = 3 * 10 * 160 + 80 * 6  # ten epochs of two thirds; softmax and five passes of a third
    assert cost.seconds == pytest.approx(forwards * work.operations / 1e11)
