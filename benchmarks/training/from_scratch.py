"""Networks trained from scratch with batch norm after dropout: CIFAR-10, and VGG-11 on MNIST.

In `benchmarks/`:

    python -m training.from_scratch --data FOLDER --work FOLDER [--only cifar10]

FOLDER of `--data` holds `cifar10` and `mnist`. A cell is one setting, noise rate and seed: four
folds trained once, with the recipe of the paper made shorter. Every epoch leaves a checkpoint and
every fold its predictions in `--work`, and every cell a file in `results/from-scratch`: a run that
was killed continues where it stopped, with the same command. `batch_norm.py` writes the page.

Two settings are controls: VGG-11 with group norm, which keeps no statistics, and without any norm.
They learn with Adam only, so VGG-11 with batch norm is trained with Adam too.
"""

from __future__ import annotations

import argparse
import json
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
from torch import Tensor, nn

import machine
from training.batch_norm import Norm
from training.batch_norm import build_network as build_vgg11
from training.three_sources import (
    FAMILY,
    measure_accuracies,
    predict_by_torch,
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
from uqled.predict.samples import Samples, normalise_like, normalise_samples
from uqled.predict.training import train
from uqled.predict.training_options import Training
from uqled.storage.atomic import replace_file, write_json

CELLS = machine.RESULTS / "from-scratch"
METHODS = tuple(
    dict.fromkeys((*PAPER_METHODS, *FAMILY, *(f"{name}-given" for name in FAMILY), "argmax"))
)
RATES, SEEDS = (0.1, 0.05, 0.2), (0, 1, 2)
RESNET18 = (1, 1, 2, 2, 4, 4, 8, 8)  # channels of each block, in widths
_DROPOUT_LAYERS = 5


@dataclass(frozen=True)
class ScratchSetting:
    """Data, network and training, which all cells of a setting have in common."""

    data: Literal["cifar10", "mnist"]
    samples: int
    network: Literal["resnet18", "vgg11"]
    width: float
    """Channels of ResNet-18's first stage, or a share of VGG-11's."""
    norm: Norm
    epochs: int
    batch_size: int
    lr: float
    optimiser: Literal["sgd", "adam"] = "sgd"
    milestones: tuple[int, ...] = ()
    """Epochs at which the learning rate is divided by ten."""
    dropout: float = 0.5
    folds: int = 4
    passes: int = 5
    precision: str = "bf16-mixed"


#: The paper divides the learning rate after 3/7 and 5/7 of its 350 epochs, and so do these 14.
#: With SGD this narrow network hardly learns behind five dropout layers in so few epochs.
_CIFAR10 = ScratchSetting(
    "cifar10", 20_000, "resnet18", 16, "batch", 14, 128, 0.002, "adam", milestones=(6, 10)
)
#: As many epochs as in the paper; fewer digits in smaller batches.
_VGG11 = ScratchSetting("mnist", 5_000, "vgg11", 0.25, "batch", 15, 64, 0.01)
SETTINGS = {
    "cifar10": _CIFAR10,
    "cifar10-sgd": replace(_CIFAR10, optimiser="sgd", lr=0.1),
    "cifar10-full": replace(_CIFAR10, samples=50_000),
    "cifar10-dropout-0.2": replace(_CIFAR10, dropout=0.2),
    "vgg11": _VGG11,
    "vgg11-adam": replace(_VGG11, optimiser="adam", lr=0.001),
    "vgg11-group-norm": replace(_VGG11, norm="group", optimiser="adam", lr=0.001),
    "vgg11-no-norm": replace(_VGG11, norm="none", optimiser="adam", lr=0.001),
}


@dataclass(frozen=True)
class ScratchCell:
    """One setting, noise rate and seed."""

    name: str
    rate: float
    seed: int

    @property
    def setting(self) -> ScratchSetting:
        return SETTINGS[self.name]

    @property
    def path(self) -> Path:
        return CELLS / f"{self.choose_folder(Path())}.json"

    def choose_folder(self, parent: Path) -> Path:
        """The cell's own folder in `parent`."""
        return parent / self.name / f"rate-{self.rate:g}" / f"seed-{self.seed}"


def list_cells(names: tuple[str, ...]) -> Iterator[ScratchCell]:
    """All cells, those first that say most: one seed of every rate; the full size comes last."""
    usual_names = [name for name in names if name != "cifar10-full"]
    yield from (
        ScratchCell(name, rate, seed) for seed, rate, name in product(SEEDS, RATES, usual_names)
    )
    yield from (ScratchCell("cifar10-full", rate, 0) for rate in RATES if "cifar10-full" in names)


def build_network(setting: ScratchSetting, seed: int) -> nn.Module:
    """The setting's network, for ten classes."""
    if setting.network == "vgg11":
        network = build_vgg11(setting.width, norm=setting.norm, seed=seed)
    else:
        network = build_resnet18(round(setting.width), setting.dropout, seed)
    if setting.optimiser == "adam":  # without batch norm, SGD hardly begins to learn
        network.configure_optimizers = lambda: torch.optim.Adam(network.parameters(), setting.lr)
    return network


def build_resnet18(width: int, p: float, seed: int) -> nn.Module:
    """ResNet-18 of few channels that halves 32x32 images at once; dropout after the last five."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = [*_make_convolution(3, width, stride=2), nn.ReLU(inplace=True)]
    channels = width
    for at, times in enumerate(RESNET18):
        out = times * width
        layers.append(BasicBlock(channels, out, stride=1 if out == channels else 2))
        channels = out
        if at >= len(RESNET18) - _DROPOUT_LAYERS:
            layers.append(Dropout(p))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]
    return nn.Sequential(*layers)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut; the last ReLU comes after their sum."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            *_make_convolution(channels, out, stride=stride),
            nn.ReLU(inplace=True),
            *_make_convolution(out, out),
        )
        same = stride == 1
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(*_make_convolution(channels, out, 1, stride=stride))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.branch(x) + self.shortcut(x))


def _make_convolution(
    channels: int, out: int, size: int = 3, *, stride: int = 1
) -> Iterator[nn.Module]:
    convolution = nn.Conv2d(channels, out, size, stride=stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    yield convolution
    yield nn.BatchNorm2d(out)


def predict_fold(
    cell: ScratchCell, data: Dataset, noisy: NoisyLabels, fold: int, work: Path
) -> dict[str, NDArray[Any]]:
    """Train one fold, or read what an earlier run of the same setting left; the three sources'
    probabilities."""
    path, setting = _make_fold_path(work, fold), cell.setting
    description = json.dumps(asdict(setting))
    if path.exists():
        with np.load(path) as archive:
            arrays = dict(archive)
        if str(arrays.pop("setting", "")) == description:
            return arrays
    splitter = StratifiedKFold(setting.folds, shuffle=True, random_state=cell.seed)
    rest, part = list(splitter.split(noisy.labels, noisy.labels))[fold]
    seed = 1_000 * cell.seed + fold
    checkpoints = work / f"training-{fold}"
    model, train_samples = train_network(setting, data, noisy.labels, rest, seed, checkpoints)
    unseen = normalise_like(train_samples, data.inputs, part)
    arrays = predict_sources(model, train_samples, unseen, passes=setting.passes, seed=seed)
    arrays |= {"part": part, "torch": predict_by_torch(model, train_samples, unseen)}
    with replace_file(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, setting=description, **arrays)  # type: ignore[arg-type]
    shutil.rmtree(checkpoints)
    return arrays


def train_network(
    setting: ScratchSetting,
    data: Dataset,
    labels: NDArray[Any],
    rows: NDArray[Any],
    seed: int,
    checkpoints: Path,
) -> tuple[nn.Module, Samples]:
    """The setting's network, trained on these samples with these labels; continues if killed."""
    samples = normalise_samples(data.inputs, rows, crop_and_flip=setting.data == "cifar10")
    training = Training(
        epochs=setting.epochs, batch_size=setting.batch_size, lr=setting.lr, schedule="steps",
        milestones=setting.milestones, nesterov=False, decay_all=True, device="cpu",
        precision=setting.precision,
    )  # fmt: skip
    checkpoints.mkdir(parents=True, exist_ok=True)
    model = build_network(setting, seed)
    train(
        model, samples, labels[rows].astype(np.int64), training, seed=seed, folder=checkpoints,
        advance=lambda _: None,
    )  # fmt: skip
    return model, samples


def _make_fold_path(work: Path, fold: int) -> Path:
    return work / f"fold-{fold}.npz"


def make_noisy(cell: ScratchCell, data: Dataset, similarity: NDArray[np.float64]) -> NoisyLabels:
    """The cell's labels."""
    return apply_noise_kind(
        "similarity", data.labels.codes, rate=cell.rate, pred_probs=similarity, seed=cell.seed
    )


def join_folds(folds: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """All folds' arrays in the order of the samples, whose numbers are `part`."""
    order = np.argsort(np.concatenate([fold["part"] for fold in folds]))
    results_by_seed = {}
    for name, first in folds[0].items():
        axis = 1 if first.ndim == 3 else 0  # passes come first
        results_by_seed[name] = np.concatenate([fold[name] for fold in folds], axis).take(
            order, axis
        )
    return results_by_seed


def compute_cell(
    cell: ScratchCell,
    data: Dataset,
    similarity: NDArray[np.float64],
    work: Path,
    *,
    partial: bool = False,
) -> None:
    """Train the folds that are missing, score all together, and write the cell.

    With `partial` nothing is trained: the samples of the folds that are there are scored.
    """
    noisy = make_noisy(cell, data, similarity)
    cell_folder = cell.choose_folder(work)
    wanted_cells = [
        k
        for k in range(cell.setting.folds)
        if not partial or _make_fold_path(cell_folder, k).exists()
    ]
    if not wanted_cells:
        return
    folds = [predict_fold(cell, data, noisy, fold, cell_folder) for fold in wanted_cells]
    fold_results = join_folds(folds)
    rows = fold_results["part"]
    true = data.labels.codes[rows]
    noisy = replace(noisy, labels=noisy.labels[rows], is_error=noisy.is_error[rows])
    scores = score_sources(
        fold_results["softmax"],
        fold_results["reestimated"],
        fold_results["passes"],
        true,
        noisy,
        METHODS,
    )
    others = {
        "by-torch": fold_results["torch"],
        "passes-reestimated": fold_results["passes-reestimated"],
    }
    scores["accuracy"] |= measure_accuracies(others, true)
    cell.path.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        cell.path,
        {
            "setting": asdict(cell.setting),
            "cell": asdict(cell),
            "folds": len(folds),
            **scores,
            "machine": machine.describe_machine(("uqled", "numpy", "torch")),
        },
    )


def is_finished(cell: ScratchCell) -> bool:
    """If all folds of the cell are there."""
    content = read_cell(cell.path, cell.setting)
    folds = cell.setting.folds
    return content is not None and bool(content.get("folds", folds) == folds)


def read_data(
    setting: ScratchSetting, folder: Path, work: Path
) -> tuple[Dataset, NDArray[np.float64]]:
    """The setting's samples, and the similarity of their classes, which is kept in `work`."""
    data = load(folder / setting.data, split="train", limit=setting.samples)
    path = work / f"similarity-{setting.data}-{setting.samples}.npy"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as temporary, temporary.open("wb") as file:
            np.save(file, predict_similarity(data, side=8 if setting.data == "cifar10" else None))
    return data, np.load(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="holds cifar10 and mnist")
    parser.add_argument("--work", type=Path, required=True, help="where unfinished cells are kept")
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument(
        "--partial", action="store_true", help="train nothing, score the folds that are finished"
    )
    options = parser.parse_args()
    todo = [cell for cell in list_cells(tuple(options.only)) if not is_finished(cell)]
    for place, cell in enumerate(todo, start=1):
        data, similarity = read_data(cell.setting, options.data, options.work)
        compute_cell(cell, data, similarity, options.work, partial=options.partial)
        print(f"{place} of {len(todo)}: {cell}", flush=True)


if __name__ == "__main__":
    main()
