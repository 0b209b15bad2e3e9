"""Noisy labels as a folder (labels, truth, matrices, picture), and in a few lines of text."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.tables.table_files import read_csv
from uqled.errors import FileError
from uqled.noise.kinds import NoisyLabels
from uqled.storage.arrays.numpy_files import open_npz
from uqled.storage.reading import name_folder
from uqled.storage.tables.parquet_tables import read_parquet

LABEL_FILES = tuple(f"noisy_labels{suffix}" for suffix in (".npy", ".npz", ".csv", ".parquet"))
FILES = (
    *("is_error.npy", "matrix.csv", "matrix.json", "realised.csv", "realised.json"),
    *("heat_map.png", *LABEL_FILES),
)
#: Of a description in text.
_MAX_CLASSES, _MAX_TARGETS = 30, 3


def check_noise_folder(out: Path, *, overwrite: bool) -> None:
    """Refuse a folder that the files cannot be written to, before any work is done."""
    if out.exists() and not out.is_dir():
        raise FileError(name_folder(out), "is a file", "Name a folder")
    existing_files = [name for name in FILES if (out / name).exists()]
    if existing_files and not overwrite:
        raise FileError(
            name_folder(out),
            f"already holds {', '.join(existing_files)}",
            "Choose another folder, or pass --overwrite",
        )


def write_noise(
    noisy: NoisyLabels, out: Path, *, labels_file: str, overwrite: bool = False
) -> list[Path]:
    """Write the folder `out`, and return its files.

    The labels are written in the format of `labels_file` (FILE or FILE::KEY), which the clean ones
    were read from; a table keeps its other columns. A Zarr array becomes `.npy`. All files are made
    in a hidden folder first and then moved, the labels last: where they are, the rest is too.
    """
    check_noise_folder(out, overwrite=overwrite)
    try:
        out.mkdir(parents=True, exist_ok=True)
        temporary_folder = Path(tempfile.mkdtemp(prefix=".noise-", dir=out))
    except OSError as error:
        raise FileError(
            name_folder(out), f"cannot be written ({error})", "Choose another folder"
        ) from error
    try:
        _write_matrices(noisy, temporary_folder)
        np.save(temporary_folder / "is_error.npy", noisy.is_error)
        _write_labels(noisy.labels, labels_file, temporary_folder)
        for name in reversed(
            FILES
        ):  # also those that an earlier run with another kind of noise wrote
            (out / name).unlink(missing_ok=True)
        written_files = [out / name for name in FILES if (temporary_folder / name).exists()]
        for path in written_files:
            (temporary_folder / path.name).replace(path)
        return written_files
    finally:
        shutil.rmtree(temporary_folder, ignore_errors=True)


def describe_noise(noisy: NoisyLabels) -> str:
    """How many labels changed and what each class turned into: intended and realised shares."""
    n_changed, N = int(noisy.is_error.sum()), len(noisy.is_error)
    lines = [
        f"{n_changed:,} of {N:,} labels changed ({n_changed / N:.2%}), "
        f"noise of the kind {noisy.kind}",
        *("", "intended -> realised:" if noisy.intended else "realised:"),
    ]
    rows = [("true class", "samples", "wrong", "goes to")]
    for k, name in enumerate(noisy.realised.classes[:_MAX_CLASSES]):
        error_share = _format_shares(noisy, k, k, complement=True) if noisy.counts[k] else "-"
        rows.append((name, f"{noisy.counts[k]:,}", error_share, _describe_targets(noisy, k)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, count, error_share, goes in rows:
        cells = (name.ljust(widths[0]), count.rjust(widths[1]), error_share.rjust(widths[2]), goes)
        lines.append("  ".join(("", *cells)).rstrip())
    n_left = len(noisy.realised.classes) - _MAX_CLASSES
    return "\n".join([*lines, *([f"  ... and {n_left:,} classes more"] if n_left > 0 else [])])


def _format_shares(noisy: NoisyLabels, k: int, j: int, *, complement: bool = False) -> str:
    """The share of true class k that was to get label j (if a matrix says so), and that did."""
    shares = [m.probabilities[k, j] for m in (noisy.intended, noisy.realised) if m is not None]
    return " -> ".join(f"{1 - share if complement else share:.1%}" for share in shares)


def _describe_targets(noisy: NoisyLabels, k: int) -> str:
    """The labels that most wrong labels of class k are, with their shares."""
    row = (noisy.intended or noisy.realised).probabilities[k]
    order = [int(j) for j in np.argsort(-row, kind="stable") if j != k and row[j] > 0]
    names = noisy.realised.classes
    targets = [f"{names[j]} {_format_shares(noisy, k, j)}" for j in order[:_MAX_TARGETS]]
    return ", ".join(targets + [f"{len(order) - _MAX_TARGETS} more"] * (len(order) > _MAX_TARGETS))


def _write_matrices(noisy: NoisyLabels, folder: Path) -> None:
    from uqled.report.figures import save_figure, transition_heat_map

    matrices = {"realised": noisy.realised}
    if noisy.intended is not None:
        matrices = {"intended": noisy.intended, **matrices}
    for title, matrix in matrices.items():
        stem = "matrix" if title == "intended" else title
        matrix.save(folder / f"{stem}.csv")
        matrix.save(folder / f"{stem}.json")
    save_figure(transition_heat_map(matrices), folder / "heat_map.png")


def _write_labels(labels: NDArray[Any], labels_file: str, folder: Path) -> None:
    name, _, key = labels_file.rpartition("::") if "::" in labels_file else (labels_file, "", "")
    source = Path(name)
    suffix = source.suffix if source.suffix in _WRITERS else ".npy"
    _WRITERS[suffix](labels, source, key, folder / f"noisy_labels{suffix}")


def _write_npy(labels: NDArray[Any], _source: Path, _key: str, path: Path) -> None:
    np.save(path, labels if labels.dtype.kind in "biufUS" else labels.astype(str))


def _write_npz(labels: NDArray[Any], source: Path, key: str, path: Path) -> None:
    with open_npz(source) as archive:
        arrays: dict[str, Any] = {key or archive.keys[0]: labels}
    np.savez_compressed(path, **arrays)


def _write_csv(labels: NDArray[Any], source: Path, key: str, path: Path) -> None:
    columns = list(read_csv(source, nrows=0).columns)
    # Everything is read as text, column names too, so that the other columns stay as they are.
    frame = read_csv(source, header=None, dtype=str, keep_default_na=False)
    frame.iloc[1:, columns.index(_choose_column(columns, key))] = labels.astype(str)
    frame.to_csv(path, header=False, index=False)


def _write_parquet(labels: NDArray[Any], source: Path, key: str, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = read_parquet(source)
    at = table.column_names.index(_choose_column(table.column_names, key))
    field, column = table.schema.field(at), pa.array(labels.tolist())
    if pa.types.is_dictionary(field.type):
        column = column.cast(field.type.value_type).dictionary_encode()
        field = field.with_type(column.type)
    pq.write_table(table.set_column(at, field, column.cast(field.type)), path)


def _choose_column(columns: list[str], key: str) -> str:
    """The column that `open_labels` took."""
    return key or ("label" if "label" in columns else columns[0])


_WRITERS: dict[str, Callable[[NDArray[Any], Path, str, Path], None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
