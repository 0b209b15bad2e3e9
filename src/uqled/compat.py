"""cleanlab's function names and arguments, for people who come from there.

`find_label_issues` gives the answers of `cleanlab.filter.find_label_issues` (2.9) for single-label
data. Where the two differ in arithmetic, this module repeats cleanlab's order of rounding and its
way of breaking ties, so it keeps to the input's precision where the rest of uqled uses float64.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.array_likes import refuse_masked
from uqled.arrays import Labels
from uqled.compat_counts import PruneCounts, check_counts, count_prunes
from uqled.detect.core import row_kernels
from uqled.detect.core.class_statistics import ClassStatistics
from uqled.detect.core.inputs import Inputs
from uqled.detect.core.joint import PairCounts
from uqled.detect.core.rows import ProbabilityRows
from uqled.detect.core.selection import TopPerPair
from uqled.detect.core.sweeps import ConfidentJoints, Member, Sweeps
from uqled.detect.find import count_threads
from uqled.engines.local import Threads
from uqled.errors import InputError
from uqled.progress import Progress
from uqled.storage.reading import first_line

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
_RANKINGS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
_SLACK = row_kernels.SLACK
_SOFTMAX = Member("softmax")
_MOST_CLASSES = 2**31  # class numbers are 32 bits wide

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
    given = _labels(labels, one_class=filter_by != "predicted_neq_given")
    pred_probs = _probabilities(pred_probs, given)
    joint = check_counts(
        pred_probs.shape[1], frac_noise=frac_noise, num_to_remove=num_to_remove_per_class,
        min_examples=min_examples_per_class, joint=confident_joint,
    )  # fmt: skip
    if pred_probs.shape[1] == 1:
        mask = np.zeros(len(given), np.bool_)
    else:
        with Threads(count_threads(n_jobs)) as engine:
            mask = _Issues(given, pred_probs, engine).mask(
                filter_by, frac_noise, num_to_remove_per_class, min_examples_per_class, joint
            )  # fmt: skip
    if verbose:
        print(f"Number of label issues found: {np.count_nonzero(mask)}")
    if return_indices_ranked_by is None:
        return mask
    scores = _scores(return_indices_ranked_by, given, pred_probs, **(rank_by_kwargs or {}))
    return np.flatnonzero(mask)[np.argsort(scores[mask])]


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
        self.of_class = _members(labels, K)

    def mask(
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
        guess = joints.confident_class[_SOFTMAX]
        off_diagonal: Bools = (guess >= 0) & (guess != self.labels)
        if filter_by == "predicted_neq_given":
            differs: Bools = (joints.predicted["softmax"] != self.labels) & ~agrees
            return differs
        if filter_by == "confident_learning":
            return off_diagonal & ~agrees
        if filter_by not in _PRUNING:
            scores = _scores(filter_by.removeprefix("low_"), self.labels, self.probs)
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
        self._warn_of_small(min_examples)
        large = (self.counts > min_examples) & (self.counts > 1)
        found = ~agrees
        if filter_by in ("prune_by_class", "both"):
            found &= self._pruned_by_class(numbers, large)
        if filter_by in ("prune_by_noise_rate", "both"):
            found &= self._pruned_by_noise_rate(numbers, large, joints)
        return found

    def _thresholds(self) -> NDArray[np.float64]:
        """[K] mean self-confidence per class less the slack, in the input's own precision."""
        means = [
            np.mean(self.probs[members, k]) if len(members) else 2
            for k, members in enumerate(self.of_class)
        ]
        clipped = np.clip(means, 2 * _SLACK, None) - _SLACK
        return clipped.astype(np.float64)

    def _agrees(self, joints: ConfidentJoints) -> Bools:
        if self.probs.dtype != np.float16:
            return joints.agrees["softmax"]
        agrees = np.empty(len(self.labels), np.bool_)
        for start, stop in self.sweeps.inputs.split_blocks():
            block, given = self.probs[start:stop].copy(), self.labels[start:stop]
            block[np.arange(len(given)), given] += _SLACK
            agrees[start:stop] = block.argmax(axis=1) == given
        return agrees

    def _pruned_by_class(self, numbers: PruneCounts, large: Bools) -> Bools:
        found = np.zeros(len(self.labels), np.bool_)
        for k in np.flatnonzero(large).tolist():
            number = int(self.counts[k] - numbers.kept[k])
            if number >= 1:
                members = self.of_class[k]
                found[members[np.argsort(self.probs[members, k])[:number]]] = True
        return found

    def _pruned_by_noise_rate(
        self, numbers: PruneCounts, large: Bools, joints: ConfidentJoints
    ) -> Bools:
        given = numbers.pairs.given
        quota = np.minimum(np.maximum(numbers.pairs.counts, 0), self.counts[given])
        some = large[given] & (quota > 0)
        pairs = PairCounts(self.K, given[some], numbers.pairs.true[some], quota[some])
        if self.probs.dtype == np.float16:
            found = np.zeros(len(self.labels), np.bool_)
            tied = np.arange(len(pairs.counts))
        else:
            one_more = np.minimum(pairs.counts + 1, self.counts[pairs.given])
            room = PairCounts(self.K, pairs.given, pairs.true, one_more)
            best = self.sweeps.select_top_margins({_SOFTMAX: room}, joints)[_SOFTMAX]
            found, tied = _clear_cut(best, pairs, len(self.labels))
        for q in tied.tolist():  # where margins are equal, cleanlab's sort decides
            i, j, number = int(pairs.given[q]), int(pairs.true[q]), int(pairs.counts[q])
            members = self.of_class[i]
            margin = self.probs[members, j] - self.probs[members, i]
            found[members[np.argsort(-margin)[:number]]] = True
        return found

    def _warn_of_small(self, min_examples: int) -> None:
        small = np.flatnonzero((self.counts > 0) & (self.counts <= min_examples)).tolist()
        if small:
            warnings.warn(
                f"Classes with too few samples to find label issues in (min_examples_per_class="
                f"{min_examples}): {small[:10]}{' ...' if len(small) > 10 else ''}",
                stacklevel=4,
            )


