"""Objects in memory are loaded as files are: frames, arrays, lists, other libraries' data sets."""

from __future__ import annotations

import datasets
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from PIL import Image

import uqled
from made_tables import make_news, make_penguins
from uqled import InputError, load
from uqled.data.frames import refuse_lazy_frame

FRAME = make_penguins()


@pytest.mark.parametrize(
    "convert",
    [
        lambda frame: frame,
        pl.from_pandas,
        pa.Table.from_pandas,
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
        lambda frame: frame.to_dict("list"),
        lambda frame: frame.to_dict("records"),
        lambda frame: frame.to_records(index=False),
        pa.RecordBatch.from_pandas,
        datasets.Dataset.from_pandas,
    ],
    ids=[
        "pandas",
        "polars",
        "arrow",
        "pandas-arrow",
        "dict",
        "dicts",
        "records",
        "batch",
        "datasets",
    ],
)
def test_frames_are_alike(tmp_path, convert):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    expected = load(tmp_path / "t.csv", label="species")
    data = load(convert(FRAME), label="species")
    assert (data.kind, data.labels.names) == ("table", expected.labels.names)
    assert data.labels.codes.tolist() == expected.labels.codes.tolist()
    assert [(c.name, c.role) for c in data.columns] == [(c.name, c.role) for c in expected.columns]
    for name in ("bill_length_mm", "flipper_length_mm"):
        result = data.inputs[name].astype(float).to_numpy()
        np.testing.assert_array_equal(result, expected.inputs[name].to_numpy())
    assert data.source is None


def test_the_frames_own_index_is_the_id():
    frame = FRAME.set_axis([f"bird {i}" for i in range(120)])
    assert load(frame, label="species").ids[:2].tolist() == ["bird 0", "bird 1"]
    shuffled_data = FRAME.sample(frac=1, random_state=0)
    data = load(shuffled_data, label="species")
    assert data.ids.tolist() == list(map(str, shuffled_data.index))
    missing = shuffled_data.assign(
        species=shuffled_data.species.where(shuffled_data.index != 7, None)
    )
    data = load(missing, label="species")
    assert data.unlabelled == ("7",)
    assert "7" not in data.ids.tolist()
    assert load(FRAME.set_axis([0] * 120), label="species").ids[:2].tolist() == ["0", "1"]


def test_labels_beside_a_frame():
    features = FRAME.drop(columns="species")
    for labels in (FRAME["species"], FRAME["species"].tolist(), FRAME["species"].to_numpy()):
        data = load(features, label=labels)
        assert data.inputs.columns.tolist() == features.columns.tolist()
        assert data.labels.names == ("Adelie", "Chinstrap", "Gentoo")
    with pytest.raises(InputError, match="label has 3 entries for 120 samples"):
        load(features, label=[1, 2, 3])
    unnamed_frame = FRAME.set_axis(range(FRAME.shape[1]), axis=1)
    at = FRAME.columns.get_loc("species")
    assert load(unnamed_frame, label=at).labels.names == ("Adelie", "Chinstrap", "Gentoo")


def test_labels_beside_a_frame_in_another_order_are_refused():
    samples, labels = FRAME.drop(columns="species"), FRAME["species"]
    shuffled = labels.sample(frac=1, random_state=0)
    with pytest.raises(InputError, match=r"^label is a Series .* in another order.*label\.loc\["):
        load(samples, label=shuffled)
    matching = load(samples, label=shuffled.loc[samples.index])
    assert (matching.labels.codes == load(FRAME, label="species").labels.codes).all()
    by_position = load(samples, label=shuffled.to_numpy())  # whose order is taken as it is
    read_labels = [by_position.labels.names[k] for k in by_position.labels.codes]
    assert read_labels == shuffled.tolist()
    load(samples, label=labels.set_axis(range(5, 5 + len(labels))))  # an index of its own


def test_arrays_texts_and_paths(tmp_path):
    rng = np.random.default_rng(0)
    data = load(rng.normal(size=(6, 2)), label=[0, 1] * 3)
    assert (data.kind, data.inputs.shape) == ("table", (6, 2))
    assert load(torch.zeros(4, 3), label=torch.tensor([0, 1, 0, 1])).labels.n_classes == 2
    news = make_news()
    data = load(news["title"].tolist(), label=news["label"])
    assert (data.kind, data.inputs[0]) == ("texts", news.loc[0, "title"])
    paths = []
    for i in range(4):
        path = tmp_path / ("cat", "dog")[i % 2] / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (60 * i, 0, 0)).save(path)
        paths.append(path)
    for given_paths in (paths, list(map(str, paths))):
        data = load(given_paths, cache=False)
        assert (data.kind, data.labels.names) == ("images", ("cat", "dog"))
        assert data.inputs[:, 0, 0, 0].tolist() == [0, 60, 120, 180]
        assert data.ids[0] == str(paths[0])
    assert load(paths, label=["a", "a", "b", "b"], cache=False).labels.names == ("a", "b")
    with pytest.raises(InputError, match="a list has no columns"):
        load(["one", "two"])
    with pytest.raises(
        uqled.FileError, match=r"the list has 1 unreadable of 5 images.*\n.*gone.png"
    ):
        load([*paths, tmp_path / "cat" / "gone.png"], cache=False)


