"""What training on the cleaned data brings, for a setting of `from_scratch.py`.

In `benchmarks/`:

    python -m training.second_stage --data FOLDER --work FOLDER --plan    counts what is missing
    python -m training.second_stage --data FOLDER --work FOLDER           trains it

The same folders as for `from_scratch.py`: the folds that it left in `--work` say what each method
flags, and folds that are missing are trained first. A cell is one treatment of the noisy training
set at one rate and seed. Every network of a seed begins with the same weights, and is tested on the
true labels of the test set. Every epoch leaves a checkpoint and every cell a file in
`results/from-scratch-stage2`: a run that was killed continues with the same command.
`batch_norm.py` writes the page.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import machine
from paper.sections.second_stage_section import CELLS, REESTIMATED_METHOD, TREATMENTS
from training.from_scratch import (
    SEEDS,
    SETTINGS,
    ScratchCell,
    join_folds,
    make_noisy,
    predict_fold,
    read_data,
    train_network,
)
from training.three_sources import measure_accuracies, name_classes, predict_sources, read_cell
from uqled.bench.method_flags import compute_flags
from uqled.bench.suite import BASELINE, PAPER_METHODS
from uqled.data.dataset import Dataset
from uqled.data.loading import load
from uqled.noise.kinds import NoisyLabels
from uqled.predict.samples import normalise_like
from uqled.storage.atomic import write_json

_TRAINING_SEED = 900  # apart from those of the folds


@dataclass(frozen=True)
class StageTwoCell:
    """One treatment of one noisy training set."""

    stage1: ScratchCell
    treatment: str

    @property
    def path(self) -> Path:
        return self.stage1.choose_folder(CELLS) / f"{self.treatment}.json"

    def is_finished(self) -> bool:
        return read_cell(self.path, self.stage1.setting) is not None

    def count_image_steps(self) -> int:
        """Images times epochs, at most: a method's flags are not trained on."""
        return self.stage1.setting.epochs * self.stage1.setting.samples


def list_cells(name: str, rate: float, seeds: tuple[int, ...] = SEEDS) -> Iterator[StageTwoCell]:
    """Seed by seed, so that one that is finished can be compared."""
    for seed, treatment in product(seeds, TREATMENTS):
        yield StageTwoCell(ScratchCell(name, rate, seed), treatment)


def find_flags(
    cell: ScratchCell, data: Dataset, noisy: NoisyLabels, work: Path
) -> dict[str, NDArray[np.bool_]]:
    """[N] flags of the methods, from the predictions of the cell's folds."""
    folder = cell.choose_folder(work)
    fold_results = join_folds(
        [predict_fold(cell, data, noisy, fold, folder) for fold in range(cell.setting.folds)]
    )
    labels = name_classes(noisy.labels, fold_results["softmax"].shape[1])
    flags = compute_flags(PAPER_METHODS, labels, fold_results["softmax"], fold_results["passes"])
    reestimated_flags = compute_flags(
        (BASELINE,), labels, fold_results["reestimated"], fold_results["passes"]
    )
    return {name: one.mask for name, one in flags.items()} | {
        REESTIMATED_METHOD: reestimated_flags[BASELINE].mask
    }


def compute_cell(
    cell: StageTwoCell, data: Dataset, test: Dataset, similarity: NDArray[Any], work: Path
) -> None:
    """Train on what the treatment leaves, and write the accuracies on the test set."""
    stage1, setting = cell.stage1, cell.stage1.setting
    noisy = make_noisy(stage1, data, similarity)
    labels = data.labels.codes if cell.treatment == "clean" else noisy.labels
    rows = np.arange(len(labels))
    if cell.treatment not in ("clean", "noisy"):
        rows = rows[~find_flags(stage1, data, noisy, work)[cell.treatment]]
    checkpoints = stage1.choose_folder(work) / f"stage2-{cell.treatment}"
    seed = 1_000 * stage1.seed + _TRAINING_SEED
    model, train_samples = train_network(setting, data, labels, rows, seed, checkpoints)
    unseen = normalise_like(train_samples, test.inputs, np.arange(len(test)))
    sources = predict_sources(model, train_samples, unseen, passes=setting.passes, seed=seed)
    accuracies = measure_accuracies(sources, test.labels.codes)
    cell.path.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        cell.path,
        {
            "setting": asdict(setting),
            "cell": {**asdict(stage1), "treatment": cell.treatment},
            "trained_on": len(rows),
            "wrong_left": int((labels[rows] != data.labels.codes[rows]).sum()),
            "test_images": len(test),
            "accuracy": {
                "as-trained" if name == "softmax" else name: one for name, one in accuracies.items()
            },
            "machine": machine.describe_machine(("uqled", "numpy", "torch")),
        },
    )
    shutil.rmtree(checkpoints)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="holds cifar10 and mnist")
    parser.add_argument("--work", type=Path, required=True, help="where unfinished cells are kept")
    parser.add_argument("--setting", choices=SETTINGS, default="cifar10")
    parser.add_argument("--rate", type=float, default=0.1, help="of the noise (default: 0.1)")
    parser.add_argument(
        "--seeds", type=int, nargs="+", choices=SEEDS, default=SEEDS,
        help="some of them, to train others in another process",
    )  # fmt: skip
    parser.add_argument("--plan", action="store_true", help="train nothing, say what it would cost")
    options = parser.parse_args()
    cells = list_cells(options.setting, options.rate, tuple(options.seeds))
    todo = [cell for cell in cells if not cell.is_finished()]
    steps = sum(cell.count_image_steps() for cell in todo)
    print(f"{len(todo)} trainings are missing: at most {steps:,} images, each counted every epoch")
    if options.plan or not todo:
        return
    setting = SETTINGS[options.setting]
    data, similarity = read_data(setting, options.data, options.work)
    test = load(options.data / setting.data, split="test")
    for place, cell in enumerate(todo, start=1):
        compute_cell(cell, data, test, similarity, options.work)
        print(f"{place} of {len(todo)}: {cell.path.relative_to(CELLS).with_suffix('')}", flush=True)


if __name__ == "__main__":
    main()
