"""Monte Carlo dropout that does not repeat itself.

Nothing before a network's first dropout changes from pass to pass. It is computed once per batch,
and only the rest F times: torch.fx records `forward` as a graph, and the graph is cut in two.
A network that cannot be cut runs as a whole each time; the numbers for a seed are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.dropout import _DropoutNd

from uqled.errors import InputError
from uqled.models.batch_norm import AS_TRAINED, SoftmaxStatistics
from uqled.models.dropout import dropout_layers, enable_dropout, require_dropout, switch_dropout

_CHECKED_SAMPLES = 2  # that a cut network must treat as the whole network does


def stochastic_passes(
    model: nn.Module | SplitNetwork,
    batch: Tensor,
    passes: int,
    *,
    seed: int,
    softmax_statistics: SoftmaxStatistics = AS_TRAINED,
) -> tuple[Tensor, Tensor]:
    """Softmax probabilities [n,K] without dropout, and those of F passes with it [F,n,K].

    Only dropout is stochastic: batch norm and everything else stay in evaluation mode, and
    afterwards every module is in the mode it was in. torch's random state is left as it was. The
    masks follow from the seed, pass by pass and layer by layer, so give every batch its own.

    Parameters
    ----------
    model
        A network that returns logits [n,K], or the same network cut by `split_at_dropout`: to cut
        it once for many batches is quicker.
    batch
        What the network takes: images [n,C,H,W] or features [n,D].
    passes
        F, the number of passes.
    softmax_statistics
        What `reestimate_batch_norm` returns, for the softmax only: needed if the network has batch
        norm after dropout.
    """
    if passes < 1:
        raise InputError("passes", f"is {passes}", "Pass at least 1, such as 5")
    network = model if isinstance(model, SplitNetwork) else split_at_dropout(model, batch)
    with (
        torch.no_grad(),
        _seed_generators(seed, batch.device),
        enable_dropout(network.model) as layers,
    ):
        return _predict_probabilities(network, layers, batch, passes, softmax_statistics)


class SplitNetwork:
    """A network cut where the first dropout begins; `split_at_dropout` makes it.

    It shares its parameters with `model`. `reason` says why a network runs as a whole, or is None.
    """

    def __init__(
        self,
        model: nn.Module,
        before: nn.Module | None = None,
        after: nn.Module | None = None,
        *,
        overwrites: bool = False,
        reason: str | None = None,
    ) -> None:
        self.model = model
        self._layers_before, self._layers_after, self._overwrites = before, after, overwrites
        self.reason = reason

    def compute_shared(self, batch: Tensor) -> tuple[Any, ...]:
        """What all passes have in common."""
        return (batch,) if self._layers_before is None else self._layers_before(batch)

    def compute_logits(self, activations: tuple[Any, ...]) -> Tensor:
        """One pass over the rest."""
        if self._overwrites:
            activations = tuple(x.clone() if isinstance(x, Tensor) else x for x in activations)
        return (self.model if self._layers_after is None else self._layers_after)(*activations)


def split_at_dropout(model: nn.Module, example: Tensor) -> SplitNetwork:
    """Cut the network where its first dropout begins, or say in `reason` why it runs as a whole.

    The first samples of `example`, a batch, are run both ways: a cut that gives other numbers, say
    because something before it draws random numbers too or is overwritten after it, is not used.
    """
    require_dropout(model)
    example = example[:_CHECKED_SAMPLES]
    with torch.no_grad(), enable_dropout(model) as layers:
        whole_network = SplitNetwork(model)
        with _count_calls(layers) as calls, _seed_generators(0, example.device):
            expected_probs = _predict_probabilities(whole_network, layers, example, 2)
        if not calls:
            raise InputError(
                "model",
                f"({type(model).__name__}) has {len(layers)} dropout layers, and its forward uses "
                "none of them",
                "Call them in forward, or use uqled.models.add_dropout",
            )
        try:
            parts = _split_at_dropout(model)
            for overwrites in (False, True):  # the input, as dropout with inplace=True does
                split = SplitNetwork(model, *parts, overwrites=overwrites)
                with _seed_generators(0, example.device):
                    if _are_close(
                        _predict_probabilities(split, layers, example, 2), expected_probs
                    ):
                        return split
            whole_network.reason = "cut in two, it gives other numbers"
        except Exception as error:  # `forward` may do anything that a graph cannot express
            whole_network.reason = f"torch.fx cannot follow its forward: {error}"
    return whole_network


def _are_close(probs: tuple[Tensor, ...], expected_probs: tuple[Tensor, ...]) -> bool:
    return all(
        torch.allclose(one, other, rtol=0, atol=1e-5, equal_nan=True)
        for one, other in zip(probs, expected_probs, strict=True)
    )


def _predict_probabilities(
    network: SplitNetwork,
    layers: list[nn.Module],
    batch: Tensor,
    passes: int,
    softmax_statistics: SoftmaxStatistics = AS_TRAINED,
) -> tuple[Tensor, Tensor]:
    shared_output = network.compute_shared(batch)
    switch_dropout(layers, on=False)
    with softmax_statistics.use_statistics():
        softmax = _compute_softmax(network.compute_logits(shared_output))
    switch_dropout(layers, on=True)
    return softmax, torch.stack(
        [_compute_softmax(network.compute_logits(shared_output)) for _ in range(passes)]
    )


def _compute_softmax(logits: Any) -> Tensor:
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        what = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise InputError("model", f"returns {what}", "Its forward should return logits [n,K]")
    return logits.float().softmax(dim=1)


class _SplitTracer(fx.Tracer):
    """Looks into a module only where there is dropout: the rest need not be traceable."""

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        is_leaf = isinstance(module, _DropoutNd) or not dropout_layers(module)
        return is_leaf or super().is_leaf_module(module, name)


def _split_at_dropout(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Two networks: what dropout does not reach (returning what the rest needs), and the rest."""
    graph = _SplitTracer().trace(model)
    modules = dict(model.named_modules())
    stochastic: set[fx.Node] = set()
    for node in graph.nodes:
        drops = node.op == "call_module" and dropout_layers(modules[node.target])
        if drops or node.op == "output" or not stochastic.isdisjoint(node.all_input_nodes):
            stochastic.add(node)
    before, after = fx.Graph(), fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        if node not in stochastic:
            copies[node] = before.node_copy(node, copies.__getitem__)
    border = [node for node in copies if not stochastic.isdisjoint(node.users)]
    before.output(tuple(copies[node] for node in border))
    copies = {node: after.placeholder(node.name) for node in border}
    for node in graph.nodes:
        if node in stochastic:
            copies[node] = after.node_copy(node, copies.__getitem__)
    return fx.GraphModule(model, before), fx.GraphModule(model, after)


@contextmanager
def _seed_generators(seed: int, device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def _count_calls(layers: list[nn.Module]) -> Iterator[list[None]]:
    calls: list[None] = []
    hooks = [layer.register_forward_hook(lambda *_: calls.append(None)) for layer in layers]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()
