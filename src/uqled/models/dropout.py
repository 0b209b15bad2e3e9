"""Dropout: which layers a network has, switching only them on, putting them into any network."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules import activation, batchnorm
from torch.nn.modules.dropout import _DropoutNd

from uqled.errors import InputError

_STEPS = 1 << 16  # a mask's element is decided by 16 random bits

_NORMS = (batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
_ACTIVATIONS = tuple(
    getattr(activation, name)
    for name in activation.__all__
    if not name.startswith(("Softm", "LogSoft", "Multihead"))
)
_ACTIVATION_FUNCTIONS = {
    *("relu", "relu6", "leaky_relu", "prelu", "rrelu", "elu", "selu", "celu", "gelu", "silu"),
    *("mish", "hardswish", "hardtanh", "hardsigmoid", "tanh", "sigmoid", "softplus", "glu"),
}
_NO_TENSOR = {"size", "dim", "numel", "shape", "ndim", "dtype", "device"}  # these return no tensor


class Dropout(nn.Dropout):
    """Element-wise dropout: `torch.nn.Dropout` with faster masks on the CPU.

    torch draws a mask with one thread and a whole random number per element, which takes a large
    part of the time of a stochastic pass. Here one 64-bit number decides four elements, so `p` is
    rounded to the nearest 65,536th. The masks depend on torch's generator, not on the number of
    threads.
    """

    def forward(self, x: Tensor) -> Tensor:
        steps = round(self.p * _STEPS)
        if not self.training or x.device.type != "cpu" or not 0 < steps < _STEPS:
            return super().forward(x)
        keep = torch.empty_like(x, dtype=torch.bool)  # in the memory layout of x
        words = torch.empty((keep.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        bits = words.view(torch.int16)[: keep.numel()]
        torch.ge(bits, steps - _STEPS // 2, out=keep.as_strided((keep.numel(),), (1,)))
        output = x.mul_(keep) if self.inplace else x * keep
        return output.mul_(_STEPS / (_STEPS - steps))


def draw_masks_faster(model: nn.Module) -> None:
    """Make each `torch.nn.Dropout` of the network a `Dropout`, in place.

    A layer of a class of the user's own, even one made from torch's, stays as it is.
    """
    for layer in model.modules():
        if type(layer) is nn.Dropout:
            layer.__class__ = Dropout


def dropout_layers(model: nn.Module) -> list[nn.Module]:
    """The dropout layers that do something: `p` above 0, of any of torch's kinds.

    Dropout that `forward` applies as a function is not a layer and cannot be seen here.
    """
    return [layer for layer in model.modules() if isinstance(layer, _DropoutNd) and layer.p > 0]


def has_dropout(model: nn.Module) -> bool:
    """Whether Monte Carlo dropout has anything to work with."""
    return bool(dropout_layers(model))


def require_dropout(model: nn.Module) -> list[nn.Module]:
    """The network's dropout layers, or the reason why there can be no Monte Carlo dropout."""
    layers = dropout_layers(model)
    if not layers:
        raise InputError(
            "model",
            f"({type(model).__name__}) has no dropout layer with p above 0, so every pass would "
            "be the same",
            "Put layers in with uqled.models.add_dropout(model, layers=5, p=0.5) before training, "
            "or make dropout that forward applies as a function an nn.Dropout layer",
        )
    return layers


@contextmanager
def enable_dropout(model: nn.Module) -> Iterator[list[nn.Module]]:
    """Within the block only dropout is stochastic; the rest, batch norm too, is in eval mode.

    Yields the dropout layers. Afterwards every module is in the mode it was in.
    """
    layers = require_dropout(model)
    modes = [(module, module.training) for module in model.modules()]
    # torch's fused transformer layers leave dropout out when they themselves are in eval mode.
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        model.eval()
        switch_dropout(layers, on=True)
        yield layers
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        model.train(modes[0][1])
        for module, mode in modes:
            module.training = mode


def switch_dropout(layers: list[nn.Module], *, on: bool) -> None:
    """Make these layers stochastic, or not."""
    for layer in layers:
        layer.training = on


