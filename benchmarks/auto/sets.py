"""The sets on which `auto` is developed and judged.

`DEVELOPMENT` and `HELD_OUT` were written before anything was tuned.

A set is data with known truth, noise put on its labels, and out-of-sample predictions of a model
that was trained on the noisy labels. `HELD_OUT` are kinds of data, noise and model that none of the
development sets has; they were scored once, after the first method was settled. What is known of
them was known when the method was changed, so `LATER_SETS` was written before that change: other
data, models and noise, scored once at its end. `FRESH_SETS` was written before a reading (`even`)
was built in, when its results on all others were known. It was scored once; then how `even` treats
few counts and temperatures was changed, so it is a development set since. `UNSEEN` was written
after that change, and scored once; then `least` got a weight, which was tried on all sets.
`LAST_SETS` was written before that was built in, and scored once; then the matrices got their
spread and a reading (`half`) was dropped. `DRAWN_SETS` are drawn at random, by a seed; they were
scored once after that. Nothing was changed since but for mistakes that a review found.

`REAL_SETS` and `REAL_HELD_OUT` were written before the ranking, the cut on curated data and the
kinds of passes were worked on: tables, texts, images with people's own labels, and curated data, in
which few labels are wrong and the model errs more often than they. `sst2`, `tiny` and the seeds of
the second list are in none of the first. `HUMAN` are people's labels with features of a second
network; they were scored once. Then, with all sets known, the weight of one explanation
(`trusting`) was doubled, and that of another (`confident`) made to depend on how even the noise is.

Data: `digits` (scikit-learn), `mnist` (principal components of the pixels), `mnist-even` (two
classes), `mnist-falling` (class sizes fall by a factor of 0.65 from class to class), `pairs` (two
digits side by side, 100 classes), `cifar` and `tiny` (features of a pretrained network),
`cifar-lite2` (of a larger one), `pixels` (principal components of CIFAR-10's pixels: weak),
`points` (classes are points on a sphere), `cancer` (scikit-learn, two classes), `published`
(predictions that others published), `modules`
(pieces of six lines from twelve modules of Python's standard library, as counts of words), `topics`
(documents drawn from a topic model), `clusters` (scikit-learn's made-up classification), `moons`
(the same, two classes), `coarse` (MNIST in 7 x 7 pixels), `tones` (spectra of noisy waves, by
pitch), `quantiles` (scikit-learn's shells around a point: classes in order), `wine` (scikit-learn,
178 samples), `adult` and `diamonds` (tables; 8,000 rows drawn), `banking77` and `sst2` (texts, as
components of TF-IDF).

Noise: the kinds of `uqled noise`, and `human` (people's own errors, the worst of three labels; a
part of them), `human-one` (those of one annotator, a part of them), `one-class` (only the first
class is mistaken), `annotator` (the errors of a model that saw a fiftieth of the
data), `mixed` (half symmetric, half instance), `ordinal` (the class before or after).

Models: `linear`, `mlp`, `forest`, `bayes` (naive, overconfident), `words` (multinomial naive
Bayes), `boosted` trees, `knn` (15 neighbours), `long` (as `mlp`, trained five times as long: too
sure), `kernel` (linear on features of a Gaussian kernel), `extra` (extremely random trees), `lda`.
Passes: `mcd` (dropout while predicting, one network), `members` (networks of different seeds; the
softmax is the first's), `bootstrap` (trained on resampled data), `trees` (groups of trees), `heads`
(models of different kinds, `HEADS`; the softmax is their mean), `none` (softmax alone).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Set:
    """One set, and all that is needed to make it again."""

    data: str
    N: int
    noise: str
    rate: float
    model: str
    passes: str = "none"
    F: int = 0
    K: int = 10
    seed: int = 0

    @property
    def name(self) -> str:
        parts = [self.data, str(self.N), f"{self.noise}{self.rate:g}", self.model]
        if self.data == "points":
            parts[0] = f"points{self.K}"
        if self.F:
            parts.append(f"{self.passes}{self.F}")
        return "-".join(parts)


HEADS = ("linear", "knn", "lda", "mlp", "forest")
PUBLISHED_SETS = ("cifar10s", "cifar10n-worst")
"""Five networks: as passes (with one of them, resnet50d, as the softmax), two of them as passes, or
one of them as the softmax alone."""
THINNED_RATES = (0.09, 0.03, 0.01, 0.005, 0.0025)
"""Shares of labels that are still wrong where only a part of people's errors is left."""
PUBLISHED_SOFTMAX = (
    "northcutt-sparsity0.0-noise0.4",
    "northcutt-sparsity0.4-noise0.2",
    "northcutt-sparsity0.6-noise0.6",
)

