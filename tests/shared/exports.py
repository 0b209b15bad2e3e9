"""Runs for the tests of the export room: made of files, with a model that is sure of itself."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from pictures import encode, photo
from uqled.cli import app
from uqled.data.loading import load
from uqled.export.plan import plan_export, write_export
from uqled.review.decisions import Decisions
from uqled.storage.run import Run

HOSTILE = (
    "..",
    "<img src=x onerror=alert(1)>",
    "a/b",
    "/etc/passwd",
    'it\'s "quoted"',
    "CON",
    ".x",
)

#: Labels of nine samples, of which the model takes 0 for b, 4 for c, 8 for a.
CODES, WRONG_LABELS = [0, 0, 0, 1, 1, 1, 2, 2, 2], {0: 1, 4: 2, 8: 0}
#: What `image_run` makes wrong, and what becomes of it.
MOVED_IMAGES = {"cat/1.png": "dog", "dog/1.png": "ship", "ship/1.png": "cat", "ship/2.jpg": "cat"}


def probabilities(codes, K, wrong):
    """Sure of the given label, and of another one where `wrong` names it."""
    probs = np.full((len(codes), K), 0.1 / (K - 1), np.float32)
    probs[np.arange(len(codes)), codes] = 0.9
    for index, suggested in wrong.items():
        probs[index] = 0.04 / (K - 1)
        probs[index, suggested] = 0.96
    return probs


def make_run(path, data, wrong, *, decisions=(), passes=True):
    """A run on `data` whose every method flags exactly the samples `wrong`."""
    K, everyone = data.n_classes, np.arange(len(data))
    probs = probabilities(data.labels.codes, K, wrong)
    run = Run.begin(path, {"model": "made up"})
    run.write_data(
        data.labels,
        data.ids.tolist(),
        data.truth,
        np.zeros(len(data), int),
        data.source,
        data.inputs_fingerprint,
    )
    run.write_fold(0, probs, np.stack([probs] * 3) if passes else None)
    run.write_predictions([everyone], K)
    decide(path, *decisions)
    return path


def decide(path, *items, reviewer="ann"):
    if items:
        with Decisions.of(Run.open(path).predictions()) as store:
            store.decide(items, reviewer=reviewer)


def image_folder(root, classes=("cat", "dog", "ship"), n=8):
    """`n` pictures per class, named alike in every class; JPEG and PNG."""
    for k, name in enumerate(classes):
        for i in range(n):
            form, ending = (("JPEG", "jpg"), ("PNG", "png"))[i % 2]
            file = root / name / f"{i}.{ending}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encode(photo(100 * k + i), form))
    return root


def image_run(tmp_path, *, decisions=(), wrong=None, place=None, **options):
    """A run on a folder of images, of 3 classes of 8 each unless `place` is another."""
    place = place or image_folder(tmp_path / "data")
    data = load(place, cache=False, **options)
    wrong = {1: 1, 9: 2, 17: 0, 18: 0} if wrong is None else wrong
    return make_run(tmp_path / "run", data, wrong, decisions=decisions)


def table_run(tmp_path, frame, name="data.csv", *, wrong, decisions=(), **options):
    """A run on a table that is written as CSV or Parquet first."""
    place = tmp_path / name
    if place.suffix == ".csv":
        frame.to_csv(place, index=False)
    else:
        frame.to_parquet(place, index=False)
    data = load(place, cache=False, **options)
    return make_run(tmp_path / "run", data, wrong, decisions=decisions)


def hashes(folder):
    """Every file below, links and all, and what it holds."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def command(*words):
    """`uqled` with these words: its exit code and output."""
    return CliRunner().invoke(app, [str(word) for word in words])


def export(run, to, out, *, unreviewed=None, method="alg-ens", **options):
    """Export as a person does who drops the flags that nobody looked at, where a format asks."""
    if to == "label-studio":
        unreviewed = None
    elif unreviewed is None and to in ("csv", "parquet", "folder", "huggingface"):
        unreviewed = "drop"
    return write_export(plan_export(run, to, unreviewed=unreviewed, method=method), out, **options)


def files_of(out):
    """index -> (id, file) as the record has it."""
    frame = pd.read_csv(out / "files.csv", dtype={"id": str, "file": str}, keep_default_na=False)
    return {row.index: (row.id, row.file) for row in frame.itertuples(index=False)}


def images_below(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.suffix in (".jpg", ".png")}
