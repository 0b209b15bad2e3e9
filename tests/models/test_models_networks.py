"""The networks: their sizes by arithmetic, where dropout is, and what `build` accepts."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional

from uqled import models
from uqled.errors import InputError
from uqled.models import Dropout, build, dropout_layers
from uqled.models.networks import NETWORKS, resnet50, vgg11

SHAPES = [(8, 8, 1), (28, 28, 1), (32, 32, 3), (40, 64, 3)]


def size(model):
    return sum(weights.numel() for weights in model.parameters())


def test_vgg11_has_the_parameters_of_vgg11():
    channels = [3, 64, 128, 256, 256, 512, 512, 512, 512]
    # with biases, as in the paper
    convolutions = sum(3 * 3 * a * b + b for a, b in pairwise(channels))
    assert convolutions == 9_220_480
    norms = 2 * sum(channels[1:])
    expected = convolutions + norms + 512 * 10 + 10
    assert size(vgg11(10, (32, 32, 3))) == expected == 9_231_114


def test_resnet50_has_the_parameters_of_resnet50_with_the_small_stem():
    def block(channels, width, first):
        weights = channels * width + 9 * width**2 + width * 4 * width
        norms = 2 * (width + width + 4 * width)
        return weights + norms + (channels * 4 * width + 2 * 4 * width if first else 0)

    total, channels = 3 * 3 * 3 * 64 + 2 * 64, 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for i in range(blocks):
            total += block(channels, width, first=i == 0)
            channels = 4 * width
    total += 2048 * 10 + 10
    n_parameters = 25_557_032  # for ImageNet: a stem of 7x7, a thousand classes
    assert total == n_parameters + (9 - 49) * 3 * 64 - 990 * (2048 + 1) == 23_520_842
    assert size(resnet50(10, (32, 32, 3))) == total


def test_dropout_follows_the_last_relu_of_the_last_five_convolutions_before_pooling():
    names = [name for name, _ in vgg11(10, (32, 32, 3)).named_children()]
    for i in (4, 5, 6, 7, 8):
        at = names.index(f"dropout{i}")
        assert names[at - 3 : at] == [f"conv{i}", f"norm{i}", f"relu{i}"]
    assert [names[names.index(f"dropout{i}") + 1] for i in (4, 6, 8)] == ["pool4", "pool6", "pool8"]
    assert sum("dropout" in name for name in names) == 5
    assert sum("conv" in name for name in names) == 8


def test_dropout_follows_the_last_five_blocks():
    names = [name for name, _ in resnet50(10, (32, 32, 3)).named_children()]
    for i in (12, 13, 14, 15, 16):
        assert names[names.index(f"block{i}") + 1] == f"dropout{i}"
    assert sum("dropout" in name for name in names) == 5
    assert sum("block" in name for name in names) == 16


@pytest.mark.parametrize("make", NETWORKS.values())
def test_dropout_has_the_given_p_or_is_left_out(make):
    assert {layer.p for layer in dropout_layers(make(10, (32, 32, 3)))} == {0.5}
    assert {layer.p for layer in dropout_layers(make(10, (32, 32, 3), p=0.2))} == {0.2}
    plain_network = make(10, (32, 32, 3), p=0)
    assert not any(isinstance(module, Dropout) for module in plain_network.modules())
    assert set(plain_network.state_dict()) == set(make(10, (32, 32, 3)).state_dict())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_takes_images_of_any_size(name, shape):
    height, width, channels = shape
    model = build(name, n_classes=7, image_shape=shape, seed=0).eval()
    x = torch.randn(2, channels, height, width)
    with torch.no_grad():
        logits = model(x)
        assert logits.shape == (2, 7)
        assert logits.isfinite().all()
        layout = torch.channels_last
        output = model.to(memory_format=layout)(x.to(memory_format=layout))
        assert torch.allclose(output, logits, rtol=1e-3, atol=1e-3)


def test_vgg11_pads_small_images_with_their_border():
    torch.manual_seed(0)
    padding, plain_network = vgg11(10, (28, 28, 1)).eval(), vgg11(10, (32, 32, 1)).eval()
    plain_network.load_state_dict(padding.state_dict())
    digit = functional.pad(torch.rand(2, 1, 20, 20), (4, 4, 4, 4), value=-0.42)  # black, normalised
    with torch.no_grad():
        expected = plain_network(functional.pad(digit, (2, 2, 2, 2), value=-0.42))
        assert torch.equal(padding(digit), expected)


def test_resnet50_halves_the_image_three_times():
    model = resnet50(10, (32, 32, 3), p=0).eval()
    sizes = {}
    for name, module in model.named_children():
        module.register_forward_hook(lambda _, __, x, name=name: sizes.update({name: x.shape[1:]}))
    with torch.no_grad():
        model(torch.randn(1, 3, 32, 32))
    for name, expected in {
        "stem": (64, 32, 32),
        "block3": (256, 32, 32),
        "block7": (512, 16, 16),
        "block13": (1024, 8, 8),
        "block16": (2048, 4, 4),
    }.items():
        assert sizes[name] == expected


def test_a_block_adds_its_input():
    from uqled.models.networks import Bottleneck

    block = Bottleneck(16, 4, stride=1).eval()
    x = torch.randn(2, 16, 5, 5)
    nn.init.zeros_(block.branch[-1].weight)  # the branch's last batch norm
    with torch.no_grad():
        assert torch.equal(block(x), x.relu())


def test_the_seed_sets_the_weights_and_nothing_else():
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    one, same, other = (
        build("small", n_classes=3, image_shape=(8, 8, 1), seed=seed).state_dict()
        for seed in (0, 0, 1)
    )
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def mine(n_classes, image_shape):
    height, width, channels = image_shape
    return nn.Sequential(nn.Flatten(), nn.Linear(height * width * channels, n_classes))


def test_a_function_of_ones_own():
    model = build(mine, n_classes=3, image_shape=(4, 5, 1), seed=0)
    assert model[1].weight.shape == (3, 20)
    assert torch.equal(
        model[1].weight, build(mine, n_classes=3, image_shape=(4, 5, 1), seed=0)[1].weight
    )


def test_a_function_in_a_module_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text(
        "from torch import nn\n"
        "def linear(n_classes, image_shape):\n"
        "    return nn.Sequential(nn.Flatten(), nn.LazyLinear(n_classes))\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    model = build("my_networks:linear", n_classes=3, image_shape=(4, 4, 1), seed=0)
    assert model[1].weight.shape == (3, 16)
    assert sys.path == path
    for name, problem in (
        ("my_networks:other", "has no attribute 'other'"),
        ("no_networks:linear", "No module named 'no_networks'"),
        ("my_networks:number", "is not a function"),
    ):
        with pytest.raises(InputError, match=problem):
            build(name, n_classes=3, image_shape=(4, 4, 1), seed=0)


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        ("alexnet", "small, vgg11, resnet50, or module:function"),
        (mine(3, (4, 4, 1)), "every fold trains a network of its own"),
        (lambda n_classes: mine(n_classes, (4, 4, 1)), "does not take n_classes and image_shape"),
        (dict, "returns a dict"),
        (lambda n_classes, image_shape: mine(n_classes + 1, image_shape), r"returns \(2, 4\)"),
        (lambda n_classes, **_: mine(n_classes, (9, 9, 1)), r"fails on images \[2,1,4,4\]"),
    ],
)
def test_what_cannot_be_built_is_refused(network, problem):
    with pytest.raises(InputError, match=problem):
        build(network, n_classes=3, image_shape=(4, 4, 1), seed=0)


def test_torch_is_loaded_when_it_is_needed():
    code = "import sys, uqled.models; print('torch' in sys.modules, 'build' in dir(uqled.models))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True"]
    for name in models.__all__:
        assert getattr(models, name) is not None
    with pytest.raises(AttributeError, match="magic"):
        _ = models.magic


def test_without_torch_the_message_says_what_to_install():
    code = (
        "import sys\nsys.modules['torch'] = None\n"
        "from uqled import errors, models\n"
        "try:\n    models.build\nexcept errors.InputError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'uqled[torch]'" in out.stdout


def test_small_learns_digits_and_so_do_its_passes():
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = torch.from_numpy(digits.images).float().unsqueeze(1) / 8 - 1
    y = torch.from_numpy(digits.target)
    model = build("small", n_classes=10, image_shape=(8, 8, 1), seed=0)
    optimiser = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.05, total_steps=3 * 14)
    torch.manual_seed(0)
    for _ in range(3):
        for rows in torch.randperm(1400).split(100):
            loss = functional.cross_entropy(model(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    softmax, passes = models.stochastic_passes(model, x[1400:], 5, seed=0)
    for probabilities in (softmax, passes.mean(dim=0)):
        assert (probabilities.argmax(dim=1) == y[1400:]).float().mean() > 0.9


def test_dropout_of_a_users_network_draws_its_masks_as_ours_does():
    class OwnDropout(nn.Dropout):
        """Of the user's own, which may do anything."""

    def make(n_classes, image_shape):
        values = image_shape[0] * image_shape[1] * image_shape[2]
        layers = nn.Flatten(), nn.Dropout(0.25), OwnDropout(0.5), nn.Linear(values, n_classes)
        return nn.Sequential(*layers)

    network = build(make, n_classes=3, image_shape=(4, 4, 3), seed=0)
    assert [type(layer) for layer in dropout_layers(network)] == [Dropout, OwnDropout]
    assert str(network) == str(make(3, (4, 4, 3)))  # so that a run can be continued
    torch.manual_seed(1)
    dropout_mask = network[1](torch.ones(200, 500))
    assert dropout_mask[dropout_mask != 0].unique().tolist() == [pytest.approx(4 / 3)]
    assert (dropout_mask != 0).float().mean() == pytest.approx(0.75, abs=0.01)
