"""Where the gain of Monte Carlo dropout comes from: batch norm after dropout.

In `benchmarks/`:

    python -m training.batch_norm --data FOLDER --work FOLDER    trains the missing cells
    python -m training.batch_norm                                writes the page and the picture

FOLDER of `--data` holds `mnist`. A cell is one network, noise rate and seed: four folds, each
trained once and evaluated after several lengths of training. The learning rate is constant, so a
short training is the beginning of a longer one. A fold that is finished is kept in `--work`, and a
cell in `results/batch-norm`: a killed run continues where it stopped.

From the same weights come three sources of probabilities: the softmax as trained, the softmax with
the statistics of batch norm re-estimated without dropout, and the passes with dropout.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from torch import nn

import machine
from training import batch_norm_page
from training.three_sources import (
    predict_similarity,
    predict_sources,
    read_cell,
    score_sources,
)
from uqled.bench.suite import PAPER_METHODS
from uqled.data.dataset import Dataset
from uqled.data.loading import load
from uqled.models import Dropout
from uqled.noise.kinds import NoisyLabels, apply_noise_kind
from uqled.predict.samples import normalise_like, normalise_samples
from uqled.predict.training import train
from uqled.predict.training_options import Training
from uqled.storage.atomic import replace_file, write_json

METHODS = (*PAPER_METHODS, "cl-mcd-e-given")
RATES, SEEDS = (0.1, 0.05, 0.2), (0, 1, 2)
Norm = Literal["batch", "group", "none"]
_GROUPS = 4  # of group norm: at an eighth of the width the first convolution has 8 channels


@dataclass(frozen=True)
class BatchNormSetting:
    """What every cell has in common."""

    digits: int = 2_000
    width: float = 0.125
    """Of VGG-11's channels."""
    folds: int = 4
    passes: int = 5
    epochs: tuple[int, ...] = (3, 10, 30)
    """Lengths of training after which the network is asked."""
    batch_size: int = 64
    lr: float = 0.01


@dataclass(frozen=True)
class BatchNormCell:
    """One network, noise rate and seed."""

    batch_norm: bool
    rate: float
    seed: int

    def path(self, setting: BatchNormSetting) -> Path:
        network = "with-batch-norm" if self.batch_norm else "without-batch-norm"
        folder = batch_norm_page.CELLS / f"width-{setting.width:g}" / network
        return folder / f"rate-{self.rate:g}" / f"seed-{self.seed}.json"


def list_cells() -> Iterator[BatchNormCell]:
    """All cells, those first that say most: one seed of every rate with batch norm."""
    for seed, batch_norm in product(SEEDS, (True, False)):
        yield from (BatchNormCell(batch_norm, rate, seed) for rate in RATES)


def build_network(width: float, *, norm: Norm, seed: int) -> nn.Module:
    """VGG-11 for 32x32 images with five dropout layers, narrower, with any kind of normalisation.

    Group norm normalises as batch norm does, and keeps no statistics that dropout could mislead.
    """
    torch.manual_seed(seed)
    layers: list[nn.Module] = [nn.ReplicationPad2d(2)]
    channels, convolutions = 1, 0
    for entry in (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"):
        if entry == "pool":
            layers.append(nn.MaxPool2d(2))
            continue
        out, convolutions = round(int(entry) * width), convolutions + 1
        layers.append(nn.Conv2d(channels, out, 3, padding=1))
        nn.init.kaiming_normal_(layers[-1].weight, nonlinearity="relu")
        if norm != "none":
            layers.append(nn.BatchNorm2d(out) if norm == "batch" else nn.GroupNorm(_GROUPS, out))
        layers.append(nn.ReLU(inplace=True))
        layers += [Dropout(0.5)] if convolutions > 3 else []
        channels = out
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, 10))