DEVELOPMENT = [
    # a strong model, noise of every kind
    Set("mnist", 10_000, "symmetric", 0.05, "mlp", "mcd", 5),
    Set("mnist", 10_000, "symmetric", 0.2, "mlp", "mcd", 5),
    Set("mnist", 10_000, "symmetric", 0.4, "mlp", "mcd", 5),
    Set("mnist", 10_000, "similarity", 0.05, "mlp", "mcd", 5),
    Set("mnist", 10_000, "similarity", 0.1, "mlp", "members", 5),
    Set("mnist", 10_000, "similarity", 0.2, "mlp", "mcd", 5),
    Set("mnist", 10_000, "sparse", 0.2, "mlp", "members", 3),
    Set("mnist", 10_000, "instance", 0.05, "mlp", "members", 5),
    Set("mnist", 10_000, "instance", 0.2, "mlp", "mcd", 5),
    Set("mnist", 50_000, "instance", 0.02, "linear", "bootstrap", 5),
    Set("mnist", 50_000, "symmetric", 0.01, "forest", "trees", 10),
    Set("mnist", 3_000, "similarity", 0.1, "linear"),
    Set("mnist", 3_000, "sparse", 0.3, "forest", "trees", 5),
    Set("mnist-even", 4_000, "symmetric", 0.1, "mlp", "mcd", 5, K=2),
    Set("mnist-even", 4_000, "instance", 0.1, "linear", K=2),
    Set("mnist-falling", 6_000, "symmetric", 0.1, "mlp", "mcd", 5),
    Set("mnist-falling", 6_000, "similarity", 0.2, "linear", "bootstrap", 5),
    # small data
    Set("digits", 500, "symmetric", 0.1, "linear", "bootstrap", 5),
    Set("digits", 500, "symmetric", 0.3, "mlp", "mcd", 5),
    Set("digits", 1_797, "symmetric", 0.05, "linear"),
    Set("digits", 1_797, "sparse", 0.2, "forest", "trees", 5),
    Set("digits", 1_797, "similarity", 0.1, "mlp", "members", 5),
    Set("digits", 1_797, "instance", 0.1, "forest", "trees", 5),
    # many classes
    Set("pairs", 10_000, "symmetric", 0.1, "mlp", "mcd", 5, K=100),
    Set("pairs", 10_000, "instance", 0.2, "mlp", "members", 3, K=100),
    Set("points", 20_000, "similarity", 0.1, "linear", "bootstrap", 2, K=100),
    Set("points", 10_000, "sparse", 0.2, "linear", K=30),
    Set("points", 3_000, "symmetric", 0.2, "linear", K=3),
    # images by a pretrained network's features: people's own errors, all of them or a part
    Set("cifar", 6_000, "human", 0.4, "mlp", "mcd", 5),
    Set("cifar", 6_000, "human", 0.2, "mlp", "members", 5),
    Set("cifar", 6_000, "human", 0.1, "mlp", "members", 5),
    Set("cifar", 6_000, "human", 0.1, "linear"),
    Set("cifar", 6_000, "similarity", 0.05, "mlp", "mcd", 5),
    Set("cifar", 6_000, "similarity", 0.1, "mlp", "mcd", 5),
    Set("cifar", 6_000, "similarity", 0.2, "mlp", "mcd", 5),
    Set("cifar", 6_000, "symmetric", 0.1, "mlp", "members", 5),
    Set("cifar", 6_000, "sparse", 0.4, "linear"),
    Set("cifar", 6_000, "instance", 0.1, "mlp", "mcd", 5),
    # a weak model
    Set("pixels", 10_000, "symmetric", 0.05, "mlp", "mcd", 5),
    Set("pixels", 10_000, "similarity", 0.2, "mlp", "mcd", 5),
    Set("pixels", 10_000, "sparse", 0.3, "forest", "trees", 5),
    Set("points", 5_000, "symmetric", 0.05, "bayes", K=10, seed=1),
]

