"""Monte Carlo dropout on ResNet-50 at 32x32: F passes beside one deterministic pass.

    python benchmarks/mc_dropout.py            a few minutes on two cores
    python benchmarks/mc_dropout.py --small    two repeats of small batches, to try it out

The ways take turns, so that whatever else the machine does falls on all of them. "Repeating" is
the usual way: the whole network F times with torch's own dropout layers, batch norm in evaluation
mode, and no softmax without dropout, which ours has beside the passes.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
from importlib.metadata import version
from typing import Any

import torch
from torch import nn

import machine
from uqled.models import SplitNetwork, build, enable_dropout, split_at_dropout, stochastic_passes
from uqled.models.dropout import Dropout

F = 5
GOAL = 2.6
SHAPE = (32, 32, 3)
SETTINGS = {
    "float32": (torch.contiguous_format, False),
    "float32, channels last": (torch.channels_last, False),
    "bfloat16, channels last": (torch.channels_last, True),
}


def replace_dropout(model: nn.Module) -> nn.Module:
    """A copy in which dropout is torch's own layer."""
    model = copy.deepcopy(model)
    for name, module in list(model.named_children()):
        if isinstance(module, Dropout):
            setattr(model, name, nn.Dropout(module.p))
    return model


def count_multiply_adds(model: nn.Module, image: torch.Tensor) -> dict[str, int]:
    """Of each of the network's parts, for one image."""
    counts: dict[str, int] = {}

    def count(part: str, layer: nn.Module, output: torch.Tensor) -> None:
        weights = layer.weight[0].numel()  # per element of the output
        counts[part] = counts.get(part, 0) + weights * output.numel()

    hooks = [
        layer.register_forward_hook(lambda layer, _, output, part=part: count(part, layer, output))
        for part, module in model.named_children()
        for layer in module.modules()
        if isinstance(layer, nn.Conv2d | nn.Linear)
    ]
    with torch.no_grad():
        model.eval()(image)
    for hook in hooks:
        hook.remove()
    return counts


def measure_batch(model: nn.Module, *, batch: int, layout: Any, half: bool, repeats: int) -> Any:
    """Seconds of each way, taking turns."""
    model = copy.deepcopy(model).to(memory_format=layout).eval()
    usual_model = replace_dropout(model)
    images = torch.randn(batch, SHAPE[2], *SHAPE[:2], generator=torch.Generator().manual_seed(0))
    images = images.to(memory_format=layout)
    precision = torch.autocast("cpu", torch.bfloat16) if half else contextlib.nullcontext()
    with torch.no_grad(), precision:
        network = split_at_dropout(model, images)

        def repeating() -> Any:
            with enable_dropout(usual_model):
                return torch.stack([usual_model(images).float().softmax(dim=1) for _ in range(F)])

        ways = {
            "one pass": lambda: model(images).float().softmax(dim=1),
            "ours": lambda: stochastic_passes(network, images, F, seed=0),
            "repeating": repeating,
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(repeats + 1):  # the first one warms up
            for name, way in ways.items():
                seconds = machine.time_repeats(way, 1)
                times[name] += seconds if turn else []
        passes = stochastic_passes(SplitNetwork(model), images, F, seed=0)
        ours = stochastic_passes(network, images, F, seed=0)
    return {
        "batch": batch,
        "split": network.reason or "yes",
        "seconds": {name: machine.summarize_times(seconds) for name, seconds in times.items()},
        "largest_difference_from_the_uncut_network": max(
            float((one - other).abs().max()) for one, other in zip(ours, passes, strict=True)
        ),
    }


def format_page(result: dict[str, Any]) -> str:
    lines = [
        "# Monte Carlo dropout, ResNet-50 at 32x32",
        "",
        f"Five dropout layers, F = {F} and one softmax without dropout. Goal: at most {GOAL} times "
        f"one deterministic pass. {result['share_behind_dropout']:.1%} of the multiply-adds lie "
        f"behind the first dropout, so by arithmetic alone it costs "
        f"{1 + F * result['share_behind_dropout']:.2f} times one pass.",
        "",
        "| precision | batch | one pass, s | ours, s | ours / one pass | repeating / one pass "
        "| differs from the uncut network by |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, setting_result in result["settings"].items():
        median = {way: spread["median"] for way, spread in setting_result["seconds"].items()}
        cells = {
            way: f"{spread['median']:.3f} ({spread['least']:.3f} to {spread['most']:.3f})"
            for way, spread in setting_result["seconds"].items()
        }
        lines.append(
            f"| {name} | {setting_result['batch']} | {cells['one pass']} | {cells['ours']} "
            f"| {median['ours'] / median['one pass']:.2f} "
            f"| {median['repeating'] / median['one pass']:.2f} "
            f"| {setting_result['largest_difference_from_the_uncut_network']:g} |"
        )
    about = result["machine"]
    n = next(iter(result["settings"].values()))["seconds"]["ours"]["n"]
    lines += [
        "",
        f"Medians of {n} turns (least to most). {about['cpu']}, {about['cores']} cores, "
        f"{result['threads']} threads, torch {about['versions']['torch']}, code {about['code']}, "
        f"{about['date']}. Made by `benchmarks/mc_dropout.py`.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="small batches, nothing is saved")
    small = parser.parse_args().small
    model = build("resnet50", n_classes=10, image_shape=SHAPE, seed=0)
    parts = count_multiply_adds(model, torch.zeros(1, SHAPE[2], *SHAPE[:2]))
    order = [name for name, _ in model.named_children()]
    first = order.index("dropout12")
    amount_behind = sum(amount for part, amount in parts.items() if order.index(part) > first)
    about = machine.describe_machine()
    about["versions"]["torch"] = version("torch")
    result = {
        "machine": about,
        "threads": torch.get_num_threads(),
        "F": F,
        "goal": GOAL,
        "multiply_adds": sum(parts.values()),
        "share_behind_dropout": amount_behind / sum(parts.values()),
        "settings": {
            name: measure_batch(
                model, batch=8 if small else 64, layout=layout, half=half, repeats=2 if small else 9
            )
            for name, (layout, half) in SETTINGS.items()
        },
    }
    if small:
        print(format_page(result))
    else:
        machine.save("mc_dropout", result, format_page(result))


if __name__ == "__main__":
    main()
