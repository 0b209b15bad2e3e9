"""What can be cross-validated: ensembles, Lightning modules, passes of one's own, classifiers."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import uqled
from small_training import QUICK_TRAINING, digits, tiny
from uqled.predict.crossval import cross_validate
from uqled.predict.learners import choose_learner


def test_an_ensemble_is_as_many_trainings(tmp_path):
    predictions = cross_validate(
        digits(), tiny, out=tmp_path, uncertainty="ensemble", **QUICK_TRAINING
    )
    assert predictions.passes.shape == (2, 240, 10)
    assert (predictions.passes[0] == predictions.pred_probs).all()
    assert (predictions.passes[1] != predictions.pred_probs).any()
    with (tmp_path / "history.csv").open() as file:
        assert {row["fold"] for row in csv.DictReader(file)} == {
            f"{f} member-{m}" for f in range(3) for m in range(2)
        }


def test_passes_of_ones_own(tmp_path, finished_run):
    passes = np.array(finished_run.passes)[::-1]
    predictions = cross_validate(digits(), tiny, out=tmp_path, uncertainty=passes, **QUICK_TRAINING)
    assert (predictions.passes == passes).all()
    assert (predictions.pred_probs == finished_run.pred_probs).all()
    with pytest.raises(uqled.InputError, match="another configuration"):
        cross_validate(digits(), tiny, out=tmp_path, uncertainty=passes[:1], **QUICK_TRAINING)
    with pytest.raises(uqled.InputError, match="uncertainty has shape"):
        cross_validate(
            digits(), tiny, out=tmp_path / "x", uncertainty=passes[:, :9], **QUICK_TRAINING
        )


def test_no_uncertainty(tmp_path):
    predictions = cross_validate(digits(), tiny, out=tmp_path, uncertainty="none", **QUICK_TRAINING)
    assert predictions.passes is None
    assert "cl-mcd" not in uqled.find_label_errors(predictions, method="all").by_method


def test_a_network_without_dropout_is_refused_before_anything_is_trained(tmp_path):
    def make_plain_network(n_classes, image_shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(image_shape)), n_classes))

    with pytest.raises(uqled.InputError, match="add_dropout"):
        cross_validate(digits(), make_plain_network, out=tmp_path / "run", **QUICK_TRAINING)
    assert not (tmp_path / "run").exists()


def test_a_lightning_module_trains_itself(tmp_path):
    lightning = pytest.importorskip("pytorch_lightning")

    class OwnModule(lightning.LightningModule):
        def __init__(self, n_classes, image_shape):
            super().__init__()
            self.network = tiny(n_classes, image_shape)
            self.steps = 0

        def forward(self, x):
            return self.network(x)

        def training_step(self, batch, batch_idx):
            x, y = batch
            self.steps += 1
            assert batch_idx >= 0
            loss = nn.functional.cross_entropy(self(x), y)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=3e-3)

    predictions = cross_validate(
        digits(), OwnModule, out=tmp_path, **{**QUICK_TRAINING, "epochs": 4}
    )
    assert predictions.accuracy > 0.6


def test_a_lightning_module_with_a_scheduler_is_refused(tmp_path):
    lightning = pytest.importorskip("pytorch_lightning")

    class OwnModule(lightning.LightningModule):
        def __init__(self, n_classes, image_shape):
            super().__init__()
            self.network = tiny(n_classes, image_shape)

        def forward(self, x):
            return self.network(x)

        def training_step(self, batch, batch_idx):
            return nn.functional.cross_entropy(self(batch[0]), batch[1]) + 0 * batch_idx

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    with pytest.raises(uqled.InputError, match="Return one optimiser"):
        cross_validate(digits(), OwnModule, out=tmp_path, **QUICK_TRAINING)


def test_another_network_of_the_same_name_is_refused(tmp_path):
    def make_network(width):
        def net(n_classes, image_shape):
            pixels = int(np.prod(image_shape))
            return nn.Sequential(
                nn.Flatten(), nn.Linear(pixels, width), nn.Dropout(0.5), nn.Linear(width, n_classes)
            )

        return net

    cross_validate(digits(), make_network(8), out=tmp_path, **QUICK_TRAINING)
    with pytest.raises(uqled.InputError, match="another configuration"):
        cross_validate(digits(), make_network(16), out=tmp_path, **QUICK_TRAINING)


def test_a_scikit_learn_classifier(tmp_path):
    data = digits()
    predictions = cross_validate(
        data, LogisticRegression(max_iter=500), out=tmp_path, folds=3, passes=2
    )
    assert predictions.accuracy > 0.8
    assert predictions.passes.shape == (2, 240, 10)
    with pytest.raises(uqled.InputError, match="epochs is given, but does not apply to Logistic"):
        choose_learner(LogisticRegression(), data, epochs=3)