def predict_fold(
    cell: BatchNormCell,
    setting: BatchNormSetting,
    data: Dataset,
    noisy: NoisyLabels,
    fold: int,
    work: Path,
) -> dict[str, NDArray[Any]]:
    """Train one fold to every length; the three sources' probabilities after each."""
    path = work / f"fold-{fold}.npz"
    if path.exists():
        with np.load(path) as archive:
            return dict(archive)
    splitter = StratifiedKFold(setting.folds, shuffle=True, random_state=cell.seed)
    rest, part = list(splitter.split(noisy.labels, noisy.labels))[fold]
    train_samples = normalise_samples(data.inputs, rest)
    unseen = normalise_like(train_samples, data.inputs, part)
    training = Training(
        batch_size=setting.batch_size, lr=setting.lr, schedule="steps", nesterov=False,
        decay_all=True, precision="32-true",
    )  # fmt: skip
    seed = 1_000 * cell.seed + fold
    checkpoints = work / f"training-{fold}"
    checkpoints.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, NDArray[Any]] = {"part": part}
    for epochs in setting.epochs:
        model = build_network(setting.width, norm="batch" if cell.batch_norm else "none", seed=seed)
        train(
            model, train_samples, noisy.labels[rest].astype(np.int64),
            replace(training, epochs=epochs), seed=seed, folder=checkpoints, advance=lambda _: None,
        )  # fmt: skip
        sources = predict_sources(model, train_samples, unseen, passes=setting.passes, seed=seed)
        arrays |= {f"{name}-{epochs}": probs for name, probs in sources.items()}
    with replace_file(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    shutil.rmtree(checkpoints)
    return arrays


def score_cell(
    setting: BatchNormSetting,
    folds: list[dict[str, NDArray[Any]]],
    true: NDArray[Any],
    noisy: NoisyLabels,
) -> list[dict[str, Any]]:
    """Accuracy of each source, and how right each method's flags are, after every length."""
    order = np.argsort(np.concatenate([fold["part"] for fold in folds]))
    rows = []
    for epochs in setting.epochs:
        softmax, reestimated_softmax = (
            np.concatenate([fold[f"{source}-{epochs}"] for fold in folds])[order]
            for source in ("softmax", "reestimated")
        )
        passes = np.concatenate([fold[f"passes-{epochs}"] for fold in folds], axis=1)[:, order]
        scores = score_sources(softmax, reestimated_softmax, passes, true, noisy, METHODS)
        rows.append({"epochs": epochs, **scores})
    return rows


def compute_cell(
    cell: BatchNormCell,
    setting: BatchNormSetting,
    data: Dataset,
    similarity: NDArray[np.float64],
    work: Path,
) -> None:
    """Compute one cell and write it."""
    noisy = apply_noise_kind(
        "similarity", data.labels.codes, rate=cell.rate, pred_probs=similarity, seed=cell.seed
    )
    cell_folder = work / cell.path(setting).relative_to(batch_norm_page.CELLS).with_suffix("")
    folds = [
        predict_fold(cell, setting, data, noisy, fold, cell_folder) for fold in range(setting.folds)
    ]
    path = cell.path(setting)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        path,
        {
            "setting": asdict(setting),
            "cell": asdict(cell),
            "lengths": score_cell(setting, folds, data.labels.codes, noisy),
            "machine": machine.describe_machine(("uqled", "numpy", "torch")),
        },
    )
    shutil.rmtree(cell_folder)


def is_finished(cell: BatchNormCell, setting: BatchNormSetting) -> bool:
    return read_cell(cell.path(setting), setting) is not None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder that holds mnist")
    parser.add_argument(
        "--width",
        type=float,
        default=BatchNormSetting.width,
        help="of VGG-11's channels, 1 for all",
    )
    parser.add_argument("--work", type=Path, help="where unfinished cells are kept")
    options = parser.parse_args()
    if options.data is not None:
        if options.work is None:
            parser.error("--work is missing: name a folder for unfinished cells")
        torch.set_num_threads(1)
        setting = BatchNormSetting(width=options.width)
        data = load(options.data / "mnist", split="train", limit=setting.digits)
        similarity = predict_similarity(data)
        todo = [cell for cell in list_cells() if not is_finished(cell, setting)]
        for place, cell in enumerate(todo, start=1):
            compute_cell(cell, setting, data, similarity, options.work)
            print(f"{place} of {len(todo)}: {cell}", flush=True)
    batch_norm_page.write_page()


if __name__ == "__main__":
    main()