HELD_OUT = [
    Set("tiny", 5_000, "similarity", 0.05, "mlp", "mcd", 5, K=20),
    Set("tiny", 5_000, "similarity", 0.2, "mlp", "mcd", 5, K=20),
    Set("tiny", 5_000, "instance", 0.1, "mlp", "members", 5, K=20),
    Set("tiny", 5_000, "pair", 0.2, "linear", K=20),
    Set("cancer", 569, "symmetric", 0.1, "forest", "trees", 5, K=2),
    Set("cancer", 569, "instance", 0.1, "linear", K=2),
    Set("mnist", 8_000, "pair", 0.1, "mlp", "mcd", 5, seed=2),
    Set("mnist", 8_000, "pair", 0.3, "linear", seed=2),
    Set("mnist", 8_000, "one-class", 0.05, "mlp", "members", 5, seed=2),
    Set("digits", 1_797, "pair", 0.2, "bayes", seed=2),
    Set("cifar", 4_000, "pair", 0.1, "mlp", "mcd", 5, seed=2),
    Set("points", 20_000, "pair", 0.05, "linear", "bootstrap", 3, K=50, seed=2),
]

LATER_SETS = [
    # text, and counts like those of text
    Set("modules", 4_000, "symmetric", 0.1, "words", "bootstrap", 5, K=12, seed=3),
    Set("modules", 4_000, "annotator", 0.15, "linear", K=12, seed=3),
    Set("modules", 4_000, "pair", 0.05, "linear", "bootstrap", 5, K=12, seed=3),
    Set("topics", 8_000, "sparse", 0.25, "words", K=20, seed=3),
    Set("topics", 8_000, "mixed", 0.1, "linear", "bootstrap", 3, K=20, seed=3),
    # other shapes, trees and neighbours
    Set("clusters", 5_000, "symmetric", 0.1, "boosted", "bootstrap", 3, K=6, seed=3),
    Set("clusters", 5_000, "annotator", 0.1, "forest", "trees", 5, K=6, seed=3),
    Set("moons", 2_000, "mixed", 0.2, "knn", "bootstrap", 5, K=2, seed=3),
    Set("moons", 2_000, "one-class", 0.05, "mlp", "members", 5, K=2, seed=3),
    Set("mnist", 10_000, "annotator", 0.1, "mlp", "mcd", 10, seed=3),
    Set("mnist", 10_000, "mixed", 0.05, "knn", seed=3),
    # images by a pretrained network's features
    Set("cifar", 6_000, "human", 0.3, "forest", "trees", 5, seed=3),
    Set("cifar", 6_000, "annotator", 0.1, "mlp", "members", 5, seed=3),
    Set("tiny", 5_000, "mixed", 0.3, "mlp", "mcd", 5, K=20, seed=3),
]

FRESH_SETS = [
    # strong models
    Set("mnist", 20_000, "similarity", 0.1, "long", "members", 3, seed=5),
    Set("mnist", 12_000, "symmetric", 0.15, "kernel", seed=5),
    Set("mnist", 12_000, "mixed", 0.1, "mlp", "mcd", 5, seed=5),
    Set("mnist-falling", 8_000, "pair", 0.1, "extra", "trees", 5, seed=5),
    Set("digits", 1_797, "similarity", 0.2, "kernel", "bootstrap", 5, seed=5),
    Set("points", 20_000, "one-class", 0.05, "mlp", "mcd", 5, K=25, seed=5),
    Set("wine", 178, "symmetric", 0.1, "linear", "bootstrap", 5, K=3, seed=5),
    # other data
    Set("coarse", 12_000, "similarity", 0.05, "mlp", "mcd", 5, seed=5),
    Set("coarse", 12_000, "annotator", 0.1, "extra", "trees", 5, seed=5),
    Set("coarse", 12_000, "sparse", 0.3, "long", seed=5),
    Set("tones", 10_000, "symmetric", 0.05, "mlp", "mcd", 5, K=12, seed=5),
    Set("tones", 10_000, "ordinal", 0.1, "linear", "bootstrap", 5, K=12, seed=5),
    Set("tones", 6_000, "instance", 0.1, "boosted", K=12, seed=5),
    Set("quantiles", 6_000, "ordinal", 0.1, "mlp", "members", 5, K=5, seed=5),
    Set("quantiles", 6_000, "symmetric", 0.2, "boosted", "bootstrap", 3, K=5, seed=5),
    # images by a pretrained network's features, and text
    Set("cifar", 6_000, "human", 0.25, "long", "members", 3, seed=5),
    Set("cifar", 6_000, "symmetric", 0.3, "linear", seed=5),
    Set("tiny", 5_000, "sparse", 0.15, "extra", "trees", 5, K=20, seed=5),
    Set("tiny", 5_000, "annotator", 0.1, "linear", K=20, seed=5),
    Set("modules", 4_000, "mixed", 0.15, "long", "members", 3, K=12, seed=5),
]