def test_columns_of_other_libraries_are_texts():
    texts, labels = ["good film", None, "bad film", "dull"], ["p", "p", "n", "n"]
    columns = datasets.Dataset.from_dict({"text": texts, "label": labels})
    column = (texts, pa.array(texts), pa.chunked_array([texts]), columns["text"], pd.Series(texts))
    for samples in column:
        data = load(samples, label=columns["label"])
        assert data.kind == "texts"
        assert data.inputs.tolist() == ["good film", "", "bad film", "dull"]
        assert data.labels.values.tolist() == ["n", "p"]
    with pytest.raises(InputError, match="inputs contain a int at index 1"):
        load(["one", 2, "three", "four"], label=labels)
    with pytest.raises(InputError, match="is a DataFrame with two columns 'a'"):
        load(pd.DataFrame([[1, 2, 0]], columns=["a", "a", "label"]))


class UnboundedRows(torch.utils.data.Dataset):
    """As people write them: no IndexError at the end."""

    classes = ("no", "yes")

    def __init__(self, make=lambda i: torch.full((3, 4, 4), i / 10), length=6):
        self.make, self.length = make, length

    def __len__(self):
        return self.length

    def __getitem__(self, at):
        return self.make(at), at % 2


def test_torch_data_sets_are_read_to_their_length():
    for samples in (UnboundedRows(), torch.utils.data.DataLoader(UnboundedRows(), batch_size=4)):
        data = load(samples)
        assert (data.kind, data.inputs.shape) == ("images", (6, 4, 4, 3))
        assert data.inputs[:, 0, 0, 0].tolist() == [0, 26, 51, 76, 102, 128]
        assert data.labels.codes.tolist() == [0, 1] * 3
        assert data.labels.names == ("no", "yes")
    vectors = load(UnboundedRows(lambda i: torch.tensor([i, 1.0])))
    assert (vectors.kind, vectors.inputs.tolist()[2]) == ("table", [2, 1])
    assert load(UnboundedRows(lambda i: f"text {i}")).inputs[3] == "text 3"
    pictures = load(UnboundedRows(lambda i: Image.new("RGB", (4, 4), (i, 0, 0))))
    assert pictures.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(InputError, match=r"from -2 to 3.*Leave the normalisation out"):
        load(UnboundedRows(lambda i: torch.full((3, 4, 4), i - 2.0)))
    with pytest.raises(InputError, match="inputs of different shapes"):
        load(UnboundedRows(lambda i: torch.zeros(3, 4, 4 + i)))


class EndlessStream(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            yield torch.zeros(2), 0


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (EndlessStream(), "place is a EndlessStream"),
        (torch.utils.data.DataLoader(EndlessStream()), "without a length"),
        (iter([1]), "place is a list_iterator. Pass a path, a pandas"),
        (7, "place is a int. Pass a path"),
        (None, "place is a NoneType"),
        (pl.LazyFrame({"label": [1]}), "Collect it first"),
        ({"a": [1, 2], "label": [1]}, "cannot be read"),
        (UnboundedRows(lambda i: i / 0), "place is a UnboundedRows that cannot be read"),
        ([], "label is None"),
        (b"photos", "place is a bytes. Pass a path"),
        (scipy.sparse.eye(3).tocsr(), "place is a sparse csr_matrix. Make it dense"),
        (
            datasets.Dataset.from_dict({"label": [1]}).to_iterable_dataset(),
            "place is an IterableDataset, which streams its rows. Load it without streaming",
        ),
        (pd.DataFrame({"a": [1]}), "label is missing, but the DataFrame has the columns a"),
        (pd.DataFrame(), "label is missing, and the DataFrame has no columns"),
        ({}, "label is missing, and the dict has no columns"),
        (
            pa.table([[1], [2], [0]], names=["a", "a", "label"]),
            "place is a Table with two columns 'a'. Rename one of them",
        ),
        (
            {"a": [1.0, 5.0], "label": np.array([2**63, 2**63 + 1], np.uint64)},
            "labels in 'label' of the dict contain 9223372036854775809, which is beyond 64 bits",
        ),
    ],
)
def test_whatever_is_not_understood_gets_our_own_error(samples, words):
    with pytest.raises(uqled.UqledError, match=words):
        load(samples)


