"""Matrices of every kind, and labels flipped by them.

Rows are the true class, columns the given one. K classes, N samples, S [K,K] similarity scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uqled import arrays
from uqled.arrays import (
    Labels,
    check_fraction,
    check_shapes_match,
    check_whole_number,
    encode_labels,
    to_numpy,
)
from uqled.errors import InputError
from uqled.noise.transition import (
    Classes,
    Matrix,
    TransitionMatrix,
    list_class_names,
    make_square_matrix,
    refuse_classes_without_target,
)

Noisy = tuple[NDArray[Any], NDArray[np.bool_]]
"""[N] labels, and [N] True where a label is not the one it was."""

_TIE = 1e-9  # relative distance up to which a score equals its threshold: rounding decides nothing


def similarity_scores(
    labels: Any, pred_probs: ArrayLike, *, classes: Sequence[Any] | None = None
) -> Matrix:
    """[K,K] mean probability of class l (column) over the samples of class k (row).

    `pred_probs` [N,K] come from a model trained on clean data that has not seen these samples. A
    class without samples has no row to measure, and is refused.

    >>> similarity_scores([0, 0, 1], [[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]]).round(6).tolist()
    [[0.7, 0.3], [0.3, 0.7]]
    """
    return _average_probabilities(
        *_require_every_class(*encode_with_probabilities(labels, pred_probs, classes))
    )


def similarity_groups(scores: ArrayLike) -> NDArray[np.bool_]:
    """[K,K] True where class l (column) is in the group of classes that look like k (row).

    Those with S[k,l] >= mean + population standard deviation of the row without its diagonal; if
    there is none, the single most similar class (of equals the lowest). A class is never in its
    own group. A row of equal scores puts every other class in the group.

    >>> similarity_groups([[0.9, 0.1, 0.0], [0.2, 0.6, 0.2], [0.0, 0.3, 0.7]]).astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
    S = make_square_matrix(scores, "scores")
    K = len(S)
    is_diagonal = np.eye(K, dtype=bool)
    other_classes = S[~is_diagonal].reshape(K, K - 1)  # each row without its diagonal
    threshold = other_classes.mean(axis=1) + other_classes.std(axis=1)  # [K]
    groups: NDArray[np.bool_] = np.greater_equal(S, threshold[:, None] * (1 - _TIE)) & ~is_diagonal
    empty = ~groups.any(axis=1)
    groups[empty, np.where(is_diagonal, -1.0, S).argmax(axis=1)[empty]] = True
    return groups


def flip_probabilities(scores: ArrayLike) -> Matrix:
    """[K,K] where a mislabelled sample of class k (row) goes: the softmax of S over k's group.

    Zero outside the group and on the diagonal; each row sums to 1.
    """
    S = make_square_matrix(scores, "scores")
    weights: Matrix = np.exp(S - S.max(axis=1, keepdims=True)) * similarity_groups(S)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def similarity_matrix(
    labels: Any, pred_probs: ArrayLike, *, rate: float, classes: Sequence[Any] | None = None
) -> TransitionMatrix:
    """The paper's: `rate` of each class goes to the classes that a model finds similar to it.

    `labels` [N] are clean, `pred_probs` [N,K] those of a model that has not seen the samples.
    """
    coded_labels, probs = _require_every_class(
        *encode_with_probabilities(labels, pred_probs, classes)
    )
    flips = flip_probabilities(_average_probabilities(coded_labels, probs))
    return TransitionMatrix(flips, coded_labels.names).at_rate(rate)


def symmetric_matrix(classes: Classes, *, rate: float) -> TransitionMatrix:
    """`rate` of each class goes to the other classes, in equal shares."""
    names = list_class_names(classes)
    K = len(names)
    return TransitionMatrix((1 - np.eye(K)) / (K - 1), names).at_rate(rate)


