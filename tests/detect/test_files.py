"""Detection takes every address: the same flags from arrays in memory, files, shards and stores."""

from __future__ import annotations

from uuid import uuid4

import numpy as np
import pandas as pd
import pytest
import zarr

import uqled
from made_predictions import make_predictions
from stores import s3_address
from uqled.data.prediction_files import open_labels, open_probabilities
from uqled.errors import FileError
from uqled.storage.arrays.shards import Shards
from uqled.storage.location import Location

DATA = make_predictions(N=300, K=4, F=3, dtype=np.float32)
NAMES = np.array(["ant", "bee", "cat", "dog"])
CUTS = [(0, 100), (100, 220), (220, 300)]


def write_all(folder):
    """The same predictions in every layout."""
    for at, (start, stop) in enumerate(CUTS):
        rows = slice(start, stop)
        for name, array in {
            "labels": DATA.labels[rows],
            "names": NAMES[DATA.labels[rows]],
            "probs": DATA.softmax[rows],
            "passes": DATA.passes[:, rows],
            **{f"by-pass/{f}": DATA.passes[f, rows] for f in range(3)},
        }.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            np.save(folder / name / f"part-{at}.npy", array)
        (folder / "table").mkdir(exist_ok=True)
        (folder / "column").mkdir(exist_ok=True)
        frame = pd.DataFrame(DATA.softmax[rows], columns=NAMES)
        frame.to_parquet(folder / "table" / f"part-{at}.parquet")
        frame = pd.DataFrame({"id": range(start, stop), "label": NAMES[DATA.labels[rows]]})
        frame.to_parquet(folder / "column" / f"part-{at}.parquet")
    for name, array in (("labels", DATA.labels), ("probs", DATA.softmax), ("passes", DATA.passes)):
        np.save(folder / f"{name}.npy", array)
        zarr.create_array(str(folder / f"{name}.zarr"), data=array)
    np.savez(folder / "all.npz", labels=DATA.labels, probs=DATA.softmax, passes=DATA.passes)
    pd.DataFrame(DATA.softmax, columns=NAMES).to_csv(folder / "probs.csv", index=False)
    pd.DataFrame(DATA.softmax, columns=NAMES).to_parquet(folder / "probs.parquet")
    pd.DataFrame({"label": NAMES[DATA.labels]}).to_csv(folder / "labels.csv", index=False)
    pd.DataFrame({"label": NAMES[DATA.labels]}).to_parquet(folder / "labels.parquet")


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_all(folder)
    return Location.of(folder)


@pytest.fixture(scope="module")
def s3():
    with s3_address() as address:
        yield address


@pytest.fixture(params=["disk", "memory", "s3"], scope="module")
def files(request, disk):
    if request.param == "disk":
        return disk
    base = request.getfixturevalue("s3") if request.param == "s3" else "memory:/"
    folder = Location.of(f"{base}/{uuid4().hex}")
    for entry in disk.tree():
        (folder / entry.name).write((disk / entry.name).read())
    return folder


@pytest.fixture(scope="module")
def expected_mask():
    return uqled.find_label_errors(DATA.labels, DATA.softmax, DATA.passes, method="alg-ens").mask


@pytest.mark.parametrize(
    ("labels", "probs", "passes"),
    [
        ("labels", "probs", "passes"),
        ("labels.npy", "probs.npy", "passes.npy"),
        ("labels.zarr", "probs.zarr", "passes.zarr"),
        ("all.npz::labels", "all.npz::probs", "all.npz::passes"),
        ("column", "table", "by-pass"),
        ("labels.csv", "probs.csv", "by-pass"),
        ("labels.parquet", "probs.parquet", "passes"),
        ("names", "table", "passes.zarr"),
        ("column::label", "probs", "passes"),
    ],
)
def test_the_same_flags_from_everywhere(files, expected_mask, labels, probs, passes):
    errors = uqled.find_label_errors(
        open_labels(f"{files}/{labels}"),
        open_probabilities(f"{files}/{probs}", ndim=2),
        open_probabilities(f"{files}/{passes}", ndim=3),
        method="alg-ens",
    )
    assert expected_mask.any()
    np.testing.assert_array_equal(errors.mask, expected_mask)


