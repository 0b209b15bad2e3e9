"""The cells of a benchmark, each a finished unit on disk.

    cells/mnist/seed-0/pretraining.json              what tables need: small, plain
    cells/mnist/seed-0/rate-0.1/detection.json
    cells/mnist/seed-0/rate-0.1/remove/cl-mcd.json
    arrays/mnist/seed-0/rate-0.1/detection.npz       what later cells need
    data/mnist.json                                  a hash of the data
    work/...                                         checkpoints of cells that are being computed

A cell's `.json` is written last and says that it is finished. It holds the configuration that it
was computed with: a cell with another one is refused, not mixed in.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.arrays import show_value
from uqled.bench.cell_checks import check_fields
from uqled.errors import FileError, InputError
from uqled.limits import check_limit
from uqled.storage.arrays.numpy_files import open_npz
from uqled.storage.atomic import is_temporary, remove_leftovers, replace_file, write_json
from uqled.storage.reading import name_file, open_regular, read_json

CellKind = Literal["pretraining", "pilot", "fold", "detection", "retraining"]
Treatment = Literal["clean", "noisy", "remove", "relabel"]

_FIX = "Remove it, and it is computed again"


@dataclass(frozen=True, order=True)
class Cell:
    """One unit of work."""

    kind: CellKind
    data: str
    seed: int
    rate: float | None = None
    """None where there is no noise."""
    fold: int | None = None
    treatment: Treatment | None = None
    method: str = ""

    @property
    def name(self) -> str:
        """Its path under `cells` and `arrays`, without an ending."""
        parts = [self.data, f"seed-{self.seed}"]
        if self.rate is not None:
            parts.append(f"rate-{self.rate:g}")
        if self.kind == "fold":
            parts.append(f"fold-{self.fold}")
        elif self.kind != "retraining":
            parts.append(self.kind)
        else:
            assert self.treatment is not None
            parts += [self.treatment, *([self.method.replace(":", "-")] if self.method else [])]
        return "/".join(parts)


class Cells:
    """The folder of a benchmark; no other module reads or writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_finished(self, cell: Cell, configuration: Mapping[str, Any]) -> bool:
        """Whether the cell is finished; a cell computed with another configuration is refused."""
        path = self._locate_file("cells", cell, ".json")
        if not path.exists():
            return False
        before = _read_cell(path)["configuration"]
        now = json.loads(json.dumps(configuration))
        changed_keys = [
            k for k in sorted(before.keys() | now.keys()) if before.get(k) != now.get(k)
        ]
        if changed_keys:
            changes = [
                f"{k}: {show_value(before.get(k))} then, {show_value(now.get(k))} now"
                for k in changed_keys[:3]
            ]
            raise InputError(
                "out",
                f"{str(self.folder)!r} holds cell {cell.name} with another configuration "
                f"({'; '.join(changes)})",
                "Choose another folder, or remove that cell, and it is computed again",
            )
        return True

    def read(self, cell: Cell) -> dict[str, Any]:
        """The content of a finished cell."""
        path = self._locate_file("cells", cell, ".json")
        is_clean = cell.kind == "detection" and cell.rate is None
        kind = "clean detection" if is_clean else cell.kind
        return check_fields(_read_cell(path)["found"], kind, name_file(path), _FIX)

    def read_arrays(self, cell: Cell) -> dict[str, NDArray[Any]]:
        """The arrays of a finished cell."""
        path = self._locate_file("arrays", cell, ".npz")
        try:
            with open_npz(path) as archive:
                return {key: archive.read(key) for key in archive.keys}
        except FileError as error:
            raise type(error)(
                error.argument, error.problem, f"Remove cell {cell.name} and it is computed again"
            ) from error

    def name_arrays(self, cell: Cell) -> str:
        """The file of a cell's arrays, as errors name it."""
        return name_file(self._locate_file("arrays", cell, ".npz"))

    def has_arrays(self, cell: Cell) -> bool:
        return self._locate_file("arrays", cell, ".npz").exists()

    def write(
        self,
        cell: Cell,
        configuration: Mapping[str, Any],
        result: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        provenance: Mapping[str, Any],
    ) -> None:
        """Write a finished cell; `made` is its provenance and duration, which tables do not
        show."""
        if arrays:
            path = self._locate_file("arrays", cell, ".npz")
            path.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(path) as part, part.open("wb") as file:
                np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        path = self._locate_file("cells", cell, ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"configuration": configuration, "found": result, "made": provenance})
        self._remove_work(cell.name)

    def remove_finished_work(self) -> None:
        """Remove checkpoints of finished cells, and temporary files left by killed processes."""
        for path in self._list_finished():
            self._remove_work(str(path.relative_to(self.folder / "cells").with_suffix("")))
        for parent, _, _ in os.walk(self.folder / "work", topdown=False):
            try:
                Path(parent).rmdir()
            except OSError:  # not empty: it belongs to an unfinished cell
                continue
        remove_leftovers(self.folder)
        for name in ("cells", "arrays", "data", "work", "figures"):
            remove_leftovers(self.folder / name, deep=True)

    def _remove_work(self, name: str) -> None:
        work = self.folder / "work" / name
        # Never follow a link that somebody else put there.
        if work.resolve().is_relative_to(self.folder.resolve()):
            shutil.rmtree(work, ignore_errors=True)

    def _list_finished(self, folder: Path | None = None) -> list[Path]:
        """The files of finished cells, in the order of their names."""
        files = ((folder or self.folder) / "cells").rglob("*.json")
        return sorted(path for path in files if not is_temporary(path.name))

    def work(self, cell: Cell) -> Path:
        """The folder for a cell's checkpoints."""
        return self.folder / "work" / cell.name

    def read_provenance(self) -> Iterator[dict[str, Any]]:
        """The provenance of each cell, in the order of their names."""
        for path in self._list_finished():
            yield check_fields(_read_cell(path)["made"], "made", name_file(path), _FIX)

    def check_fingerprint(self, data: str, fingerprint: str) -> None:
        """Remember which data the cells were computed from; other data is refused."""
        path = self.folder / "data" / f"{data}.json"
        if path.exists():
            if _read_fingerprint(path) != fingerprint:
                raise InputError(
                    "data",
                    f"{data!r} is not what the cells in {str(self.folder)!r} were computed from",
                    "Put the data back as it was, or choose another folder",
                )
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"fingerprint": fingerprint})

    def merge(self, other: Path, *, arrays_of: Collection[str] | None = None) -> int:
        """Copy the finished cells of another folder; return how many.

        `arrays_of` names the cells whose arrays come along, as in `detection`; all unless given.
        Cells of other data are refused.
        """
        if not (other / "cells").is_dir():
            raise InputError("merge", f"{str(other)!r} holds no cells", "Name a benchmark's folder")
        for path in sorted((other / "data").glob("*.json")):
            if not is_temporary(path.name):
                self.check_fingerprint(path.stem, _read_fingerprint(path))
        n_merged = 0
        for path in self._list_finished(other):
            _read_cell(path)
            name = path.relative_to(other / "cells")
            target = self.folder / "cells" / name
            if target.exists():
                if _read_cell(target)["configuration"] != _read_cell(path)["configuration"]:
                    raise InputError(
                        "merge",
                        f"{str(other)!r} holds cell {name.with_suffix('')} with another "
                        "configuration",
                        "Merge benchmarks of the same suite",
                    )
                continue
            needs_arrays = arrays_of is None or name.stem in arrays_of
            for kind, ending in (("arrays", ".npz"),) * needs_arrays + (("cells", ".json"),):
                source = other / kind / name.with_suffix(ending)
                target = self.folder / kind / name.with_suffix(ending)
                if source.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    _copy_file(source, target)
            n_merged += 1
        return n_merged

    def _locate_file(self, kind: str, cell: Cell, ending: str) -> Path:
        return self.folder / kind / f"{cell.name}{ending}"


def _read_cell(path: Path) -> dict[str, Any]:
    content = read_json(path, _FIX)
    keys = ("configuration", "found", "made")
    if not isinstance(content, dict) or not all(isinstance(content.get(k), dict) for k in keys):
        raise FileError(name_file(path), "is not a finished cell", _FIX)
    return content


def _read_fingerprint(path: Path) -> str:
    content = read_json(path)
    old_fingerprint = content.get("fingerprint") if isinstance(content, dict) else None
    if not isinstance(old_fingerprint, str):
        raise FileError(name_file(path), "holds no fingerprint of data", "Put it back as it was")
    return old_fingerprint


def _copy_file(source: Path, target: Path) -> None:
    with open_regular(source) as file, replace_file(target) as part, part.open("wb") as copy:
        check_limit("memory_bytes", os.fstat(file.fileno()).st_size, name_file(source))
        shutil.copyfileobj(file, copy)
