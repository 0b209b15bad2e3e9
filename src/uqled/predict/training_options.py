"""How a network is trained: the options, what each may be, and the presets. Needs no torch."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from uqled import arrays
from uqled.errors import InputError
from uqled.limits import MAX_COUNT

Schedule = Literal["one-cycle", "steps"]

DEVICES = ("auto", "cpu", "cuda", "mps")
_GPU_NAME = re.compile(r"cuda:\d+", re.ASCII)


@dataclass(frozen=True)
class Training:
    """How a network is trained."""

    epochs: int = 12
    """Passes over the training part."""
    batch_size: int = 128
    """Samples per step; a last partial batch is dropped."""
    lr: float = 0.05
    """Learning rate: the highest of the one-cycle schedule, the first of steps."""
    schedule: Schedule = "one-cycle"
    """One-cycle rises for a quarter and falls to zero, momentum the other way round; steps divide
    by ten at each milestone."""
    milestones: tuple[float, ...] = ()
    """Epochs at which steps divide the rate; those of a preset move with its number of epochs."""
    optimiser: Literal["sgd", "muon"] = "sgd"
    """SGD with momentum, or Muon for convolutions and SGD for the rest: a step costs somewhat more,
    and fewer epochs are needed. With Muon, `lr` is the length of a step relative to that of the
    weights."""
    small_images: float = 0.0
    """Share of the epochs, counted from the first, that see images with three quarters of their
    side: little more than half the pixels. The last epoch sees them as they are; so does every one
    of a network that takes images of one size only, or has its own `training_step`."""
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4
    decay_all: bool = False
    """Decay biases and normalisation too, not only matrices."""
    augment: Literal["auto", "crop-flip", "none"] = "auto"
    """Random crop with padding 4 and horizontal flip; auto: for colour images."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    devices: int = 1
    """How many of them share each batch."""
    batch_norm: Literal["re-estimated", "as-trained"] = "re-estimated"
    """Statistics of batch norm after dropout, for the softmax: estimated again without dropout, or
    as training left them, which is the paper's letter."""
    precision: str = "auto"
    """32-true, bf16-mixed, 16-mixed; auto: bfloat16 where the hardware has it,
    float16 on a GPU that has only that."""

    @property
    def small_epochs(self) -> int:
        """The first epochs, in which images are small if the network takes them."""
        return min(round(self.small_images * self.epochs), self.epochs - 1)


PRESETS = {
    "fast": Training(),
    "quick": Training(10, 64, 0.1, optimiser="muon", small_images=0.7),
    "paper": Training(350, 256, 0.1, "steps", (150, 250), nesterov=False, decay_all=True),
    "paper-mnist": Training(15, 256, 0.01, "steps", nesterov=False, decay_all=True),
}


def resolve_training(options: Mapping[str, Any]) -> Training:
    """The preset with the given options replaced; anything else is refused by name."""
    set_options = {name: value for name, value in options.items() if value is not None}
    preset = set_options.pop("preset", "fast")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise InputError("preset", f"is {preset!r}", f"Choose one of {', '.join(PRESETS)}")
    known_options = [field.name for field in fields(Training)]
    if unknown := sorted(set_options.keys() - set(known_options)):
        raise InputError(
            unknown[0], "is not a training option", f"Choose among {', '.join(known_options)}"
        )
    training = replace(PRESETS[preset], **set_options)
    _check_training(training)
    return training if "milestones" in set_options else _scale_milestones(training, PRESETS[preset])


def _scale_milestones(training: Training, preset: Training) -> Training:
    """The preset's schedule scaled to a training of another length."""
    if training.epochs == preset.epochs:
        return training
    share = training.epochs / preset.epochs
    return replace(training, milestones=tuple(share * epoch for epoch in preset.milestones))


def check_device_name(device: Any) -> None:
    """Refuse what names no device. One GPU of several may encode images: `cuda:1`."""
    if device not in DEVICES and not (isinstance(device, str) and _GPU_NAME.fullmatch(device)):
        text = arrays.show_value(device)
        raise InputError("device", f"is {text}", f"Choose one of {', '.join(DEVICES)}")


def _check_training(training: Training) -> None:
    for name, low in (("epochs", 1), ("batch_size", 2), ("devices", 1)):
        arrays.check_whole_number(getattr(training, name), name, low=low, high=MAX_COUNT)
    most = sys.float_info.max  # a larger integer does not fit a float
    for name, high in (("lr", most), ("momentum", 1.0), ("weight_decay", most)):
        value = getattr(training, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < high or (name == "lr" and value == 0):
            text = arrays.show_value(value)
            raise InputError(name, f"is {text}", "Pass a positive number, such as 0.1 for lr")
    arrays.check_fraction(training.small_images, "small_images")
    milestones: Any = training.milestones
    epochs = milestones if isinstance(milestones, tuple | list) else (None,)
    if not all(isinstance(epoch, int | float) and abs(epoch) <= MAX_COUNT for epoch in epochs):
        raise InputError(
            "milestones", f"is {arrays.show_value(milestones)}", "Pass epochs, such as (150, 250)"
        )
    for name in ("nesterov", "decay_all"):
        if getattr(training, name) not in (True, False):
            text = arrays.show_value(getattr(training, name))
            raise InputError(name, f"is {text}", "Pass True or False")
    if isinstance(training.device, str) and _GPU_NAME.fullmatch(training.device):
        number = training.device.partition(":")[2]
        fix = f"Use cuda, and set CUDA_VISIBLE_DEVICES={number} in the environment"
        raise InputError("device", f"is {training.device!r}", fix)
    for name, choices in (
        ("device", DEVICES),
        ("precision", ("auto", "32-true", "bf16-mixed", "16-mixed")),
        ("augment", ("auto", "crop-flip", "none")),
        ("schedule", ("one-cycle", "steps")),
        ("optimiser", ("sgd", "muon")),
        ("batch_norm", ("re-estimated", "as-trained")),
    ):
        if getattr(training, name) not in choices:
            text = arrays.show_value(getattr(training, name))
            raise InputError(name, f"is {text}", f"Choose one of {', '.join(choices)}")
