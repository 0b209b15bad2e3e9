"""Where the time of a training step goes: ours, the careful peer's, and convolutions by themselves.

In `benchmarks/`:

    python -m training_speed.profile [--only resnet9]

One thread, processor seconds, so that a busy machine matters little. The convolutions of the
network are also timed one by one, forward and backward, as PyTorch calls them: no step that
calculates the same can take less.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import machine
from training_speed import peer
from training_speed.networks import resnet9
from uqled.models import Dropout, build
from uqled.models.hardware import has_bfloat16
from uqled.predict.samples import normalise_samples
from uqled.predict.training import train
from uqled.predict.training_options import Training

STEPS, ROUNDS, REPEATS = 5, 2, 3
BATCHES = {"resnet9": 128, "resnet50": 32}


def measure_steps(name: str, batch: int) -> dict[str, list[float]]:
    """Processor seconds of a step of each side, in turns; the first round is not counted."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (STEPS * batch, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(0, 10, len(images))
    normal = (torch.from_numpy(images).float() - 127.0) / 64.0
    training = Training(epochs=1, batch_size=batch, lr=0.01, augment="crop-flip")
    recipe = peer.Recipe(1, batch, 0.01)
    ours = _build(name)
    theirs = _build(name).to(memory_format=torch.channels_last)
    for layer in theirs.modules():
        if type(layer) is Dropout:
            layer.__class__ = nn.Dropout

    def step_ours() -> None:
        samples = normalise_samples(images, np.arange(len(images)), crop_and_flip=True)
        with tempfile.TemporaryDirectory() as folder:
            train(
                ours, samples, labels, training, seed=0, folder=Path(folder),
                advance=lambda _: None,
            )  # fmt: skip

    def step_theirs() -> None:
        targets = torch.from_numpy(labels)
        peer._train(theirs, normal, targets, recipe, has_bfloat16("cpu"))

    sides: dict[str, list[float]] = {"uqled": [], "peer": []}
    for _ in range(1 + ROUNDS):
        for side, function in zip(sides, (step_ours, step_theirs), strict=True):
            sides[side].append(_time(function) / STEPS)
    return {side: times[1:] for side, times in sides.items()}


def measure_convolutions(name: str, batch: int) -> dict[str, float]:
    """Seconds and operations of all convolutions of a step, each by itself."""
    network = _build(name).to(memory_format=torch.channels_last)
    calls: list[tuple[nn.Conv2d, torch.Size]] = []
    hooks = [
        layer.register_forward_hook(lambda layer, x, _: calls.append((layer, x[0].shape)))
        for layer in network.modules()
        if isinstance(layer, nn.Conv2d)
    ]
    with torch.no_grad():
        network(torch.zeros(batch, 3, 32, 32))
    for hook in hooks:
        hook.remove()
    dtype = torch.bfloat16 if has_bfloat16("cpu") else torch.float32
    measured_times: dict[Any, tuple[float, float]] = {}
    total, operations = 0.0, 0.0
    for number, (layer, shape) in enumerate(calls):
        key = shape, layer.weight.shape, layer.stride
        if key not in measured_times:
            measured_times[key] = _time_convolution(
                layer, shape, dtype, has_input_gradient=number > 0
            )
        total += measured_times[key][0]
        operations += measured_times[key][1]
    return {"seconds": total, "operations": operations}


def _time_convolution(
    layer: nn.Conv2d, shape: torch.Size, dtype: torch.dtype, *, has_input_gradient: bool
) -> tuple[float, float]:
    x = torch.randn(shape, dtype=dtype).to(memory_format=torch.channels_last)
    x.requires_grad_(has_input_gradient)
    weight = layer.weight.detach().to(dtype).requires_grad_()
    gradient: Tensor | None = None

    def step() -> None:
        nonlocal gradient
        y = nn.functional.conv2d(x, weight, stride=layer.stride, padding=layer.padding)
        gradient = torch.ones_like(y) if gradient is None else gradient
        y.backward(gradient)

    step()
    seconds = min(_time(step) for _ in range(REPEATS))
    assert gradient is not None
    forward = 2.0 * weight.numel() * gradient.numel() / weight.shape[0]
    return seconds, forward * (3 if has_input_gradient else 2)


def _build(name: str) -> nn.Module:
    factory = resnet9 if name == "resnet9" else name
    return build(factory, n_classes=10, image_shape=(32, 32, 3), seed=0)


def _time(function: Callable[[], None]) -> float:
    began = time.process_time()
    function()
    return time.process_time() - began


def format_page(result: dict[str, Any]) -> str:
    """The result as a page."""
    lines = [
        "# Where the time of a training step goes",
        "",
        f"{machine.format_machine(result['machine'])} Code {result['machine']['code']}. Made by "
        "`python -m training_speed.profile`.",
        "",
        "Processor seconds per step on one thread; median (least to most, n). The last column is "
        "the careful peer's step divided by the convolutions alone: a step that calculates the "
        "same cannot be faster than the peer by more.",
        "",
        "| network, batch | uqled | careful PyTorch | convolutions alone | their speed, Gflop/s "
        "| at most |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in result["networks"].items():
        sides = [machine.summarize_times(one["steps"][side]) for side in ("uqled", "peer")]
        texts = [
            f"{c['median']:.3g} ({c['least']:.3g} to {c['most']:.3g}, n = {c['n']})" for c in sides
        ]
        convolutions = one["convolutions"]
        lines.append(
            f"| `{name}`, {one['batch']} | {' | '.join(texts)} | {convolutions['seconds']:.3g} | "
            f"{convolutions['operations'] / convolutions['seconds'] / 1e9:.0f} | "
            f"{sides[1]['median'] / convolutions['seconds']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=BATCHES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    networks = {
        name: {
            "batch": batch,
            "steps": measure_steps(name, batch),
            "convolutions": measure_convolutions(name, batch),
        }
        for name, batch in BATCHES.items()
        if arguments.only in (None, name)
    }
    about = machine.describe_machine(("uqled", "torch", "lightning-fabric"))
    result = {"machine": about, "networks": networks}
    if arguments.only:
        print(format_page(result))
    else:
        machine.save("training_speed_profile", result, format_page(result))


if __name__ == "__main__":
    main()
