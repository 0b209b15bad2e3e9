"""Targets: labels and probabilities in files, as `uqled detect` takes them, whole and in parts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import zarr

from fuzzing.case import Scene, Target, require
from fuzzing.formats import mutate_content
from fuzzing.mutations import damage_tree
from fuzzing.targets.data import damage_files
from uqled import ErrorsInParts, find_label_errors, find_label_errors_in_parts
from uqled.data.prediction_files import open_labels, open_probabilities
from uqled.errors import UqledError

N, K, F = 60, 3, 2


def make_predictions() -> tuple[Any, Any, Any]:
    """Labels [N], softmax [N,K] and passes [F,N,K] of a model that is mostly right."""
    rng = np.random.default_rng(0)
    labels = np.arange(N) % K
    logits = rng.normal(size=(F + 1, N, K))
    logits[:, np.arange(N), np.where(np.arange(N) % 7, labels, (labels + 1) % K)] += 3
    probs = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    return labels, probs[0].astype(np.float32), probs[1:].astype(np.float32)


def check_errors(errors: Any, n: int | None = None) -> None:
    """What holds for every detection."""
    rows = len(errors)
    require(n is None or rows == n, f"{rows} samples, not {n}")
    require(
        errors.mask.shape == (rows,) and errors.mask.dtype == np.bool_, "a mask of another kind"
    )
    require(
        sorted(errors.ranking.tolist()) == list(range(rows)), "a ranking that is no permutation"
    )


def _make_npy(folder: Path) -> None:
    for name, array in zip(("labels", "pred_probs", "passes"), make_predictions(), strict=True):
        np.save(folder / f"{name}.npy", array)


def _make_npz(folder: Path) -> None:
    labels, probs, passes = make_predictions()
    np.savez_compressed(folder / "all.npz", labels=labels, pred_probs=probs, passes=passes)


def _make_csv(folder: Path) -> None:
    labels, probs, _ = make_predictions()
    pd.DataFrame({"label": labels}).to_csv(folder / "labels.csv", index=False)
    pd.DataFrame(probs, columns=["0", "1", "2"]).to_csv(folder / "pred_probs.csv", index=False)


def _make_parquet(folder: Path) -> None:
    labels, probs, _ = make_predictions()
    pd.DataFrame({"label": labels}).to_parquet(folder / "labels.parquet", index=False)
    pd.DataFrame(probs, columns=["0", "1", "2"]).to_parquet(
        folder / "pred_probs.parquet", index=False
    )


def _make_zarr(folder: Path, version: int) -> None:
    for name, array in zip(("labels", "pred_probs", "passes"), make_predictions(), strict=True):
        rows = array.shape[-2] if array.ndim > 1 else len(array)
        chunks = (*array.shape[:-2], rows // 2, K) if array.ndim > 1 else (rows // 2,)
        zarr_array = zarr.create_array(
            str(folder / f"{name}.zarr"), shape=array.shape, dtype=array.dtype, chunks=chunks,
            zarr_format=version,
        )  # fmt: skip
        zarr_array[...] = array


def _make_shards(folder: Path, ending: str) -> None:
    labels, probs, passes = make_predictions()
    for part, rows in enumerate((slice(0, 25), slice(25, 40), slice(40, N))):
        for name, array in (("labels", labels[rows]), ("pred_probs", probs[rows])):
            (folder / name).mkdir(exist_ok=True)
            file = folder / name / f"part-{part}{ending}"
            if ending == ".npy":
                np.save(file, array)
            elif name == "labels":
                pd.DataFrame({"label": array}).to_parquet(file, index=False)
            else:
                pd.DataFrame(array, columns=["0", "1", "2"]).to_parquet(file, index=False)
        if ending == ".npy":
            (folder / "passes").mkdir(exist_ok=True)
            np.save(folder / "passes" / f"part-{part}.npy", passes[:, rows])


def _addresses(folder: Path) -> dict[str, str | None]:
    """Where the labels, the softmax and the passes lie below a folder."""
    if (folder / "all.npz").is_symlink() or (folder / "all.npz").exists():
        return {
            name: f"{folder / 'all.npz'}::{name}" for name in ("labels", "pred_probs", "passes")
        }
    addresses: dict[str, str | None] = {}
    for name in ("labels", "pred_probs", "passes"):
        paths = [path for path in sorted(folder.iterdir()) if path.name.split(".")[0] == name]
        addresses[name] = str(paths[0]) if paths else None
    if addresses["labels"] is None or addresses["pred_probs"] is None:  # a damaged tree lacks them
        addresses["labels"] = addresses["labels"] or str(folder / "labels.npy")
        addresses["pred_probs"] = addresses["pred_probs"] or str(folder / "pred_probs.npy")
    return addresses


def _detect(scene: Scene) -> None:
    files = _addresses(scene.input)
    assert files["labels"] is not None
    assert files["pred_probs"] is not None
    with_passes = files["passes"] is not None and scene.rng.random() < 0.7
    method = scene.rng.choice(("all", "auto") if with_passes else ("cl-pbnr", "auto"))
    is_whole = any(ending in files["labels"] for ending in (".npz", ".csv"))  # never in parts
    if scene.rng.random() < 0.6 or is_whole:
        errors = find_label_errors(
            open_labels(files["labels"]),
            open_probabilities(files["pred_probs"], ndim=2),
            open_probabilities(files["passes"], ndim=3) if with_passes else None,
            method=method,
            threads=1,
        )
        check_errors(errors)
        return
    in_parts = find_label_errors_in_parts(
        files["labels"],
        files["pred_probs"],
        files["passes"] if with_passes else None,
        out=scene.out / "parts",
        method=method,
        part_rows=scene.rng.choice((None, 17)),
        workers=1,
    )
    require(in_parts.mask().shape == (len(in_parts),), "a mask of another length")


# -- the folder of a detection in parts ------------------------------------------------------------


def _make_parts(folder: Path) -> None:
    """A detection that is finished, and the same one before its last step."""
    (folder / "data").mkdir()
    _make_npy(folder / "data")
    _run_parts(folder)
    replace = os.replace

    def stop_at_the_end(source: Any, target: Any, **more: Any) -> None:
        if str(target).endswith("result.json"):
            raise KeyboardInterrupt
        replace(source, target, **more)

    with patch.object(os, "replace", stop_at_the_end), suppress(KeyboardInterrupt):
        _run_parts(folder, "begun")
    assert any((folder / "begun" / "work").iterdir())


def _run_parts(folder: Path, out: str = "parts") -> Any:
    data = folder / "data"
    return find_label_errors_in_parts(
        str(data / "labels.npy"), str(data / "pred_probs.npy"), str(data / "passes.npy"),
        out=folder / out, method="all", part_rows=20, workers=1,
    )  # fmt: skip


def _damage_parts(rng: Random, folder: Path, paths: Sequence[str]) -> str:
    mutate = partial(mutate_content, paths=paths)
    return damage_tree(rng, folder / rng.choice(("parts", "parts", "begun")), mutate, paths=paths)


def _read_parts(scene: Scene) -> None:
    """Open what is finished, or repeat the command."""
    if scene.rng.random() < 0.3:
        _run_parts(scene.input, scene.rng.choice(("parts", "begun")))
        return
    errors = ErrorsInParts.open(scene.input / "parts")
    n, refusal = len(errors), None
    require(n >= 0, "a negative length")
    for read in (
        errors.summary,
        errors.read_flag_table,
        lambda: errors.joint,
        lambda: require(errors.mask().shape == (n,), "a mask of another length"),
        lambda: require(errors.table().count_rows() == n, "a table of another length"),
        lambda: (errors.method, errors.n_flagged, repr(errors), errors.about),
    ):
        try:
            read()
        except UqledError as error:
            refusal = error
    if refusal is not None:
        raise refusal


ARRAY_TARGETS = [
    Target("npy", _make_npy, damage_files, _detect, cases=200),
    Target("npz-arrays", _make_npz, damage_files, _detect, cases=80),
    Target("csv-arrays", _make_csv, damage_files, _detect, cases=60),
    Target("parquet-arrays", _make_parquet, damage_files, _detect, cases=80),
    Target("zarr-2", partial(_make_zarr, version=2), damage_files, _detect, cases=100),
    Target("zarr-3", partial(_make_zarr, version=3), damage_files, _detect, cases=100),
    Target("shards-npy", partial(_make_shards, ending=".npy"), damage_files, _detect, cases=80),
    Target(
        "shards-parquet", partial(_make_shards, ending=".parquet"), damage_files, _detect, cases=60
    ),
    Target(
        "parts", _make_parts, _damage_parts, _read_parts, writes=("parts/*", "begun/*"), cases=120
    ),
]
