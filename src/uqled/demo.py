"""The main job on data that ships with the package: scikit-learn's digits with wrong labels.

Until uqled trains models itself, scikit-learn's forests make the predictions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import noise, run
from uqled.detect.find import find_label_errors
from uqled.detect.result import LabelErrors
from uqled.detect.summary import summary

RATE, FOLDS, PASSES, TREES = 0.1, 4, 5, 60


def demo(out: Path, *, seed: int = 0) -> str:
    """Add 10 % realistic noise, find it again, write a table and a picture; return what to say."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, true = digits.data, digits.target
    clean = _passes(images, true, seed=seed)
    matrix = noise.similarity_matrix(true, clean.mean(axis=0), rate=RATE)
    labels, is_error = noise.apply_noise(true, matrix, rate=RATE, seed=seed)
    passes = _passes(images, labels, seed=seed)
    errors = find_label_errors(labels, passes[0], passes, method="all")

    run.write_issues(errors, out / "issues.csv")
    _picture(errors, digits.images, true, out / "suspects.png")
    return "\n".join(
        [
            f"{len(labels):,} handwritten digits, {int(is_error.sum())} of them given a wrong "
            f"label; out-of-sample predictions by {FOLDS}-fold cross-validation.",
            "",
            summary(errors),
            "",
            "how right each method is:",
            *_scores(errors, is_error),
            "",
            f"The table is {out / 'issues.csv'},",
            f"a picture of the most suspect {out / 'suspects.png'}.",
        ]
    )


def _passes(images: NDArray[Any], labels: NDArray[Any], *, seed: int) -> NDArray[np.float64]:
    """[F,N,K] out-of-sample probabilities of forests that differ in their seed."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    forests = [ExtraTreesClassifier(TREES, random_state=seed + f, n_jobs=-1) for f in range(PASSES)]
    return np.stack(
        [cross_val_predict(f, images, labels, cv=folds, method="predict_proba") for f in forests]
    )


def _scores(errors: LabelErrors, is_error: NDArray[np.bool_]) -> list[str]:
    from sklearn.metrics import precision_recall_fscore_support

    lines = [f"  {'':22} precision  recall     F1"]
    for name, one in errors.by_method.items():
        p, r, f1, _ = precision_recall_fscore_support(
            is_error, one.mask, average="binary", zero_division=0
        )
        lines.append(f"  {name:22} {p:9.3f} {r:7.3f} {f1:6.3f}")
    return lines


def _picture(errors: LabelErrors, images: NDArray[Any], true: NDArray[Any], path: Path) -> None:
    """The most suspect samples, with the given, the suggested and the true label."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.4), layout="constrained")
    axes = figure.subplots(3, 8)
    for axis, z in zip(axes.flat, errors.ranked, strict=False):
        axis.imshow(images[z], cmap="gray_r")
        given, suggested = errors.given[z], errors.suggested[z]
        right = suggested == true[z]
        axis.set_title(f"{given} → {suggested}", color="tab:green" if right else "tab:red")
    for axis in axes.flat:
        axis.axis("off")
    figure.suptitle("most suspect: given → suggested label (green: the truth, red: it is not)")
    with run.replacing(path) as part:
        figure.savefig(part, dpi=120, format="png")
