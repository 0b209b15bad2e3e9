"""`cleanlab.filter`: which samples have label issues.

`find_label_issues` gives the answers of `cleanlab.filter.find_label_issues` (2.9) for single-label
data. Where the two differ in arithmetic, this module repeats cleanlab's order of rounding and its
way of breaking ties, so it keeps to the input's precision where the rest of uqled uses float64.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import Labels
from uqled.compat.inputs import (
    check_labels,
    check_probabilities,
    compute_thresholds,
    find_class_members,
)
from uqled.compat.prune_counts import calibrate_matrix, check_counts, count_prunes
from uqled.compat.rank import RANKINGS, compute_scores
from uqled.detect.core.class_statistics import ClassStatistics
from uqled.detect.core.inputs import Inputs
from uqled.detect.core.joint import PairCounts, Quotas
from uqled.detect.core.kernels import SLACK
from uqled.detect.core.rows import ProbabilityRows
from uqled.detect.core.selection import TopPerPair
from uqled.detect.core.sweeps import ConfidentJoints, Sweeps
from uqled.detect.find import count_threads
from uqled.detect.methods.method import SOFTMAX, Score, SweepEvidence
from uqled.detect.methods.registry import list_methods
from uqled.detect.request import DetectionRequest, check_request
from uqled.engines.local import Threads
from uqled.errors import InputError
from uqled.progress import Progress

FilterBy = Literal[
    "prune_by_noise_rate",
    "prune_by_class",
    "both",
    "confident_learning",
    "predicted_neq_given",
    "low_normalized_margin",
    "low_self_confidence",
]
_FILTERS = FilterBy.__args__  # type: ignore[attr-defined]
_PRUNING = ("prune_by_noise_rate", "prune_by_class", "both")

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def find_label_issues(
    labels: Any,
    pred_probs: NDArray[Any],
    *,
    return_indices_ranked_by: str | None = None,
    rank_by_kwargs: dict[str, Any] | None = None,
    filter_by: FilterBy = "prune_by_noise_rate",
    frac_noise: float = 1.0,
    num_to_remove_per_class: list[int] | None = None,
    min_examples_per_class: int = 1,
    confident_joint: NDArray[Any] | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
    multi_label: bool = False,
) -> NDArray[Any]:
    """[N] True = label issue; or the indices of the issues, if `return_indices_ranked_by` is given.

    The arguments are cleanlab's. `n_jobs` is the number of threads; `multi_label` is not supported.
    """
    _check_options(
        filter_by, frac_noise, num_to_remove_per_class, confident_joint, multi_label,
        return_indices_ranked_by,
    )  # fmt: skip
    codes = check_labels(labels, one_class=filter_by != "predicted_neq_given")
    pred_probs = check_probabilities(pred_probs, codes)
    joint = check_counts(
        pred_probs.shape[1], frac_noise=frac_noise, num_to_remove=num_to_remove_per_class,
        min_examples=min_examples_per_class, joint=confident_joint,
    )  # fmt: skip
    if pred_probs.shape[1] == 1:
        mask = np.zeros(len(codes), np.bool_)
    else:
        # cleanlab takes any number for these two, so `check_counts` has checked them instead.
        request = replace(
            check_request(_find_method(filter_by), inputs=("pred_probs",)),
            frac_noise=frac_noise,
            min_examples_per_class=min_examples_per_class,
        )
        with Threads(count_threads(n_jobs, "n_jobs")) as engine:
            sweeps = Sweeps(_make_inputs(codes, pred_probs), engine, Progress())
            evidence = _collect_evidence(
                sweeps, request, pred_probs, num_to_remove_per_class, joint
            )
        mask = request.headline.method.votes(evidence).astype(np.bool_, copy=False)
    if verbose:
        print(f"Number of label issues found: {np.count_nonzero(mask)}")
    if return_indices_ranked_by is None:
        return mask
    scores = compute_scores(return_indices_ranked_by, codes, pred_probs, **(rank_by_kwargs or {}))
    return np.flatnonzero(mask)[np.argsort(scores[mask])]


def find_predicted_neq_given(
    labels: Any, pred_probs: NDArray[Any], *, multi_label: bool = False
) -> Bools:
    """[N] True where the predicted class differs from the label.

    As in cleanlab, ties are broken otherwise than by `filter_by="predicted_neq_given"`: here the
    lower class wins, there the label does.
    """
    _refuse_multi_label(multi_label)
    codes = check_labels(labels, one_class=True)
    differs: Bools = check_probabilities(pred_probs, codes).argmax(axis=1) != codes
    return differs


def find_label_issues_using_argmax_confusion_matrix(
    labels: Any,
    pred_probs: NDArray[Any],
    *,
    calibrate: bool = True,
    filter_by: FilterBy = "prune_by_noise_rate",
) -> NDArray[Any]:
    """[N] True = label issue, where the confusion matrix of the predicted classes takes the place
    of the confident joint."""
    codes = check_labels(labels, one_class=True)
    probs = check_probabilities(pred_probs, codes)
    joint = np.zeros((probs.shape[1], probs.shape[1]), np.int64)
    np.add.at(joint, (codes, probs.argmax(axis=1)), 1)
    if calibrate:
        joint = calibrate_matrix(joint, joint.sum(axis=1))
    return find_label_issues(codes, probs, confident_joint=joint, filter_by=filter_by)


def _find_method(filter_by: str) -> str:
    """The name of the method that flags by the same rule."""
    return next(
        name for name, method in list_methods().items() if method.cleanlab_filter == filter_by
    )


def _make_inputs(labels: Ints, pred_probs: NDArray[Any]) -> Inputs:
    """Inputs whose rows need not add up to 1, and whose margins are in their own precision."""
    K = pred_probs.shape[1]
    return Inputs(
        Labels(labels.astype(np.int32), np.arange(K), tuple(map(str, range(K)))),
        ProbabilityRows(pred_probs, name="pred_probs", ndim=2),
        None,
        single_precision=pred_probs.dtype == np.float32,
        are_distributions=False,
    )


@dataclass(frozen=True)
class _CleanlabEvidence(SweepEvidence):
    """Evidence that breaks ties as cleanlab's sort does, in the input's own precision."""

    probs: NDArray[Any] = field(kw_only=True)
    class_members: list[NDArray[np.intp]] = field(kw_only=True)
    """Per class, the indices of its samples."""

    def prune_by_class(self) -> Bools:
        mask, quotas = np.zeros(len(self.labels), np.bool_), self.quotas[SOFTMAX].per_class
        for k in np.flatnonzero(quotas).tolist():
            members = self.class_members[k]
            mask[members[np.argsort(self.probs[members, k])[: quotas[k]]]] = True
        return mask & self.disagrees("softmax")

    def find_lowest(self, score: Score) -> Bools:
        scores = compute_scores(score.replace("-", "_"), self.labels, self.probs)
        mask = np.zeros(len(scores), np.bool_)
        mask[np.argsort(scores)[: np.count_nonzero(self.find_off_diagonal())]] = True
        return mask


def _collect_evidence(
    sweeps: Sweeps,
    request: DetectionRequest,
    probs: NDArray[Any],
    num_to_remove: list[int] | None,
    joint: NDArray[Any] | None,
) -> _CleanlabEvidence:
    """Sweep as `uqled.detect.find` does, with cleanlab's thresholds and quotas."""
    labels, K = sweeps.inputs.labels.codes, sweeps.K
    plan = request.plan_sweeps(0, has_softmax=True)
    class_members = find_class_members(labels, K)
    thresholds = (compute_thresholds(probs, class_members) - SLACK).astype(np.float64)
    statistics = ClassStatistics(
        np.bincount(labels, minlength=K), thresholds={"softmax": thresholds}
    )
    joints = sweeps.count_confident_joints(
        plan.members, statistics, keep_confident=plan.keep_confident
    )
    if probs.dtype == np.float16:
        joints.agrees["softmax"] = _compare_in_half_precision(sweeps.inputs, probs)
    quotas, selected = {}, {}
    if request.headline.method.takes_frac_noise:
        quotas[SOFTMAX] = _compute_quotas(
            joints.counters[SOFTMAX].get_joint() if joint is None else joint,
            statistics.class_counts,
            request,
            num_to_remove,
        )
    for member in plan.selecting_members:
        selected[member] = _select_top_margins(
            sweeps, quotas[member].pairs, joints, probs, class_members
        )
    return _CleanlabEvidence(
        labels, statistics, joints, quotas, selected, request.entropy_class, 0,
        probs=probs, class_members=class_members,
    )  # fmt: skip


