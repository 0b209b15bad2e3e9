"""Computes folds: one after another in this process, or each in its own process on an engine.

On an engine, a fold keeps its state in its own folder of the run: checkpoints, progress, and
finally its predictions. So a lost worker costs only the work since its last checkpoint, and only
small messages are sent back. All workers must see the run's folder under the same path.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.engines import Engine
from uqled.errors import FileError, InputError
from uqled.predict.fold_files import (
    PROGRESS,
    list_member_folders,
    make_member_folder,
    remove_partial_files,
)
from uqled.predict.learner import (
    Advance,
    EnsembleLearner,
    FoldPredictions,
    Learner,
)
from uqled.progress import run_beside
from uqled.storage.atomic import replace_file
from uqled.storage.reading import name_folder, read_text
from uqled.storage.run import Run

_LOOK_SECONDS = 0.5  # seconds between two looks at the progress of the folds


@dataclass(frozen=True, eq=False)
class Folds:
    """Everything that a fold needs, wherever it is computed."""

    run: Run
    learner: Learner
    data: Dataset
    parts: list[NDArray[np.intp]]
    """The samples that each fold predicts."""
    seeds: list[int]
    """Of each fold."""
    passes: int

    @property
    def missing_folds(self) -> list[int]:
        return [fold for fold in range(len(self.parts)) if self.run.read_fold(fold) is None]

    def compute(self, fold: int, advance: Advance) -> None:
        """Compute a fold and store it, unless it is stored already."""
        if self.run.read_fold(fold) is None:
            predictions = self.learner.fit_predict(
                self.data,
                *self._split_rows(fold),
                passes=self.passes,
                **self._make_options(fold, advance),
            )
            _check_fold(predictions, len(self.parts[fold]), self.data.n_classes, fold)
            self.run.write_fold(fold, predictions.pred_probs, predictions.passes)
            remove_partial_files(self.run.make_fold_folder(fold))

    def compute_member(self, fold: int, member: int, advance: Advance) -> None:
        """One training of several in a fold."""
        assert isinstance(self.learner, EnsembleLearner)
        if self.run.read_fold(fold) is None:
            split = self._split_rows(fold)
            self.learner.fit_member(self.data, *split, member, **self._make_options(fold, advance))

    def remove_partial_files(self) -> None:
        """Remove the partial results of finished folds, also those that a killed process left."""
        for fold in range(len(self.parts)):
            remove_partial_files(self.run.make_fold_folder(fold))

    def _split_rows(self, fold: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        test = self.parts[fold]
        return np.setdiff1d(np.arange(len(self.data)), test), test

    def _make_options(self, fold: int, advance: Advance) -> dict[str, Any]:
        folder = self.run.make_fold_folder(fold)
        return {"seed": self.seeds[fold], "folder": folder, "advance": advance}


def compute_here(folds: Folds, advance: Advance) -> None:
    """Compute the missing folds one after another; `advance` is called for these only."""
    for fold in folds.missing_folds:
        folds.compute(fold, advance)
    folds.remove_partial_files()


def compute_distributed(folds: Folds, advance: Advance, engine: Engine) -> None:
    """Compute the folds that are missing on an engine whose workers are processes of their own."""
    missing = folds.missing_folds
    run = Run(folds.run.path.resolve())  # a worker may have another working directory
    sent_folds = replace(folds, run=run, data=replace(folds.data))  # without its cached hashes
    learner = folds.learner
    members = learner.count_fits(folds.passes) if isinstance(learner, EnsembleLearner) else 0
    with _watch_notes(run, missing, advance):
        for _ in engine.map(
            _compute_member,
            [(fold, m) for fold in missing for m in range(members)],
            arguments=(sent_folds,),
        ):
            pass
        for _ in engine.map(_compute_fold, missing, arguments=(sent_folds,)):
            pass
    folds.remove_partial_files()
    if folds.missing_folds:
        raise FileError(
            name_folder(run.path),
            f"lacks fold {folds.missing_folds[0]}, which a worker has written",
            "Choose a folder that all machines see under this path",
        )


def _compute_fold(folds: Folds, fold: int) -> None:
    _check_worker(folds)
    folds.compute(fold, _make_note_writer(folds.run.make_fold_folder(fold)))


def _compute_member(folds: Folds, item: tuple[int, int]) -> None:
    _check_worker(folds)
    fold, member = item
    folder = make_member_folder(folds.run.make_fold_folder(fold), member)
    folds.compute_member(fold, member, _make_note_writer(folder))


def _check_worker(folds: Folds) -> None:
    """Refuse a machine that does not see the run, or would train with settings other than the
    run's."""
    try:
        settings = folds.run.configuration()["settings"]
    except FileError as error:
        raise FileError(
            name_folder(folds.run.path),
            f"is not seen by the worker on {os.uname().nodename}",
            "Choose a folder that all machines see under this path",
        ) from error
    worker_settings = json.loads(json.dumps(folds.learner.settings()))
    for name in settings:
        if worker_settings.get(name) != settings[name]:
            raise InputError(
                name,
                f"is {settings[name]!r} in this run and {worker_settings.get(name)!r} for the "
                f"worker on {os.uname().nodename}",
                "Set it explicitly, or use machines of the same kind",
            )


def _make_note_writer(folder: Path) -> Advance:
    """A function that writes the finished share to a small file in `folder`."""
    share, last = 0.0, 0.0

    def advance(more: float) -> None:
        nonlocal share, last
        share += more
        if time.monotonic() - last > _LOOK_SECONDS:
            last = time.monotonic()
            with replace_file(folder / PROGRESS, durable=False) as part:
                part.write_text(f"{share:.4f}")

    return advance


@contextmanager
def _watch_notes(run: Run, missing: list[int], advance: Advance) -> Iterator[None]:
    """Call `advance` with the progress that the missing folds have recorded, from time to time."""
    reported_share = 0.0

    def look() -> None:
        nonlocal reported_share
        now = sum(_measure_progress(run, fold) for fold in missing)
        if now > reported_share:  # a fold that is repeated starts again from its checkpoint
            advance(now - reported_share)
            reported_share = now

    def watch(is_over: Event) -> None:
        while not is_over.wait(_LOOK_SECONDS):
            look()

    look()
    with run_beside(watch):
        yield
    look()


def _measure_progress(run: Run, fold: int) -> float:
    """The finished share of a fold: from its own file, or from those of its members."""
    if run.read_fold(fold) is not None:
        return 1.0
    folder, shares = run.make_fold_folder(fold), [0.0, 0.0]  # of the fold, of its members
    for path in (folder / PROGRESS, *(member / PROGRESS for member in list_member_folders(folder))):
        try:
            share = float(read_text(path))
        except ValueError:  # not there yet, just renamed, or not a number
            continue
        if share > 0:  # and so no NaN
            shares[path.parent != folder] += share
    return min(max(shares), 1.0)


def _check_fold(predictions: FoldPredictions, n: int, n_classes: int, fold: int) -> None:
    """Refuse invalid predictions before they are stored: a diverged training, a wrong shape."""
    for name, array in (("pred_probs", predictions.pred_probs), ("passes", predictions.passes)):
        if array is None:
            continue
        if array.shape[-2:] != (n, n_classes) or array.dtype != np.float32:
            raise AssertionError(f"{name} of fold {fold}: {array.dtype} {array.shape}")
        if not np.isfinite(array).all():
            raise InputError(
                "lr",
                f"or the network made training diverge: fold {fold} predicts NaN",
                "Lower the learning rate, or train in 32-bit precision",
            )
