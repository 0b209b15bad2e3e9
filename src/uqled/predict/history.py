"""How training went: loss and accuracy per epoch of every fold, as a table and a picture."""

from __future__ import annotations

import csv
from pathlib import Path

from uqled.run import Run
from uqled.storage.atomic import replace_file

Rows = list[tuple[str, int, float, float]]


def write_history(run: Run, folds: int) -> None:
    """Gather the folds' histories into `history.csv` and `training.png`, where there are any."""
    rows = [row for fold in range(folds) for row in _rows(run.fold_folder(fold), str(fold))]
    if not rows:
        return
    with replace_file(run.path / "history.csv") as part, part.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["fold", "epoch", "loss", "accuracy"])
        writer.writerows(rows)
    _draw(rows, run.path / "training.png")


def _rows(folder: Path, name: str) -> Rows:
    """A fold's own history, or those of the members of its ensemble."""
    found: Rows = []
    path = folder / "history.csv"
    if path.exists():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                found.append((name, int(row["epoch"]), float(row["loss"]), float(row["accuracy"])))
    members = sorted(folder.glob("member-*"), key=lambda path: int(path.name.split("-")[1]))
    for member in members:
        found += _rows(member, f"{name} {member.name}")
    return found


def _draw(rows: Rows, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    loss, accuracy = figure.subplots(1, 2)
    for name in dict.fromkeys(row[0] for row in rows):
        own = [row for row in rows if row[0] == name]
        epochs = [row[1] for row in own]
        loss.plot(epochs, [row[2] for row in own], marker=".", label=f"fold {name}")
        accuracy.plot(epochs, [row[3] for row in own], marker=".")
    for axis, title in ((loss, "training loss"), (accuracy, "training accuracy")):
        axis.set(title=title, xlabel="epoch")
        axis.grid(alpha=0.3)
    loss.legend(fontsize="small")
    with replace_file(path) as part:
        figure.savefig(part, dpi=110, format="png")