@pytest.mark.parametrize(
    ("library", "call"),
    [
        ("polars", "collect"),
        ("dask", "compute"),
        ("duckdb", "df"),
        ("pyspark", "toPandas"),
        ("ibis", "to_pandas"),
    ],
)
def test_the_error_of_a_lazy_frame_names_its_own_call(library, call):
    words = rf"place is a lazy LazyFrame. Collect it first: frame\.{call}\(\)"
    with pytest.raises(InputError, match=words):
        refuse_lazy_frame("place", pl.LazyFrame({"label": [1]}), nw.Implementation(library))


def test_images_of_a_hugging_face_data_set():
    pictures = [Image.new("RGB", (4, 4), (50 * i, 0, 0)) for i in range(4)]
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    rows = datasets.Dataset.from_dict({"image": pictures, "label": [0, 1, 0, 1]}, features)
    data = load(rows, cache=False)
    assert (data.kind, data.labels.names) == ("images", ("cat", "dog"))
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 50, 100, 150]
    splits = datasets.DatasetDict({"train": rows, "test": rows.select([0, 1, 3])})
    assert len(load(splits, split="test", cache=False)) == 3


def test_a_shuffling_loader_is_read_in_the_order_of_its_data_set():
    """Its ids are row numbers of the data set, and the last batch is not left out."""
    rows = torch.utils.data.TensorDataset(torch.arange(22.0).reshape(11, 2), torch.arange(11) % 2)
    loaders = torch.utils.data
    for options in ({"shuffle": True}, {"drop_last": True}, {"shuffle": True, "drop_last": True}):
        data = load(loaders.DataLoader(rows, batch_size=4, **options))
        assert data.inputs[:, 0].tolist() == list(range(0, 22, 2)), options
        assert data.labels.codes.tolist() == [at % 2 for at in range(11)]
        assert data.ids.tolist() == [str(at) for at in range(11)]

    def keep_first(batch):
        return torch.stack([row[:1] for row, _ in batch]), [label for _, label in batch]

    dataset = load(loaders.DataLoader(rows, batch_size=4, shuffle=True, collate_fn=keep_first))
    assert dataset.inputs.tolist() == [[2.0 * at] for at in range(11)]
    for sampler in (
        loaders.WeightedRandomSampler([1.0] * 11, 11),
        loaders.SubsetRandomSampler(range(5)),
        loaders.RandomSampler(rows, replacement=True),
        loaders.RandomSampler(rows, num_samples=4),
    ):
        with pytest.raises(InputError, match=r"draws its samples at random.*Pass its data set"):
            load(loaders.DataLoader(rows, batch_size=4, sampler=sampler))

    class Tenfold(loaders.DataLoader):
        def __iter__(self):
            return ((10 * x, y) for x, y in super().__iter__())

    batch_sampler = loaders.BatchSampler(loaders.RandomSampler(rows), 3, drop_last=True)
    for loader in (
        Tenfold(rows, batch_size=4, shuffle=True),
        loaders.DataLoader(rows, batch_sampler=batch_sampler),
    ):
        with pytest.raises(InputError, match="Pass its data set"):
            load(loader)
    assert load(Tenfold(rows, batch_size=4)).inputs.max() == 10 * data.inputs.max()
    in_order = load(loaders.DataLoader(rows, batch_size=4, sampler=[8, 2, 5]))
    assert in_order.inputs[:, 0].tolist() == [16, 4, 10]


def test_measurements_named_y_are_no_labels_where_another_column_has_classes():
    frame = pd.DataFrame({"x": np.arange(40) / 7, "y": np.arange(40) / 3, "kind": ["a", "b"] * 20})
    data = load(frame)
    assert data.labels.names == ("a", "b")
    assert [(one.name, one.reason) for one in data.columns if one.role == "label"] == [
        ("kind", "the only column of classes")
    ]
    assert load(frame.assign(y=[1.0, 0.0] * 20)).labels.names == ("0", "1")
    with pytest.raises(InputError, match=r"'y' of the DataFrame holds numbers such as"):
        load(frame[["x", "y"]])


def test_a_data_set_says_in_one_line_what_it_is():
    expected = f"<Dataset DataFrame: {len(FRAME)} rows, {FRAME['species'].nunique()} classes>"
    assert repr(load(FRAME, label="species")) == expected
