"""A probe as a learner: a pretrained network's features, computed once, and a head per fold."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from uqled.data.dataset import Dataset
from uqled.data.image_cache import cache_folder
from uqled.models import probe
from uqled.predict.learner import Learner
from uqled.predict.network import NetworkLearner, image_inputs
from uqled.predict.training import Training, make_fabric, resolved_precision
from uqled.progress import Progress

#: A head is small: it wants more epochs and a lower rate than a whole network, and no bfloat16.
_EPOCHS, _RATE = 20, 0.02


def head_training(training: Training | None = None, *, given: Collection[str] = ()) -> Training:
    """How a head is trained, but for the options that the user gave."""
    own: dict[str, Any] = {"epochs": _EPOCHS, "lr": _RATE, "precision": "32-true"}
    return replace(training or Training(), **{k: v for k, v in own.items() if k not in given})


def probe_learner(
    model: str, data: Dataset, training: Training, source: Any, *, given: set[str]
) -> Learner:
    """`probe`, or `probe:NETWORK` for another network than the default."""
    backbone = model.partition(":")[2] or probe.DEFAULT
    images = image_inputs(data)
    probe.load_backbone(backbone)  # refuse an unknown one before anything is written
    found = probe.features(
        images,
        backbone,
        cache_folder=cache_folder(),
        device=make_fabric(training).device,
        bfloat16=resolved_precision(training) == "bf16-mixed",
        progress=Progress(),
    )
    training = head_training(training, given=given)
    width, n_classes = found.shape[1], data.n_classes

    def make(seed: int) -> Any:
        return probe.head(width, n_classes, seed)

    return NetworkLearner(f"probe:{backbone}", make, lambda _: found, training, source)
