"""Noise by the name of its kind: from options to noisy labels, with the intended and the realised
matrix.

`uqled.noise` has the function behind each kind. Rows are the true class, columns the given one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uqled.arrays import read_label_column
from uqled.errors import InputError, MissingInputError, suggest_name
from uqled.noise import matrices
from uqled.noise.transition import TransitionMatrix

#: For each kind of noise the options that it needs, then those that it can use.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "similarity": (("rate", "pred_probs"), ("model_labels",)),
    "symmetric": (("rate",), ()),
    "pair": (("rate",), ()),
    "sparse": (("rate", "zeros"), ()),
    "confusion": (("pred_probs",), ("rate", "model_labels")),
    "matrix": (("matrix",), ("rate",)),
    "instance": (("rate", "pred_probs"), ()),
}


@dataclass(frozen=True)
class NoisyLabels:
    """Noise of one kind on one set of labels, intended and realised."""

    kind: str
    labels: NDArray[Any]
    """[N] noisy, in the type of the clean ones."""
    is_error: NDArray[np.bool_]
    """[N] True where the label was changed."""
    intended: TransitionMatrix | None
    """None for `instance`, which no matrix describes."""
    realised: TransitionMatrix
    counts: NDArray[np.intp]
    """[K] samples of each true class."""


def apply_noise_kind(
    kind: str,
    labels: Any,
    *,
    rate: float | None = None,
    zeros: float | None = None,
    pred_probs: ArrayLike | None = None,
    model_labels: Any = None,
    matrix: TransitionMatrix | None = None,
    classes: Sequence[Any] | None = None,
    seed: int,
) -> NoisyLabels:
    """Noise of any of the `KINDS` on clean labels [N].

    `rate` is exact, except for `sparse`, where it is the mean over the classes. `confusion` and
    `matrix` follow their rows if there is none. `pred_probs` [N,K] belong to the labels or, where
    `model_labels` are given, to other samples that have those true labels. The classes are, unless
    given, those of the matrix or of the probabilities, else the values among the labels, sorted.
    """
    options = {
        "rate": rate,
        "zeros": zeros,
        "pred_probs": pred_probs,
        "model_labels": model_labels,
        "matrix": matrix,
    }
    _check_options(kind, options)
    inputs = _NoiseInputs(labels, classes, seed, **options)
    if kind == "instance":
        names = matrices.encode_with_probabilities(labels, inputs.pred_probs, classes)[0].names
        noisy, is_error = matrices.instance_noise(
            labels, inputs.pred_probs, rate=inputs.rate, seed=seed, classes=classes
        )
        intended_matrix = None
    else:
        intended_matrix = _MATRICES[kind](inputs)
        names = intended_matrix.classes
        exact = None if kind == "sparse" else rate
        noisy, is_error = matrices.apply_noise(labels, intended_matrix, rate=exact, seed=seed)
    realised_matrix = matrices.realised_matrix(labels, noisy, names)
    counts = np.bincount(matrices.encode_known_labels(labels, names).codes, minlength=len(names))
    return NoisyLabels(kind, noisy, is_error, intended_matrix, realised_matrix, counts)


@dataclass(frozen=True)
class _NoiseInputs:
    """The options, after it was checked that those which a kind needs are there."""

    labels: Any
    classes: Sequence[Any] | None
    seed: int
    rate: Any
    zeros: Any
    pred_probs: Any
    model_labels: Any
    matrix: Any

    @property
    def model(self) -> tuple[Any, Any]:
        """True labels and probabilities of the samples that the model predicted."""
        return self.labels if self.model_labels is None else self.model_labels, self.pred_probs

    @property
    def names(self) -> Sequence[Any]:
        """The classes, where nothing but the labels can name them."""
        if self.classes is not None:
            return self.classes
        values = sorted(set(read_label_column(self.labels, "labels").tolist()))
        if len(values) < 2:
            raise InputError(
                "labels",
                f"contain one class only ({values[0]!r})",
                "Name the others with `classes`: a label can only become another class",
            )
        return values

    def at_rate(self, matrix: TransitionMatrix) -> TransitionMatrix:
        return matrix if self.rate is None else matrix.at_rate(self.rate)


_MATRICES: Mapping[str, Callable[[_NoiseInputs], TransitionMatrix]] = {
    "similarity": lambda g: matrices.similarity_matrix(*g.model, rate=g.rate, classes=g.classes),
    "symmetric": lambda g: matrices.symmetric_matrix(g.names, rate=g.rate),
    "pair": lambda g: matrices.pair_matrix(g.names, rate=g.rate),
    "sparse": lambda g: matrices.sparse_matrix(g.names, noise=g.rate, zeros=g.zeros, seed=g.seed),
    "confusion": lambda g: g.at_rate(matrices.confusion_matrix(*g.model, classes=g.classes)),
    "matrix": lambda g: g.at_rate(
        g.matrix if g.classes is None else TransitionMatrix(g.matrix.probabilities, g.classes)
    ),
}


def _check_options(kind: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown kind, an option that it lacks, and one that it would ignore."""
    if kind not in KINDS:
        raise InputError("kind", f"is {kind!r}", suggest_name(str(kind), KINDS))
    required_options, optional = KINDS[kind]
    for name, value in options.items():
        if value is None and name in required_options:
            raise MissingInputError(name, "is missing", f"Noise of the kind {kind!r} needs it")
        if value is not None and name not in (*required_options, *optional):
            raise InputError(name, f"has no meaning for noise of the kind {kind!r}", "Leave it out")
