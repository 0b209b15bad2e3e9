"""The main job on data that ships with scikit-learn: handwritten digits, some mislabelled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from uqled import noise
from uqled.data import Dataset, load
from uqled.detect.find import find_label_errors
from uqled.detect.methods.registry import ALL
from uqled.detect.result import LabelErrors
from uqled.predict.crossval import cross_validate
from uqled.predict.learners import find_learner_maker
from uqled.progress import Progress
from uqled.storage.run import Run

_MODEL = "small"
_RATE = 0.1  # share of wrong labels


@dataclass(frozen=True)
class DemoResult:
    """What the example found, and where it is."""

    data: Dataset
    errors: LabelErrors
    table: Path
    report: Path

    @property
    def n_wrong(self) -> int:
        return int(np.count_nonzero(self.data.labels.codes != self.data.truth))


def run_demo(out: Path, *, seed: int = 0, progress: bool = True) -> DemoResult:
    """Mislabel a tenth of the digits as people would, and find these labels again."""
    find_learner_maker(_MODEL)  # refuse a missing package before any work
    bar = Progress(progress)
    with bar.stage("mislabelling digits on purpose"):
        data = make_noisy_digits(seed=seed)
    predictions = cross_validate(data, _MODEL, out=out, seed=seed, progress=progress)
    errors = find_label_errors(predictions, method=ALL, progress=progress)
    table = Run.open(out).write_issues(errors)
    with bar.stage("writing the report"):
        page = errors.report(out / "report.html", data, predictions.pred_probs, predictions.passes)
    return DemoResult(data, errors, table, Path(page))


def make_noisy_digits(*, seed: int) -> Dataset:
    """The digits, a tenth of them with the label of a digit that looks like them, and the truth."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    data = load("digits")
    true = data.labels.codes
    pixels = data.inputs.reshape(len(data), -1) / 255
    model = LogisticRegression(max_iter=1_000)
    probs = cross_val_predict(model, pixels, true, cv=4, method="predict_proba")
    matrix = noise.similarity_matrix(true, probs, rate=_RATE)
    labels, _ = noise.apply_noise(true, matrix, rate=_RATE, seed=seed)
    return replace(data.with_labels(labels), truth=true, name="digits with similarity noise")
