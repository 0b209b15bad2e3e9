"""Predicts new samples with the model of a finished run, which is fitted again.

A run keeps no fitted model: one would be a pickle, and a pickle from a stranger is a program. The
model is fitted again on the samples of the run, which takes about as long as one of its folds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset, join_inputs
from uqled.data.image_cache import find_cache_folder
from uqled.data.inspection.copies import choose_unlabelled_classes
from uqled.errors import FileError
from uqled.features.components import reduce_features
from uqled.features.computing import compute_features
from uqled.predict.committee.combining import combine_members
from uqled.predict.committee.heads import HEADS
from uqled.predict.fold_files import read_members
from uqled.predict.learner import CombiningLearner, EnsembleLearner, FoldPredictions, Learner
from uqled.predict.learners import LEARNERS, choose_learner
from uqled.predict.learners.committee import CommitteeLearner, group_appended
from uqled.predict.training_options import Training, resolve_training
from uqled.progress import Progress
from uqled.storage.run import Predictions, Run

_PASSES = 5  # where the run has passes of the user's own
#: More epochs than anybody trains for: a stranger's run could ask for any number.
_MAX_PASSES, _MAX_EPOCHS = 1_000, 1_000
#: Encoders that a run may name: those that are installed, not files and not downloads, at a side of
#: pixels that needs no more memory than images do.
_ENCODER = re.compile(r"[a-z0-9-]+(@\d{1,3})?(\+[a-z0-9-]+(@\d{1,3})?)*")

#: Models whose name has that of an encoder behind it.
_ENCODER_MODELS = ("committee", "probe")
#: Options of training that do not depend on the machine.
_TRAINING = [one.name for one in fields(Training) if one.name not in ("device", "devices")]


def predict_new_samples(
    predictions: Predictions,
    run_data: Dataset,
    new: Dataset,
    is_trusted: NDArray[np.bool_],
    *,
    progress: Progress | bool | None = None,
) -> FoldPredictions:
    """Probabilities of the samples of `new`, by the model of the run of `predictions`.

    `run_data` are the run's samples, and those where `is_trusted` [N] train the model. `new` has
    the same kind of inputs and the same classes.
    """
    bar = progress if isinstance(progress, Progress) else Progress(progress)
    model = _StoredModel.read(Run.open(predictions.path))
    features = model.compute_features(run_data, new, is_trusted, bar)
    samples = _stack_samples(run_data, new, is_trusted, features)
    learner = model.make_learner(samples, features)
    train, test = np.split(np.arange(len(samples)), [len(samples) - len(new)])
    with (
        TemporaryDirectory() as folder,
        bar.stage(
            f"fitting {model.name} and predicting {len(new):,} samples",
            1,
            cycle=None if isinstance(learner, EnsembleLearner) else 1,
        ) as advance,
    ):
        new_predictions = learner.fit_predict(
            samples, train, test, passes=model.passes, seed=model.seed, folder=Path(folder),
            advance=advance,
        )  # fmt: skip
    if isinstance(learner, CommitteeLearner):
        return combine_new_members(new_predictions, predictions, learner.members)
    return new_predictions


def predict_unlabelled(
    run: Run,
    data: Dataset,
    choose_learner: Callable[[Dataset], Learner],
    *,
    seed: int,
    progress: bool | None = None,
) -> None:
    """Write the predicted class of the samples without a label, by a model of all the others."""
    together = data.with_unlabelled()
    learner = choose_learner(together)
    run_rows, new = np.split(np.arange(len(together)), [len(data)])
    name = f"predicting {len(new):,} samples without a label"
    cycle = None if isinstance(learner, EnsembleLearner) else 1
    with TemporaryDirectory() as folder, Progress(progress).stage(name, 1, cycle=cycle) as advance:
        predictions = learner.fit_predict(
            together, run_rows, new, passes=1, seed=seed, folder=Path(folder), advance=advance
        )
    if isinstance(learner, CombiningLearner):
        predictions = combine_new_members(predictions, run.predictions(), learner.members)
    probs = predictions.pred_probs
    run.write_unlabelled(
        data.unlabelled, data.labels, probs, *choose_unlabelled_classes(data, probs)
    )


@dataclass(frozen=True)
class _StoredModel:
    """The run's description of its model."""

    name: str
    members: tuple[str, ...]
    """Of a committee."""
    uncertainty: str
    """The settings of a classifier or a network."""
    training: Mapping[str, Any]
    """How a network is trained."""
    passes: int
    seed: int

    @classmethod
    def read(cls, run: Run) -> _StoredModel:
        """Checked, since a run may come from a stranger: it must not name code or files."""
        configuration = run.configuration()
        name, settings = configuration.get("model"), configuration.get("settings")
        passes, seed = configuration.get("passes"), configuration.get("seed")
        settings = settings if isinstance(settings, dict) else {}
        members, uncertainty = settings.get("members", []), settings.get("uncertainty", "auto")
        learner, colon, encoder = str(name).partition(":")
        is_known = learner in LEARNERS and learner != "auto"
        if not is_known or (
            colon and not (learner in _ENCODER_MODELS and _ENCODER.fullmatch(encoder))
        ):
            raise FileError(
                f"run {str(run.path)!r}",
                f"was made with the model {name!r}, which cannot be fitted again from the run",
                f"Make the run with one of the models {', '.join(LEARNERS.names())}, or predict "
                "the new data yourself and use uqled detect",
            )
        training = {one: settings[one] for one in _TRAINING if one in settings}
        epochs = training.get("epochs", 1)
        is_committee = learner == "committee"
        if (
            type(seed) is not int
            or not 0 <= seed < 2**63
            or not isinstance(uncertainty, str)
            or not isinstance(members, list)
            or not all(isinstance(one, str) for one in members)
            or len(set(members)) < len(members)  # the same member named twice
            or bool(members) != is_committee
            or type(epochs) is not int
            or not 0 < epochs <= _MAX_EPOCHS
        ):
            raise FileError(
                f"run {str(run.path)!r}",
                "does not say how its model was fitted",
                "Make the run again",
            )
        for member in members:
            HEADS.load(member)  # refused if there is no such
        count = passes if type(passes) is int and 0 < passes <= _MAX_PASSES else _PASSES
        if training.get("precision") != "32-true":
            training.pop("precision", None)  # this machine may not have it
        return cls(str(name), tuple(members), uncertainty, training, count, seed)

    @property
    def encoder(self) -> str:
        """Of a committee or probe on features; empty of one on the columns of a table."""
        encoder = self.name.partition(":")[2]
        return "" if encoder == "columns" else encoder

    def make_learner(self, samples: Dataset, features: NDArray[np.float32] | None) -> Learner:
        """What learns from samples, of which those to predict come last."""
        kind = self.name.partition(":")[0]
        if kind == "committee":
            members, groups = self.members, group_appended(samples)
            return CommitteeLearner(self.name, self.encoder, features, members, fixed_groups=groups)
        if features is not None:
            from uqled.predict.learners.probe import make_head_learner  # loads torch

            training = resolve_training(self.training)
            return make_head_learner(self.name, features, samples, self.uncertainty, training)
        return choose_learner(self.name, samples, uncertainty=self.uncertainty, **self.training)

    def compute_features(
        self, run_data: Dataset, new: Dataset, is_trusted: NDArray[np.bool_], progress: Progress
    ) -> NDArray[np.float32] | None:
        """[N,D] of the trusted samples and the new ones; None where the model takes no features.

        Those of the run are in the cache, if it was made on this machine.
        """
        if not self.encoder:
            return None
        if self.encoder == "features":
            before, after = run_data.inputs, new.inputs
        else:
            before, after = (
                compute_features(
                    data.inputs, self.encoder, cache_folder=find_cache_folder(), progress=progress
                )
                for data in (run_data, new)
            )
        features = np.concatenate([before[is_trusted], after]).astype(np.float32)
        return reduce_features(features) if self.members else features


