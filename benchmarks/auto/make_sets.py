"""Make the sets of `sets.py`: noisy labels, and predictions of models trained on them.

In `benchmarks/`:

    python -m auto.make_sets --data FOLDER --out FOLDER --part unseen

Every set becomes one file, made once. FOLDER is the one with MNIST, CIFAR-10 and the published
predictions.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auto.data import load_samples
from auto.sets import HEADS, PARTS, Set

FOLDS = 4
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def make_set(one: Set, data: Path, out: Path) -> Path:
    """The file of one set, made if it is not there."""
    path = out / f"{one.name}.npz"
    if path.exists():
        return path
    began = time.perf_counter()
    rng = np.random.default_rng([one.seed, one.N, one.K])
    X, true, human = load_samples(one, data, out, rng)
    K = int(true.max()) + 1
    labels = make_noisy_labels(one, X, true, human, K)
    softmax, passes = compute_predictions(one, X, labels, K)
    temporary_path = path.with_suffix(".tmp.npz")
    np.savez(temporary_path, probs=softmax, passes=passes, labels=labels, true_labels=true)
    temporary_path.rename(path)
    print(
        f"{one.name}: {time.perf_counter() - began:.0f} s, noise {np.mean(labels != true):.3f}, "
        f"accuracy {np.mean(softmax.argmax(1) == true):.3f}",
        flush=True,
    )
    return path


def make_noisy_labels(one: Set, X: Floats, true: Ints, human: dict[str, Ints], K: int) -> Ints:
    """[N] labels of which about `rate` are wrong."""
    from uqled.noise.kinds import apply_noise_kind

    rng = np.random.default_rng([one.seed, 7])
    options: dict[str, Any] = {}
    if one.noise in human:
        votes = human[one.noise]
        wrong_rows = np.flatnonzero(votes != true)
        keep = rng.random(len(wrong_rows)) < one.rate * len(true) / len(wrong_rows)
        labels = true.copy()
        labels[wrong_rows[keep]] = votes[wrong_rows[keep]]
        return labels
    if one.noise == "one-class":
        labels = true.copy()
        members = np.flatnonzero(true == 0)
        flipped_rows = rng.permutation(members)[: round(one.rate * len(true))]
        labels[flipped_rows] = rng.integers(1, K, len(flipped_rows))
        return labels
    if one.noise == "annotator":
        labels, votes = true.copy(), simulate_annotator(X, true, K, rng)
        wrong_rows = np.flatnonzero(votes != true)
        flipped_rows = wrong_rows[
            rng.random(len(wrong_rows)) < one.rate * len(true) / len(wrong_rows)
        ]
        labels[flipped_rows] = votes[flipped_rows]
        return labels
    if one.noise == "ordinal":
        labels, move = true.copy(), rng.integers(0, 2, len(true)) * 2 - 1
        flipped_rows = rng.random(len(true)) < one.rate
        labels[flipped_rows] = np.abs(true + move)[flipped_rows]
        labels[labels == K] = K - 2
        return labels
    if one.noise == "mixed":
        half = {"rate": one.rate / 2, "passes": "none", "F": 0}
        everywhere = make_noisy_labels(replace(one, noise="symmetric", **half), X, true, human, K)
        on_hard = make_noisy_labels(replace(one, noise="instance", **half), X, true, human, K)
        return np.where(everywhere != true, everywhere, on_hard)
    if one.noise in ("similarity", "instance"):
        options["pred_probs"] = predict_out_of_fold("linear", X, true, K, seed=one.seed + 100)
    if one.noise == "sparse":
        options["zeros"] = 0.5
    made_up = apply_noise_kind(
        one.noise, true, rate=one.rate, classes=range(K), seed=one.seed, **options
    )
    return np.asarray(made_up.labels, np.int64)


def simulate_annotator(X: Floats, true: Ints, K: int, rng: np.random.Generator) -> Ints:
    """[N] what a linear model says that saw a fiftieth of the data, at least five of a class."""
    from sklearn.linear_model import LogisticRegression

    features = [
        rng.permutation(np.flatnonzero(true == k))[: max(5, np.count_nonzero(true == k) // 50)]
        for k in range(K)
    ]
    all_features = np.concatenate(features)
    model = LogisticRegression(max_iter=150, tol=1e-3).fit(X[all_features], true[all_features])
    return np.asarray(model.predict(X), np.int64)


def compute_predictions(one: Set, X: Floats, labels: Ints, K: int) -> tuple[Floats, Floats]:
    """Softmax [N,K] and passes [F,N,K]."""
    if one.passes == "mcd":
        return predict_with_dropout(X, labels, K, one.F, one.seed)
    if one.passes == "heads":
        passes = [predict_out_of_fold(head, X, labels, K, seed=one.seed) for head in HEADS[: one.F]]
        return np.mean(passes, axis=0, dtype=np.float32), np.stack(passes)
    if one.passes == "members":
        passes = [
            predict_out_of_fold(one.model, X, labels, K, seed=one.seed + f) for f in range(one.F)
        ]
        return passes[0], np.stack(passes)
    softmax = predict_out_of_fold(one.model, X, labels, K, seed=one.seed)
    passes = []
    for f in range(one.F):
        is_bootstrap = one.passes == "bootstrap"
        trees = 10 if one.passes == "trees" else 40
        passes.append(
            predict_out_of_fold(
                one.model, X, labels, K, seed=one.seed + f + 1, bootstrap=is_bootstrap, trees=trees
            )
        )
    return softmax, np.array(passes, np.float32)


def split_folds(labels: Ints, seed: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    rng = np.random.default_rng([seed, 3])
    order = np.lexsort((rng.random(len(labels)), labels))
    fold = np.empty(len(labels), int)
    fold[order] = np.arange(len(labels)) % FOLDS
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS)]


def predict_out_of_fold(
    model: str,
    X: Floats,
    labels: Ints,
    K: int,
    *,
    seed: int,
    bootstrap: bool = False,
    trees: int = 40,
) -> Floats:
    """[N,K] probabilities by models that were not trained on the sample."""
    probs = np.zeros((len(X), K), np.float32)
    for k, (train, test) in enumerate(split_folds(labels, 0)):
        rows = train
        if bootstrap:
            rows = np.random.default_rng([seed, k]).choice(train, len(train))
        if model in ("mlp", "long"):
            probs[test] = predict_by_network(
                X[rows],
                labels[rows],
                X[test],
                K,
                seed=seed,
                epochs=60 if model == "long" else 12,
            )[0]
            continue
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
        from sklearn.ensemble import (
            ExtraTreesClassifier,
            HistGradientBoostingClassifier,
            RandomForestClassifier,
        )
        from sklearn.kernel_approximation import Nystroem
        from sklearn.linear_model import LogisticRegression
        from sklearn.naive_bayes import GaussianNB, MultinomialNB
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline

        classifier: Any = {
            "linear": lambda: LogisticRegression(max_iter=150, tol=1e-3, C=1.0),
            "forest": lambda: RandomForestClassifier(
                trees, min_samples_leaf=2, random_state=seed, n_jobs=1
            ),
            "bayes": GaussianNB,
            "lda": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
            "words": MultinomialNB,
            "boosted": lambda: HistGradientBoostingClassifier(max_iter=60, random_state=seed),
            "knn": lambda: KNeighborsClassifier(15),
            "extra": lambda: ExtraTreesClassifier(
                trees, min_samples_leaf=2, random_state=seed, n_jobs=1
            ),
            "kernel": lambda: make_pipeline(
                Nystroem(gamma=0.5 / X.var() / X.shape[1], n_components=300, random_state=seed),
                LogisticRegression(max_iter=150, tol=1e-3, C=10.0),
            ),
        }[model]()
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it stops before it converges is fine here
            classifier.fit(X[rows], labels[rows])
        probs[np.ix_(test, classifier.classes_)] = classifier.predict_proba(X[test])
    probs = np.maximum(probs, 0)
    return probs / probs.sum(1, keepdims=True)


def predict_with_dropout(
    X: Floats, labels: Ints, K: int, F: int, seed: int
) -> tuple[Floats, Floats]:
    softmax, passes = np.zeros((len(X), K), np.float32), np.zeros((F, len(X), K), np.float32)
    for train, test in split_folds(labels, 0):
        one, stochastic_probs = predict_by_network(
            X[train], labels[train], X[test], K, seed=seed, F=F
        )
        softmax[test], passes[:, test] = one, stochastic_probs
    return softmax, passes


def predict_by_network(
    X: Floats, labels: Ints, Z: Floats, K: int, *, seed: int, F: int = 0, epochs: int = 12
) -> tuple[Floats, list[Floats]]:
    """A hidden layer with dropout, trained for some epochs: softmax and passes for `Z`."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    network = nn.Sequential(
        nn.BatchNorm1d(X.shape[1], affine=False), nn.Linear(X.shape[1], 128), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(128, K),
    )  # fmt: skip
    optimiser = torch.optim.Adam(network.parameters(), 5e-3, weight_decay=1e-5)
    x, y = torch.from_numpy(X), torch.from_numpy(labels)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(256):
            if len(batch) < 2:
                continue
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
            optimiser.step()
    network.eval()
    with torch.no_grad():
        z = torch.from_numpy(Z)
        softmax = network(z).softmax(1).numpy()
        network[3].train()
        passes = [network(z).softmax(1).numpy() for _ in range(F)]
    return softmax, passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", choices=list(PARTS), help="Default: all of them")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    parts = PARTS.values() if options.part is None else [PARTS[options.part]]
    sets = list(chain.from_iterable(parts))
    for one in [*sets[::3], *sets[1::3], *sets[2::3]]:  # of every kind some, should it be stopped
        make_set(one, options.data, options.out)


if __name__ == "__main__":
    main()