def add_dropout(model: nn.Module, layers: int = 5, p: float = 0.5) -> nn.Module:
    """A copy of the network with element-wise dropout after its deepest `layers` units.

    A unit is what lies on every path from input to output: in a plain network a weight layer and
    its activation, in a residual one a whole block. Dropout comes after the unit's last activation
    (or after the sum, where a block ends with that), and before the classifier, the last weight
    layer. The copy is a `torch.fx.GraphModule`; its parameters have the names they had.

    Refused, with the reason: a network whose `forward` torch.fx cannot record, or that does
    something else in training than in evaluation beside its layers; one with too few units; one
    that has dropout already.
    """
    if not isinstance(model, nn.Module):
        raise InputError("model", f"is a {type(model).__name__}", "Pass a torch.nn.Module")
    if layers < 1:
        raise InputError("layers", f"is {layers}", "Pass at least one layer, such as 5")
    if not 0 < p < 1:
        raise InputError("p", f"is {p}", "Pass a probability between 0 and 1, such as 0.5")
    if existing_layers := dropout_layers(model):
        raise InputError(
            "model",
            f"has {len(existing_layers)} dropout layers already",
            "Use it as it is, or set their p to 0 first to have others put in",
        )
    if hasattr(model, "training_step"):
        raise InputError(
            "model",
            "is a LightningModule, and a copy made from its forward would lose its training step",
            "Put dropout into the network inside it: self.net = add_dropout(self.net)",
        )
    network = copy.deepcopy(model)
    graph = _trace_network(network)
    modules = dict(network.named_modules())
    places = list(_find_insertion_points(graph, modules))
    if len(places) < layers:
        raise InputError(
            "layers",
            f"is {layers}, but {type(model).__name__} has {len(places)} places for dropout "
            "(after an activation that every path goes through, before the last weight layer)",
            f"Pass layers={len(places)}" if places else "Put nn.Dropout into its forward",
        )
    for new_module, module in zip(network.modules(), model.modules(), strict=True):
        new_module.training = module.training
    free = (f"dropout{i}" for i in range(1, len(modules) + layers + 1))
    names = [name for name in free if not hasattr(network, name)]
    for name, place in zip(names, places[-layers:], strict=False):
        network.add_module(name, Dropout(p).train(model.training))
        with graph.inserting_after(place):
            dropout_node = graph.call_module(name)
        place.replace_all_uses_with(dropout_node)
        dropout_node.args = (place,)
    return fx.GraphModule(network, graph, class_name=type(model).__name__)


def _trace_network(model: nn.Module) -> fx.Graph:
    """What `forward` does, as a graph; refused where that is not the whole story."""
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError(
            "model",
            "is a scripted module, which cannot be changed",
            "Pass the module that it was made from",
        )
    graphs = []
    for training in (True, False):
        model.train(training)
        try:
            graphs.append(_DropoutTracer().trace(model))
        except Exception as error:  # `forward` may do anything that a graph cannot express
            raise InputError(
                "model",
                f"({type(model).__name__}) has a forward that torch.fx cannot record: {error}",
                "Put nn.Dropout layers into its forward",
            ) from error
    if str(graphs[0]) != str(graphs[1]):
        raise InputError(
            "model",
            f"({type(model).__name__}) checks in its forward whether it is being trained "
            "(perhaps to apply dropout as a function)",
            "Put nn.Dropout layers into its forward",
        )
    return graphs[1]


class _DropoutTracer(fx.Tracer):
    """Takes our own dropout layers as they are."""

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return isinstance(module, _DropoutNd) or super().is_leaf_module(module, name)


def _find_insertion_points(graph: fx.Graph, modules: dict[str, nn.Module]) -> Iterator[fx.Node]:
    """The nodes with which units end, in order, as far as a weight layer follows."""
    nodes = list(graph.nodes)
    tensors = _find_tensors_on_path(nodes)
    weights = [i for i, node in enumerate(nodes) if _has_weights(node, modules)]
    position = {node: i for i, node in enumerate(nodes)}
    pending_join = None  # the join that ends a unit, unless an activation follows
    has_weights = has_activation = False  # since the last place
    furthest = begin = 0  # the last node that needs one before this; where this segment begins
    for i, node in enumerate(nodes):
        if not weights or i >= weights[-1]:
            break
        if node in tensors and furthest <= i:  # every path goes through this node
            segment = nodes[begin : i + 1]
            begin = i + 1
            if pending_join is not None and not isinstance(
                modules.get(_get_module_name(node)), _NORMS
            ):
                yield node if _is_activation(node, modules) else pending_join
                if _is_activation(node, modules):
                    segment = []
                pending_join, has_weights, has_activation = None, False, False
            has_weights |= any(_has_weights(one, modules) for one in segment)
            has_activation |= any(_is_activation(one, modules) for one in segment)
            if has_weights and _is_activation(node, modules):
                yield node
                has_weights = has_activation = False
            elif (
                has_weights
                and has_activation
                and len(tensors.intersection(node.all_input_nodes)) > 1
            ):
                pending_join = node
        if node in tensors:
            furthest = max([furthest, *(position[user] for user in node.users if user in tensors)])
    if pending_join is not None:
        yield pending_join


def _find_tensors_on_path(nodes: list[fx.Node]) -> set[fx.Node]:
    """Tensors (not their sizes) between input and output."""
    forward: set[fx.Node] = set()
    for node in nodes:
        name = node.args[1] if node.target is getattr else node.target
        from_input = node.op == "placeholder" or not forward.isdisjoint(node.all_input_nodes)
        if from_input and name not in _NO_TENSOR:
            forward.add(node)
    on_the_way: set[fx.Node] = set()
    for node in reversed(nodes):
        if node in forward and (node.op == "output" or not on_the_way.isdisjoint(node.users)):
            on_the_way.add(node)
    return on_the_way


def _get_module_name(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_module" else ""


def _is_activation(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    if node.op == "call_module":
        return isinstance(modules[_get_module_name(node)], _ACTIVATIONS)
    name: Any = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    return node.op.startswith("call") and name.rstrip("_") in _ACTIVATION_FUNCTIONS


def _has_weights(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """A layer or a parameter with a matrix of weights."""
    if node.op == "get_attr":
        owner, _, name = str(node.target).rpartition(".")
        value = getattr(modules[owner], name, None)
        return isinstance(value, nn.Parameter) and value.ndim > 1
    module = modules[_get_module_name(node)] if node.op == "call_module" else None
    return module is not None and any(weight.ndim > 1 for weight in module.parameters())
