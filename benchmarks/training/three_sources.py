"""Three sources of probabilities from one trained network, and how right methods are on each.

The softmax as trained, the softmax with the statistics of batch norm re-estimated without dropout,
and the Monte Carlo passes. `batch_norm.py` and `from_scratch.py` train the networks.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from torch import nn
from torch.optim.swa_utils import update_bn

from uqled.arrays import Labels
from uqled.bench.method_flags import compute_flags
from uqled.bench.metrics import score_detection
from uqled.bench.suite import BASELINE, PAPER_METHODS
from uqled.data.dataset import Dataset
from uqled.models import stochastic_passes
from uqled.models.batch_norm import reestimate_batch_norm
from uqled.models.dropout import dropout_layers
from uqled.noise.kinds import NoisyLabels
from uqled.predict.samples import Samples

#: The paper's five, which read the passes.
PAPER_FIVE = tuple(method for method in PAPER_METHODS if method != BASELINE)
#: The entropy's threshold by the other reading, and thresholds on other uncertainties.
FAMILY = ("cl-mcd-e", "cl-mcd-m", "cl-mcd-mi", "cl-mcd-vr", "cl-mcd-sd")
_BATCH = 512  # samples predicted at a time


def read_cell(path: Path, setting: Any) -> dict[str, Any] | None:
    """A finished cell, if it is there; one of another setting is refused rather than mixed in."""
    if not path.exists():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    before = content["setting"]
    if before != json.loads(json.dumps(asdict(setting))):
        raise SystemExit(f"{path} was computed with another setting ({before}). Remove it")
    return content


def predict_sources(
    model: nn.Module, train_samples: Samples, test_samples: Samples, *, passes: int, seed: int
) -> dict[str, NDArray[Any]]:
    """Probabilities of unseen samples: `softmax` and `reestimated` [n,K], `passes` [F,n,K].

    `passes-reestimated` [F,n,K] is the opposite mistake: passes with dropout whose batch norm has
    the statistics that were estimated without.
    """
    model.eval()
    softmax, trained_passes = _predict_passes(model, test_samples, passes, seed)
    with reestimate_batch_norm(model, iterate_batches(train_samples)).use_statistics():
        reestimated_softmax, misfit_passes = _predict_passes(model, test_samples, passes, seed)
    return {
        "softmax": softmax,
        "reestimated": reestimated_softmax,
        "passes": trained_passes,
        "passes-reestimated": misfit_passes,
    }


def _predict_passes(
    model: nn.Module, samples: Samples, passes: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    parts = [
        stochastic_passes(model, batch, passes, seed=seed + start)
        for start, batch in enumerate(iterate_batches(samples))
    ]
    softmax = torch.cat([one for one, _ in parts])
    return softmax.numpy(), torch.cat([batch_passes for _, batch_passes in parts], dim=1).numpy()


def predict_by_torch(
    model: nn.Module, train_samples: Samples, test_samples: Samples
) -> NDArray[np.float32]:
    """[n,K] with all batch norm re-estimated by torch's `update_bn`, dropout taken out: a check.

    uqled re-estimates only the layers after dropout, with those before as they are at inference,
    so the two agree closely and not to the bit.
    """
    other = copy.deepcopy(model)
    for layer in dropout_layers(other):
        layer.p = 0.0
    update_bn(iterate_batches(train_samples), other)
    return predict_softmax(other.eval(), test_samples)


def predict_softmax(model: nn.Module, samples: Samples) -> NDArray[np.float32]:
    """[n,K] without dropout, with the statistics that the network has now."""
    with torch.inference_mode():
        logits = torch.cat([model(batch) for batch in iterate_batches(samples)])
    return torch.softmax(logits, dim=1).numpy()


def iterate_batches(samples: Samples, size: int = _BATCH) -> Iterator[torch.Tensor]:
    """All samples in their order, a batch at a time."""
    return (samples.batch(slice(i, i + size)) for i in range(0, len(samples), size))


def predict_similarity(data: Dataset, side: int | None = None) -> NDArray[np.float64]:
    """[N,K] probabilities that say which classes look alike: logistic regression on clean labels.

    Of the pixels as they are or, with `side`, of images made that small.
    """
    images = data.inputs / 255.0
    if side is not None:
        n, height, width, channels = images.shape
        blocks = images.reshape(n, side, height // side, side, width // side, channels)
        images = blocks.mean(axis=(2, 4))
    classifier = LogisticRegression(C=0.01, max_iter=200)
    return cross_val_predict(
        classifier, images.reshape(len(data), -1), data.labels.codes, cv=4, method="predict_proba"
    )


def score_sources(
    softmax: NDArray[Any],
    reestimated_softmax: NDArray[Any],
    passes: NDArray[Any],
    true: NDArray[Any],
    noisy: NoisyLabels,
    methods: tuple[str, ...],
) -> dict[str, Any]:
    """Accuracy of each source, and the scores of each method by the softmax that it was given."""
    sources = {"as-trained": softmax, "reestimated": reestimated_softmax}
    row: dict[str, Any] = {
        "accuracy": measure_accuracies({**sources, "passes": passes}, true),
        "methods": {},
    }
    for name, probs in sources.items():
        labels = name_classes(noisy.labels, probs.shape[1])
        row["methods"][name] = {
            method: score_detection(flags.mask, flags.ranking, noisy.is_error)
            for method, flags in compute_flags(methods, labels, probs, passes).items()
        }
    return row


def measure_accuracies(sources: dict[str, NDArray[Any]], true: NDArray[Any]) -> dict[str, float]:
    """Accuracy of each source; of passes [F,n,K] that of their mean."""
    return {
        name: float(
            ((probs if probs.ndim == 2 else probs.mean(axis=0)).argmax(axis=1) == true).mean()
        )
        for name, probs in sources.items()
    }


def name_classes(codes: NDArray[Any], n_classes: int) -> Labels:
    """Labels whose classes are called by their numbers."""
    classes = np.arange(n_classes)
    return Labels(codes.astype(np.int32), classes, tuple(map(str, classes)))
