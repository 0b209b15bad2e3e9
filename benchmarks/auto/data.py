"""The samples of each kind of data in `sets.py`: features, true classes, people's labels."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auto.sets import Set

MODULES = (
    "turtle", "_pydecimal", "tarfile", "typing", "inspect", "argparse", "unittest.mock",
    "pickletools", "ipaddress", "doctest", "pydoc", "zipfile",
)  # fmt: skip
LINES, WORDS = 6, 400  # of a piece of a module's source; the most frequent ones
#: The network whose features stand for the images, and the side they are scaled to before.
NETWORKS = {
    "cifar": ("efficientnet-lite0", 96),
    "tiny": ("efficientnet-lite0", 96),
    "cifar-lite2": ("efficientnet-lite2", 128),
}
LABEL_COLUMN = {"adult": "class", "diamonds": "cut", "banking77": "category", "sst2": "label"}

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def load_samples(
    one: Set, data: Path, out: Path, rng: np.random.Generator
) -> tuple[Floats, Ints, dict[str, Ints]]:
    """Features [N,D], true classes [N], and what people said [N] where that is known."""
    human: dict[str, Ints] = {}
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
        X, true = load_modules()
    elif one.data == "topics":
        topics = rng.dirichlet(np.full(WORDS, 0.05), one.K)
        true = rng.integers(0, one.K, one.N)
        features = 0.3 * topics[true] + 0.7 * rng.dirichlet(np.full(one.K, 0.2), one.N) @ topics
        X = rng.poisson(40 * features)
    elif one.data == "wine":
        from sklearn.datasets import load_wine

        X, true = load_wine(return_X_y=True)
        X = (X - X.mean(0)) / X.std(0)
    elif one.data == "tones":
        true = rng.integers(0, one.K, one.N)
        X = make_tones(true, rng)
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
    elif one.data in NETWORKS:
        X, true, human = compute_image_features(one.data, data, out)
        X = reduce_features(X, 128)
    elif one.data in ("adult", "diamonds"):
        X, true = load_table(data / "tables" / f"{one.data}.csv", LABEL_COLUMN[one.data])
    elif one.data in ("banking77", "sst2"):
        X, true = load_texts(data / "texts" / f"{one.data}.csv", LABEL_COLUMN[one.data])
    elif one.data == "pixels":
        images, true = load_cifar(data, one.N)
        X = reduce_features(images.reshape(len(images), -1) / np.float32(255), 60)
    else:
        X, true = load_mnist(data)
        if one.data == "pairs":
            first, second = rng.permutation(len(X))[: 2 * one.N].reshape(2, -1)
            X = reduce_features(X, 25)
            X, true = np.hstack([X[first], X[second]]), 10 * true[first] + true[second]
        else:
            if one.data == "mnist-even":
                keep = np.arange(len(X))
                samples = rng.permutation(keep)[: one.N]
                X, true = X[samples], true[samples] % 2
            elif one.data == "mnist-falling":
                weights = 0.65 ** true.astype(float)
                samples = rng.choice(len(X), one.N, replace=False, p=weights / weights.sum())
                X, true = X[samples], true[samples]
            else:
                samples = rng.permutation(len(X))[: one.N]
                X, true = X[samples], true[samples]
            if one.data == "coarse":
                X = X.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(len(X), -1)
            else:
                X = reduce_features(X, 40)
    if len(X) > one.N:
        samples = np.sort(rng.permutation(len(X))[: one.N])
        X, true = X[samples], true[samples]
        human = {name: votes[samples] for name, votes in human.items()}
    return np.ascontiguousarray(X, np.float32), true.astype(np.int64), human


def load_table(path: Path, label: str) -> tuple[Floats, Ints]:
    """Numbers scaled to deviation 1, and a column of 0 and 1 for each value of the others."""
    import pandas as pd

    frame = pd.read_csv(path)
    true = pd.factorize(frame.pop(label), sort=True)[0]
    X = pd.get_dummies(frame, dtype=float)
    return np.asarray((X - X.mean()) / X.std().clip(1e-6), np.float32), true


def load_texts(path: Path, label: str) -> tuple[Floats, Ints]:
    """The 150 largest components of TF-IDF of words and pairs of words."""
    import pandas as pd
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    frame = pd.read_csv(path)
    counts = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2))
    X = TruncatedSVD(150, random_state=0).fit_transform(counts.fit_transform(frame["text"]))
    return np.asarray(X / X.std(), np.float32), pd.factorize(frame[label], sort=True)[0]


def load_modules() -> tuple[Floats, Ints]:
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


def make_tones(pitch: Ints, rng: np.random.Generator) -> Floats:
    """Spectra of waves of 128 samples, each its pitch and some of an octave, in noise."""
    N, at = len(pitch), np.arange(128) / 128
    base = 8.0 * 2.0 ** (pitch[:, None] / 12 + 0.02 * rng.standard_normal((N, 1)))
    phase, octave = rng.random((2, N, 1)) * 2 * np.pi, rng.random((N, 1))
    wave = np.sin(2 * np.pi * base * at + phase[0])
    wave += octave * np.sin(4 * np.pi * base * at + phase[1])
    wave += 1.5 * rng.standard_normal(wave.shape)
    return np.asarray(np.abs(np.fft.rfft(wave, axis=1))[:, 4:40] / 30, np.float32)


def load_mnist(data: Path) -> tuple[Floats, Ints]:
    def read(name: str, skip: int) -> NDArray[np.uint8]:
        with gzip.open(data / "mnist" / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=skip)

    images = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)
    return images.astype(np.float32) / 255, read("train-labels-idx1-ubyte.gz", 8).astype(np.int64)


def load_cifar(data: Path, n: int) -> tuple[NDArray[np.uint8], Ints]:
    """The first n images [n,32,32,3] and their classes."""
    import io

    import pyarrow.parquet as parquet
    from PIL import Image

    table = parquet.read_table(data / "cifar10" / "train.parquet").slice(0, n)
    rows = table["img"].to_pylist()
    images = [np.asarray(Image.open(io.BytesIO(row["bytes"])).convert("RGB")) for row in rows]
    return np.stack(images), np.array(table["label"].to_pylist())


def compute_image_features(
    name: str, data: Path, out: Path
) -> tuple[Floats, Ints, dict[str, Ints]]:
    """Features of a pretrained network, computed once."""
    from uqled.features.computing import compute_features
    from uqled.features.encoders import EncoderOptions

    human: dict[str, Ints] = {}
    if name != "tiny":
        images, true = load_cifar(data, 6_000)
        with np.load(data / "cifar10" / "human_labels.npz") as labels:  # in the same order
            human = {
                "human": labels["worst"][: len(true)].astype(np.int64),
                "human-one": labels["one_annotator"][: len(true)].astype(np.int64),
            }
    else:
        import uqled.data

        dataset = uqled.data.load(str(data / "tiny-imagenet-20.zip"), split="train")
        even_rows = np.arange(0, len(dataset.labels), 2)
        images, true = (
            np.asarray(dataset.inputs)[even_rows],
            np.asarray(dataset.labels.codes)[even_rows],
        )
    network, side = NETWORKS[name]
    X = compute_features(
        images,
        network,
        cache_folder=out / "features",
        options=EncoderOptions(device="cpu", bfloat16=False, image_size=side),
    )
    return X, true, human


def reduce_features(X: NDArray[Any], n: int) -> Floats:
    """[N,n] principal components, scaled so that the first has deviation 1."""
    X = X - X.mean(0)
    _, vectors = np.linalg.eigh(X.T @ X)
    Z = X @ vectors[:, ::-1][:, :n]
    return np.asarray(Z / Z[:, 0].std(), np.float32)
