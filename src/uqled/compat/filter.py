"""`cleanlab.filter`: which samples have label issues.

`find_label_issues` gives the answers of `cleanlab.filter.find_label_issues` (2.9) for single-label
data. Where the two differ in arithmetic, this module repeats cleanlab's order of rounding and its
way of breaking ties, so it keeps to the input's precision where the rest of uqled uses float64.
"""

from __future__ import annotations

import warnings
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
from uqled.compat.prune_counts import (
    PruneCounts,
    calibrate_matrix,
    check_counts,
    count_prunes,
)
from uqled.compat.rank import RANKINGS, compute_scores
from uqled.detect.core.class_statistics import ClassStatistics
from uqled.detect.core.inputs import Inputs
from uqled.detect.core.joint import PairCounts
from uqled.detect.core.kernels import SLACK
from uqled.detect.core.rows import ProbabilityRows
from uqled.detect.core.selection import TopPerPair
from uqled.detect.core.sweeps import ConfidentJoints, Member, Sweeps
from uqled.detect.find import count_threads
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
_SOFTMAX = Member("softmax")

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
        with Threads(count_threads(n_jobs)) as engine:
            mask = _Issues(codes, pred_probs, engine).find_issues(
                filter_by, frac_noise, num_to_remove_per_class, min_examples_per_class, joint
            )  # fmt: skip
    if verbose:
        print(f"Number of label issues found: {np.count_nonzero(mask)}")
    if return_indices_ranked_by is None:
        return mask
    scores = compute_scores(return_indices_ranked_by, codes, pred_probs, **(rank_by_kwargs or {}))
    return np.flatnonzero(mask)[np.argsort(scores[mask])]


def find_predicted_neq_given(
    labels: Any, pred_probs: NDArray[Any], *, multi_label: bool = False
) -> Bools:
    """[N] True where the predicted class differs from the label."""
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


class _Issues:
    """One data set: the sweeps over it, and what each filter makes of them."""

    def __init__(self, labels: Ints, pred_probs: NDArray[Any], engine: Threads) -> None:
        self.labels, self.probs = labels, pred_probs
        K = self.K = pred_probs.shape[1]
        codes = Labels(labels.astype(np.int32), np.arange(K), tuple(map(str, range(K))))
        rows = ProbabilityRows(pred_probs, name="pred_probs", ndim=2)
        in_single = pred_probs.dtype == np.float32
        inputs = Inputs(codes, rows, None, single_precision=in_single, are_distributions=False)
        self.sweeps = Sweeps(inputs, engine, Progress())
        self.counts = np.bincount(labels, minlength=K).astype(np.int64)
        self.of_class = find_class_members(labels, K)

    def find_issues(
        self,
        filter_by: str,
        frac_noise: float,
        num_to_remove: list[int] | None,
        min_examples: int,
        joint: NDArray[Any] | None,
    ) -> Bools:
        statistics = ClassStatistics(self.counts, thresholds={"softmax": self._thresholds()})
        joints = self.sweeps.count_confident_joints(
            [_SOFTMAX], statistics, keep_confident=[_SOFTMAX]
        )
        agrees = self._agrees(joints)
        confident = joints.confident_class[_SOFTMAX]
        off_diagonal: Bools = (confident >= 0) & (confident != self.labels)
        if filter_by == "predicted_neq_given":
            differs: Bools = (joints.predicted["softmax"] != self.labels) & ~agrees
            return differs
        if filter_by == "confident_learning":
            return off_diagonal & ~agrees
        if filter_by not in _PRUNING:
            scores = compute_scores(filter_by.removeprefix("low_"), self.labels, self.probs)
            lowest = np.zeros(len(scores), np.bool_)
            lowest[np.argsort(scores)[: np.count_nonzero(off_diagonal & ~agrees)]] = True
            return lowest
        numbers = count_prunes(
            joints.pairs[_SOFTMAX] if joint is None else joint,
            self.counts,
            frac_noise=frac_noise,
            num_to_remove=num_to_remove,
            min_examples=min_examples,
        )
        self._warn_of_small_classes(min_examples)
        large = (self.counts > min_examples) & (self.counts > 1)
        mask = ~agrees
        if filter_by in ("prune_by_class", "both"):
            mask &= self._prune_by_class(numbers, large)
        if filter_by in ("prune_by_noise_rate", "both"):
            mask &= self._prune_by_noise_rate(numbers, large, joints)
        return mask

    def _thresholds(self) -> NDArray[np.float64]:
        """[K] mean self-confidence per class less the slack, in the input's own precision."""
        thresholds = compute_thresholds(self.probs, self.of_class) - SLACK
        return thresholds.astype(np.float64)

    def _agrees(self, joints: ConfidentJoints) -> Bools:
        if self.probs.dtype != np.float16:
            return joints.agrees["softmax"]
        agrees = np.empty(len(self.labels), np.bool_)
        for start, stop in self.sweeps.inputs.split_blocks():
            block, codes = self.probs[start:stop].copy(), self.labels[start:stop]
            block[np.arange(len(codes)), codes] += SLACK
            agrees[start:stop] = block.argmax(axis=1) == codes
        return agrees

    def _prune_by_class(self, numbers: PruneCounts, large: Bools) -> Bools:
        mask = np.zeros(len(self.labels), np.bool_)
        for k in np.flatnonzero(large).tolist():
            number = int(self.counts[k] - numbers.n_kept[k])
            if number >= 1:
                members = self.of_class[k]
                mask[members[np.argsort(self.probs[members, k])[:number]]] = True
        return mask

    def _prune_by_noise_rate(
        self, numbers: PruneCounts, large: Bools, joints: ConfidentJoints
    ) -> Bools:
        given = numbers.pairs.given
        quota = np.minimum(np.maximum(numbers.pairs.counts, 0), self.counts[given])
        some = large[given] & (quota > 0)
        pairs = PairCounts(self.K, given[some], numbers.pairs.true[some], quota[some])
        if self.probs.dtype == np.float16:
            mask = np.zeros(len(self.labels), np.bool_)
            tied = np.arange(len(pairs.counts))
        else:
            one_more = np.minimum(pairs.counts + 1, self.counts[pairs.given])
            room = PairCounts(self.K, pairs.given, pairs.true, one_more)
            best = self.sweeps.select_top_margins({_SOFTMAX: room}, joints)[_SOFTMAX]
            mask, tied = _select_without_ties(best, pairs, len(self.labels))
        for q in tied.tolist():  # where margins are equal, cleanlab's sort decides
            i, j, number = int(pairs.given[q]), int(pairs.true[q]), int(pairs.counts[q])
            members = self.of_class[i]
            margin = self.probs[members, j] - self.probs[members, i]
            mask[members[np.argsort(-margin)[:number]]] = True
        return mask

    def _warn_of_small_classes(self, min_examples: int) -> None:
        small = np.flatnonzero((self.counts > 0) & (self.counts <= min_examples)).tolist()
        if small:
            warnings.warn(
                f"Classes with too few samples to find label issues in (min_examples_per_class="
                f"{min_examples}): {small[:10]}{' ...' if len(small) > 10 else ''}",
                stacklevel=4,
            )


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
                f"It goes with {', '.join(_PRUNING)}",
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
