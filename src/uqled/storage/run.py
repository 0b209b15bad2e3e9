"""The run folder; no other module reads or writes it.

    run.json                 configuration, seed, versions, state
    labels.npy, ids.json     given class numbers and names, what a person calls each sample,
                             where the samples came from
    truth.npy                true class numbers, where they are known
    folds.npy                the fold that predicted each sample
    pred_probs.npy           [N,K] out-of-sample softmax
    passes.npy               [F,N,K] out-of-sample stochastic passes
    passes.json              what the passes are, where it is known
    model.json               how good the model is: its accuracy, weak classes, members
    neighbours/...           where there are features: each sample's nearest samples of its own and
                             of the suggested class, near duplicates with different labels, and
                             vectors to compare any two samples
    folds/0/...              a fold's own: predictions, history.csv, checkpoints while it trains
    history.csv, training.png
    detection.json           the method and operating point that were asked for
    issues.parquet           what detection found
    contradictions.npy       where duplicates have different labels: the number of each sample's set
                             of them, or -1
    contents.npy             equal in it for exactly the same content, which near duplicates lack
    unlabelled.csv           the samples without a label: id, predicted_label, probability, copy_of
    inspection.json          what each column is, and what is plainly wrong with the data
    report.html              the same to look at
    map.npy                  [N,2] where the review page draws each sample
    decisions.sqlite         what reviewers decided

Everything is written under a temporary name and renamed, so that a killed process leaves either
the old file or the new one. A run may come from a stranger: whatever is read back is checked first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import Labels, check_writable, show_value
from uqled.errors import FileError, InputError
from uqled.model_quality import ModelQuality
from uqled.storage import run_checks
from uqled.storage.arrays.numpy_files import open_array
from uqled.storage.atomic import (
    create_array,
    is_temporary,
    remove_leftovers,
    replace_file,
    write_array,
    write_json,
)
from uqled.storage.issue_tables import write_issues
from uqled.storage.lock import lock_folder
from uqled.storage.reading import explain_file_problems, name_file, name_folder, read_json
from uqled.uncertainty import PassesKind

if TYPE_CHECKING:
    from uqled.detect.result import LabelErrors

_REPEAT = "Remove it, and repeat the command that began the run"


@dataclass(frozen=True)
class Predictions:
    """The out-of-sample probabilities of a whole data set, as stored in a run."""

    labels: Labels
    pred_probs: NDArray[np.float32]
    """[N,K], memory-mapped."""
    passes: NDArray[np.float32] | None
    """[F,N,K], memory-mapped; None where the model has no source of uncertainty."""
    folds: NDArray[np.int32]
    """[N] the fold that predicted each sample: it was trained on the others."""
    ids: list[str]
    """[N] the id of each sample."""
    truth: NDArray[np.int32] | None
    """[N] true class numbers, where they are known."""
    source: dict[str, Any] | None
    """Where the samples came from, as `uqled.data.load` takes it; None if not from files."""
    source_fingerprint: str
    """A hash of the inputs: other samples have another one."""
    path: Path
    passes_kind: PassesKind | None = None
    """The kind of the passes, such as `heads`; None if it is not known."""
    quality: ModelQuality | None = None
    """The quality of the model; None in a run of an earlier version."""
    contradictions: NDArray[np.int32] | None = None
    """[N] the number of the set of duplicates with different labels that a sample is in, or -1;
    None where there are none."""
    contents: NDArray[np.int32] | None = None
    """[N] equal for duplicates of exactly the same content; None where all in a set are."""

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def accuracy(self) -> float:
        """Share of samples whose most probable class is the given one."""
        return float(np.mean(np.argmax(self.pred_probs, axis=1) == self.labels.codes))


class Run:
    """One run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _repr_html_(self) -> str:
        """Its data, model and folder, in a notebook."""
        from uqled.report.notebook import render_run

        return render_run(self)

    @classmethod
    def begin(cls, path: Path, configuration: dict[str, Any]) -> Run:
        """Create a run, or continue it: a folder with another configuration is refused."""
        with cls.hold(path, configuration) as run:
            return run

    @classmethod
    @contextmanager
    def hold(cls, path: Path, configuration: dict[str, Any]) -> Iterator[Run]:
        """The same, exclusively for this process while the block runs.

        A folder in which another process works is refused. Other users cannot read a new one: runs
        hold people's data.
        """
        check_writable(str(path), "path")
        run = cls(path)
        run._refuse_other_content(configuration)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                "out", f"{str(path)!r} cannot be made ({error.strerror})", "Choose another folder"
            ) from error
        with lock_folder(path):
            run._refuse_other_content(configuration)  # another process may have just begun one
            if not run._run_file.exists():
                about = {"configuration": configuration, "versions": list_package_versions()}
                write_json(run._run_file, {**about, "begun": int(time.time())})
            yield run
            remove_leftovers(path, deep=True)

    def _refuse_other_content(self, configuration: dict[str, Any]) -> None:
        """Refuse a folder that holds anything but this run."""
        path = self.path
        if not self._run_file.exists():
            is_free = path.is_dir() and all(is_temporary(one.name) for one in path.iterdir())
            if path.exists() and not is_free:
                raise InputError(
                    "out",
                    f"{str(path)!r} exists and is not a run",
                    "Choose a new or an empty folder",
                )
            return
        before, now = self.configuration(), json.loads(json.dumps(configuration))
        changed_keys = sorted(
            key for key in before.keys() | now.keys() if before.get(key) != now.get(key)
        )
        if changed_keys:
            if "model" in changed_keys:  # each model has settings of its own
                changed_keys = [key for key in changed_keys if key != "settings"]
            changes = [
                f"{k}: {show_value(before.get(k))} then, {show_value(now.get(k))} now"
                for k in changed_keys[:5]
            ]
            raise InputError(
                "out",
                f"{str(path)!r} holds a run with another configuration ({'; '.join(changes)})",
                "Name another folder with `out`, or repeat the configuration to continue that run",
            )

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """An existing run."""
        run = cls(Path(path))
        if not run._run_file.is_file():
            problem = "holds no run" if run.path.exists() else "does not exist"
            raise FileError(name_folder(path), problem, "Name a folder with run.json")
        return run

    def configuration(self) -> dict[str, Any]:
        content = self._read_json("run.json")
        configuration = content.get("configuration") if isinstance(content, dict) else None
        if not isinstance(configuration, dict):
            raise FileError(
                name_file(self._run_file),
                "is not the file of a run",
                "Begin the run again in a new folder",
            )
        return configuration

    def write_data(
        self,
        labels: Labels,
        ids: list[str],
        truth: NDArray[np.int32] | None,
        folds: NDArray[Any],
        source: Mapping[str, Any] | None = None,
        source_fingerprint: str = "",
        contradictions: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None,
    ) -> None:
        """Write what is known before training; `contradictions` are sets of duplicates with
        different labels, and what in them has exactly the same content."""
        write_array(self.path / "labels.npy", labels.codes)
        write_array(self.path / "folds.npy", folds)
        about = {
            "classes": labels.values.tolist(),
            "names": list(labels.names),
            "ids": ids,
            "source": None if source is None else dict(source),
            "source_fingerprint": source_fingerprint,
        }
        write_json(self.path / "ids.json", about)
        if truth is not None:
            write_array(self.path / "truth.npy", truth)
        if contradictions is not None:
            for name, array in zip(("contradictions", "contents"), contradictions, strict=True):
                write_array(self.path / f"{name}.npy", array)

    def make_fold_folder(self, fold: int) -> Path:
        folder = self.path / "folds" / str(fold)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write_fold(
        self, fold: int, pred_probs: NDArray[np.float32], passes: NDArray[np.float32] | None
    ) -> None:
        """Write a finished fold; `pred_probs.npy` comes last and says that it is finished."""
        folder = self.make_fold_folder(fold)
        if passes is not None:
            write_array(folder / "passes.npy", passes)
        write_array(folder / "pred_probs.npy", pred_probs)
        for checkpoint in [*folder.rglob("checkpoint.pt"), *folder.rglob(".checkpoint-*.pt")]:
            checkpoint.unlink(missing_ok=True)  # a repeated task may have left it

    def read_fold(self, fold: int) -> tuple[NDArray[np.float32], NDArray[np.float32] | None] | None:
        """A finished fold, or None."""
        folder = self.make_fold_folder(fold)
        if not (folder / "pred_probs.npy").exists():
            return None
        passes = folder / "passes.npy"
        return (
            open_array(folder / "pred_probs.npy", _REPEAT),
            open_array(passes, _REPEAT) if passes.exists() else None,
        )

    def write_predictions(
        self,
        parts: list[NDArray[np.intp]],
        n_classes: int,
        passes: NDArray[np.float32] | None = None,
        passes_kind: PassesKind | None = None,
        pred_probs: NDArray[np.float32] | None = None,
    ) -> None:
        """Combine the folds: `parts` are the samples that each fold predicted.

        `passes` [F,N,K] are the user's own, where the folds have none; `pred_probs` [N,K] and
        `passes` those of a committee, which combines all folds.
        """
        if passes_kind is not None:
            write_json(self.path / "passes.json", {"kind": passes_kind})
        N = sum(len(part) for part in parts)
        folds = [
            self._read_checked_fold(fold, len(part), n_classes) for fold, part in enumerate(parts)
        ]
        if passes is not None:
            write_array(self.path / "passes.npy", passes)
        elif folds[0][1] is not None:
            self._assemble_folds("passes.npy", (len(folds[0][1]), N, n_classes), parts, folds, 1)
        if pred_probs is not None:
            write_array(self.path / "pred_probs.npy", pred_probs)
        else:
            self._assemble_folds("pred_probs.npy", (N, n_classes), parts, folds, 0)

    def _read_checked_fold(self, fold: int, n: int, K: int) -> tuple[Any, Any]:
        """A finished fold's arrays, which fit its samples."""
        arrays_of_fold = self.read_fold(fold)
        assert arrays_of_fold is not None
        for name, array, ndim in zip(("pred_probs", "passes"), arrays_of_fold, (2, 3), strict=True):
            if array is not None and (array.ndim != ndim or array.shape[-2:] != (n, K)):
                raise FileError(
                    name_file(self.make_fold_folder(fold) / f"{name}.npy"),
                    f"has shape {array.shape}, for {n} samples and {K} classes",
                    _REPEAT,
                )
        return arrays_of_fold

    def _assemble_folds(
        self,
        name: str,
        shape: tuple[int, ...],
        parts: list[NDArray[np.intp]],
        folds: list[Any],
        which: int,
    ) -> None:
        with replace_file(self.path / name) as file:
            joined = create_array(file, np.float32, shape)
            for number, (part, fold) in enumerate(zip(parts, folds, strict=True)):
                array = fold[which]
                if array is None or array.shape != (*shape[:-2], len(part), shape[-1]):
                    raise FileError(
                        name_file(self.make_fold_folder(number) / name),
                        f"has {0 if array is None else len(array)} passes, and fold 0 {shape[0]}",
                        _REPEAT,
                    )
                joined[..., part, :] = array
            joined.flush()

    def predictions(self) -> Predictions:
        """The out-of-sample predictions of a finished run."""
        if not (self.path / "pred_probs.npy").exists():
            raise FileError(
                f"run {str(self.path)!r}",
                "is not finished",
                "Repeat the command that began it: it continues where it stopped",
            )
        about = run_checks.check_about(self._read_json("ids.json"), self.path / "ids.json")
        K, N = len(about["classes"]), len(about["ids"])
        passes, truth = self.path / "passes.npy", self.path / "truth.npy"
        contradictions, contents = self.path / "contradictions.npy", self.path / "contents.npy"
        codes = run_checks.read_classes(self.path / "labels.npy", N, K)
        return Predictions(
            Labels(codes, np.array(about["classes"]), tuple(about["names"])),
            run_checks.open_run_array(self.path / "pred_probs.npy", (N, K)),
            run_checks.open_run_array(passes, (-1, N, K)) if passes.exists() else None,
            run_checks.read_classes(self.path / "folds.npy", N, N),  # no fold is empty
            about["ids"],
            run_checks.read_classes(truth, N, K) if truth.exists() else None,
            about["source"],
            about["source_fingerprint"],
            self.path,
            self._read_passes_kind(),
            self._read_quality(),
            run_checks.read_sets(contradictions, N) if contradictions.exists() else None,
            run_checks.read_sets(contents, N) if contents.exists() else None,
        )

    def write_unlabelled(
        self,
        ids: Sequence[str],
        labels: Labels,
        probs: NDArray[np.floating],
        codes: NDArray[np.integer],
        copy_of: Sequence[str],
    ) -> None:
        """Write the samples without a label: their predicted class numbers [n], whose probability
        is among `probs` [n,K], and the labelled samples that they are copies of."""
        import pandas as pd

        table = pd.DataFrame(
            {
                "id": ids,
                "predicted_label": labels.values[codes],
                "probability": probs[np.arange(len(codes)), codes].astype(np.float64).round(6),
                "copy_of": copy_of,
            }
        )
        with replace_file(self.unlabelled_path) as part:
            table.to_csv(part, index=False)

    def write_quality(self, quality: ModelQuality) -> None:
        """Write the quality of the model."""
        write_json(self.path / "model.json", quality.to_json())

    @property
    def unlabelled_path(self) -> Path:
        """The table of samples without a label; there is none where every sample has one."""
        return self.path / "unlabelled.csv"

    def _read_quality(self) -> ModelQuality | None:
        path = self.path / "model.json"
        if not path.exists():
            return None
        with explain_file_problems(path, _REPEAT, problem="does not describe a model's quality"):
            return ModelQuality.from_json(self._read_json("model.json"))

    def _read_passes_kind(self) -> PassesKind | None:
        path = self.path / "passes.json"
        if not path.exists():
            return None
        return run_checks.check_stored_passes_kind(self._read_json("passes.json"), path)

    def write_result(self, errors: LabelErrors, options: Mapping[str, Any]) -> Path:
        """Write the options and the result of one detection."""
        with lock_folder(self.path):
            self.write_detection(errors.method, options)
            path = self.write_issues(errors)
            remove_leftovers(self.path)
            return path

    def write_detection(self, method: str, options: Mapping[str, Any]) -> None:
        """Write how errors were detected: report, review and export do it the same way."""
        content = {"method": method, "options": dict(options)}
        write_json(self.path / "detection.json", content)

    def detection(self) -> tuple[str | None, dict[str, Any]]:
        """(method, options) of the last detection; (None, {}) if there was none."""
        if not (self.path / "detection.json").exists():
            return None, {}
        path = self.path / "detection.json"
        return run_checks.check_detection(self._read_json("detection.json"), path)

    def findings(self) -> list[str]:
        """The findings about the data, one sentence each; empty if it was not inspected."""
        path = self.path / "inspection.json"
        if not path.exists():
            return []
        return run_checks.check_findings(self._read_json("inspection.json"), path)

    def write_inspection(self, content: dict[str, Any]) -> None:
        """Write the result of inspecting the data, for `findings`."""
        write_json(self.path / "inspection.json", content)

    def write_issues(self, errors: LabelErrors) -> Path:
        """Write the result of a detection, with the flags of every method."""
        path = self.path / "issues.parquet"
        about = run_checks.check_about(self._read_json("ids.json"), self.path / "ids.json")
        write_issues(errors, path, ids=about["ids"])
        return path

    @property
    def _run_file(self) -> Path:
        return self.path / "run.json"

    def _read_json(self, name: str) -> Any:
        return read_json(self.path / name, "Begin the run again in a new folder")


def list_package_versions(
    packages: Sequence[str] = ("uqled", "numpy", "numba", "scikit-learn", "torch"),
) -> dict[str, str]:
    """Versions of those packages that are installed."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
