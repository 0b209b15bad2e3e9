"""Make the sets of `auto_sets.py`: noisy labels, and predictions of models trained on them.

    python benchmarks/auto_make.py --data FOLDER --out FOLDER --part unseen

Every set becomes one file, made once. FOLDER is the one with MNIST, CIFAR-10 and the published
predictions.
"""

from __future__ import annotations

import argparse
import gzip
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auto_sets import PARTS, Set

FOLDS = 4
MODULES = (
    "turtle", "_pydecimal", "tarfile", "typing", "inspect", "argparse", "unittest.mock",
    "pickletools", "ipaddress", "doctest", "pydoc", "zipfile",
)  # fmt: skip
LINES, WORDS = 6, 400  # of a piece of a module's source; the most frequent ones
SIDE = {"cifar": 96, "tiny": 96}  # images are scaled to it before the network sees them

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def made(one: Set, data: Path, out: Path) -> Path:
    """The file of one set, made if it is not there."""
    path = out / f"{one.name}.npz"
    if path.exists():
        return path
    started = time.perf_counter()
    rng = np.random.default_rng([one.seed, one.N, one.K])
    X, true, human = samples(one, data, out, rng)
    K = int(true.max()) + 1
    labels = noisy(one, X, true, human, K)
    softmax, passes = predictions(one, X, labels, K)
    rough = path.with_suffix(".tmp.npz")
    np.savez(rough, probs=softmax, passes=passes, labels=labels, true_labels=true)
    rough.rename(path)
    print(
        f"{one.name}: {time.perf_counter() - started:.0f} s, noise {np.mean(labels != true):.3f}, "
        f"accuracy {np.mean(softmax.argmax(1) == true):.3f}",
        flush=True,
    )
    return path


def samples(
    one: Set, data: Path, out: Path, rng: np.random.Generator
) -> tuple[Floats, Ints, Ints | None]:
    """Features [N,D], true classes [N], and what people said [N] where that is known."""
    human = None
    if one.data == "digits":
        from sklearn.datasets import load_digits

        X, true = load_digits(return_X_y=True)
        X = X / 16
    elif one.data == "cancer":
        from sklearn.datasets import load_breast_cancer

        X, true = load_breast_cancer(return_X_y=True)
        X = (X - X.mean(0)) / X.std(0)
    elif one.data == "points":
        points = rng.standard_normal((one.K, 40))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        true = rng.integers(0, one.K, one.N)
        X = points[true] + 0.27 * rng.standard_normal((one.N, 40))
    elif one.data == "modules":
        X, true = modules()
    elif one.data == "topics":
        topics = rng.dirichlet(np.full(WORDS, 0.05), one.K)
        true = rng.integers(0, one.K, one.N)
        mixed = 0.3 * topics[true] + 0.7 * rng.dirichlet(np.full(one.K, 0.2), one.N) @ topics
        X = rng.poisson(40 * mixed)
    elif one.data == "wine":
        from sklearn.datasets import load_wine

        X, true = load_wine(return_X_y=True)
        X = (X - X.mean(0)) / X.std(0)
    elif one.data == "tones":
        true = rng.integers(0, one.K, one.N)
        X = tones(true, rng)
    elif one.data in ("clusters", "moons", "quantiles"):
        from sklearn.datasets import make_classification, make_gaussian_quantiles, make_moons

        if one.data == "quantiles":
            X, true = make_gaussian_quantiles(
                n_samples=one.N, n_features=4, n_classes=one.K, random_state=one.seed
            )
        elif one.data == "moons":
            X, true = make_moons(one.N, noise=0.2, random_state=one.seed)
        else:
            X, true = make_classification(
                one.N, 20, n_informative=10, n_redundant=5, n_classes=one.K,
                n_clusters_per_class=3, class_sep=1.5, flip_y=0.0, random_state=one.seed,
            )  # fmt: skip
    elif one.data in ("cifar", "tiny"):
        X, true, human = features(one.data, data, out)
        X = components(X, 128)
    elif one.data == "pixels":
        images, true, _ = cifar(data, one.N)
        X = components(images.reshape(len(images), -1) / np.float32(255), 60)
    else:
        X, true = mnist(data)
        if one.data == "pairs":
            first, second = rng.permutation(len(X))[: 2 * one.N].reshape(2, -1)
            X = components(X, 25)
            X, true = np.hstack([X[first], X[second]]), 10 * true[first] + true[second]
        else:
            if one.data == "mnist-even":
                keep = np.arange(len(X))
                some = rng.permutation(keep)[: one.N]
                X, true = X[some], true[some] % 2
            elif one.data == "mnist-falling":
                weights = 0.65 ** true.astype(float)
                some = rng.choice(len(X), one.N, replace=False, p=weights / weights.sum())
                X, true = X[some], true[some]
            else:
                some = rng.permutation(len(X))[: one.N]
                X, true = X[some], true[some]
            if one.data == "coarse":
                X = X.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(len(X), -1)
            else:
                X = components(X, 40)
    if len(X) > one.N:
        some = np.sort(rng.permutation(len(X))[: one.N])
        X, true = X[some], true[some]
        human = None if human is None else human[some]
    return np.ascontiguousarray(X, np.float32), true.astype(np.int64), human