UNSEEN = [
    Set("mnist", 15_000, "symmetric", 0.1, "long", "members", 5, seed=7),
    Set("mnist", 15_000, "pair", 0.05, "kernel", "bootstrap", 3, seed=7),
    Set("mnist", 6_000, "annotator", 0.2, "forest", "trees", 5, seed=7),
    Set("coarse", 12_000, "similarity", 0.2, "knn", seed=7),
    Set("coarse", 8_000, "mixed", 0.1, "boosted", seed=7),
    Set("tones", 12_000, "similarity", 0.1, "mlp", "members", 5, K=8, seed=7),
    Set("tones", 8_000, "sparse", 0.2, "extra", "trees", 5, K=8, seed=7),
    Set("quantiles", 8_000, "ordinal", 0.2, "knn", "bootstrap", 5, K=3, seed=7),
    Set("clusters", 6_000, "pair", 0.15, "mlp", "mcd", 5, K=8, seed=7),
    Set("clusters", 6_000, "instance", 0.1, "boosted", "bootstrap", 3, K=4, seed=7),
    Set("moons", 3_000, "symmetric", 0.1, "kernel", K=2, seed=7),
    Set("digits", 1_797, "ordinal", 0.15, "knn", "bootstrap", 5, seed=7),
    Set("cancer", 569, "one-class", 0.1, "linear", "bootstrap", 5, K=2, seed=7),
    Set("points", 15_000, "symmetric", 0.3, "mlp", "mcd", 5, K=40, seed=7),
    Set("pairs", 10_000, "similarity", 0.1, "long", K=100, seed=7),
    Set("topics", 8_000, "pair", 0.15, "linear", K=15, seed=7),
    Set("modules", 4_000, "symmetric", 0.05, "linear", "bootstrap", 5, K=12, seed=7),
    Set("cifar", 6_000, "mixed", 0.2, "mlp", "mcd", 5, seed=7),
    Set("cifar", 6_000, "human", 0.15, "kernel", seed=7),
    Set("tiny", 5_000, "symmetric", 0.1, "long", "members", 3, K=20, seed=7),
]

LAST_SETS = [
    Set("mnist", 20_000, "sparse", 0.1, "long", "members", 3, seed=11),
    Set("mnist", 9_000, "similarity", 0.15, "boosted", seed=11),
    Set("mnist", 12_000, "instance", 0.1, "kernel", "bootstrap", 3, seed=11),
    Set("mnist-falling", 8_000, "symmetric", 0.2, "extra", "trees", 5, seed=11),
    Set("mnist-even", 5_000, "annotator", 0.1, "mlp", "members", 5, K=2, seed=11),
    Set("coarse", 10_000, "ordinal", 0.1, "mlp", "mcd", 10, seed=11),
    Set("coarse", 10_000, "one-class", 0.05, "forest", "trees", 5, seed=11),
    Set("tones", 10_000, "mixed", 0.15, "long", "members", 3, K=10, seed=11),
    Set("tones", 10_000, "pair", 0.1, "knn", "bootstrap", 5, K=16, seed=11),
    Set("quantiles", 6_000, "similarity", 0.1, "boosted", "bootstrap", 3, K=4, seed=11),
    Set("clusters", 8_000, "symmetric", 0.05, "kernel", K=5, seed=11),
    Set("clusters", 5_000, "annotator", 0.15, "mlp", "mcd", 5, K=10, seed=11),
    Set("moons", 2_500, "instance", 0.1, "forest", "trees", 5, K=2, seed=11),
    Set("wine", 178, "pair", 0.15, "forest", "trees", 5, K=3, seed=11),
    Set("digits", 1_797, "mixed", 0.2, "linear", seed=11),
    Set("points", 15_000, "sparse", 0.3, "bayes", K=20, seed=11),
    Set("pairs", 12_000, "symmetric", 0.2, "linear", K=100, seed=11),
    Set("topics", 8_000, "similarity", 0.2, "words", "bootstrap", 3, K=10, seed=11),
    Set("modules", 4_000, "sparse", 0.2, "words", K=12, seed=11),
    Set("cifar", 6_000, "human", 0.35, "linear", "bootstrap", 5, seed=11),
    Set("cifar", 6_000, "pair", 0.2, "long", seed=11),
    Set("tiny", 5_000, "ordinal", 0.1, "mlp", "mcd", 5, K=20, seed=11),
    Set("tiny", 5_000, "mixed", 0.1, "kernel", K=20, seed=11),
]

