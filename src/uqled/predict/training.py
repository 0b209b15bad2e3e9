"""Training one network, on Lightning Fabric: devices, precision, checkpoints.

Data is resident in memory and augmented in batches. Every epoch draws its random numbers from the
seed and its own number, so that a training continued from a checkpoint ends where one that was
never interrupted does.
"""

from __future__ import annotations

import csv
import logging
import math
import warnings
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional

from uqled.errors import FileError, InputError
from uqled.models.hardware import (
    check_device,
    has_bfloat16,
    has_float16,
    keep_freed_memory,
    survives_bfloat16,
)
from uqled.models.muon import Muon
from uqled.predict.checkpoints import (
    CHECKPOINT,
    History,
    fits_model,
    read_checkpoint,
    resume_training,
    write_checkpoint,
)
from uqled.predict.learner import Advance
from uqled.predict.samples import Samples, shrink_images
from uqled.predict.schedule import mix_seed, schedule_rate
from uqled.predict.training_options import PRESETS, Training
from uqled.storage.atomic import replace_file
from uqled.storage.reading import name_file

__all__ = [
    "PRESETS",
    "Training",
    "make_fabric",
    "mix_seed",
    "resolve_precision",
    "schedule_rate",
    "share_fabric",
    "train",
]

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it repeats its settings


def resolve_precision(training: Training) -> str:
    """The precision that `auto` stands for on this machine."""
    if training.precision != "auto":
        if training.precision.startswith("bf16") and not survives_bfloat16():
            raise InputError(
                "precision",
                f"is {training.precision!r}, which this machine's processor announces (AMX) and "
                "cannot do",
                "Use 32-true, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16",
            )
        return training.precision
    if has_bfloat16(training.device):
        return "bf16-mixed"
    return "16-mixed" if has_float16(training.device) else "32-true"


def make_fabric(training: Training) -> Any:
    """The device, the number of them and the precision."""
    check_device(training.device)
    precision: Any = resolve_precision(training)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hints about hardware that is available but not requested
        try:
            return Fabric(
                accelerator=training.device,
                devices=training.devices,
                strategy="auto" if training.devices == 1 else "ddp_spawn",
                precision=precision,
            )
        except (ValueError, RuntimeError, TypeError) as error:
            is_plain = training.precision in ("auto", "32-true")
            arithmetic = "" if is_plain else f" in {training.precision} arithmetic"
            raise InputError(
                "device",
                f"{training.device!r}{arithmetic} cannot be used ({str(error).splitlines()[0]})",
                "Use auto or cpu" if is_plain else "Use auto or cpu, and 32-true arithmetic",
            ) from error


def share_fabric(training: Training) -> Any:
    """The same on one device, for whoever only predicts: to look for hardware and plugins takes as
    long as a small network's predictions. A training has its own, with the scale of its loss."""
    return _make_shared_fabric(training.device, resolve_precision(training))


@cache
def _make_shared_fabric(device: str, precision: str) -> Any:
    return make_fabric(Training(device=device, precision=precision))


def train(
    model: nn.Module,
    samples: Samples,
    labels: np.ndarray,
    training: Training,
    *,
    seed: int,
    folder: Path,
    advance: Advance,
) -> None:
    """Train `model` in place, continuing from the checkpoint in `folder` if there is one.

    `history.csv` in `folder` gets a line per epoch. `advance` is told shares of the training.
    """
    fabric = make_fabric(training)
    targets = torch.from_numpy(labels.astype(np.int64))
    one_process = training.devices == 1
    # Fabric looks through the arguments for modules, whose weights processes must not share, and
    # refuses frozen dataclasses there: all but the module is bound beforehand.
    fit = partial(
        _fit,
        samples=samples,
        labels=targets,
        training=training,
        seed=seed,
        folder=folder,
        advance=advance if one_process else None,
    )
    with keep_freed_memory():
        fabric.launch(fit, model)
    if not one_process:  # read from the checkpoint: the process and its tensors are gone
        path = folder / CHECKPOINT
        checkpoint = read_checkpoint(path, "cpu")
        if checkpoint is None or not fits_model(checkpoint["model"], model):
            raise FileError(name_file(path), "is not what a worker wrote", "Repeat the command")
        model.load_state_dict(checkpoint["model"])
        advance(1.0)


