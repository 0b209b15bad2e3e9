"""Muon: steps of equal strength in all directions, measured against the weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from uqled.models import muon
from uqled.models.muon import Muon, orthogonalise


@pytest.mark.parametrize("shape", [(16, 40), (40, 16), (24, 24), (1, 9), (9, 1)])
def test_singular_values_come_near_one_and_vectors_stay(shape):
    rng = torch.Generator().manual_seed(0)
    rank = min(shape)
    left = torch.linalg.qr(torch.randn(shape[0], rank, generator=rng)).Q
    right = torch.linalg.qr(torch.randn(shape[1], rank, generator=rng)).Q
    values = torch.linspace(1.0, 0.3, rank)
    result = orthogonalise(left * values @ right.T)
    assert result.dtype == torch.float32
    inside = left.T @ result @ right
    assert torch.linalg.svdvals(result) == pytest.approx(torch.ones(rank).numpy(), abs=0.4)
    assert (inside - torch.diag(inside.diag())).abs().max() < 0.03


def iterate_plainly(matrix):
    """The method as its source writes it, with the whole matrix in each iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix.double() / matrix.norm()
    for _ in range(3):
        products = x @ x.T
        x = a * x + (b * products + c * products @ products) @ x
    return x


@pytest.mark.parametrize("shape", [(16, 40), (40, 16), (24, 24)])
def test_products_of_rows_give_what_iterations_of_the_matrix_give(shape, monkeypatch):
    monkeypatch.setattr(muon, "_choose_precision", lambda _: torch.float64)
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.allclose(orthogonalise(matrix), iterate_plainly(matrix), atol=1e-10)


def test_a_matrix_of_zeros_stays_one():
    assert (orthogonalise(torch.zeros(3, 5)) == 0).all()


def make_optimiser(network, **options):
    settings = {"momentum": 0.9, "nesterov": True, "weight_decay": 0.0} | options
    return Muon([{"params": list(network.parameters())}], 0.1, **settings)


def test_a_step_of_a_convolution_has_the_rate_as_its_relative_length():
    torch.manual_seed(0)
    network = nn.Conv2d(4, 8, 3, bias=False)
    before = network.weight.detach().clone()
    network(torch.randn(2, 4, 6, 6)).square().sum().backward()
    make_optimiser(network).step()
    step = (network.weight.detach() - before).norm()
    assert float(step / before.norm()) == pytest.approx(0.1, rel=1e-3)


def test_everything_else_takes_the_steps_of_sgd():
    """Linear layers, biases, and convolutions whose filters see one channel each."""
    torch.manual_seed(0)
    networks = [nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Flatten(), nn.Linear(64, 3))]
    networks.append(nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Flatten(), nn.Linear(64, 3)))
    networks[1].load_state_dict(networks[0].state_dict())
    options = {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}
    optimisers = [
        make_optimiser(networks[0], weight_decay=0.01),
        torch.optim.SGD(networks[1].parameters(), 0.1, **options),
    ]
    for _ in range(3):
        x = torch.randn(5, 4, 6, 6)
        for network, optimiser in zip(networks, optimisers, strict=True):
            optimiser.zero_grad()
            network(x).square().mean().backward()
            optimiser.step()
    for one, other in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_weights_that_begin_at_zero_move():
    network = nn.Conv2d(2, 3, 3, bias=False)
    nn.init.zeros_(network.weight)
    network(torch.randn(2, 2, 6, 6, generator=torch.Generator().manual_seed(0))).sum().backward()
    make_optimiser(network).step()
    assert float(network.weight.detach().norm()) > 0


def test_convolutions_decay_too():
    network = nn.Conv2d(2, 3, 3, bias=False)
    before = network.weight.detach().clone()
    network.weight.grad = torch.zeros_like(network.weight)
    make_optimiser(network, weight_decay=0.5).step()
    assert torch.allclose(network.weight, before * (1 - 0.1 * 0.5))