def _stack_samples(
    run_data: Dataset,
    new: Dataset,
    is_trusted: NDArray[np.bool_],
    features: NDArray[np.float32] | None,
) -> Dataset:
    """The trusted samples, then the new ones; images are their features, where there are any."""
    trusted_labels = run_data.labels.codes[is_trusted]
    # The model must not know the labels of new samples, not even how often each class occurs.
    codes = np.concatenate([trusted_labels, np.resize(trusted_labels, len(new))])
    labels = replace(run_data.labels, codes=codes)
    ids = np.concatenate([run_data.ids[is_trusted], new.ids])
    if features is not None and run_data.kind == "images":
        return Dataset("table", features, labels, ids, run_data.name, n_appended=len(new))
    return Dataset(
        run_data.kind,
        join_inputs(run_data.subset(is_trusted).inputs, new.inputs),
        labels,
        ids,
        run_data.name,
        columns=run_data.columns,
        n_appended=len(new),
    )


def combine_new_members(
    new_predictions: FoldPredictions, predictions: Predictions, names: tuple[str, ...]
) -> FoldPredictions:
    """The members, calibrated and weighted by what they predicted out of fold in the run."""
    codes, n = predictions.labels.codes, new_predictions.pred_probs.shape[0]
    order = np.argsort(predictions.folds, kind="stable")
    ends = np.cumsum(np.bincount(predictions.folds))
    parts = np.split(order, ends[:-1])
    before = read_members(
        Run.open(predictions.path), parts, len(names), predictions.labels.n_classes
    )
    assert new_predictions.passes is not None
    combination = combine_members(
        np.concatenate([before, new_predictions.passes], axis=1),
        np.concatenate([codes, np.zeros(n, codes.dtype)]),  # not used for the others
        np.repeat([0, 1], [len(codes), n]),
    )
    return FoldPredictions(
        combination.pred_probs[len(codes) :], combination.passes[:, len(codes) :]
    )
