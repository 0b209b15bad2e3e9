"""The contents of a fold's folder until the fold is finished, besides a network's checkpoint.

Partial results only save time: a damaged one is computed again.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError
from uqled.storage.arrays.numpy_files import read_array
from uqled.storage.reading import first_line, name_folder
from uqled.storage.run import Run

#: The share of the fold that is done, and what one fit of several predicts: of a network, in its
#: member's folder, and of a scikit-learn classifier.
PROGRESS = "progress"
MEMBER = "softmax.npy"
FIT = "fit-{}.npy"

_PARTIAL = re.compile(r"checkpoint\.pt|progress|softmax\.npy|fit-\d+\.npy")
_MEMBER_FOLDER = re.compile(r"member-(\d+)")


def read_partial(path: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    """[m,K] probabilities of one fit of a fold; None if there are no usable ones."""
    if not path.exists():
        return None
    try:
        probabilities = read_array(path)
    except FileError:
        return None
    is_usable = (
        probabilities.shape == shape
        and probabilities.dtype == np.float32
        and np.isfinite(probabilities).all()
    )
    return probabilities if is_usable else None


def read_members(
    run: Run, parts: list[NDArray[np.intp]], n_members: int, n_classes: int
) -> NDArray[np.float32]:
    """[H,N,K] what the members of a committee predicted in the finished folds of a run.

    `parts` are the samples that each fold predicted.
    """
    members = np.empty((n_members, sum(map(len, parts)), n_classes), np.float32)
    for fold, part in enumerate(parts):
        predictions = run.read_fold(fold)
        passes = None if predictions is None else predictions[1]
        if passes is None or passes.shape != (n_members, len(part), n_classes):
            raise FileError(
                f"fold {fold} of run {str(run.path)!r}",
                f"lacks the predictions of the {n_members} members of its committee",
                "Repeat the command that made the run, in a new folder",
            )
        members[:, part] = passes
    return members


def make_member_folder(folder: Path, member: int) -> Path:
    """The folder of a member of an ensemble, in its fold's."""
    member_folder = folder / f"member-{member}"
    try:
        member_folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(
            name_folder(member_folder),
            f"cannot be made ({first_line(error)})",
            "Remove what is there",
        ) from error
    return member_folder


def list_member_folders(folder: Path) -> list[Path]:
    """The folders of the members of a fold's ensemble, in their order."""
    matches = [(_MEMBER_FOLDER.fullmatch(path.name), path) for path in folder.iterdir()]
    members = {int(match[1]): path for match, path in matches if match and path.is_dir()}
    return [members[number] for number in sorted(members)]


def remove_partial_files(folder: Path) -> None:
    """Remove the partial results of a finished fold; predictions and histories stay."""
    for parent in (folder, *list_member_folders(folder)):
        for path in parent.iterdir():
            if _PARTIAL.fullmatch(path.name) and not path.is_dir():
                path.unlink(missing_ok=True)
