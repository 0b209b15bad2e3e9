"""Batch norm after dropout: statistics for the softmax, and nothing else changes."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import uqled
from uqled import models
from uqled.data.dataset import Dataset
from uqled.models import reestimate_batch_norm, stochastic_passes
from uqled.models.batch_norm import AS_TRAINED, may_have_batch_norm_after_dropout
from uqled.predict import training
from uqled.predict.crossval import cross_validate
from uqled.predict.learners import choose_learner
from uqled.predict.learners import network as network_learner
from uqled.predict.samples import normalise_samples

QUICK_TRAINING = {"folds": 3, "passes": 2, "epochs": 3, "batch_size": 32, "lr": 0.05, "seed": 5}


def make_network_with_dropout_first(n_classes=10, image_shape=(8, 8, 1)):
    """A network with batch norm before and behind its dropout."""
    return nn.Sequential(
        nn.Conv2d(image_shape[2], 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5),
        nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3),
        nn.Linear(8 * image_shape[0] * image_shape[1], 16), nn.BatchNorm1d(16), nn.ReLU(),
        nn.Linear(16, n_classes),
    )  # fmt: skip


def digits(n=240):
    data = load_digits()
    images = (data.images * 15.9).astype(np.uint8)[..., None]
    return Dataset.from_arrays(images[:n], data.target[:n], name="digits")


@pytest.fixture(scope="module")
def trained_network():
    """A network whose statistics are those of training with dropout, and a batch."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        network, batch = make_network_with_dropout_first(), torch.randn(64, 1, 8, 8)
        for _ in range(40):
            network(torch.randn(64, 1, 8, 8))
    return network.eval(), batch


def test_statistics_are_those_computed_by_hand(trained_network):
    network, batch = trained_network
    statistics = reestimate_batch_norm(network, [batch])
    assert [type(layer).__name__ for layer in statistics.layers] == ["BatchNorm2d", "BatchNorm1d"]
    with torch.no_grad():
        x = network[4](network[2](network[1](network[0](batch))))  # without dropout
        mean, variance = x.mean(dim=(0, 2, 3)), x.var(dim=(0, 2, 3))
        torch.testing.assert_close(statistics.means[0], mean)
        torch.testing.assert_close(statistics.variances[0], variance)
        # A layer's batch is normalised by its own mean and variance before the next layer.
        inner = (x - mean[:, None, None]) / (
            x.var(dim=(0, 2, 3), correction=0)[:, None, None] + 1e-5
        ).sqrt()
        inner = inner * network[5].weight[:, None, None] + network[5].bias[:, None, None]
        x = network[9](inner.relu().flatten(1))
        torch.testing.assert_close(statistics.means[1], x.mean(dim=0))
        torch.testing.assert_close(statistics.variances[1], x.var(dim=0))


def test_several_batches_are_averaged(trained_network):
    network, batch = trained_network
    statistics = reestimate_batch_norm(network, [batch[:32], batch[32:]])
    one, two = (reestimate_batch_norm(network, [part]) for part in (batch[:32], batch[32:]))
    for name in ("means", "variances"):
        for mean, first, second in zip(
            getattr(statistics, name), getattr(one, name), getattr(two, name), strict=True
        ):
            torch.testing.assert_close(mean, (first + second) / 2)


def test_samples_that_lie_class_by_class_have_the_variance_between_classes(monkeypatch):
    monkeypatch.setattr(network_learner, "_BATCH", 4)
    values = np.repeat([0.0, 1.0, 8.0, 9.0], 3)[:, None].astype(np.float32)  # sorted by class
    samples = normalise_samples(values, np.arange(12))
    layer = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(1)).eval()
    # Rows 0, 3, 6, 9; 1, 4, 7, 10; 2, 5, 8, 11: each batch has a sample of every class.
    statistics = reestimate_batch_norm(layer, network_learner._spread_batches(samples))
    inputs = (np.array([0.0, 1.0, 8.0, 9.0]) - values.mean()) / values.std()
    assert float(statistics.variances[0]) == pytest.approx(inputs.var(ddof=1))
    assert float(statistics.means[0]) == pytest.approx(0, abs=1e-6)


def test_the_network_stays_as_it_was(trained_network):
    network, batch = copy.deepcopy(trained_network[0]), trained_network[1]
    network[3].train()  # whatever modes the modules are in
    before, modes = copy.deepcopy(network.state_dict()), [m.training for m in network.modules()]
    statistics = reestimate_batch_norm(network, [batch])
    with statistics.use_statistics():
        assert network[5].running_mean is statistics.means[0]
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert [m.training for m in network.modules()] == modes
    assert network[5].momentum == 0.1


def test_the_softmax_changes_and_the_passes_do_not(trained_network):
    network, batch = trained_network
    statistics = reestimate_batch_norm(network, [batch])
    softmax_after, passes = stochastic_passes(network, batch, 3, seed=1)
    softmax, same = stochastic_passes(network, batch, 3, seed=1, softmax_statistics=statistics)
    assert torch.equal(passes, same)
    assert not torch.equal(softmax_after, softmax)
    with statistics.use_statistics(), torch.no_grad():
        torch.testing.assert_close(network(batch).softmax(dim=1), softmax)


