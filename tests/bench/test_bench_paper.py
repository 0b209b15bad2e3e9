"""The `paper` suite itself: its four data sets in their published layouts, a few steps of each.

Its real data and 350 epochs want GPUs. Here the images are made up and few, and one epoch is
trained; loader, network, schedule, noise and detection are those of the suite. MNIST and CIFAR-10,
one for each network, go through both stages, the others through the pilot.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from uqled.bench.benchmark_data import load_benchmark_data
from uqled.bench.runner import Benchmark, run_benchmark
from uqled.bench.suite import Stage2, Suite, read_suite
from uqled.bench.workers import Workers

CLASSES = {"mnist": 10, "cifar10": 10, "cifar100": 100, "tiny-imagenet": 6}
TRAIN = {"mnist": 40, "cifar10": 40, "cifar100": 20, "tiny-imagenet": 12}
PILOT = ("cifar100", "tiny-imagenet")


def colours(labels: np.ndarray, side: int) -> np.ndarray:
    """[N,side,side,3] images whose brightness tells the class, with some noise."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 40, (len(labels), side, side, 3))
    return (noise + 20 * (labels % 10)[:, None, None, None]).astype(np.uint8)


def encode_labels(part: str, name: str) -> np.ndarray:
    """As many classes as there are; a test image of each, as similarity needs one."""
    K = CLASSES[name]
    return np.arange(TRAIN[name]) % K if part == "train" else np.arange(K)


def write_mnist(folder: Path) -> None:
    folder.mkdir()
    for part, prefix in (("train", "train"), ("test", "t10k")):
        labels = encode_labels(part, "mnist")
        for kind, array in (
            ("images-idx3", colours(labels, 28)[..., 0]),
            ("labels-idx1", labels.astype(np.uint8)),
        ):
            head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            (folder / f"{prefix}-{kind}-ubyte").write_bytes(head + array.tobytes())


def write_cifar(folder: Path, name: str) -> None:
    """As published: pickles of rows, red before green before blue."""
    folder.mkdir()
    fine = name == "cifar100"
    names = [f"class {i}".encode() for i in range(CLASSES[name])]
    meta = {b"fine_label_names" if fine else b"label_names": names}
    (folder / ("meta" if fine else "batches.meta")).write_bytes(pickle.dumps(meta, protocol=2))
    parts = {"test" if fine else "test_batch": ("test", encode_labels("test", name))}
    for part, part_labels in zip(
        ["train"] if fine else [f"data_batch_{i}" for i in range(1, 6)],
        np.array_split(encode_labels("train", name), 1 if fine else 5),
        strict=True,
    ):
        parts[part] = ("train", part_labels)
    for file, (_, labels) in parts.items():
        pixels = colours(labels, 32).transpose(0, 3, 1, 2).reshape(len(labels), -1)
        batch = {b"data": pixels, b"fine_labels" if fine else b"labels": labels.tolist()}
        batch[b"filenames"] = [f"{file}_{i}.png".encode() for i in range(len(labels))]
        batch |= {b"coarse_labels": [0] * len(labels)} if fine else {}
        (folder / file).write_bytes(pickle.dumps(batch, protocol=2))


def write_tiny(folder: Path) -> None:
    wnids = [f"n{i:08}" for i in range(CLASSES["tiny-imagenet"])]
    train, val = (encode_labels(part, "tiny-imagenet") for part in ("train", "val"))
    for wnid in wnids:
        (folder / "train" / wnid / "images").mkdir(parents=True)
    for i, (label, image) in enumerate(zip(train, colours(train, 64), strict=True)):
        path = folder / "train" / wnids[label] / "images" / f"{wnids[label]}_{i}.JPEG"
        Image.fromarray(image).save(path, "JPEG")
    (folder / "val" / "images").mkdir(parents=True)
    rows = []
    for i, (label, image) in enumerate(zip(val, colours(val, 64), strict=True)):
        Image.fromarray(image).save(folder / "val" / "images" / f"val_{i}.JPEG", "JPEG")
        rows.append(f"val_{i}.JPEG\t{wnids[label]}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(rows))
    (folder / "wnids.txt").write_text("\n".join(wnids))
    (folder / "words.txt").write_text("".join(f"{wnid}\t{wnid} thing\n" for wnid in wnids))


def a_few_steps(name: str) -> Suite:
    """The suite, with one data set, one epoch and the smallest matrix."""
    suite = read_suite("paper")
    data = suite.get_data(name)
    return replace(
        suite,
        data=(replace(data, training={**data.training, "epochs": 1}),),
        rates=(0.2,) if name in PILOT else (0.05,),  # each class keeps a sample per fold
        seeds=(0,),
        folds=2,
        passes=2,
        pilot=False,
        stage2=Stage2(methods=("cl-mcd-e",)),
    )


@pytest.mark.parametrize(
    "name",
    [
        "mnist",
        pytest.param("cifar10", marks=pytest.mark.slow),
        "cifar100",
        pytest.param("tiny-imagenet", marks=pytest.mark.slow),
    ],
)
def test_a_few_steps_of_the_papers_own_suite(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path / "cache"))
    suite = a_few_steps(name)
    place = tmp_path / suite.data[0].place
    if name == "mnist":
        write_mnist(place)
    elif name == "tiny-imagenet":
        write_tiny(place)
    else:
        write_cifar(place, name)
    result = load_benchmark_data(suite.data[0], tmp_path)
    assert (len(result.train), len(result.test)) == (TRAIN[name], CLASSES[name])
    assert result.data.n_classes == CLASSES[name]
    training = result.learner.settings()
    rate, milestones = (0.01, ()) if name == "mnist" else (0.1, (150 / 350, 250 / 350))
    assert (training["batch_size"], training["lr"]) == (256, rate)
    assert tuple(training["milestones"]) == milestones
    is_pilot = name in PILOT
    results, _ = run_benchmark(
        Benchmark(suite, tmp_path, tmp_path / "out"),
        pilot=is_pilot,
        workers=Workers(1),
        progress=False,
    )
    stage1 = results.pilot if is_pilot else results.stage1
    assert set(stage1["method"]) == set(suite.methods)
    n = CLASSES[name] if is_pilot else TRAIN[name]
    assert (stage1["wrong"] == round(suite.rates[0] * n)).all()
    assert results.initial["accuracy"].between(0, 1).all()
    if not is_pilot:
        assert results.stage2["treatment"].tolist() == ["clean", "noisy", "remove"]
        assert len(results.matrices[suite.data[0].display_name][0.05].classes) == CLASSES[name]