def _members(labels: Ints, K: int) -> list[NDArray[np.intp]]:
    """The indices of each class's samples, rising."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=K))[:-1])


def _clear_cut(best: TopPerPair, pairs: PairCounts, n: int) -> tuple[Bools, NDArray[np.intp]]:
    """The samples of pairs with one clear answer, and the numbers of the pairs without.

    `best` holds one sample more than each pair's quota: equal margins on both sides of the cut.
    """
    pair = np.repeat(np.arange(len(pairs.counts)), np.diff(best.offsets))
    order = np.lexsort((best.indices, -best.margins, pair))
    margins, position = best.margins[order], np.arange(len(order)) - best.offsets[pair]
    has_more = np.diff(best.offsets) > pairs.counts
    last = best.offsets[:-1] + pairs.counts - 1
    tied = has_more & (margins[last] == margins[np.minimum(last + 1, len(margins) - 1)])
    taken = (position < pairs.counts[pair]) & ~tied[pair]
    found = np.zeros(n, np.bool_)
    found[best.indices[order[taken]]] = True
    return found, np.flatnonzero(tied)


def _scores(
    method: str, labels: Ints, probs: NDArray[Any], *, adjust_pred_probs: bool = False
) -> NDArray[Any]:
    """[N] label quality, in the input's own precision."""
    if adjust_pred_probs:
        if method == "confidence_weighted_entropy":
            raise InputError(
                "adjust_pred_probs", f"is True with {method}", "Use it with another ranking"
            )
        means = [
            np.mean(probs[members, k]) if len(members) else 2
            for k, members in enumerate(_members(labels, probs.shape[1]))
        ]
        thresholds = np.clip(means, 2 * _SLACK, None)
        probs = probs - thresholds
        probs += thresholds.max()
        probs /= probs.sum(axis=1, keepdims=True)
    N, K = probs.shape
    own = probs[np.arange(N), labels]
    if method == "self_confidence":
        return own
    if method == "normalized_margin":
        other = np.empty_like(own)
        for start in range(0, N, 65_536):
            block = probs[start : start + 65_536].copy()
            block[np.arange(len(block)), labels[start : start + 65_536]] = -np.inf
            other[start : start + 65_536] = block.max(axis=1)
        margin: NDArray[Any] = (own - other + 1) / 2
        return margin
    from scipy.special import xlogy

    entropy = -np.sum(xlogy(probs, probs), axis=1) / np.log(K)
    ratio = entropy / np.clip(own, _SLACK, None)
    quality: NDArray[Any] = np.log(ratio + 1) / np.clip(ratio, _SLACK, None)
    return quality


