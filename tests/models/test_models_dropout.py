"""Dropout: our layer's masks, switching only dropout on, and putting it into any network."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from uqled.errors import InputError
from uqled.models import (
    Dropout,
    add_dropout,
    dropout_layers,
    enable_dropout,
    has_dropout,
    stochastic_passes,
)
from uqled.models.networks import resnet50, vgg11


@pytest.mark.parametrize("p", [0.5, 0.1, 0.9])
def test_the_share_dropped_is_p_and_the_rest_is_scaled(p):
    torch.manual_seed(0)
    ones = torch.ones(200, 1001)
    dropped = Dropout(p)(ones)
    share = (dropped == 0).float().mean().item()
    assert share == pytest.approx(p, abs=5 * (p * (1 - p) / ones.numel()) ** 0.5)
    assert dropped.unique().tolist() == pytest.approx([0, 1 / (1 - p)], rel=2e-4)
    assert dropped.mean().item() == pytest.approx(1, abs=0.02)


def test_neighbours_are_dropped_independently():
    torch.manual_seed(1)
    is_kept = (Dropout(0.5)(torch.ones(400_000)) > 0).float()
    for lag in (1, 2, 3, 4, 64):
        joint_rate = (is_kept[:-lag] * is_kept[lag:]).mean().item()
        assert joint_rate == pytest.approx(0.25, abs=0.004), lag


@pytest.mark.parametrize("shape", [(0, 3), (1,), (3, 5), (2, 3, 5, 7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_shape_and_type(shape, dtype):
    torch.manual_seed(2)
    dropped = Dropout(0.5)(torch.ones(shape, dtype=dtype))
    assert dropped.shape == shape
    assert dropped.dtype == dtype
    assert set(dropped.flatten().tolist()) <= {0.0, 2.0}


def test_layouts_other_than_rows_are_kept_and_wholly_covered():
    x = torch.rand(4, 16, 5, 5).add(1).to(memory_format=torch.channels_last)
    torch.manual_seed(3)
    dropped = Dropout(0.25)(x)
    assert dropped.is_contiguous(memory_format=torch.channels_last)
    is_kept = dropped != 0
    assert torch.allclose(dropped[is_kept], x[is_kept] / 0.75)
    assert 0.65 < is_kept.float().mean() < 0.85
    strided_input = torch.rand(6, 8).add(1)[::2, ::3]  # neither dense nor in order
    wide = torch.rand(1, 5).add(1).expand(4, 5)
    for x in (strided_input, wide):
        dropped = Dropout(0.5)(x)
        assert torch.equal(dropped[dropped != 0], 2 * x[dropped != 0])
    assert len(Dropout(0.5)(wide).ne(0).unique(dim=0)) > 1  # rows of one number, masks of their own


def test_masks_follow_from_the_seed_and_not_from_the_threads():
    x, layer, threads = torch.ones(300, 1000), Dropout(0.3), torch.get_num_threads()
    result = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            torch.manual_seed(4)
            result.append(layer(x))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*result)
    assert not torch.equal(result[0], layer(x))


def test_gradients_pass_where_values_do():
    x = torch.rand(50, 20, requires_grad=True)
    dropped = Dropout(0.5)(x)
    dropped.sum().backward()
    assert torch.equal(x.grad, 2 * (dropped != 0).float())


def test_special_cases_are_those_of_torch():
    x = torch.rand(10, 10)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(10, 10))
    same = Dropout(0.5, inplace=True)(x)
    assert same.data_ptr() == x.data_ptr()
    assert (x == 0).any()


def network():
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout2d(0.5), nn.Dropout(0.0),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(8 * 36, 4),
    )  # fmt: skip


def test_layers_that_do_nothing_do_not_count():
    model = network()
    assert dropout_layers(model) == [model[3], model[6]]
    assert has_dropout(model)
    assert not has_dropout(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0)))


def test_only_dropout_is_switched_on_and_modes_come_back():
    model = network()
    model[1].eval()  # batch norm that its owner froze
    before = [module.training for module in model.modules()]
    with enable_dropout(model) as layers:
        assert layers == dropout_layers(model)
        on = [module for module in model.modules() if module.training]
        assert on == layers
    assert [module.training for module in model.modules()] == before
    with pytest.raises(RuntimeError, match="stop"), enable_dropout(model):
        raise RuntimeError("stop")
    assert [module.training for module in model.modules()] == before


def test_batch_norm_stays_as_it_is_in_evaluation():
    model = network().train()
    model(torch.randn(16, 3, 8, 8))  # statistics that are not the initial ones
    statistics = {k: v.clone() for k, v in model[1].state_dict().items()}
    x = torch.randn(6, 3, 8, 8)
    with torch.no_grad():
        expected = model[:3].eval()(x)
        model.train()
        with enable_dropout(model):
            result = model[:3](x)
            one_by_one = torch.cat([model[:3](row) for row in x.split(1)])
            assert not torch.equal(model(x), model(x))
    assert torch.equal(result, expected)
    assert torch.allclose(one_by_one, expected, atol=1e-5)  # no sample sees the others
    assert all(torch.equal(v, statistics[k]) for k, v in model[1].state_dict().items())


def test_a_network_without_dropout_is_told_how_to_get_it():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.0))
    with pytest.raises(InputError, match="add_dropout"), enable_dropout(model):
        pass
    assert model.training


@pytest.mark.parametrize("make", [vgg11, resnet50])
def test_added_dropout_is_where_the_networks_of_the_paper_have_it(make):
    torch.manual_seed(6)
    network_with_dropout, plain_network = make(10, (16, 16, 3)), make(10, (16, 16, 3), p=0)
    plain_network.load_state_dict(network_with_dropout.state_dict())
    added_dropout = add_dropout(plain_network)
    assert not has_dropout(plain_network)
    assert len(dropout_layers(added_dropout)) == 5
    assert set(added_dropout.state_dict()) == set(network_with_dropout.state_dict())
    x = torch.randn(2, 3, 16, 16)
    for one, other in zip(
        stochastic_passes(added_dropout, x, 2, seed=7),
        stochastic_passes(network_with_dropout, x, 2, seed=7),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_a_copy_is_in_the_modes_of_the_original():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).eval(), nn.ReLU(), nn.Linear(2, 2))
    copy = add_dropout(model, layers=1)
    assert copy.training
    assert copy.dropout1.training
    modes = {name: module.training for name, module in copy.named_children()}
    assert modes == {"0": True, "1": False, "2": True, "dropout1": True, "3": True}
    assert model.training
    assert not model[1].training


def test_dropout_in_a_plain_sequence():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.GELU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3), nn.Softmax(dim=1),
    )  # fmt: skip
    network_with_dropout = add_dropout(model.eval(), layers=2, p=0.3)
    assert calls(network_with_dropout) == [
        *("0", "1", "dropout1", "2", "3", "4", "dropout2", "5", "6", "7", "8"),
    ]
    assert [layer.p for layer in dropout_layers(network_with_dropout)] == [0.3, 0.3]
    assert [layer.training for layer in dropout_layers(network_with_dropout)] == [False, False]
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(network_with_dropout(x), model(x))
    assert calls(add_dropout(model, layers=1)).index("dropout1") == 5
    with torch.no_grad():
        network_with_dropout.get_parameter("0.weight").zero_()
    assert model[0].weight.abs().sum() > 0  # a copy


class Functional(nn.Module):
    """Activations as functions and methods, sizes taken from the input, a block before its norm."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(3))
        self.inner = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.hidden_layer = nn.Linear(64, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        n = x.shape[0]
        x = functional.relu(self.first(x))  # 1
        for norm, conv in zip(self.norms, self.inner, strict=False):
            x = x + conv(functional.relu(norm(x)))  # 2, and 3 together with the next line
        x = functional.max_pool2d(self.norms[2](x).relu_(), 2)
        x = torch.tanh(self.hidden_layer(x.view(n, -1)))  # 4
        return functional.log_softmax(self.last(x), dim=1)


def test_dropout_in_a_network_of_functions():
    model = Functional().eval()
    network_with_dropout = add_dropout(model, layers=4)
    x = torch.randn(5, 1, 8, 8)
    assert torch.equal(network_with_dropout(x), model(x))
    nodes = list(network_with_dropout.graph.nodes)
    after = [nodes[i - 1].name for i, node in enumerate(nodes) if "dropout" in str(node.target)]
    assert after == ["relu", "add", "relu_", "tanh"]
    first = next(node for node in nodes if node.target == "dropout2")
    assert len(first.users) == 2  # the block's branch and its shortcut
    with pytest.raises(InputError, match=r"layers is 5, but Functional has 4 .* layers=4"):
        add_dropout(model, layers=5)


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x).relu() if x.sum() > 0 else self.layer(x)


class DropsAsFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    def forward(self, x):
        x = functional.dropout(self.layers[0](x).relu(), 0.5, self.training)
        return self.layers[1](x)


class Lightning(nn.Sequential):
    def training_step(self, batch):
        """As Lightning's modules have it."""


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout(0.5)), "has 1 dropout layers"),
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU()), "0 places"),  # no classifier follows
        (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), "0 places"),
        (nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), "0 places"),  # the input itself is no unit
        (Branching(), "cannot record"),
        (DropsAsFunction(), "whether it is being trained"),
        (Lightning(nn.Linear(2, 2)), "LightningModule"),
        ("resnet50", "is a str"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(model, reason):
    with pytest.raises(InputError, match=reason):
        add_dropout(model, layers=1)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_scripted_module_is_refused():
    with pytest.raises(InputError, match="scripted"):
        add_dropout(torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))))


@pytest.mark.parametrize("options", [{"layers": 0}, {"p": 0}, {"p": 1}, {"p": 1.5}])
def test_senseless_options_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        add_dropout(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)), **options)


def test_names_that_are_taken_are_left_alone():
    class NamedNetwork(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.dropout1, self.b = nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)

        def forward(self, x):
            return self.b(self.dropout1(self.a(x)))

    assert calls(add_dropout(NamedNetwork(), layers=1)) == ["a", "dropout1", "dropout2", "b"]


def calls(model):
    return [node.target for node in model.graph.nodes if node.op == "call_module"]