def modules() -> tuple[Floats, Ints]:
    """How often each of the most frequent words is in pieces of the standard library's modules."""
    from collections import Counter
    from importlib.util import find_spec
    from re import findall

    pieces, true = [], []
    for k, name in enumerate(MODULES):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        lines = [line for line in Path(spec.origin).read_text("utf-8").splitlines() if line.strip()]
        for start in range(0, len(lines) - LINES + 1, LINES):
            text = " ".join(lines[start : start + LINES]).lower()
            pieces.append(Counter(findall(r"[a-z]+", text)))
            true.append(k)
    total: Counter[str] = Counter()
    for piece in pieces:
        total.update(piece)
    words = [word for word, _ in total.most_common(WORDS)]
    X = np.array([[piece[word] for word in words] for piece in pieces], np.float32)
    return X, np.array(true)


def tones(pitch: Ints, rng: np.random.Generator) -> Floats:
    """Spectra of waves of 128 samples, each its pitch and some of an octave, in noise."""
    N, at = len(pitch), np.arange(128) / 128
    base = 8.0 * 2.0 ** (pitch[:, None] / 12 + 0.02 * rng.standard_normal((N, 1)))
    phase, octave = rng.random((2, N, 1)) * 2 * np.pi, rng.random((N, 1))
    wave = np.sin(2 * np.pi * base * at + phase[0])
    wave += octave * np.sin(4 * np.pi * base * at + phase[1])
    wave += 1.5 * rng.standard_normal(wave.shape)
    return np.asarray(np.abs(np.fft.rfft(wave, axis=1))[:, 4:40] / 30, np.float32)


def mnist(data: Path) -> tuple[Floats, Ints]:
    def read(name: str, skip: int) -> NDArray[np.uint8]:
        with gzip.open(data / "mnist" / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=skip)

    images = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)
    return images.astype(np.float32) / 255, read("train-labels-idx1-ubyte.gz", 8).astype(np.int64)


def cifar(data: Path, n: int) -> tuple[NDArray[np.uint8], Ints, Ints]:
    """The first n images [n,32,32,3], their classes, and their numbers among their class."""
    import io

    import pyarrow.parquet as parquet
    from PIL import Image

    table = parquet.read_table(data / "cifar10" / "train.parquet").slice(0, n)
    rows = table["img"].to_pylist()
    images = [np.asarray(Image.open(io.BytesIO(row["bytes"])).convert("RGB")) for row in rows]
    numbers = np.array([int(Path(row["path"]).stem) for row in rows])
    return np.stack(images), np.array(table["label"].to_pylist()), numbers


def features(name: str, data: Path, out: Path) -> tuple[Floats, Ints, Ints | None]:
    """Features of a pretrained network, computed once."""
    from uqled.models.probe import features as probe_features

    human = None
    if name == "cifar":
        images, true, numbers = cifar(data, 6_000)
        published = np.load(data / "predictions" / "cifar10n-worst.npz")
        canonical = [np.flatnonzero(published["true_labels"] == k) for k in range(10)]
        at = np.array([canonical[k][n] for k, n in zip(true, numbers, strict=True)])
        human = published["labels"][at]
    else:
        import uqled.data

        loaded = uqled.data.load(str(data / "tiny-imagenet-20.zip"), split="train")
        some = np.arange(0, len(loaded.labels), 2)
        images, true = np.asarray(loaded.inputs)[some], np.asarray(loaded.labels.codes)[some]
    X = probe_features(images, cache_folder=out / "features", image_size=SIDE[name])
    return X, true, human


def components(X: NDArray[Any], n: int) -> Floats:
    """[N,n] principal components, scaled so that the first has deviation 1."""
    X = X - X.mean(0)
    _, vectors = np.linalg.eigh(X.T @ X)
    Z = X @ vectors[:, ::-1][:, :n]
    return np.asarray(Z / Z[:, 0].std(), np.float32)


