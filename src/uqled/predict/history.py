"""How training went: loss and accuracy per epoch of every fold, as a table and a picture."""

from __future__ import annotations

import csv
from pathlib import Path

from uqled.errors import FileError
from uqled.predict.fold_files import list_member_folders
from uqled.storage.atomic import replace_file
from uqled.storage.reading import explain_file_problems, name_file, read_file
from uqled.storage.run import Run

Rows = list[tuple[str, int, float, float]]


def write_history(run: Run, folds: int) -> None:
    """Gather the folds' histories into `history.csv` and `training.png`, where there are any."""
    rows = [
        row
        for fold in range(folds)
        for row in _read_fold_history(run.make_fold_folder(fold), str(fold))
    ]
    if not rows:
        return
    with replace_file(run.path / "history.csv") as part, part.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["fold", "epoch", "loss", "accuracy"])
        writer.writerows(rows)
    _draw_history(rows, run.path / "training.png")


def _read_fold_history(folder: Path, name: str) -> Rows:
    """A fold's own history, or those of the members of its ensemble."""
    rows: Rows = []
    path = folder / "history.csv"
    if path.exists():
        rows += [(name, *row) for row in _read_epochs(path)]
    for member in list_member_folders(folder):
        rows += _read_fold_history(member, f"{name} {member.name}")
    return rows


def _read_epochs(path: Path) -> list[tuple[int, float, float]]:
    fix = "Delete it: only the curve of this fold is lost"
    with explain_file_problems(path, fix):
        rows = list(csv.reader(read_file(path, "json_bytes").decode().splitlines()))
        if not rows or rows[0] != ["epoch", "loss", "accuracy"]:
            raise FileError(name_file(path), "is not a training history", fix)
        return [(int(epoch), float(loss), float(right)) for epoch, loss, right in rows[1:]]


def _draw_history(rows: Rows, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    loss, accuracy = figure.subplots(1, 2)
    for name in dict.fromkeys(row[0] for row in rows):
        fold_rows = [row for row in rows if row[0] == name]
        epochs = [row[1] for row in fold_rows]
        loss.plot(epochs, [row[2] for row in fold_rows], marker=".", label=f"fold {name}")
        accuracy.plot(epochs, [row[3] for row in fold_rows], marker=".")
    for axis, title in ((loss, "training loss"), (accuracy, "training accuracy")):
        axis.set(title=title, xlabel="epoch")
        axis.grid(alpha=0.3)
    loss.legend(fontsize="small")
    with replace_file(path) as part:
        figure.savefig(part, dpi=110, format="png")