def pair_matrix(
    classes: Classes, *, rate: float, pairs: Mapping[Any, Any] | None = None
) -> TransitionMatrix:
    """`rate` of each class goes to one other: the next class, and the last to the first.

    `pairs` names them instead, {true: given}; classes that it does not name stay clean.
    """
    names, rate = list_class_names(classes), check_fraction(rate, "rate")
    if pairs is None:
        return TransitionMatrix(np.roll(np.eye(len(names)), 1, axis=1), names).at_rate(rate)
    T = np.eye(len(names))
    for true, label in pairs.items():
        if str(true) not in names or str(label) not in names or str(true) == str(label):
            raise InputError(
                "pairs",
                f"maps {true!r} to {label!r}",
                f"Name two different classes of {', '.join(names[:20])}",
            )
        i, j = names.index(str(true)), names.index(str(label))
        T[i, [i, j]] = 1 - rate, rate
    return TransitionMatrix(T, names)


def sparse_matrix(classes: Classes, *, noise: float, zeros: float, seed: int) -> TransitionMatrix:
    """Random asymmetric noise with many impossible flips, as in the confident-learning paper.

    Of the K(K-1) off-diagonal entries exactly `round(zeros * K(K-1))`, at random, are zero.
    `noise` is 1 minus the mean of the diagonal, exactly; single classes have more or less of it.
    Every class keeps a target as long as there is one for each.
    """
    names, rng = list_class_names(classes), _make_generator(seed, stream=1)
    K, noise = len(names), check_fraction(noise, "noise")
    n_left = K * (K - 1) - round(check_fraction(zeros, "zeros") * K * (K - 1))
    rows = min(K, n_left)  # classes with any noise
    if noise * K > rows + 1e-9:
        raise InputError(
            "zeros",
            f"is {zeros}, which leaves {n_left} of {K * (K - 1)} noise rates for {K} classes: too "
            f"few for a mean noise of {noise}",
            f"Lower the noise to at most {rows / K:g}, or the share of zeros",
        )
    targets = _draw_targets(K, n_left, rng)  # [K,K]
    noisy = targets.any(axis=1)  # [K]
    amounts = np.zeros(K)  # how much of each class is mislabelled
    amounts[noisy] = _draw_with_sum(min(noise * K, rows), rows, rng)
    shares = rng.standard_exponential((K, K)) * targets + np.diag(~noisy)
    shares *= (amounts / shares.sum(axis=1))[:, None]
    return TransitionMatrix(shares + np.diag(1 - amounts), names)


def confusion_matrix(
    labels: Any, pred_probs: ArrayLike, *, classes: Sequence[Any] | None = None
) -> TransitionMatrix:
    """A model's own mistakes: the share of class k (row) for which it says l (column).

    It says the class of the highest probability, of equals the lowest. A class without samples
    has no row to measure, and is refused.
    """
    coded_labels, probs = _require_every_class(
        *encode_with_probabilities(labels, pred_probs, classes)
    )
    shares = _compute_shares(coded_labels.codes, probs.argmax(axis=1), coded_labels.n_classes)
    return TransitionMatrix(shares, coded_labels.names)


def apply_noise(
    labels: Any, matrix: TransitionMatrix, *, rate: float | None = None, seed: int
) -> Noisy:
    """Labels [N] with noise, and a mask [N] that is True where a label was changed.

    Without `rate` every sample draws from its class's row, and the number of errors is random.
    With it exactly `round(rate * N)` samples (Python's round: a half goes to the even number),
    chosen uniformly, draw from the off-diagonal of their row; the diagonal plays no part. If a
    class among the labels has nothing off the diagonal, a rate above 0 is refused, whichever
    samples the seed would choose.

    Labels are class names, or integers: the number in the name if all names are whole numbers,
    else the number of the row. The noisy labels are an array of the same kind of values.
    """
    coded_labels, rng = encode_known_labels(labels, matrix.classes), _make_generator(seed)
    if rate is None:
        return _decode_labels(
            labels, coded_labels, _draw_labels(coded_labels.codes, matrix.probabilities, rng)
        )
    flips, count = matrix.flips(), round(check_fraction(rate, "rate") * len(coded_labels))
    if count > 0:
        absent = np.bincount(coded_labels.codes, minlength=coded_labels.n_classes) == 0  # [K]
        refuse_classes_without_target((flips.max(axis=1) > 0) | absent, matrix.classes, rate)
    flipped_samples = rng.choice(len(coded_labels), count, replace=False, shuffle=False)
    noisy = coded_labels.codes.copy()
    noisy[flipped_samples] = _draw_labels(noisy[flipped_samples], flips, rng)
    return _decode_labels(labels, coded_labels, noisy)