_DATA = {
    "mnist": (12_000, 10), "mnist-falling": (8_000, 10), "mnist-even": (5_000, 2),
    "coarse": (10_000, 10), "pairs": (12_000, 100), "digits": (1_797, 10), "cancer": (569, 2),
    "points": (10_000, 30), "modules": (4_000, 12), "topics": (8_000, 15),
    "clusters": (6_000, 6), "moons": (2_500, 2), "tones": (8_000, 12), "quantiles": (6_000, 4),
    "cifar": (6_000, 10), "tiny": (5_000, 20),
}  # fmt: skip
_NOISE = ("symmetric", "similarity", "pair", "sparse", "ordinal", "instance", "annotator", "mixed")
_PASSES = {
    "linear": "bootstrap", "kernel": "bootstrap", "boosted": "bootstrap", "knn": "bootstrap",
    "forest": "trees", "extra": "trees", "mlp": "mcd", "long": "members",
}  # fmt: skip


def draw_sets(n: int, seed: int) -> list[Set]:
    """Sets drawn at random: data, noise, rate, model, with passes or without."""
    rng, sets = Random(seed), []
    for _ in range(n):
        data, model = rng.choice(list(_DATA)), rng.choice(list(_PASSES))
        noise = rng.choice([*_NOISE, "human"] if data == "cifar" else _NOISE)
        rate, F = rng.choice((0.05, 0.1, 0.2, 0.3)), rng.choice((0, 3, 5))
        N, K = _DATA[data]
        sets.append(Set(data, N, noise, rate, model, _PASSES[model] if F else "none", F, K, seed))
    return sets


DRAWN_SETS = draw_sets(30, seed=13)

REAL_SETS = [
    # tables
    Set("adult", 8_000, "symmetric", 0.01, "boosted", K=2, seed=21),
    Set("adult", 8_000, "symmetric", 0.1, "linear", K=2, seed=21),
    Set("adult", 8_000, "annotator", 0.1, "forest", "trees", 5, K=2, seed=21),
    Set("adult", 8_000, "one-class", 0.03, "boosted", "bootstrap", 3, K=2, seed=21),
    Set("adult", 8_000, "instance", 0.03, "heads", "heads", 5, K=2, seed=21),
    Set("diamonds", 8_000, "symmetric", 0.1, "boosted", K=5, seed=21),
    Set("diamonds", 8_000, "symmetric", 0.01, "boosted", "bootstrap", 3, K=5, seed=21),
    Set("diamonds", 8_000, "sparse", 0.1, "boosted", K=5, seed=21),
    Set("diamonds", 8_000, "similarity", 0.03, "forest", "trees", 5, K=5, seed=21),
    Set("diamonds", 8_000, "pair", 0.1, "linear", K=5, seed=21),
    Set("diamonds", 8_000, "ordinal", 0.1, "heads", "heads", 5, K=5, seed=21),
    # texts
    Set("banking77", 10_003, "symmetric", 0.1, "lda", K=77, seed=21),
    Set("banking77", 10_003, "symmetric", 0.03, "linear", K=77, seed=21),
    Set("banking77", 10_003, "similarity", 0.1, "lda", K=77, seed=21),
    Set("banking77", 10_003, "sparse", 0.1, "knn", K=77, seed=21),
    Set("banking77", 10_003, "annotator", 0.1, "heads", "heads", 5, K=77, seed=21),
    # people's errors
    Set("cifar", 6_000, "human", 0.4, "heads", "heads", 5, seed=21),
    Set("cifar", 6_000, "human", 0.1, "heads", "heads", 5, seed=21),
    Set("cifar", 6_000, "human", 0.2, "mlp", "mcd", 5, seed=21),
    Set("cifar", 6_000, "human-one", 0.17, "linear", seed=21),
    Set("cifar", 6_000, "human-one", 0.09, "lda", seed=21),
    # members of different kinds, noise of other kinds
    Set("mnist", 8_000, "annotator", 0.1, "heads", "heads", 5, seed=21),
    Set("mnist", 8_000, "sparse", 0.1, "heads", "heads", 5, seed=21),
    Set("mnist", 8_000, "symmetric", 0.03, "heads", "heads", 4, seed=21),
    # curated
    Set("mnist", 12_000, "mixed", 0.005, "mlp", "mcd", 5, seed=21),
    Set("mnist", 12_000, "annotator", 0.0015, "kernel", seed=21),
    Set("mnist", 12_000, "instance", 0.01, "long", seed=21),
    Set("mnist", 12_000, "annotator", 0.03, "mlp", "mcd", 5, seed=21),
    Set("banking77", 10_003, "annotator", 0.005, "linear", K=77, seed=21),
    Set("cifar", 6_000, "human", 0.01, "mlp", "mcd", 5, seed=21),
    Set("adult", 8_000, "mixed", 0.005, "boosted", K=2, seed=21),
]

