"""`cleanlab.dataset`: how healthy the labels of a whole data set are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from uqled.compat.count import estimate_joint, num_label_issues
from uqled.errors import InputError

#: Least share of the samples that cleanlab divides by, for classes without samples.
_LEAST_SHARE = 1e-6


def health_summary(
    labels: Any = None,
    pred_probs: NDArray[Any] | None = None,
    *,
    asymmetric: bool = False,
    class_names: Any = None,
    num_examples: int | None = None,
    joint: NDArray[Any] | None = None,
    confident_joint: NDArray[Any] | None = None,
    verbose: bool = True,
) -> dict[str, Any]:
    """All results of the other functions of this module: `overall_label_health_score`,
    `joint`, `classes_by_label_quality` and `overlapping_classes`."""
    if joint is None:
        joint = estimate_joint(labels, pred_probs, confident_joint=confident_joint)
    options: dict[str, Any] = {"confident_joint": confident_joint, "num_examples": num_examples}
    classes = rank_classes_by_label_quality(
        labels, pred_probs, class_names=class_names, joint=joint, **options
    )
    overlaps = find_overlapping_classes(
        labels, pred_probs, asymmetric=asymmetric, class_names=class_names, joint=joint, **options
    )
    score = overall_label_health_score(labels, pred_probs, joint=joint, verbose=False, **options)
    if verbose:
        print("Classes, worst labels first:", classes.to_string(), sep="\n")
        print("\nClasses that overlap:", overlaps.to_string(), sep="\n")
        print(f"\nOverall label health: {score:.3f}")
    return {
        "overall_label_health_score": score,
        "joint": joint,
        "classes_by_label_quality": classes,
        "overlapping_classes": overlaps,
    }


def rank_classes_by_label_quality(
    labels: Any = None,
    pred_probs: NDArray[Any] | None = None,
    *,
    class_names: Any = None,
    num_examples: int | None = None,
    joint: NDArray[Any] | None = None,
    confident_joint: NDArray[Any] | None = None,
) -> pd.DataFrame:
    """One row per class, the class with the worst labels first: numbers and shares of wrong labels,
    and of samples of the class that have another label."""
    if joint is None:
        joint = estimate_joint(labels, pred_probs, confident_joint=confident_joint)
    N = _count_samples(labels, num_examples, confident_joint)
    given_shares, true, right = joint.sum(axis=1), joint.sum(axis=0), joint.diagonal()
    noise = (given_shares - right) / np.maximum(given_shares, _LEAST_SHARE)
    inverse = (true - right) / np.maximum(true, _LEAST_SHARE)
    frame = pd.DataFrame(
        {
            "Class Index": np.arange(len(joint)),
            "Label Issues": ((given_shares - right) * N).round().astype(int),
            "Inverse Label Issues": ((true - right) * N).round().astype(int),
            "Label Noise": noise,
            "Inverse Label Noise": inverse,
            "Label Quality Score": 1 - noise,
        }
    )
    if class_names is not None:
        frame.insert(0, "Class Name", list(class_names))
    return frame.sort_values(by="Label Quality Score", ascending=True).reset_index(drop=True)


def find_overlapping_classes(
    labels: Any = None,
    pred_probs: NDArray[Any] | None = None,
    *,
    asymmetric: bool = False,
    class_names: Any = None,
    num_examples: int | None = None,
    joint: NDArray[Any] | None = None,
    confident_joint: NDArray[Any] | None = None,
) -> pd.DataFrame:
    """One row per pair of classes, those first that are confused most often.

    With `asymmetric`, a pair is (given, true); otherwise both directions are added.
    """
    if joint is None:
        joint = estimate_joint(labels, pred_probs, confident_joint=confident_joint)
    N = _count_samples(labels, num_examples, confident_joint)
    K = len(joint)
    is_pair = ~np.eye(K, dtype=np.bool_) if asymmetric else np.triu(np.ones((K, K), np.bool_), 1)
    first, second = np.nonzero(is_pair)
    shares = joint[first, second] if asymmetric else joint[first, second] + joint[second, first]
    frame = pd.DataFrame(
        {
            "Class Index A": first,
            "Class Index B": second,
            "Num Overlapping Examples": (shares * N).round().astype(int),
            "Joint Probability": shares,
        }
    )
    if class_names is not None:
        names = np.asarray(class_names)
        frame.insert(0, "Class Name A", names[first])
        frame.insert(1, "Class Name B", names[second])
    return frame.sort_values(by="Joint Probability", ascending=False).reset_index(drop=True)


def overall_label_health_score(
    labels: Any = None,
    pred_probs: NDArray[Any] | None = None,
    *,
    num_examples: int | None = None,
    joint: NDArray[Any] | None = None,
    confident_joint: NDArray[Any] | None = None,
    verbose: bool = True,
) -> float:
    """The estimated share of labels that are right."""
    N = _count_samples(labels, num_examples, confident_joint)
    if labels is None or pred_probs is None:
        if joint is None:
            joint = estimate_joint(labels, pred_probs, confident_joint=confident_joint)
        score = float(joint.trace())
    else:
        score = 1 - num_label_issues(labels, pred_probs) / N
    if verbose:
        print(f"About {round((1 - score) * N):,} of {N:,} labels are wrong: health {score:.2f}")
    return score


def _count_samples(labels: Any, number: int | None, joint: NDArray[Any] | None) -> int:
    if number is not None:
        return number
    if labels is not None:
        return len(labels)
    if joint is None:
        raise InputError("num_examples", "is missing", "Pass it, or labels or confident_joint")
    return int(np.sum(joint))
