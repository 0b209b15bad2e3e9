"""What cross-validation asks of a model, whatever it is made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.errors import FileError
from uqled.storage.reading import first_line, read_array

#: What a fold's folder keeps until the fold is finished, beside a network's checkpoint: how much is
#: done, and what a member of an ensemble or one of several fits predicts.
PROGRESS = "progress"
MEMBER = "softmax.npy"
FIT = "fit-{}.npy"

_KEPT = re.compile(r"checkpoint\.pt|progress|softmax\.npy|fit-\d+\.npy")
_MEMBER_FOLDER = re.compile(r"member-(\d+)")

#: Told how much more of the fold is done; the amounts of a fold add up to 1.
Advance = Callable[[float], None]


@dataclass(frozen=True)
class FoldPredictions:
    """Probabilities of the samples that a fold did not train on, K columns always.

    A class that the training part misses has probability 0.
    """

    pred_probs: NDArray[np.float32]
    """[m,K]"""
    passes: NDArray[np.float32] | None
    """[F,m,K], or None where the model has no source of uncertainty."""


def read_kept(path: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    """[m,K] probabilities that part of a fold has kept; None if there is nothing usable.

    What is kept saves time and nothing else: a damaged file is computed again.
    """
    if not path.exists():
        return None
    try:
        kept = read_array(path)
    except FileError:
        return None
    is_usable = kept.shape == shape and kept.dtype == np.float32 and np.isfinite(kept).all()
    return kept if is_usable else None


def make_member_folder(folder: Path, member: int) -> Path:
    """The folder of a member of an ensemble, in its fold's."""
    own = folder / f"member-{member}"
    try:
        own.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(
            f"folder {str(own)!r}", f"cannot be made ({first_line(error)})", "Remove what is there"
        ) from error
    return own


def find_member_folders(folder: Path) -> list[Path]:
    """The folders of the members of a fold's ensemble, in their order."""
    named = [(_MEMBER_FOLDER.fullmatch(path.name), path) for path in folder.iterdir()]
    members = {int(match[1]): path for match, path in named if match and path.is_dir()}
    return [members[number] for number in sorted(members)]


def remove_kept(folder: Path) -> None:
    """Remove what a fold has kept until it was finished; predictions and histories stay."""
    for own in (folder, *find_member_folders(folder)):
        for path in own.iterdir():
            if _KEPT.fullmatch(path.name) and not path.is_dir():
                path.unlink(missing_ok=True)


class Learner(Protocol):
    """A model that trains on some samples and predicts others."""

    @property
    def name(self) -> str:
        """What the run calls it."""

    def settings(self) -> dict[str, Any]:
        """Everything that changes the result, as plain JSON: part of the run's configuration."""

    def fit_predict(
        self,
        data: Dataset,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        *,
        passes: int,
        seed: int,
        folder: Path,
        advance: Advance,
    ) -> FoldPredictions:
        """Train on the samples `train`, predict the samples `test`.

        `folder` is the fold's own, for checkpoints and `history.csv`: what an interrupted call
        left there is continued, to the same result.
        """