def _fit(
    fabric: Any,
    model: nn.Module,
    samples: Samples,
    labels: Tensor,
    training: Training,
    seed: int,
    folder: Path,
    advance: Advance | None,
) -> None:
    module = model.to(memory_format=torch.channels_last) if samples.are_images else model
    own_step = getattr(module, "training_step", None)  # a LightningModule of the user's own
    optimiser, own_rate = _make_optimiser(module, training)
    parallel_module, optimiser = fabric.setup(module, optimiser, move_to_device=True)
    if own_step is not None:
        parallel_module.mark_forward_method("training_step")
    samples, labels = samples.to(fabric.device), labels.to(fabric.device)
    first, history = resume_training(
        folder / CHECKPOINT, parallel_module, optimiser, epochs=training.epochs,
        device=fabric.device, is_sgd=not own_rate,
    )  # fmt: skip
    n, batch = len(labels), min(training.batch_size, len(labels))
    steps = n // batch
    small_epochs = training.small_epochs if samples.are_images and own_step is None else 0
    if small_epochs and not _takes_small_images(parallel_module, samples.batch(slice(0, 2))):
        small_epochs = 0
    module.train()
    if advance is not None and first:
        advance(first / training.epochs)
    with torch.random.fork_rng(devices=_list_cuda_devices(fabric)):
        for epoch in range(first, training.epochs):
            draws = torch.Generator().manual_seed(mix_seed(seed, epoch))
            torch.manual_seed(mix_seed(seed, epoch, 1 + fabric.global_rank))  # dropout
            order = torch.randperm(n, generator=draws)
            total, right = torch.zeros((), device=fabric.device), torch.zeros((), dtype=torch.int64)
            for step in range(steps):
                if not own_rate:
                    rate, momentum = schedule_rate(training, (epoch * steps + step) / steps)
                    for group in optimiser.param_groups:
                        group["lr"], group["momentum"] = rate, momentum
                batch_indices = order[step * batch : (step + 1) * batch]
                batch_indices = batch_indices[fabric.global_rank :: fabric.world_size]
                x, y = samples.batch(batch_indices, draws), labels[batch_indices]
                x = shrink_images(x) if epoch < small_epochs else x
                optimiser.zero_grad(set_to_none=True)
                if own_step is not None:
                    loss = parallel_module.training_step((x, y), step)
                    loss = loss["loss"] if isinstance(loss, dict) else loss
                else:
                    scores = parallel_module(x)
                    loss = functional.cross_entropy(scores, y)
                    right += (scores.detach().argmax(dim=1) == y).sum().cpu()
                fabric.backward(loss)
                optimiser.step()
                total += loss.detach()
                if advance is not None:
                    advance(1 / (training.epochs * steps))
            n_samples = steps * (batch // fabric.world_size)
            accuracy = math.nan if own_step is not None else float(right) / n_samples
            history.append((epoch + 1, float(total) / steps, accuracy))
            if fabric.is_global_zero:
                _write_history(folder, history)
                write_checkpoint(folder, module, optimiser, epoch + 1, history)


def _takes_small_images(network: nn.Module, images: Tensor) -> bool:
    """Whether the network, now in evaluation mode, gives as many scores for small images."""
    small_images = shrink_images(images)
    network.eval()
    with torch.no_grad():
        shape = network(images).shape
        try:
            return bool(network(small_images).shape == shape)
        except Exception:  # anybody's network, which may refuse them in any way
            return False


def _make_optimiser(module: nn.Module, training: Training) -> tuple[Any, bool]:
    """(optimiser, if it sets its own rate)."""
    if hasattr(module, "configure_optimizers"):
        own_optimiser = module.configure_optimizers()
        if isinstance(own_optimiser, list) and len(own_optimiser) == 1:
            own_optimiser = own_optimiser[0]
        if not isinstance(own_optimiser, torch.optim.Optimizer):
            raise InputError(
                "model",
                f"returns a {type(own_optimiser).__name__} from configure_optimizers",
                "Return one optimiser: schedulers and several optimisers are not supported; a rate "
                "that changes can be set in training_step",
            )
        return own_optimiser, True
    parameters = [p for p in module.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": training.weight_decay},
        {
            "params": [p for p in parameters if p.ndim <= 1],
            "weight_decay": training.weight_decay if training.decay_all else 0.0,
        },
    ]
    nesterov = training.nesterov and training.momentum > 0
    is_muon = training.optimiser == "muon"
    optimiser = (Muon if is_muon else torch.optim.SGD)(
        groups,
        training.lr,
        momentum=training.momentum,
        nesterov=nesterov,
        # In one sweep over weights, gradients and momentum, not one for each operation. A scaled
        # loss (float16) is scaled back before the step only for an optimiser that is not fused.
        fused=not is_muon and all(p.is_floating_point() for p in parameters),
    )
    return optimiser, False


def _write_history(folder: Path, history: History) -> None:
    with replace_file(folder / "history.csv") as part, part.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", "loss", "accuracy"])
        writer.writerows(history)


def _list_cuda_devices(fabric: Any) -> list[int]:
    return [fabric.device.index or 0] if fabric.device.type == "cuda" else []
