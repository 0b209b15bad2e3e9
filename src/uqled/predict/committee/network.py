"""A small network with dropout on features, predicting without dropout."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from uqled.predict.committee.heads import CommitteeFold

_EPOCHS, _BATCH, _RATE = 12, 128, 0.02


def predict_held_out(fold: CommitteeFold) -> NDArray[np.float32]:
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from uqled.predict.learners.probe import make_head_learner
    from uqled.predict.training_options import resolve_training

    training = resolve_training(
        {"epochs": _EPOCHS, "batch_size": _BATCH, "lr": _RATE, "precision": "32-true"}
    )
    learner = make_head_learner("network", fold.features, fold.data, "none", training)
    with TemporaryDirectory() as folder:
        return learner.fit_predict(
            fold.data,
            fold.train,
            fold.test,
            passes=1,
            seed=fold.seed,
            folder=Path(folder),
            advance=lambda _: None,
        ).pred_probs
