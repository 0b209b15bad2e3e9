"""Against the masks that the authors of confident learning published, where that data is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score

import uqled
from made_predictions import SHARED_DATA
from uqled.detect.core.sweeps import Sweeps
from uqled.detect.find import read_inputs
from uqled.detect.methods.method import SOFTMAX
from uqled.engines.local import Threads
from uqled.progress import Progress

FOLDER = SHARED_DATA / "predictions"
SETS = ["sparsity0.0-noise0.4", "sparsity0.4-noise0.2", "sparsity0.6-noise0.6"]
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the published predictions are not here"
)


@pytest.mark.parametrize("name", SETS)
def test_published_masks(name):
    with np.load(FOLDER / f"northcutt-{name}.npz") as archive:
        data = dict(archive)
    errors = uqled.find_label_errors(data["labels"], data["probs"], method="all").by_method
    is_error = data["labels"] != data["true_labels"]
    masks = {
        "cl_pbnr": errors["cl-pbnr"].mask,
        "cl_pbc": errors["cl-pbc"].mask,
        "cl_both": errors["cl-both"].mask,
        "argmax": errors["argmax"].mask,
        "conf_joint_only": _off_diagonal(data["labels"], data["probs"]),
    }
    for method, mask in masks.items():
        published_mask = data[f"published_{method}"]
        assert np.count_nonzero(mask != published_mask) <= 20, method
        ours, theirs = f1_score(is_error, mask), f1_score(is_error, published_mask)
        assert ours == pytest.approx(theirs, abs=1e-3), method


def _off_diagonal(labels, probs):
    """Off the diagonal of the confident joint, whether or not the label is the most probable."""
    with Threads(2) as engine:
        sweeps = Sweeps(read_inputs(labels, probs, None), engine, Progress(False))
        statistics = sweeps.collect_class_statistics([SOFTMAX])
        joints = sweeps.count_confident_joints([SOFTMAX], statistics, keep_confident=[SOFTMAX])
    confident = joints.confident_class[SOFTMAX]
    return (confident >= 0) & (confident != labels)


#: F1 as SPEC states it, per set: CL-PBNR (resnet50d), CL-MCD, CL-MCD-E, CL-MCD-Ens, Alg-Ens 2, 3.
STATED_COUNTS = {
    "cifar10s": (0.952, 0.987, 0.972, 0.981, 0.977, 0.985),
    "cifar10n-worst": (0.884, 0.905, 0.830, 0.917, 0.914, 0.887),
}
METHODS = ("cl-pbnr", "cl-mcd", "cl-mcd-e", "cl-mcd-ens", "alg-ens-2", "alg-ens-3")


@pytest.mark.parametrize("name", STATED_COUNTS)
def test_six_algorithms_on_published_predictions(name):
    with np.load(FOLDER / f"{name}.npz") as archive:
        data = dict(archive)
    softmax = data["passes"][data["models"].tolist().index("resnet50d")]
    errors = uqled.find_label_errors(
        data["labels"], softmax, data["passes"], method="all"
    ).by_method
    is_error = data["labels"] != data["true_labels"]
    f1 = tuple(round(f1_score(is_error, errors[method].mask), 3) for method in METHODS)
    assert f1 == STATED_COUNTS[name]