def instance_noise(
    labels: Any,
    pred_probs: ArrayLike,
    *,
    rate: float,
    seed: int,
    classes: Sequence[Any] | None = None,
) -> Noisy:
    """Labels [N] that are wrong where the model is uncertain, and a mask [N], True where changed.

    Exactly `round(rate * N)` samples flip. They are drawn without replacement with weights 1 - p,
    where p is the sample's own probability (of [N,K]) of its label, and each goes to a class drawn
    from its remaining probabilities. A sample whose label has probability 1 never flips.
    """
    coded_labels, probs = encode_with_probabilities(labels, pred_probs, classes)
    N, rng = len(coded_labels), _make_generator(seed)
    count = round(check_fraction(rate, "rate") * N)
    doubt = probs.sum(axis=1, dtype=np.float64) - probs[np.arange(N), coded_labels.codes]  # [N]
    n_flippable = int((doubt > 0).sum())
    if count > n_flippable:
        raise InputError(
            "rate",
            f"is {rate}, so that {count} of {N} samples would flip, but only {n_flippable} have "
            "any probability outside their own class",
            f"Lower it to at most {n_flippable}/{N}, or pass less confident probabilities",
        )
    # A clock per sample that rings at the rate of its doubt: the first to ring are a weighted draw.
    times = np.full(N, np.inf)
    np.divide(rng.standard_exponential(N), doubt, out=times, where=doubt > 0)
    flipped_samples = np.sort(np.argpartition(times, count - 1)[:count])
    other_probs = probs[flipped_samples].astype(np.float64)  # [count,K]
    other_probs[np.arange(count), coded_labels.codes[flipped_samples]] = 0
    cumulative = other_probs.cumsum(axis=1)
    noisy = coded_labels.codes.copy()
    noisy[flipped_samples] = (cumulative <= rng.random((count, 1)) * cumulative[:, -1:]).sum(axis=1)
    return _decode_labels(labels, coded_labels, noisy)


def realised_matrix(true_labels: Any, noisy_labels: Any, classes: Classes) -> TransitionMatrix:
    """The share of each true class (row) that was given as each class (column), measured.

    A class without samples has no wrong label: its row is 1 on the diagonal.
    """
    names = list_class_names(classes)
    true = encode_known_labels(true_labels, names, argument="true_labels")
    noisy = encode_known_labels(noisy_labels, names, argument="noisy_labels")
    if len(true) != len(noisy):
        raise InputError(
            "noisy_labels",
            f"have {len(noisy)} entries, but there are {len(true)} true labels",
            "Pass both for the same samples, in the same order",
        )
    return TransitionMatrix(_compute_shares(true.codes, noisy.codes, len(names)), names)


def _make_generator(seed: int, *, stream: int = 0) -> np.random.Generator:
    """Another stream of numbers for the matrix than for the labels, if both have the same seed."""
    return np.random.default_rng([check_whole_number(seed, "seed", low=0), stream])


def _draw_labels(
    codes: NDArray[np.int32], rows: Matrix, rng: np.random.Generator
) -> NDArray[np.int32]:
    """[n] a class for each sample, drawn from the row of its own class."""
    draws = rng.random(len(codes))
    new_codes = np.empty_like(codes)
    class_samples = _list_class_samples(codes, len(rows))
    for row, samples in zip(rows.cumsum(axis=1), class_samples, strict=True):
        new_codes[samples] = np.searchsorted(row, draws[samples] * row[-1], side="right")
    return new_codes