REAL_HELD_OUT = [
    Set("sst2", 6_920, "symmetric", 0.1, "linear", K=2, seed=23),
    Set("sst2", 6_920, "symmetric", 0.03, "lda", K=2, seed=23),
    Set("sst2", 6_920, "instance", 0.1, "heads", "heads", 5, K=2, seed=23),
    Set("sst2", 6_920, "annotator", 0.01, "linear", "bootstrap", 5, K=2, seed=23),
    Set("tiny", 5_000, "similarity", 0.1, "heads", "heads", 5, K=20, seed=23),
    Set("tiny", 5_000, "symmetric", 0.03, "lda", K=20, seed=23),
    Set("tiny", 5_000, "annotator", 0.01, "mlp", "mcd", 5, K=20, seed=23),
    Set("banking77", 10_003, "pair", 0.1, "linear", K=77, seed=23),
    Set("banking77", 10_003, "mixed", 0.03, "heads", "heads", 4, K=77, seed=23),
    Set("diamonds", 8_000, "symmetric", 0.03, "forest", "trees", 5, K=5, seed=23),
    Set("diamonds", 8_000, "annotator", 0.1, "boosted", K=5, seed=23),
    Set("diamonds", 8_000, "instance", 0.01, "boosted", "bootstrap", 3, K=5, seed=23),
    Set("adult", 8_000, "symmetric", 0.03, "forest", "trees", 5, K=2, seed=23),
    Set("adult", 8_000, "symmetric", 0.1, "boosted", K=2, seed=23),
    Set("cifar", 6_000, "human-one", 0.17, "heads", "heads", 5, seed=23),
    Set("cifar", 6_000, "human", 0.2, "lda", seed=23),
    Set("cifar", 6_000, "human-one", 0.03, "mlp", "members", 3, seed=23),
    Set("mnist", 9_000, "annotator", 0.01, "boosted", seed=23),
    Set("mnist", 9_000, "instance", 0.003, "heads", "heads", 5, seed=23),
    Set("mnist", 9_000, "pair", 0.03, "heads", "heads", 3, seed=23),
]

HUMAN = [
    Set("cifar-lite2", 6_000, "human", 0.4, "heads", "heads", 5, seed=31),
    Set("cifar-lite2", 6_000, "human", 0.2, "mlp", "mcd", 5, seed=31),
    Set("cifar-lite2", 6_000, "human", 0.1, "forest", "trees", 5, seed=31),
    Set("cifar-lite2", 6_000, "human", 0.01, "linear", "bootstrap", 5, seed=31),
    Set("cifar-lite2", 6_000, "human-one", 0.17, "heads", "heads", 5, seed=31),
    Set("cifar-lite2", 6_000, "human-one", 0.17, "linear", seed=31),
    Set("cifar-lite2", 6_000, "human-one", 0.05, "lda", seed=31),
    Set("cifar-lite2", 6_000, "human-one", 0.01, "heads", "heads", 5, seed=31),
]

PARTS = {
    "development": DEVELOPMENT,
    "held out": HELD_OUT,
    "later": LATER_SETS,
    "fresh": FRESH_SETS,
    "unseen": UNSEEN,
    "last": LAST_SETS,
    "drawn": DRAWN_SETS,
    "real": REAL_SETS,
    "real held out": REAL_HELD_OUT,
    "human": HUMAN,
}
