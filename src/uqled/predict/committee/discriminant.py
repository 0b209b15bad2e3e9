"""Linear discriminant analysis with a ridge, leave-one-out in closed form.

Taking one sample out changes its class's mean and the pooled scatter by a rank-one term, so that
every sample's prediction by the fit without it follows from one fit (Sherman and Morrison).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, solve_triangular
from scipy.sparse import coo_array

from uqled.predict.committee.heads import CommitteeFold

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Discriminant:
    """Class means and within-class scatter of n samples, with a ridge on its diagonal."""

    whitener: Floats
    """[D,D] lower Cholesky factor of scatter + ridge."""
    means: Floats
    """[K,D]; the mean of all samples for a class without any."""
    counts: Floats
    """[K] (weighted) numbers of samples."""

    @classmethod
    def fit(
        cls,
        X: NDArray[np.floating],
        labels: NDArray[np.integer],
        n_classes: int,
        *,
        ridge: float,
    ) -> Discriminant:
        """X [n,D], labels [n]; `ridge` is added to the diagonal of the scatter."""
        counts = np.bincount(labels, minlength=n_classes).astype(np.float64)
        means = _average_features(X, labels, n_classes)
        centred = X - means[labels]
        scatter = (centred.T @ centred).astype(np.float64)
        scatter[np.diag_indices_from(scatter)] += ridge
        factor, _ = cho_factor(scatter, lower=True)
        return cls(np.tril(factor), means, counts)

    def predict(self, X: NDArray[np.floating]) -> Floats:
        """[m,K] probabilities of new samples."""
        Z, M = self._whiten(X), self._whiten(self.means)
        with np.errstate(divide="ignore"):
            prior = np.log(self.counts)
        return _compute_probabilities(_measure_square_distances(Z, M) * self.counts.sum(), prior)

    def predict_left_out(self, X: NDArray[np.floating], labels: NDArray[np.integer]) -> Floats:
        """[n,K] probabilities of the samples of the fit, each by the fit without that sample."""
        Z, M = self._whiten(X), self._whiten(self.means)
        rows, n = np.arange(len(X)), self.counts[labels]
        residual = Z - M[labels]  # [n,D]
        distances = _measure_square_distances(Z, M)
        # Without itself the sample is further from its class's mean by n / (n - 1).
        stretch = np.where(n > 1, n / np.maximum(n - 1, 1), 1.0)
        own_distance = (residual**2).sum(axis=1)
        inner = (residual * Z).sum(axis=1)[:, None] - residual @ M.T  # residual . (z - m_k)
        distances[rows, labels] = own_distance * stretch**2
        inner[rows, labels] = own_distance * stretch
        # The scatter loses n / (n - 1) times the residual's square, and is inverted.
        gain = stretch / np.maximum(1 - stretch * own_distance, 1e-9)
        distances += gain[:, None] * inner**2
        counts = np.tile(self.counts, (len(X), 1))
        counts[rows, labels] -= 1
        with np.errstate(divide="ignore"):  # a class of this sample alone is unknown without it
            return _compute_probabilities(distances * (self.counts.sum() - 1), np.log(counts))

    def _whiten(self, X: NDArray[np.floating]) -> Floats:
        result: Floats = solve_triangular(self.whitener, X.T, lower=True).T
        return result


def choose_ridge(X: NDArray[np.floating], labels: NDArray[np.integer], n_classes: int) -> float:
    """What Ledoit and Wolf's shrinkage of the within-class covariance adds to the scatter.

    The shrinkage is estimated on 5,000 samples, spread evenly, where there are more.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    rows = np.linspace(0, len(X) - 1, min(len(X), 5_000)).astype(int)
    part, part_labels = X[rows], labels[rows]
    centred = part - _average_features(part, part_labels, n_classes)[part_labels]
    shrinkage = np.clip(ledoit_wolf_shrinkage(centred, assume_centered=True), 0.01, 0.95)
    scatter = float((centred**2).sum()) * len(X) / len(part)
    return float(shrinkage / (1 - shrinkage) * scatter / X.shape[1]) + 1e-9


def _average_features(
    X: NDArray[np.floating], labels: NDArray[np.integer], n_classes: int
) -> Floats:
    """[K,D]; the mean of all samples for a class without any."""
    members = coo_array(
        (np.ones(len(X)), (labels, np.arange(len(X)))), shape=(n_classes, len(X))
    ).tocsr()
    counts = np.bincount(labels, minlength=n_classes)[:, None]
    means: Floats = np.where(counts > 0, (members @ X) / np.maximum(counts, 1), X.mean(axis=0))
    return means


def _compute_probabilities(distances: Floats, log_prior: Floats) -> Floats:
    logits = log_prior - 0.5 * distances
    logits -= logits.max(axis=1, keepdims=True)
    likelihoods = np.exp(logits)
    probabilities: Floats = likelihoods / likelihoods.sum(axis=1, keepdims=True)
    return probabilities


def _measure_square_distances(Z: Floats, M: Floats) -> Floats:
    squares: Floats = (Z**2).sum(axis=1)[:, None] - 2 * Z @ M.T + (M**2).sum(axis=1)
    return np.maximum(squares, 0)


def predict_held_out(fold: CommitteeFold) -> Floats:
    """[m,K] of the held-out samples: leave-one-out, or by the other folds for grouped samples."""
    X = fold.features
    probabilities: Floats = fold.reuse(
        "discriminant", lambda: _predict_leave_one_out(X, fold.labels, fold.n_classes)
    )
    predictions = probabilities[fold.test]
    is_grouped = fold.is_grouped[fold.test]
    if is_grouped.any():
        train = fold.train
        ridge = choose_ridge(X[train], fold.labels[train], fold.n_classes)
        model = Discriminant.fit(X[train], fold.labels[train], fold.n_classes, ridge=ridge)
        predictions[is_grouped] = model.predict(X[fold.test[is_grouped]])
    return predictions


def _predict_leave_one_out(
    X: NDArray[np.floating], labels: NDArray[np.integer], n_classes: int
) -> Floats:
    ridge = choose_ridge(X, labels, n_classes)
    return Discriminant.fit(X, labels, n_classes, ridge=ridge).predict_left_out(X, labels)
