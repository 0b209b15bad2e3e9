"""Networks of other libraries, by stand-ins that fail as the libraries were seen to."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from uqled.errors import InputError
from uqled.features.computing import compute_features
from uqled.features.encoders import EncoderOptions, load_encoder
from uqled.features.image_encoder import drop_classifier

PLAIN = EncoderOptions(device="cpu", bfloat16=False, announce=lambda _: None)
IMAGES = np.random.default_rng(0).integers(0, 256, (3, 6, 6, 3), dtype=np.uint8)


class SentenceModel(nn.Linear):
    """A text's vector is its length times the weights."""

    def encode(self, texts, **_):
        return np.array([[len(text)] for text in texts]) * self.weight.detach().numpy().T


@pytest.fixture
def library(monkeypatch):
    """A sentence-transformers whose models are made by `library.SentenceTransformer`."""
    module = SimpleNamespace(SentenceTransformer=lambda *_, **__: SentenceModel(1, 2))
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    return module


@pytest.mark.usefixtures("library")
def test_a_model_folder_with_other_weights_is_another_encoder(tmp_path):
    """Otherwise the features of a model that was trained further would be read from the cache."""
    texts = np.array(["a", "bcd"], object)
    name = f"sentence-transformers:{tmp_path}"
    features = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        cache_folder = tmp_path / "cache"
        features.append(compute_features(texts, name, cache_folder=cache_folder, options=PLAIN))
    np.testing.assert_array_equal(features[0], features[1])
    assert (features[0] != features[2]).any()


def test_a_model_that_cannot_be_loaded_is_refused(library, tmp_path):
    def fail(*_, **__):
        raise ValueError("Unrecognized model")

    library.SentenceTransformer = fail
    with pytest.raises(InputError, match=r"cannot be loaded \(Unrecognized model\)"):
        load_encoder(f"sentence-transformers:{tmp_path}", PLAIN)


def test_a_network_that_cannot_be_loaded_is_refused(monkeypatch):
    """A wrong tag of timm's pretrained weights, or a download without a network."""

    def fail(*_, **__):
        raise RuntimeError("Invalid pretrained tag (nonsense)")

    timm = SimpleNamespace(is_model=lambda _: True, create_model=fail)
    monkeypatch.setitem(sys.modules, "timm", timm)
    with pytest.raises(InputError, match=r"'timm:x.nonsense' cannot be loaded \(Invalid pretr"):
        load_encoder("timm:x.nonsense", PLAIN)
    models = SimpleNamespace(
        list_models=lambda: ["x"],
        get_model_weights=lambda _: SimpleNamespace(
            DEFAULT=SimpleNamespace(transforms=lambda: None)
        ),
        get_model=fail,
    )
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    with pytest.raises(InputError, match=r"'torchvision:x' cannot be loaded \(Invalid pretrained"):
        load_encoder("torchvision:x", PLAIN)


class OneSide(nn.Module):
    def forward(self, x):
        assert x.shape[-1] == 4, "Wrong image height! Expected 4"
        return x.mean(dim=(2, 3))


def test_a_side_that_a_network_refuses_is_an_error_of_the_input():
    with pytest.raises(
        InputError, match=r"refuses images of 6 x 6 pixels \(Wrong image height! Expected 4\)"
    ):
        compute_features(IMAGES, OneSide(), cache_folder=None, options=PLAIN)


def test_a_classifier_that_pools_leaves_its_pooling():
    """As of SqueezeNet, which would flatten all positions of the image otherwise."""
    net = nn.Module()
    net.classifier = nn.Sequential(nn.Conv2d(3, 9, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    assert drop_classifier(net).classifier(torch.ones(2, 3, 5, 5)).shape == (2, 3, 1, 1)
    net.classifier = nn.Sequential(nn.Flatten(), nn.Linear(3, 9))
    assert drop_classifier(net).classifier(torch.ones(2, 3)).shape == (2, 3)