def _compare_in_half_precision(inputs: Inputs, probs: NDArray[Any]) -> Bools:
    """[N] True where the label is the predicted class, once the slack is added to it."""
    agrees = np.empty(len(probs), np.bool_)
    for start, stop in inputs.split_blocks():
        block, codes = probs[start:stop].copy(), inputs.labels.codes[start:stop]
        block[np.arange(len(codes)), codes] += SLACK
        agrees[start:stop] = block.argmax(axis=1) == codes
    return agrees


def _compute_quotas(
    joint: PairCounts | NDArray[Any],
    class_counts: NDArray[np.int64],
    request: DetectionRequest,
    num_to_remove: list[int] | None,
) -> Quotas:
    """How many samples of each pair and of each class cleanlab prunes."""
    min_examples = request.min_examples_per_class
    numbers = count_prunes(
        joint,
        class_counts,
        frac_noise=request.frac_noise,
        num_to_remove=num_to_remove,
        min_examples=min_examples,
    )
    small = np.flatnonzero((class_counts > 0) & (class_counts <= min_examples)).tolist()
    if small:
        warnings.warn(
            f"Classes with too few samples to find label issues in (min_examples_per_class="
            f"{min_examples}): {small[:10]}{' ...' if len(small) > 10 else ''}",
            stacklevel=4,
        )
    is_large = (class_counts > min_examples) & (class_counts > 1)
    given, true = numbers.pairs.given, numbers.pairs.true
    quotas = np.minimum(np.maximum(numbers.pairs.counts, 0), class_counts[given])
    is_pruned = is_large[given] & (quotas > 0)
    return Quotas(
        PairCounts(len(class_counts), given[is_pruned], true[is_pruned], quotas[is_pruned]),
        np.where(is_large, np.maximum(class_counts - numbers.n_kept, 0), 0),
    )


