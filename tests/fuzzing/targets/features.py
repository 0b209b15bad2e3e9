"""Targets: embeddings of the user's own, features kept on disk, weights and checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from torch import nn

from fuzzing.case import Scene, Target, require
from fuzzing.targets.data import check_dataset, damage_files, make_frame
from uqled.data import load
from uqled.features import computing
from uqled.features.computing import compute_features
from uqled.features.embedding_files import attach_embeddings, load_embeddings
from uqled.features.encoders import EncoderOptions, onnx_file
from uqled.features.image_encoder import load_weights
from uqled.predict.checkpoints import resume_training, write_checkpoint

N, D = 40, 5


def _make_embeddings(folder: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    np.save(folder / "vectors.npy", vectors)
    frame = pd.DataFrame(vectors, columns=[f"v{i}" for i in range(D)])
    frame.to_parquet(folder / "vectors.parquet", index=False)
    pd.DataFrame({"label": np.array(["a", "b"])[np.arange(N) % 2]}).to_csv(
        folder / "labels.csv", index=False
    )
    table = make_frame(N - 3).drop(columns="id")  # whose samples are then called by their rows
    table.to_csv(folder / "data.csv", index=False)


def _read_embeddings(scene: Scene) -> None:
    """As the data, or beside a table whose last rows were taken away."""
    vectors = scene.input / scene.rng.choice(("vectors.npy", "vectors.parquet"))
    if scene.rng.random() < 0.3:
        data = attach_embeddings(load(scene.input / "data.csv", cache=False), vectors)
        embeddings = data.embeddings
    else:
        data = load_embeddings(vectors, scene.input / "labels.csv")
        embeddings = data.inputs
    check_dataset(data)
    require(embeddings is not None and len(embeddings) == len(data), "other embeddings")
    require(np.isfinite(embeddings).all(), "embeddings that are no numbers")


class _Encoder:
    """One that needs no weights."""

    key, kind, batch_size = "counts", "texts", 8

    def encode(self, batch: np.ndarray) -> np.ndarray:
        return np.array([[len(text), text.count("a")] for text in batch], np.float32)


TEXTS = np.array([f"text {i} " + "a" * (i % 5) for i in range(N)], dtype=object)


def _compute_features(folder: Path) -> np.ndarray:
    with (
        patch.object(computing, "load_encoder", lambda _name, _options: _Encoder()),
        patch.object(computing, "_BLOCK", 16),
    ):
        return compute_features(TEXTS, "counts", cache_folder=folder)


def _make_kept_features(folder: Path) -> None:
    """A finished file, and the blocks of one that was interrupted."""
    _compute_features(folder / "done")
    with patch.object(shutil, "rmtree"):
        _compute_features(folder / "begun")
    for file in (folder / "begun").glob("*.npy"):
        file.unlink()


def _read_kept_features(scene: Scene) -> None:
    vectors = _compute_features(scene.input / scene.rng.choice(("done", "begun")))
    require(vectors.shape == (N, 2) and vectors.dtype == np.float32, "features of another shape")
    require(np.isfinite(vectors).all(), "features that are no numbers")


def _make_network() -> nn.Sequential:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(D, 4), nn.ReLU(), nn.Linear(4, 3))


def _make_weights(folder: Path) -> None:
    torch.save(_make_network().state_dict(), folder / "weights.pt")
    torch.save({"state_dict": _make_network().state_dict()}, folder / "wrapped.pt")


def _read_weights(scene: Scene) -> None:
    network = _make_network()
    load_weights(network, str(scene.input / scene.rng.choice(("weights.pt", "wrapped.pt"))))
    output = network(torch.ones(2, D))
    require(tuple(output.shape) == (2, 3), "a network of another shape")


def _make_checkpoint(folder: Path) -> None:
    network = _make_network()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    network(torch.ones(2, D)).sum().backward()
    optimiser.step()
    write_checkpoint(folder, network, optimiser, 2, [(1, 0.5, 0.5), (2, 0.4, 0.6)])


def _read_checkpoint(scene: Scene) -> None:
    """One that does not fit is left aside; what fits is used."""
    network = _make_network()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    epochs, history = resume_training(
        scene.input / "checkpoint.pt", network, optimiser, epochs=3, device="cpu", is_sgd=True
    )
    require(0 <= epochs <= 3 and len(history) == epochs, "epochs that are not there")
    network(torch.ones(2, D)).sum().backward()
    optimiser.step()


class _Runtime:
    """In place of onnxruntime, which computes any graph: what handles the file is ours."""

    def get_available_providers(self) -> list[str]:
        return []

    def InferenceSession(self, path: str, providers: list[str]) -> Any:  # noqa: ARG002, N802
        content = Path(path).read_bytes()
        if not content.startswith(b"\x08\x07"):
            raise ValueError(f"no graph, {content[:9]!r} \x1b[31m")
        own_input = SimpleNamespace(name="x", shape=[1, 3, 8, 8])
        return SimpleNamespace(
            get_inputs=lambda: [own_input], run=lambda _outputs, feed: [feed["x"].mean(axis=(2, 3))]
        )


def _make_onnx(folder: Path) -> None:
    (folder / "network.onnx").write_bytes(b"\x08\x07" + bytes(range(200)))


def _read_onnx(scene: Scene) -> None:
    with patch.object(onnx_file, "import_package", lambda *_names, **_more: _Runtime()):
        encoder = onnx_file.make_encoder(str(scene.input / "network.onnx"), EncoderOptions())
    vectors = encoder.encode(np.zeros((2, 9, 9, 1), np.uint8))
    require(vectors.shape == (2, 3), "features of another shape")


FEATURE_TARGETS = [
    Target("embeddings", _make_embeddings, damage_files, _read_embeddings, cases=100),
    Target(
        "kept-features", _make_kept_features, damage_files, _read_kept_features,
        writes=("done/*", "begun/*"), cases=80,
    ),
    Target("weights", _make_weights, damage_files, _read_weights, cases=80),
    Target("onnx", _make_onnx, damage_files, _read_onnx, cases=20),
    Target("checkpoint", _make_checkpoint, damage_files, _read_checkpoint, cases=80),
]  # fmt: skip