@pytest.mark.parametrize(("name", "expected"), [("small", False), ("vgg11", True)])
def test_which_networks_have_such_layers(name, expected):
    network = models.build(name, n_classes=3, image_shape=(32, 32, 3), seed=0)
    assert may_have_batch_norm_after_dropout(network) == expected
    statistics = reestimate_batch_norm(network.eval(), [torch.zeros(2, 3, 32, 32)])
    assert (statistics is AS_TRAINED) == (not expected)
    if expected:  # five dropout layers from the fourth convolution on
        assert len(statistics.layers) == 4


class LateDropout(nn.Module):
    """Its dropout is defined last and called first."""

    def __init__(self, n_classes=10, image_shape=(8, 8, 1)):
        super().__init__()
        self.inner = nn.Linear(image_shape[0] * image_shape[1], 16)
        self.norm = nn.BatchNorm1d(16)
        self.outer = nn.Linear(16, n_classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.outer(self.norm(self.dropout(self.inner(x.flatten(1)))).relu())


def test_the_order_of_calls_counts_and_not_that_of_definitions():
    assert may_have_batch_norm_after_dropout(LateDropout())
    assert may_have_batch_norm_after_dropout(nn.Sequential(nn.Flatten(), LateDropout()))
    before = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    assert not may_have_batch_norm_after_dropout(before)
    assert len(reestimate_batch_norm(LateDropout().eval(), [torch.randn(4, 1, 8, 8)]).layers) == 1
    assert choose_learner(LateDropout, digits(30)).settings()["batch_norm"] == "re-estimated"


def test_dropout_that_was_added_counts():
    plain_network = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8),
        nn.ReLU(), nn.Linear(8, 2),
    )  # fmt: skip
    network = models.add_dropout(plain_network, layers=2).eval()
    statistics = reestimate_batch_norm(network, [torch.randn(16, 4)])
    assert len(statistics.layers) == 1
    assert reestimate_batch_norm(plain_network.eval(), [torch.randn(16, 4)]) is AS_TRAINED


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        kind: cross_validate(
            digits(),
            make_network_with_dropout_first,
            out=folder / kind,
            batch_norm=kind,
            **QUICK_TRAINING,
        )
        for kind in ("re-estimated", "as-trained")
    }


def test_a_run_has_the_cure_by_default_and_the_papers_letter_on_demand(runs, tmp_path):
    default_run = cross_validate(
        digits(), make_network_with_dropout_first, out=tmp_path / "usual", **QUICK_TRAINING
    )
    assert (default_run.pred_probs == runs["re-estimated"].pred_probs).all()
    assert (runs["as-trained"].passes == runs["re-estimated"].passes).all()
    assert (runs["as-trained"].pred_probs != runs["re-estimated"].pred_probs).any()
    assert runs["re-estimated"].accuracy > runs["as-trained"].accuracy
    with pytest.raises(uqled.InputError, match="another configuration"):
        cross_validate(
            digits(),
            make_network_with_dropout_first,
            out=default_run.path,
            batch_norm="as-trained",
            **QUICK_TRAINING,
        )
    with pytest.raises(uqled.InputError, match="batch_norm is 'never'"):
        cross_validate(
            digits(),
            make_network_with_dropout_first,
            out=tmp_path / "x",
            batch_norm="never",
            **QUICK_TRAINING,
        )


def test_a_network_without_such_layers_is_untouched_to_the_bit(tmp_path):
    estimate = {
        kind: cross_validate(
            digits(90), "small", out=tmp_path / kind, batch_norm=kind, **QUICK_TRAINING
        )
        for kind in ("re-estimated", "as-trained")
    }
    assert (estimate["re-estimated"].pred_probs == estimate["as-trained"].pred_probs).all()
    assert "batch_norm" not in choose_learner("small", digits(90)).settings()


def test_a_training_continued_from_a_checkpoint_has_the_same_statistics(
    runs, tmp_path, monkeypatch
):
    write = training._write_history

    def stop(folder, history):
        write(folder, history)
        if history[-1][0] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "_write_history", stop)
    with pytest.raises(KeyboardInterrupt):
        cross_validate(digits(), make_network_with_dropout_first, out=tmp_path, **QUICK_TRAINING)
    monkeypatch.setattr(training, "_write_history", write)
    continued_run = cross_validate(
        digits(), make_network_with_dropout_first, out=tmp_path, **QUICK_TRAINING
    )
    assert (continued_run.pred_probs == runs["re-estimated"].pred_probs).all()


@pytest.mark.slow
def test_several_devices_end_in_the_same_kind_of_statistics(tmp_path):
    options = {**QUICK_TRAINING, "devices": 2, "device": "cpu", "precision": "32-true"}
    estimate = {
        kind: cross_validate(
            digits(),
            make_network_with_dropout_first,
            out=tmp_path / kind,
            batch_norm=kind,
            **options,
        )
        for kind in ("re-estimated", "as-trained")
    }
    assert (estimate["as-trained"].passes == estimate["re-estimated"].passes).all()
    assert estimate["re-estimated"].accuracy > estimate["as-trained"].accuracy
