"""Small files beside a run or an encoder, of a stranger: pipes, devices, numbers without end."""

from __future__ import annotations

import csv
import json
import os
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from uqled.errors import FileError, InputError
from uqled.features.encoders import EncoderOptions, onnx_file
from uqled.features.image_encoder import load_weights
from uqled.model_quality import ModelQuality
from uqled.review.audits import _read_notes
from uqled.storage.run import Run
from uqled.storage.tensor_files import read_tensors

QUALITY = {
    "model": "forest", "accuracy": 0.9, "base_rate": 0.5, "passes_accuracy": None,
    "passes_differ": False, "weak_classes": [["a", 3, 0.1]],
    "members": [{"name": "forest", "accuracy": 0.9, "weight": 1.0}],
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"accuracy": float("nan")},
        {"accuracy": float("inf")},
        {"base_rate": -1},
        {"weak_classes": [["a", float("inf"), 0.1]]},
        {"weak_classes": [["a", 1, 7]]},
        {"weak_classes": 3},
        {"members": [3]},
        {"members": [{"name": "a", "accuracy": 0.5, "weight": 1e9}]},
    ],
    ids=str,
)
def test_a_quality_that_is_none_is_refused(tmp_path, change):
    (tmp_path / "run.json").write_text('{"configuration": {}}')
    (tmp_path / "model.json").write_text(json.dumps(QUALITY | change))
    with pytest.raises(FileError, match=r"model\.json' does not describe a model.s quality"):
        Run(tmp_path)._read_quality()
    assert ModelQuality.from_json(QUALITY).accuracy == 0.9


def write_notes(path, rows):
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([["index", "is_wrong"], *rows])
    return path


def test_notes_of_an_audit(tmp_path):
    path = write_notes(tmp_path / "audit.csv", [[3, "yes"], [4, ""], [5, "No"]])
    assert _read_notes(path, 60) == {3: True, 5: False}
    for index in ("60", "-1", "x", "", "9" * 5_000, "\u00b2"):
        write_notes(path, [[index, "yes"]])
        with pytest.raises(FileError, match="as index and is_wrong in line 2"):
            _read_notes(path, 60)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FileError, match="is not a regular file"):  # and does not wait
        _read_notes(path, 60)


# ---- weights that the user names


def make_network():
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))


def test_weights_are_numbers_of_the_right_shape(tmp_path):
    path, network = tmp_path / "w.pt", make_network()
    torch.save({"state_dict": network.state_dict()}, path)
    other = make_network()
    load_weights(other, str(path))
    assert torch.equal(other[0].weight, network[0].weight)
    for content in (nn.Linear(9, 9).state_dict(), [1, 2], {"0.weight": 3}, "text"):
        torch.save(content, path)
        with pytest.raises(InputError, match=r"w\.pt"):
            load_weights(make_network(), str(path))
    torch.save({"0.weight": torch.ones(7, 7)}, path)
    with pytest.raises(InputError, match=r"cannot be read \(Error.* in loading"):
        load_weights(make_network(), str(path))
    torch.save(network, path)  # a pickle of a class
    with pytest.raises(InputError, match="Weights only load failed"):
        load_weights(make_network(), str(path))


def test_weights_that_are_no_file_or_a_bomb(tmp_path):
    os.mkfifo(tmp_path / "w.pt")
    with pytest.raises(InputError, match="is not a regular file"):
        load_weights(make_network(), str(tmp_path / "w.pt"))
    torch.save({"x": torch.zeros(2**22)}, tmp_path / "x.pt")
    with (
        zipfile.ZipFile(tmp_path / "x.pt") as source,
        zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for member in source.namelist():
            target.writestr(member, source.read(member))
    with pytest.raises(FileError, match="is not packed the way torch packs it"):
        read_tensors(tmp_path / "packed.pt")
    torch.save({"x": torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert torch.equal(read_tensors(tmp_path / "old.pt")["x"], torch.ones(2))


def test_a_graph_that_cannot_be_loaded_does_not_steer_the_terminal(tmp_path, monkeypatch):
    class Runtime:
        def get_available_providers(self):
            return []

        def InferenceSession(self, path, providers):  # noqa: ARG002, N802
            raise RuntimeError("bad graph \x1b[31m\nand more")

    monkeypatch.setattr(onnx_file, "import_package", lambda *_names, **_more: Runtime())
    (tmp_path / "n.onnx").write_bytes(np.arange(9).tobytes())
    with pytest.raises(InputError, match=r"cannot be loaded \(bad graph \?\[31m\)"):
        onnx_file.make_encoder(str(tmp_path / "n.onnx"), EncoderOptions())