def _check_options(
    filter_by: str,
    frac_noise: float,
    num_to_remove: Any,
    joint: Any,
    multi_label: bool,
    rank_by: str | None,
) -> None:
    if multi_label:
        raise InputError("multi_label", "is True", "uqled handles data with one label per sample")
    if filter_by not in _FILTERS:
        raise InputError("filter_by", f"is {filter_by!r}", f"Choose one of {', '.join(_FILTERS)}")
    if rank_by is not None and rank_by not in _RANKINGS:
        raise InputError(
            "return_indices_ranked_by", f"is {rank_by!r}", f"Choose one of {', '.join(_RANKINGS)}"
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


def _labels(labels: Any, *, one_class: bool) -> Ints:
    if not isinstance(labels, list | np.ndarray | np.generic) and not hasattr(labels, "iloc"):
        raise TypeError(f"labels are a {type(labels).__name__}: pass a NumPy array, list or Series")
    refuse_masked(labels, "labels")
    try:
        found = np.asarray(labels)
    except (ValueError, OverflowError) as error:
        raise InputError(
            "labels", f"are no array ({first_line(error)})", "Pass one class number per sample"
        ) from error
    if found.ndim == 2 and found.shape[1] == 1:
        found = found.reshape(-1)
    if found.ndim != 1 or not len(found):
        raise InputError("labels", f"have shape {found.shape}", "Pass one class number per sample")
    with np.errstate(invalid="ignore"):  # infinity has no remainder
        is_whole = found.dtype.kind in "iuf" and (found % 1 == 0).all()
    if not is_whole or found.min() < 0:
        raise InputError(
            "labels", f"are no class numbers ({found.dtype})", "Number the classes from 0"
        )
    if found.max() >= _MOST_CLASSES:
        raise InputError("labels", f"go up to {found.max()}", "Number the classes from 0")
    if (found == found[0]).all() and not (one_class and found[0] == 0):
        raise InputError("labels", f"contain one class only ({found[0]})", "Pass at least two")
    return found.astype(np.int64)


def _probabilities(probs: Any, labels: Ints) -> NDArray[Any]:
    """[N,K] a plain array in this machine's byte order, checked."""
    if not isinstance(probs, np.ndarray):
        raise TypeError(f"pred_probs is a {type(probs).__name__}: pass a NumPy array")
    refuse_masked(probs, "pred_probs")
    if probs.dtype.kind not in "fiu" or probs.dtype.itemsize > 8:
        raise InputError(
            "pred_probs",
            f"has type {probs.dtype}",
            "Pass real numbers: float16, float32 or float64",
        )
    # Plain, because a matrix or a record array indexes otherwise.
    plain: NDArray[Any] = np.asarray(probs, probs.dtype.newbyteorder("="))
    return _check_probabilities(plain, labels)


def _check_probabilities(probs: NDArray[Any], labels: Ints) -> NDArray[Any]:
    if probs.ndim != 2 or len(probs) != len(labels):
        raise InputError(
            "pred_probs", f"has shape {probs.shape} for {len(labels)} labels", "Pass one row each"
        )
    if probs.shape[1] <= labels.max():
        raise InputError(
            "pred_probs",
            f"has {probs.shape[1]} columns, but labels go up to {labels.max()}",
            "Pass one column per class",
        )
    if not (np.min(probs) >= -_SLACK and np.max(probs) <= 1 + _SLACK):  # NaN too
        raise InputError(
            "pred_probs", "has values outside 0 to 1, or NaN", "Pass probabilities, not logits"
        )
    return probs
