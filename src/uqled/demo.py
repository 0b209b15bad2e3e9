"""The main job on data that ships with scikit-learn: handwritten digits, some mislabelled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from uqled import noise
from uqled.answer import describe_answer
from uqled.data import Dataset, load
from uqled.detect.find import find_label_errors
from uqled.predict.crossval import cross_validate
from uqled.storage.run import Run

RATE = 0.1


def demo(out: Path, *, seed: int = 0) -> str:
    """Mislabel 10 % of the digits as people would, find them again, and describe the result."""
    data = noisy_digits(seed=seed)
    predictions = cross_validate(data, "small", out=out, seed=seed, progress=True)
    errors = find_label_errors(predictions, method="all")
    table = Run.open(out).write_issues(errors)
    page = errors.report(out / "report.html", data, predictions.pred_probs, predictions.passes)
    wrong = int(np.count_nonzero(data.labels.codes != data.truth))
    return "\n".join(
        [
            f"{len(data):,} handwritten digits, {wrong} of them given the label of a digit that "
            "looks like them.",
            "",
            describe_answer(errors.answer, metrics=errors.measure_methods(data.truth)),
            "",
            f"The table of all samples is {table}",
            f"The report, to open in a browser, is {page}",
        ]
    )


def noisy_digits(*, seed: int) -> Dataset:
    """The digits with similarity noise, and the truth."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    data = load("digits")
    true = data.labels.codes
    pixels = data.inputs.reshape(len(data), -1) / 255
    model = LogisticRegression(max_iter=1_000)
    probs = cross_val_predict(model, pixels, true, cv=4, method="predict_proba")
    matrix = noise.similarity_matrix(true, probs, rate=RATE)
    labels, _ = noise.apply_noise(true, matrix, rate=RATE, seed=seed)
    return replace(data.with_labels(labels), truth=true, name="digits with similarity noise")
