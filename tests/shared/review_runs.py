"""Finished runs to review, made without training anything."""

from __future__ import annotations

import numpy as np
from PIL import Image

from uqled.data import Dataset, load
from uqled.review.decisions import Decisions
from uqled.storage.run import Run

HOSTILE_CLASS = "<img src=x onerror=alert(1)>"
HOSTILE_FILE = """..'"><script>alert(2)<.png"""


def make_labels(codes, K, *, seed=0, wrong=0.2, F=3, margin=4.5):
    """Labels of which some are made wrong, and a good model's softmax and passes."""
    rng = np.random.default_rng(seed)
    N = len(codes)
    is_wrong = rng.random(N) < wrong
    labels = np.where(is_wrong, (codes + rng.integers(1, K, N)) % K, codes)
    logits = rng.normal(size=(N, K))
    logits[np.arange(N), codes] += margin
    logits = logits + 0.5 * rng.normal(size=(F + 1, N, K))
    probs = np.exp(logits - logits.max(axis=2, keepdims=True))
    probs = (probs / probs.sum(axis=2, keepdims=True)).astype(np.float32)
    return labels.astype(np.int32), probs[0], probs[1:]


def finish(path, data, *, seed=0, wrong=0.2, margin=4.5):
    """A run in `path` that predicted `data`, whose labels are true; the run's are partly wrong."""
    truth, K = data.labels.codes, data.n_classes
    labels, softmax, passes = make_labels(truth, K, seed=seed, wrong=wrong, margin=margin)
    result = data.with_labels(labels).labels
    run = Run.begin(path, {"made": "for a test"})
    run.write_data(result, data.ids.tolist(), truth, np.zeros(len(data), np.int32), data.source)
    run.write_fold(0, softmax, passes)
    run.write_predictions([np.arange(len(data))], K)
    return run


def image_run(
    folder, *, N=200, classes=("cat", "dog", "frog", "ship"), side=16, seed=0, margin=4.5
):
    """Images in an `.npz`: each class has a colour and a bar of its own."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, len(classes), N)
    codes[: len(classes)] = np.arange(len(classes))
    images = rng.integers(90, 130, (N, side, side, 3)).astype(np.uint8)
    for i, k in enumerate(codes):
        images[i, :, :, k % 3] += 70
        images[i, 2 + 3 * (k % 4) : 4 + 3 * (k % 4)] = 250
    np.savez(folder / "images.npz", images=images, labels=np.array(classes)[codes])
    data = load(folder / "images.npz", inputs="images", label="labels")
    return finish(folder / "run", data, seed=seed, margin=margin)


def hostile_run(folder):
    """A folder of images whose classes and files have names that are HTML."""
    rng = np.random.default_rng(0)
    for k, name in enumerate((HOSTILE_CLASS, "plain", '"quoted" & \\')):
        (folder / "data" / name).mkdir(parents=True)
        for i in range(20):
            pixels = rng.integers(0, 255, (12, 12, 3)).astype(np.uint8)
            pixels[..., k] = 255
            Image.fromarray(pixels).save(folder / "data" / name / f"{i:02d}{HOSTILE_FILE}")
    return finish(folder / "run", load(folder / "data", cache=False), wrong=0.4)


def text_data(N=80):
    words = ["good <b>film</b>", "bad film\nreally", "dull & long"]
    codes = np.arange(N) % 3
    texts = np.array([f"{words[k]} number {i} " + "and so on " * i for i, k in enumerate(codes)])
    return Dataset.from_arrays(texts, np.array(["good", "bad", "dull"])[codes])


def table_data(N=80):
    import pandas as pd

    codes = np.arange(N) % 3
    frame = pd.DataFrame(
        {"length <cm>": codes * 1.5 + np.arange(N) / 7, "colour": ["red", "blue"] * (N // 2)}
    )
    return Dataset.from_arrays(frame, np.array(["a", "b", "c"])[codes])


def memory_run(folder, data):
    """A run of data that is in memory only."""
    return finish(folder / "run", data)


def open_session(run, data=None):
    """(what the requests to a run's page share, its errors)."""
    from uqled.detect.find import find_label_errors
    from uqled.report.samples import SampleSource
    from uqled.review.decisions import Decisions
    from uqled.review.session import ReviewSession

    predictions = run.predictions()
    errors = find_label_errors(predictions, method="all")
    source = None if data is None else SampleSource(data)
    return ReviewSession(
        predictions, errors, Decisions.of(predictions), source, reviewer="ana"
    ), errors


def list_decisions(run):
    with Decisions(run.path / "decisions.sqlite") as decisions:
        return {i: (one.action, one.label) for i, one in decisions.current().items()}