def _list_class_samples(codes: NDArray[np.int32], K: int) -> list[NDArray[np.intp]]:
    """K arrays: where the samples of each class are."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, K)))


def _average_probabilities(coded_labels: Labels, probs: arrays.Floats) -> Matrix:
    """[K,K] mean of the rows of `probs` [N,K] over the samples of each class."""
    class_samples = _list_class_samples(coded_labels.codes, coded_labels.n_classes)
    return np.stack([probs[rows].mean(axis=0, dtype=np.float64) for rows in class_samples])


def _compute_shares(rows: NDArray[Any], columns: NDArray[Any], K: int) -> Matrix:
    """[K,K] how often each row class meets each column class, as shares of the row."""
    cells = rows.astype(np.int64) * K + columns
    shares = np.bincount(cells, minlength=K * K).reshape(K, K).astype(np.float64)
    shares[np.diag_indices(K)] += shares.sum(axis=1) == 0
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def _draw_targets(K: int, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """[K,K] True at n random places off the diagonal, one in each row before two in any."""
    keys = rng.random((K, K)) + 2 * np.eye(K)
    keys[np.arange(K), keys.argmin(axis=1)] -= 1
    targets = np.zeros(K * K, dtype=bool)
    targets[np.argsort(keys, axis=None, kind="stable")[:n]] = True
    return targets.reshape(K, K)


def _draw_with_sum(total: float, n: int, rng: np.random.Generator) -> Matrix:
    """[n] random numbers from 0 to 1 with this sum: uniform ones, scaled towards 0 or 1 to fit."""
    x: Matrix = rng.random(n)
    drawn_sum = float(x.sum())
    if drawn_sum > total:
        return x * (total / drawn_sum)
    return 1 - (1 - x) * ((n - total) / (n - drawn_sum)) if n else x


def encode_with_probabilities(
    labels: Any, pred_probs: ArrayLike, classes: Sequence[Any] | None
) -> tuple[Labels, arrays.Floats]:
    """Labels and probabilities that belong together; a table's columns name the classes."""
    probs = arrays.check_pred_probs(pred_probs)
    columns = list(getattr(pred_probs, "columns", ()))
    if classes is None and columns and all(isinstance(column, str) for column in columns):
        classes = columns
    coded_labels = encode_known_labels(labels, classes, n_classes=probs.shape[1])
    check_shapes_match(len(coded_labels), probs.shape, None)
    return coded_labels, probs


def _require_every_class(
    coded_labels: Labels, probs: arrays.Floats
) -> tuple[Labels, arrays.Floats]:
    """The same, but refused where a class has no sample."""
    missing = np.bincount(coded_labels.codes, minlength=coded_labels.n_classes) == 0
    if missing.any():
        raise InputError(
            "labels",
            f"have no sample of class {coded_labels.names[int(missing.argmax())]!r} "
            f"({int(missing.sum())} of {coded_labels.n_classes} classes are without samples)",
            "Pass samples of every class, or leave the column out of pred_probs",
        )
    return coded_labels, probs


def encode_known_labels(
    labels: Any,
    classes: Sequence[Any] | None,
    *,
    n_classes: int | None = None,
    argument: str = "labels",
) -> Labels:
    """Labels as class numbers; integers with whole-number names ("1", "2") mean those names."""
    names = [] if classes is None else list(map(str, classes))
    numbers = [int(name) for name in names if name.removeprefix("-").isdecimal()]
    if names and len(numbers) == len(names) and numbers != list(range(len(names))):
        is_number = arrays.read_label_column(labels, argument).dtype.kind in "iu"
        classes = numbers if is_number else names
    K = len(names) if n_classes is None else n_classes
    return encode_labels(labels, n_classes=K, classes=classes, name=argument)


def _decode_labels(labels: Any, coded_labels: Labels, codes: NDArray[np.int32]) -> Noisy:
    """The new labels in the type of the given ones, and where the two differ."""
    array, is_error = to_numpy(labels).reshape(-1), codes != coded_labels.codes
    values = coded_labels.values
    if array.dtype.kind == "S" or (array.dtype == object and isinstance(array[0], bytes)):
        values = np.array([str(value).encode() for value in values.tolist()], array.dtype.kind)
    fits = (values.astype(array.dtype) == values).all()  # "cat" fits in <U3
    dtype = array.dtype if fits else np.promote_types(array.dtype, values.dtype)
    noisy = array.astype(dtype)
    noisy[is_error] = values.astype(dtype)[codes[is_error]]
    return noisy, is_error
