"""`probe`: features, computed once, and a head with dropout per fold, for every kind of data.

Images and texts are encoded by a pretrained encoder; of a table, the columns are the features.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.data.image_cache import find_cache_folder
from uqled.features.columns import make_transformer, take_samples
from uqled.features.components import are_embeddings
from uqled.features.computing import compute_features
from uqled.features.encoders import ENCODERS, EncoderOptions
from uqled.models.heads import make_head
from uqled.predict.learners.committee import OWN_FEATURES
from uqled.predict.learners.network import NetworkLearner, choose_network_source
from uqled.predict.training import Training, make_fabric, resolve_precision
from uqled.predict.training_options import resolve_training
from uqled.progress import Progress

#: The encoder of `probe` alone.
DEFAULT_ENCODER = "efficientnet-lite0"
#: A head is small: it wants more epochs and a lower rate than a whole network, and no bfloat16.
_EPOCHS, _RATE = 20, 0.02


def make_head_training(
    training: Training | None = None, *, user_options: Collection[str] = ()
) -> Training:
    """How a head is trained, but for the options that the user gave."""
    defaults: dict[str, Any] = {"epochs": _EPOCHS, "lr": _RATE, "precision": "32-true"}
    return replace(
        training or Training(), **{k: v for k, v in defaults.items() if k not in user_options}
    )


def make_learner(
    model: str, data: Dataset, *, uncertainty: str, training: dict[str, Any]
) -> NetworkLearner:
    """`probe`, or `probe:ENCODER` for another encoder than the default."""
    training = dict(training)
    offline = bool(training.pop("offline", False))
    settings = resolve_training(training)
    if data.embeddings is not None:
        encoder, features = OWN_FEATURES, data.embeddings
    elif data.kind == "table":
        encoder, features = "columns", compute_columns(data)
    else:
        encoder = name_encoder(model, data.kind)
        features = compute_features(
            data.inputs,
            encoder,
            cache_folder=find_cache_folder(),
            options=replace(make_probe_options(settings), offline=offline),
            progress=Progress(),
        )
    settings = make_head_training(settings, user_options=training.keys() - {"preset"})
    return make_head_learner(f"probe:{encoder}", features, data, uncertainty, settings)


def compute_columns(data: Dataset) -> NDArray[np.float32]:
    """[N,D] the columns of a table as numbers, scaled; labels play no part."""
    rows = take_samples(data, np.arange(len(data)))
    transformer = make_transformer(data, takes_sparse=False, name="probe")
    return np.asarray(transformer.fit_transform(rows), np.float32)


def make_head_learner(
    name: str, features: NDArray[np.float32], data: Dataset, uncertainty: str, training: Training
) -> NetworkLearner:
    """A head with dropout on features [N,D]."""

    def make(seed: int) -> Any:
        return make_head(features.shape[1], data.n_classes, seed)

    source = choose_network_source(uncertainty, make(0))
    is_table = data.kind == "table" and data.embeddings is None and not are_embeddings(data)
    sample_features = None if is_table else features
    return NetworkLearner(name, make, lambda _: features, training, source, sample_features)


def name_encoder(model: str, kind: str = "images") -> str:
    """The encoder of `probe[:ENCODER]`; a name of no encoder of ours is one of timm's."""
    default = DEFAULT_ENCODER if kind == "images" else "minilm"
    name = model.partition(":")[2].replace("efficientnet_lite", "efficientnet-lite") or default
    is_known = name.partition(":")[0].partition("@")[0].partition("+")[0] in ENCODERS
    return name if is_known else f"timm:{name}"


def make_probe_options(training: Training) -> EncoderOptions:
    """The device and precision of training, for the encoder."""
    return EncoderOptions(
        device=make_fabric(training).device.type,
        bfloat16=resolve_precision(training) == "bf16-mixed",
    )
