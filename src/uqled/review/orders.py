"""The orders in which samples are shown; each order is a function that lists samples.

suspect   the most suspect first; what is decided stays in front, in the order of the decisions
worth     first those whose verdict says most: uncertain, and many undecided ones like it
audit     the samples drawn for an audit: they tell how many labels are wrong, whatever the model
random    the flags in a random order that is always the same
hundred   the first hundred of these

No order asks about flags between classes that were merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from uqled.review.flag_list import FlagList

Order = Literal["suspect", "worth", "audit", "random", "hundred"]
ORDERS: tuple[Order, ...] = get_args(Order)

_HUNDRED_FLAGS = 100  # random flags: enough to know the share of real ones to within 0.1
_Indices = NDArray[np.intp]


def list_in_order(flags: FlagList, order: Order, tier: int | None) -> _Indices:
    """The samples that an order lists: flags, of a tier where one is named."""
    if order == "audit":
        return flags.list_audit()
    if order in ("random", "hundred"):
        samples = flags.list_random()[: _HUNDRED_FLAGS if order == "hundred" else None]
        return samples if tier is None else samples[flags.tier_numbers[samples] == tier]
    is_in_list = flags.is_listed
    undecided = flags.list_undecided()
    if tier is not None:
        is_in_list = flags.tier_numbers == tier  # samples worth a look are not flagged
        undecided = _sort_by_score(flags, np.flatnonzero(is_in_list & (flags.state.actions == 0)))
    decided_samples = flags.state.list_decided(is_in_list)
    if order == "worth":
        undecided = undecided[np.argsort(-measure_worth(flags, undecided), kind="stable")]
    return np.concatenate([decided_samples, undecided])


def measure_worth(flags: FlagList, undecided: _Indices) -> NDArray[np.float64]:
    """[n] how much a verdict on each of these samples says about the others.

    The variance p(1-p) of the verdict, times the number of undecided samples of the same pair of
    classes. Each further verdict about a pair says less, as the variance of a mean does: it is
    divided by how many of the pair are decided or come first.
    """
    probability, codes = flags.current.probability, flags.current.labels.codes
    p = np.full(len(undecided), 0.5) if probability is None else probability[undecided]
    K = flags.current.labels.n_classes
    pairs = codes.astype(np.int64) * K + flags.current.suggested_codes
    mine = pairs[undecided]
    unique, inverse, counts = np.unique(mine, return_inverse=True, return_counts=True)
    decided_pairs, n_of = np.unique(pairs[flags.state.actions > 0], return_counts=True)
    n_decided_of = dict(zip(decided_pairs.tolist(), n_of.tolist(), strict=True))
    n_done = np.array([n_decided_of.get(pair, 0) for pair in unique.tolist()])
    variance = p * (1 - p)
    by_pair = np.lexsort((-variance, inverse))  # in each pair, the most uncertain first
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rank = np.empty(len(undecided), np.int64)
    rank[by_pair] = np.arange(len(undecided)) - starts[inverse[by_pair]]
    worth: NDArray[np.float64] = variance * counts[inverse] / (1 + rank + n_done[inverse])
    return worth


def _sort_by_score(flags: FlagList, indices: _Indices) -> _Indices:
    return indices[np.argsort(flags.current.scores[indices], kind="stable")]
