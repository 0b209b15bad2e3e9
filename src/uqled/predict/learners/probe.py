"""`probe`: a pretrained network's features, computed once, and a head with dropout per fold."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from uqled.data.dataset import Dataset
from uqled.data.image_cache import cache_folder
from uqled.models import probe
from uqled.predict.learners.network import NetworkLearner, choose_source, select_images
from uqled.predict.training import Training, make_fabric, resolve_precision
from uqled.predict.training_options import resolve_training
from uqled.progress import Progress

#: A head is small: it wants more epochs and a lower rate than a whole network, and no bfloat16.
_EPOCHS, _RATE = 20, 0.02


def head_training(training: Training | None = None, *, given: Collection[str] = ()) -> Training:
    """How a head is trained, but for the options that the user gave."""
    own: dict[str, Any] = {"epochs": _EPOCHS, "lr": _RATE, "precision": "32-true"}
    return replace(training or Training(), **{k: v for k, v in own.items() if k not in given})


def make_learner(
    model: str, data: Dataset, *, uncertainty: str, training: dict[str, Any]
) -> NetworkLearner:
    """`probe`, or `probe:NETWORK` for another network than the default."""
    settings = resolve_training(training)
    backbone = model.partition(":")[2] or probe.DEFAULT
    images = select_images(data)
    probe.load_backbone(backbone)  # refuse an unknown one before anything is written
    features = probe.features(
        images,
        backbone,
        cache_folder=cache_folder(),
        device=make_fabric(settings).device,
        bfloat16=resolve_precision(settings) == "bf16-mixed",
        progress=Progress(),
    )
    settings = head_training(settings, given=training.keys() - {"preset"})
    width, n_classes = features.shape[1], data.n_classes

    def make(seed: int) -> Any:
        return probe.head(width, n_classes, seed)

    source = choose_source(uncertainty, make(0))
    return NetworkLearner(f"probe:{backbone}", make, lambda _: features, settings, source)