def _select_top_margins(
    sweeps: Sweeps,
    pairs: PairCounts,
    joints: ConfidentJoints,
    probs: NDArray[Any],
    class_members: list[NDArray[np.intp]],
) -> Bools:
    """[N] True for each pair's quota of the largest margins; cleanlab's sort breaks ties."""
    if probs.dtype == np.float16:
        mask = np.zeros(len(probs), np.bool_)
        tied_pairs = np.arange(len(pairs.counts))
    else:
        class_counts = np.array([len(members) for members in class_members])
        one_more = np.minimum(pairs.counts + 1, class_counts[pairs.given])
        best = sweeps.select_top_margins({SOFTMAX: replace(pairs, counts=one_more)}, joints)
        mask, tied_pairs = _select_without_ties(best[SOFTMAX], pairs, len(probs))
    for q in tied_pairs.tolist():
        i, j, number = int(pairs.given[q]), int(pairs.true[q]), int(pairs.counts[q])
        members = class_members[i]
        margin = probs[members, j] - probs[members, i]
        mask[members[np.argsort(-margin)[:number]]] = True
    return mask


def _select_without_ties(
    best: TopPerPair, pairs: PairCounts, n: int
) -> tuple[Bools, NDArray[np.intp]]:
    """The samples of pairs with one clear answer, and the numbers of the pairs without.

    `best` holds one sample more than each pair's quota: equal margins on both sides of the cut.
    """
    pair = np.repeat(np.arange(len(pairs.counts)), np.diff(best.offsets))
    order = np.lexsort((best.indices, -best.margins, pair))
    margins, position = best.margins[order], np.arange(len(order)) - best.offsets[pair]
    has_more = np.diff(best.offsets) > pairs.counts
    last = best.offsets[:-1] + pairs.counts - 1
    has_tie = has_more & (margins[last] == margins[np.minimum(last + 1, len(margins) - 1)])
    is_selected = (position < pairs.counts[pair]) & ~has_tie[pair]
    mask = np.zeros(n, np.bool_)
    mask[best.indices[order[is_selected]]] = True
    return mask, np.flatnonzero(has_tie)


def _check_options(
    filter_by: str,
    frac_noise: float,
    num_to_remove: Any,
    joint: Any,
    multi_label: bool,
    rank_by: str | None,
) -> None:
    _refuse_multi_label(multi_label)
    if filter_by not in _FILTERS:
        raise InputError("filter_by", f"is {filter_by!r}", f"Choose one of {', '.join(_FILTERS)}")
    if rank_by is not None and rank_by not in RANKINGS:
        raise InputError(
            "return_indices_ranked_by", f"is {rank_by!r}", f"Choose one of {', '.join(RANKINGS)}"
        )
    if filter_by not in _PRUNING:
        if num_to_remove is not None:
            raise InputError(
                "num_to_remove_per_class",
                f"is not supported with filter_by={filter_by!r}",
                f"Use it with {', '.join(_PRUNING)}",
            )
        if frac_noise != 1.0:
            warnings.warn(
                f"frac_noise={frac_noise} has no effect with filter_by={filter_by!r}", stacklevel=3
            )
    if filter_by == "confident_learning" and joint is not None:
        warnings.warn(
            "confident_joint is ignored with filter_by='confident_learning', which counts its own",
            stacklevel=3,
        )


def _refuse_multi_label(multi_label: bool) -> None:
    if multi_label:
        raise InputError("multi_label", "is True", "uqled handles data with one label per sample")
