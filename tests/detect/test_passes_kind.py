"""What the passes are is checked where it is given, and kept with a run."""

import json

import numpy as np
import pytest

import uqled
from uqled.arrays import Labels
from uqled.errors import FileError, InputError
from uqled.storage.run import Run


def test_an_unknown_kind_is_refused():
    probs = np.array([[0.9, 0.1], [0.2, 0.8]])
    with pytest.raises(InputError, match=r"passes_kind is 'dropout'.*'mc-dropout'"):
        uqled.find_label_errors([0, 1], probs, probs[None], passes_kind="dropout")


def write_run(path, passes_kind):
    run = Run.begin(path, {})
    labels = Labels(np.array([0, 1], np.int32), np.array(["a", "b"]), ("a", "b"))
    run.write_data(labels, ["x", "y"], None, np.zeros(2, np.int32))
    probs = np.array([[0.9, 0.1], [0.2, 0.8]], np.float32)
    run.write_fold(0, probs, np.stack([probs, probs]))
    run.write_predictions([np.arange(2)], 2, passes_kind=passes_kind)
    return run


def test_a_run_keeps_the_kind_of_its_passes(tmp_path):
    assert write_run(tmp_path / "heads", "heads").predictions().passes_kind == "heads"
    assert write_run(tmp_path / "unknown", None).predictions().passes_kind is None


def test_a_run_with_an_unknown_kind_is_refused(tmp_path):
    run = write_run(tmp_path / "run", "heads")
    (run.path / "passes.json").write_text(json.dumps({"kind": ["heads"]}))
    with pytest.raises(FileError, match="passes of the kind"):
        run.predictions()
