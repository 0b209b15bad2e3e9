"""Training: schedules, augmentation, normalised batches, two processes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from small_training import QUICK_TRAINING, StopError, digits, same, tiny
from uqled.errors import InputError
from uqled.predict import samples as samples_module
from uqled.predict import training as training_module
from uqled.predict.crossval import cross_validate
from uqled.predict.learners import choose_learner
from uqled.predict.samples import normalise_samples, shrink_images
from uqled.predict.training import PRESETS, Training, schedule_rate, train
from uqled.predict.training_options import resolve_training


def test_schedules():
    fast = PRESETS["fast"]
    rates, momenta = zip(
        *(schedule_rate(fast, epoch) for epoch in np.linspace(0, fast.epochs, 101)), strict=True
    )
    assert max(rates) == pytest.approx(fast.lr, rel=1e-2)
    assert np.argmax(rates) == 25
    assert rates[-1] == pytest.approx(0, abs=1e-12)
    assert momenta[25] == min(momenta) == pytest.approx(0.85)
    assert momenta[-1] == pytest.approx(0.95)
    paper = PRESETS["paper"]
    factors = [schedule_rate(paper, epoch) for epoch in (0, 149.9, 150, 249.9, 250, 349)]
    assert [rate for rate, _ in factors] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    assert {momentum for _, momentum in factors} == {0.9}
    assert (paper.epochs, paper.batch_size) == (350, 256)
    mnist = PRESETS["paper-mnist"]
    assert (mnist.epochs, mnist.batch_size, mnist.lr, mnist.milestones) == (15, 256, 0.01, ())
    for training in (paper, mnist):
        assert (training.momentum, training.weight_decay) == (0.9, 5e-4)
        assert not training.nesterov
        assert training.decay_all


def test_crops_and_flips_are_shifts_and_mirrors():
    images = torch.randint(1, 255, (40, 6, 5, 3), dtype=torch.uint8)
    crops = samples_module._crop_and_flip(images, torch.Generator().manual_seed(0))
    assert crops.shape == images.shape
    offsets = set()
    for image, other in zip(images.numpy(), crops.numpy(), strict=True):
        padded = np.pad(image, ((4, 4), (4, 4), (0, 0)))
        matches = [
            (y, x, is_mirrored)
            for y in range(9)
            for x in range(9)
            for is_mirrored in (False, True)
            if (padded[y : y + 6, x : x + 5][:, :: -1 if is_mirrored else 1] == other).all()
        ]
        assert matches
        offsets.add(matches[0])
    assert len(offsets) > 25


def test_batches_are_normalised_by_the_training_part():
    data = digits()
    train = np.arange(100)
    normalised_samples = samples_module.normalise_samples(data.inputs, train)
    batch = normalised_samples.batch(torch.arange(100))
    assert batch.shape == (100, 1, 8, 8)
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert float(batch.mean()) == pytest.approx(0, abs=1e-4)
    assert float(batch.std(correction=0)) == pytest.approx(1, abs=1e-4)
    other = samples_module.normalise_like(normalised_samples, data.inputs, np.arange(100, 110))
    expected = (
        data.inputs[100:110].astype(float) - normalised_samples.mean.item()
    ) * normalised_samples.scale.item()
    pixels = other.batch(slice(0, 10)).permute(0, 2, 3, 1).numpy()
    assert pixels == pytest.approx(expected, abs=1e-4)


def convolutional(n_classes, image_shape):
    """A network whose second convolution sees several channels, which Muon trains."""
    return nn.Sequential(
        nn.Conv2d(image_shape[2], 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(32, n_classes),
    )


def test_a_stopped_training_with_muon_continues_to_the_same_arrays(tmp_path, monkeypatch):
    options = {**QUICK_TRAINING, "optimiser": "muon", "epochs": 4, "small_images": 0.8}
    expected = cross_validate(digits(), convolutional, out=tmp_path / "whole", **options)
    write, epochs = training_module.write_checkpoint, []

    def stop(folder, module, optimiser, epoch, history):
        write(folder, module, optimiser, epoch, history)
        epochs.append(epoch)
        if len(epochs) == 6:  # in the middle of the second fold
            raise StopError

    monkeypatch.setattr(training_module, "write_checkpoint", stop)
    with pytest.raises(StopError):
        cross_validate(digits(), convolutional, out=tmp_path / "stopped", **options)
    continued = cross_validate(digits(), convolutional, out=tmp_path / "stopped", **options)
    assert epochs[5:8] == [2, 3, 4]
    same(continued, expected)
    other = cross_validate(
        digits(), convolutional, out=tmp_path / "sgd", **{**QUICK_TRAINING, "epochs": 4}
    )
    assert (other.pred_probs != expected.pred_probs).any()


def test_muon_is_part_of_a_runs_settings_and_sgd_is_as_before():
    settings = {
        name: choose_learner(convolutional, digits(), optimiser=name).settings()
        for name in ("sgd", "muon")
    }
    assert settings["muon"].pop("optimiser") == "muon"
    assert settings["muon"] == settings["sgd"]


class Recorder(nn.Module):
    """A network that remembers the side of every image that it was trained on."""

    def __init__(self, *layers):
        super().__init__()
        self.layers, self.sides = nn.Sequential(*layers), []

    def forward(self, x):
        if self.training:
            self.sides.append(x.shape[2])
        return self.layers(x)


def train_recorder(network, folder, *, small_images):
    """Train it for four epochs of one step each."""
    data = digits()
    training = Training(epochs=4, batch_size=len(data), small_images=small_images)
    samples = normalise_samples(data.inputs, np.arange(len(data)))
    codes = data.labels.codes
    train(network, samples, codes, training, seed=0, folder=folder, advance=lambda _: None)
    return network


@pytest.mark.parametrize(
    ("pool", "sides"),
    [(nn.AdaptiveAvgPool2d(4), [6, 6, 8, 8]), (nn.Identity(), [8, 8, 8, 8])],
    ids=["images of any size", "images of one size"],
)
def test_the_first_epochs_see_small_images_where_the_network_takes_them(tmp_path, pool, sides):
    n_inputs = 16 if isinstance(pool, nn.AdaptiveAvgPool2d) else 64
    network = Recorder(pool, nn.Flatten(), nn.Linear(n_inputs, 10))
    assert train_recorder(network, tmp_path, small_images=0.5).sides == sides


class OwnStep(Recorder):
    """As a LightningModule has it."""

    def training_step(self, batch, _):
        images, labels = batch
        return nn.functional.cross_entropy(self(images), labels)


def test_a_training_step_of_its_own_sees_images_as_they_are(tmp_path):
    network = OwnStep(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16, 10))
    assert train_recorder(network, tmp_path, small_images=0.5).sides == [8, 8, 8, 8]


def test_the_last_epoch_sees_images_as_they_are(tmp_path):
    network = Recorder(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16, 10))
    assert train_recorder(network, tmp_path, small_images=1.0).sides == [6, 6, 6, 8]
    assert resolve_training({"preset": "quick", "epochs": 1}).small_epochs == 0


def test_small_images_keep_their_mean_and_lie_with_the_channels_last():
    images = torch.rand(2, 3, 16, 12)
    small = shrink_images(images)
    assert small.shape == (2, 3, 12, 9)
    assert small.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(small.mean(dim=(2, 3)), images.mean(dim=(2, 3)), atol=0.02)


def test_small_images_are_part_of_a_runs_settings_only_where_they_are_used():
    settings = [
        choose_learner(convolutional, digits(), small_images=share).settings()
        for share in (0.5, 0.0)
    ]
    assert settings[0].pop("small_images") == 0.5
    assert settings[0] == settings[1]


@pytest.mark.parametrize("share", [-0.1, 1.5, "half"])
def test_a_share_of_epochs_beyond_its_limits_is_refused(share):
    with pytest.raises(InputError, match="small_images"):
        choose_learner(convolutional, digits(), small_images=share)


def test_the_quick_preset_trains_with_muon():
    quick, fast = PRESETS["quick"], PRESETS["fast"]
    assert quick.optimiser == "muon"
    assert quick.epochs < fast.epochs
    assert quick.small_images > 0
    for name in ("fast", "paper", "paper-mnist"):
        assert PRESETS[name].optimiser == "sgd"
        assert PRESETS[name].small_images == 0


@pytest.mark.slow
def test_two_processes_share_a_batch(tmp_path):
    """On a machine with several devices; here two processes of the same one."""
    predictions = cross_validate(
        digits(), tiny, out=tmp_path, device="cpu", devices=2, precision="32-true",
        **{**QUICK_TRAINING, "epochs": 4},
    )  # fmt: skip
    assert predictions.accuracy > 0.5