def test_large_arrays_are_not_read_when_opened(files):
    for name, ndim in (("probs", 2), ("table", 2), ("probs.zarr", 2), ("probs.parquet", 2),
                       ("passes", 3), ("by-pass", 3), ("passes.zarr", 3)):  # fmt: skip
        assert isinstance(open_probabilities(f"{files}/{name}", ndim=ndim), Shards)


def test_the_columns_of_a_table_name_the_classes(files):
    result = open_probabilities(f"{files}/table", ndim=2)
    assert result.columns == tuple(NAMES)
    is_of_few = DATA.labels < 2  # labels that do not show all classes
    labels, probs = NAMES[DATA.labels[is_of_few]], DATA.softmax[is_of_few]
    errors = uqled.find_label_errors(labels, pd.DataFrame(probs, columns=NAMES), method="argmax")
    assert errors.labels.names == tuple(NAMES)


def test_a_local_column_keeps_its_categories(tmp_path):
    order = ["small", "medium", "large"]
    column = pd.Categorical(["large", "small", "medium"], categories=order, ordered=True)
    pd.DataFrame({"size": column}).to_parquet(tmp_path / "a.parquet")
    assert list(open_labels(str(tmp_path / "a.parquet")).cat.categories) == order


@pytest.mark.parametrize(
    ("address", "ndim", "message"),
    [
        ("none.npy", 2, "none.npy' does not exist. Check the path"),
        ("none", 2, "none' does not exist. Check the path"),
        ("none.parquet::x", 1, "none.parquet' does not exist"),
        ("x.txt", 1, "x.txt' has the ending '.txt'"),
        ("probs.csv", 3, "probs.csv' is a table, which has no passes"),
        ("table", 3, "part-0.parquet' is a table, which has no passes"),
        ("probs.parquet", 3, "probs.parquet' is a table, which has no passes"),
        ("probs.csv::ant", 2, "probs.csv::ant' names a column. Probabilities take all"),
        ("all.npz", 2, "all.npz' holds 3 arrays. Say which: all.npz::KEY"),
        ("all.npz::x", 2, "all.npz' has no array 'x'"),
        ("probs.npy::x", 2, "probs.npy' holds one array, not 'x'"),
        ("labels.csv", 2, "labels.csv' has a column that does not hold probabilities: 'label'"),
        ("probs.csv", 1, "probs.csv' has the columns ant, bee, cat, dog"),
        ("column::x", 1, "part-0.parquet' has no column 'x'"),
        ("labels.parquet::x", 1, "labels.parquet(::x)?' has no column 'x'"),
    ],
)
def test_refused_by_name(files, address, ndim, message):
    options = {} if ndim == 1 else {"ndim": ndim}
    open_array = open_labels if ndim == 1 else open_probabilities
    with pytest.raises(FileError, match=message):
        open_array(f"{files}/{address}", **options)


def test_folders_that_are_no_shards(tmp_path):
    (tmp_path / "a.npz").mkdir()
    with pytest.raises(FileError, match=r"a.npz' is a folder. Name a file in it"):
        open_labels(str(tmp_path / "a.npz"))
    with pytest.raises(FileError, match="holds a folder, 'a"):
        open_labels(str(tmp_path))


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK\3\4 broken")
    with pytest.raises(FileError, match=r"a.npz' cannot be read \("):
        open_labels(str(tmp_path / "a.npz"))
    (tmp_path / "a.npy").write_bytes(b"")
    with pytest.raises(FileError, match=r"a.npy' is empty"):
        open_labels(str(tmp_path / "a.npy"))
