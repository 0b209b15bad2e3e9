"""Monte Carlo dropout: the numbers of plain repetition, with less work."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from uqled.errors import InputError
from uqled.models import Dropout, SplitNetwork, build, split_at_dropout, stochastic_passes


def repeat_network(model, batch, passes, *, seed):
    """The obvious way: the whole network, as often as asked."""
    model.eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        softmax = model(batch).softmax(dim=1)
        for module in model.modules():
            if isinstance(module, nn.Dropout | nn.Dropout2d):
                module.train()
        result = torch.stack([model(batch).softmax(dim=1) for _ in range(passes)])
    model.train()
    return softmax, result


def assert_same(model, batch, *, reason):
    """Cut or whole, stochastic passes are those of plain repetition; `reason` as expected."""
    network = split_at_dropout(model, batch)
    if reason is None:
        assert network.reason is None
    else:
        assert reason in network.reason
    expected = repeat_network(model, batch, 3, seed=11)
    for way in (network, SplitNetwork(model), model):
        for one, other in zip(stochastic_passes(way, batch, 3, seed=11), expected, strict=True):
            assert torch.equal(one, other)
    assert not torch.equal(expected[1][0], expected[1][1])
    return network


@pytest.mark.parametrize("name", ["small", "vgg11", "resnet50"])
def test_our_networks_are_cut_and_keep_their_numbers(name):
    model = build(name, n_classes=4, image_shape=(12, 12, 3), seed=0)
    assert_same(model, torch.randn(3, 3, 12, 12), reason=None)


def test_what_lies_before_dropout_runs_once_and_the_rest_for_every_pass():
    model = build("resnet50", n_classes=3, image_shape=(8, 8, 3), seed=0)
    calls: dict[str, int] = {}
    for name, module in model.named_children():
        module.register_forward_hook(
            lambda *_, name=name: calls.update({name: calls.get(name, 0) + 1})
        )
    x = torch.randn(2, 3, 8, 8)
    network = split_at_dropout(model, x)
    calls.clear()
    stochastic_passes(network, x, 5, seed=0)
    single_calls = ["stem", *(f"block{i}" for i in range(1, 13))]
    often = [*(f"block{i}" for i in range(13, 17)), *(f"dropout{i}" for i in range(12, 17))]
    assert [calls[name] for name in single_calls] == [1] * 13
    assert [calls[name] for name in [*often, "pool", "classifier"]] == [6] * 11  # 5 and the softmax


class ForwardBlock(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.one, self.two, self.three = (nn.Linear(6, 6) for _ in range(3))
        self.dropout, self.inside = nn.Dropout(0.5), forward

    def forward(self, x):
        return self.inside(self, x)


def two_paths(m, x):
    """The second path does not meet the first one's dropout; the graph's order is mixed."""
    dropped = m.dropout(m.one(x).relu())
    second_path = m.two(x).tanh()
    return m.three(dropped + second_path) * second_path.mean(dim=1, keepdim=True)


def sum_in_place(m, x):
    """Overwrites the shortcut, which was computed before dropout."""
    h = m.one(x)
    h += m.dropout(m.two(h))
    return m.three(h)


def out_of_order(m, x):
    """Overwrites what dropout has read, but does not itself depend on dropout."""
    h = m.one(x)
    dropped = m.dropout(h)
    h.add_(1)
    return m.two(h) + dropped


def random_before(m, x):
    return m.three(m.dropout(m.one(x + torch.randn(6))))


def asks(m, x):
    h = m.one(x)
    return m.dropout(h) if h.sum() > 1e9 else m.dropout(m.two(h))


def sizes(m, x):
    n = x.shape[0]
    return m.three(m.dropout(m.one(x)).view(n, -1).reshape(x.size(0), 6))


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (two_paths, None),
        (sizes, None),
        (sum_in_place, None),
        (out_of_order, "other numbers"),
        (random_before, "other numbers"),
        (asks, "cannot follow"),
    ],
)
def test_networks_of_all_sorts(forward, reason):
    torch.manual_seed(1)
    assert_same(ForwardBlock(forward), torch.randn(5, 6), reason=reason)


def test_dropout_that_overwrites_its_input():
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), Dropout(0.5, inplace=True), nn.Linear(6, 3))
    assert_same(model, torch.randn(4, 6), reason=None)


def test_a_part_that_cannot_be_traced_is_no_hindrance_before_dropout():
    model = nn.Sequential(BranchingConvolution(), nn.Dropout2d(0.3), nn.Flatten(), nn.Linear(32, 3))
    assert_same(model, torch.randn(3, 2, 4, 4), reason=None)


class BranchingConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x):
        return self.layer(x) if x.mean() > 0 else functional.relu(self.layer(x))


def test_the_only_possible_outcomes_with_their_frequencies():
    """One input of 1 and p = 0.25: logits (0, 0) in a quarter, (4/3 ln 3, 0) in the others."""
    model = nn.Sequential(Dropout(0.25), nn.Linear(1, 2, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[math.log(3)], [0.0]]))
    softmax, passes = stochastic_passes(model, torch.ones(1000, 1), 20, seed=5)
    assert softmax[0].tolist() == pytest.approx([0.75, 0.25])
    first = passes[:, :, 0].numpy()
    high = 3 ** (4 / 3) / (1 + 3 ** (4 / 3))
    assert sorted(np.unique(first.round(5))) == pytest.approx([0.5, high], abs=1e-5)
    assert (first < 0.6).mean() == pytest.approx(0.25, abs=5 * (0.1875 / 20_000) ** 0.5)


def test_batch_norm_is_not_touched():
    model = build("small", n_classes=3, image_shape=(8, 8, 1), seed=0)
    model(torch.randn(32, 1, 8, 8))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.randn(6, 1, 8, 8)
    together = stochastic_passes(model, x, 2, seed=0)[0]
    row_passes = torch.cat([stochastic_passes(model, row, 2, seed=0)[0] for row in x.split(1)])
    assert torch.allclose(together, row_passes, atol=1e-5)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(module.training for module in model.modules())


def test_later_training_is_seen_by_a_network_cut_before():
    model = nn.Sequential(nn.Linear(4, 4), Dropout(0.5), nn.Linear(4, 2))
    x = torch.randn(3, 4)
    network = split_at_dropout(model, x)
    with torch.no_grad():
        model[0].weight.mul_(2)
        model[2].bias.add_(torch.tensor([1.0, -1.0]))
    assert torch.equal(
        stochastic_passes(network, x, 2, seed=0)[1], repeat_network(model, x, 2, seed=0)[1]
    )


def test_seeds_and_the_random_state():
    model, x = nn.Sequential(Dropout(0.5), nn.Linear(20, 3)), torch.randn(8, 20)
    torch.manual_seed(99)
    expected = torch.rand(3)
    torch.manual_seed(99)
    one, same, other = (stochastic_passes(model, x, 3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(one[1], same[1])
    assert torch.equal(one[0], other[0])
    assert not torch.equal(one[1], other[1])


def test_half_precision_gives_single_precision_probabilities():
    model = build("small", n_classes=5, image_shape=(8, 8, 3), seed=0)
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(4, 3, 8, 8).to(memory_format=torch.channels_last)
    expected = stochastic_passes(model, x, 3, seed=0)
    with torch.autocast("cpu", torch.bfloat16):
        assert split_at_dropout(model, x).reason is None
        half = stochastic_passes(model, x, 3, seed=0)
    for one, other in zip(half, expected, strict=True):
        assert one.dtype == torch.float32
        assert torch.allclose(one.sum(dim=-1), torch.ones(one.shape[:-1]), atol=1e-5)
        assert torch.allclose(one, other, atol=0.05)
    assert half[1].shape == (3, 4, 5)


def test_dropout_inside_torchs_own_transformer_counts():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
    model = nn.Sequential(nn.Unflatten(1, (3, 8)), layer, nn.Flatten(), nn.Linear(24, 2))
    assert torch.backends.mha.get_fastpath_enabled()
    network = split_at_dropout(model, torch.randn(4, 24))
    assert network.reason is None
    _, passes = stochastic_passes(network, torch.randn(4, 24), 2, seed=0)
    assert not torch.equal(passes[0], passes[1])
    assert torch.backends.mha.get_fastpath_enabled()


def test_networks_that_would_give_the_same_answer_every_time_are_refused():
    x = torch.randn(2, 6)
    with pytest.raises(InputError, match="add_dropout"):
        stochastic_passes(nn.Sequential(nn.Linear(6, 2)), x, 2, seed=0)
    with pytest.raises(InputError, match="p above 0"):
        stochastic_passes(nn.Sequential(nn.Dropout(0.0), nn.Linear(6, 2)), x, 2, seed=0)
    with pytest.raises(InputError, match="uses none of them"):
        stochastic_passes(ForwardBlock(lambda m, x: m.one(x)), x, 2, seed=0)


def test_senseless_requests_are_refused():
    model = nn.Sequential(Dropout(0.5), nn.Linear(6, 2))
    with pytest.raises(InputError, match="passes is 0"):
        stochastic_passes(model, torch.randn(2, 6), 0, seed=0)
    with pytest.raises(InputError, match=r"returns \(2, 3, 2\)"):
        stochastic_passes(model, torch.randn(2, 3, 6), 1, seed=0)