def noisy(one: Set, X: Floats, true: Ints, human: Ints | None, K: int) -> Ints:
    """[N] labels of which about `rate` are wrong."""
    from uqled.noise.kinds import noise_of_kind

    rng = np.random.default_rng([one.seed, 7])
    options: dict[str, Any] = {}
    if one.noise == "human":
        assert human is not None
        wrong = np.flatnonzero(human != true)
        keep = rng.random(len(wrong)) < one.rate * len(true) / len(wrong)
        labels = true.copy()
        labels[wrong[keep]] = human[wrong[keep]]
        return labels
    if one.noise == "one-class":
        labels = true.copy()
        members = np.flatnonzero(true == 0)
        some = rng.permutation(members)[: round(one.rate * len(true))]
        labels[some] = rng.integers(1, K, len(some))
        return labels
    if one.noise == "annotator":
        labels, said = true.copy(), annotator(X, true, K, rng)
        wrong = np.flatnonzero(said != true)
        some = wrong[rng.random(len(wrong)) < one.rate * len(true) / len(wrong)]
        labels[some] = said[some]
        return labels
    if one.noise == "ordinal":
        labels, move = true.copy(), rng.integers(0, 2, len(true)) * 2 - 1
        some = rng.random(len(true)) < one.rate
        labels[some] = np.abs(true + move)[some]
        labels[labels == K] = K - 2
        return labels
    if one.noise == "mixed":
        half = {"rate": one.rate / 2, "passes": "none", "F": 0}
        everywhere = noisy(replace(one, noise="symmetric", **half), X, true, human, K)
        on_hard = noisy(replace(one, noise="instance", **half), X, true, human, K)
        return np.where(everywhere != true, everywhere, on_hard)
    if one.noise in ("similarity", "instance"):
        options["pred_probs"] = out_of_fold("linear", X, true, K, seed=one.seed + 100)
    if one.noise == "sparse":
        options["zeros"] = 0.5
    made_up = noise_of_kind(
        one.noise, true, rate=one.rate, classes=range(K), seed=one.seed, **options
    )
    return np.asarray(made_up.labels, np.int64)


def annotator(X: Floats, true: Ints, K: int, rng: np.random.Generator) -> Ints:
    """[N] what a linear model says that saw a fiftieth of the data, at least five of a class."""
    from sklearn.linear_model import LogisticRegression

    seen = [
        rng.permutation(np.flatnonzero(true == k))[: max(5, np.count_nonzero(true == k) // 50)]
        for k in range(K)
    ]
    some = np.concatenate(seen)
    model = LogisticRegression(max_iter=150, tol=1e-3).fit(X[some], true[some])
    return np.asarray(model.predict(X), np.int64)


def predictions(one: Set, X: Floats, labels: Ints, K: int) -> tuple[Floats, Floats]:
    """Softmax [N,K] and passes [F,N,K]."""
    if one.passes == "mcd":
        return both_of_dropout(X, labels, K, one.F, one.seed)
    if one.passes == "members":
        passes = [out_of_fold(one.model, X, labels, K, seed=one.seed + f) for f in range(one.F)]
        return passes[0], np.stack(passes)
    softmax = out_of_fold(one.model, X, labels, K, seed=one.seed)
    passes = []
    for f in range(one.F):
        resampled = one.passes == "bootstrap"
        trees = 10 if one.passes == "trees" else 40
        passes.append(
            out_of_fold(
                one.model, X, labels, K, seed=one.seed + f + 1, bootstrap=resampled, trees=trees
            )
        )
    return softmax, np.array(passes, np.float32)


def folds(labels: Ints, seed: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    rng = np.random.default_rng([seed, 3])
    order = np.lexsort((rng.random(len(labels)), labels))
    fold = np.empty(len(labels), int)
    fold[order] = np.arange(len(labels)) % FOLDS
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS)]


def out_of_fold(
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
    found = np.zeros((len(X), K), np.float32)
    for k, (train, test) in enumerate(folds(labels, 0)):
        chosen = train
        if bootstrap:
            chosen = np.random.default_rng([seed, k]).choice(train, len(train))
        if model in ("mlp", "long"):
            found[test] = network_probabilities(
                X[chosen],
                labels[chosen],
                X[test],
                K,
                seed=seed,
                epochs=60 if model == "long" else 12,
            )[0]
            continue
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
            classifier.fit(X[chosen], labels[chosen])
        found[np.ix_(test, classifier.classes_)] = classifier.predict_proba(X[test])
    found = np.maximum(found, 0)
    return found / found.sum(1, keepdims=True)


def both_of_dropout(X: Floats, labels: Ints, K: int, F: int, seed: int) -> tuple[Floats, Floats]:
    softmax, passes = np.zeros((len(X), K), np.float32), np.zeros((F, len(X), K), np.float32)
    for train, test in folds(labels, 0):
        one, many = network_probabilities(X[train], labels[train], X[test], K, seed=seed, F=F)
        softmax[test], passes[:, test] = one, many
    return softmax, passes


def network_probabilities(
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
        for some in torch.randperm(len(x)).split(256):
            if len(some) < 2:
                continue
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x[some]), y[some]).backward()
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
        made(one, options.data, options.out)


if __name__ == "__main__":
    main()
