"""The map of samples: its layout, its addresses, and what a lasso holds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.path import Path as Polygon
from sklearn.neighbors import KNeighborsClassifier

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from review_client import Client
from review_runs import image_run, open_session
from uqled import InputError
from uqled.data import Dataset
from uqled.features import map_layout
from uqled.features.map_layout import lay_out_map, reduce_dimensions
from uqled.predict.crossval import cross_validate
from uqled.progress import Progress, Stage
from uqled.review import sample_map
from uqled.review.decisions import Decisions
from uqled.review.serve import serve_review
from uqled.storage.run import Run


def make_clusters(n, seed=0):
    """Vectors around five centres, and the centre of each."""
    rng = np.random.default_rng(seed)
    centres, codes = 4 * rng.normal(size=(5, 12)), rng.integers(0, 5, n)
    return (centres[codes] + rng.normal(size=(n, 12))).astype(np.float32), codes


def measure_separation(places, codes):
    """The share of samples whose neighbours on the map are of their own kind."""
    model = KNeighborsClassifier(6).fit(places, codes)
    return float((model.predict(places) == codes).mean())


def test_alike_samples_lie_side_by_side(monkeypatch):
    X, codes = make_clusters(240)
    places = lay_out_map(X)
    assert places.shape == (240, 2)
    assert places.dtype == np.float32
    assert np.abs(places).max() == pytest.approx(1)
    assert measure_separation(places, codes) > 0.97
    assert (lay_out_map(X) == places).all()
    monkeypatch.setattr(map_layout, "_MAP_ROWS", 100)  # the others lie between these
    numbers = []
    layout = lay_out_map(X, advance=numbers.append)
    assert sum(numbers) == pytest.approx(map_layout.plan_map(240).seconds)
    assert len(numbers) > 10  # it is told how far it is from the beginning on
    assert measure_separation(layout, codes) > 0.9


def test_few_samples_and_one_column():
    assert lay_out_map(np.ones((3, 1), np.float32)).tolist() == [[0, 0]] * 3
    assert lay_out_map(np.arange(4, dtype=np.float32)[:, None]).shape == (4, 2)


def test_reduced_vectors_keep_distances():
    X, _ = make_clusters(80)
    reduced = reduce_dimensions(X, 12)
    before = np.linalg.norm(X[:, None] - X, axis=2)
    assert np.linalg.norm(reduced[:, None] - reduced, axis=2) == pytest.approx(before, abs=1e-3)
    assert reduce_dimensions(X, 3).shape == (80, 3)


@pytest.fixture
def run(tmp_path):
    reviewed_run = image_run(tmp_path)
    (reviewed_run.path / "neighbours").mkdir()
    vectors, _ = make_clusters(200)
    np.save(reviewed_run.path / "neighbours" / "vectors.npy", vectors)
    return reviewed_run


@pytest.fixture
def client(run):
    with serve_review(run, port=0) as address:
        yield Client(address)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A map that is only read, so that one serves all."""
    with serve_review(image_run(tmp_path_factory.mktemp("read")), port=0) as address:
        client = Client(address)
        wait_for_map(client)
        yield client


def wait_for_map(client):
    while not (about := client.json("api/map"))["ready"]:
        assert about["problem"] is None
    return about


def read_places(client):
    return np.frombuffer(client.get("api/map/places")[2], "<f4").reshape(-1, 2)


def test_the_map_is_computed_once_and_kept(run, client, monkeypatch):
    assert client.get("api/map/places")[0] == 400  # nobody asked for it yet
    about = wait_for_map(client)
    assert about["basis"] == "features"
    places = read_places(client)
    assert (np.load(run.path / "map.npy") == places).all()
    monkeypatch.setattr(sample_map, "lay_out_map", None)  # it is not computed again
    with serve_review(run, port=0) as address:
        again = Client(address)
        wait_for_map(again)
        assert (read_places(again) == places).all()


@pytest.mark.parametrize(
    "content", [b"no array", np.zeros((3, 2), np.float32), np.full((200, 2), np.nan, np.float32)]
)
def test_a_kept_map_that_does_not_fit_is_computed_again(run, content):
    if isinstance(content, bytes):
        (run.path / "map.npy").write_bytes(content)
    else:
        np.save(run.path / "map.npy", content)
    with serve_review(run, port=0) as address:
        wait_for_map(Client(address))
        assert np.isfinite(read_places(Client(address))).all()
    assert np.load(run.path / "map.npy").shape == (200, 2)


def test_without_features_samples_are_placed_by_their_probabilities(tmp_path):
    run = image_run(tmp_path, N=60)
    with serve_review(run, port=0) as address:
        client = Client(address)
        assert wait_for_map(client)["basis"] == "probabilities"
        predicted = np.asarray(run.predictions().pred_probs).argmax(axis=1)
        assert measure_separation(read_places(client), predicted) > 0.7


def test_values_are_those_of_the_arrays(run, client):
    client.decide([3, "drop", None], [5, "keep", None])
    codes = run.predictions().labels.codes
    assert (np.frombuffer(client.get("api/map/values?by=given")[2], "<u4") == codes).all()
    decisions = np.frombuffer(client.get("api/map/values?by=decision")[2], np.uint8)
    assert decisions[[3, 5]].tolist() == [3, 1]
    assert np.count_nonzero(decisions) == 2
    with Decisions.of(run.predictions()) as store:
        verdicts = store.verdicts(200)
    from uqled.detect.find import find_label_errors

    errors = find_label_errors(run.predictions(), verdicts=verdicts)
    shares = np.frombuffer(client.get("api/map/values?by=probability")[2], np.uint8)
    assert shares / 250 == pytest.approx(errors.probability, abs=0.003)
    suggested = np.frombuffer(client.get("api/map/values?by=suggested")[2], "<u4")
    assert (suggested == errors.best).all()
    assert client.get("api/map/values?by=<b>")[0] == 400


@pytest.mark.parametrize("seed", range(5))
def test_a_lasso_holds_what_matplotlib_finds_inside(reader, seed):
    wait_for_map(reader)
    corners = np.random.default_rng(seed).integers(-1000, 1000, (seed + 3, 2))
    inside = Polygon(corners / 1000).contains_points(read_places(reader))
    text = ",".join(map(str, corners.ravel().tolist()))
    answer = reader.json(f"api/samples?size=500&lasso={text}")
    assert sorted(row["index"] for row in answer["samples"]) == np.flatnonzero(inside).tolist()
    assert reader.json(f"api/samples?only={seed}")["samples"][0]["index"] == seed


@pytest.mark.parametrize(
    "text", ["1,2", "1,2,3,4,5", "a,b,c,d,e,f", "1,2,3,4,5,99999999", ",,,,,", "1,2,3,4,5,6" * 99]
)
def test_a_lasso_that_is_none_is_refused(reader, text):
    wait_for_map(reader)
    assert reader.get(f"api/samples?lasso={text}")[0] == 400
    with pytest.raises(InputError, match="corners"):
        sample_map.read_lasso(text)


def test_it_is_said_how_long_the_map_takes_from_the_first_second(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sample_map, "Progress", lambda: Progress(show=True))
    monkeypatch.setattr("uqled.progress._QUIET_SECONDS", 0.0)
    monkeypatch.setattr("uqled.progress._LINE_SECONDS", 0.0)
    run = image_run(tmp_path, N=300)
    with serve_review(run, port=0) as address:
        client = Client(address)
        about = client.json("api/map")
        assert not about["ready"]
        assert about["seconds_left"] > 0
        assert about["laid_out"] == 300
        wait_for_map(client)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Computing the map")
    assert lines[-1].startswith("Computing the map: took")


def test_no_time_is_named_once_the_expected_one_is_over(tmp_path, monkeypatch):
    """On a busy computer it said "0%, 31 s so far, about 1 s left"."""
    monkeypatch.setattr(Stage, "elapsed_seconds", property(lambda _: 1e6))
    monkeypatch.setattr(Stage, "seconds_left", property(lambda _: None))
    session, _ = open_session(image_run(tmp_path, N=300))
    about = session.map.describe()
    assert (about["seconds"], about["seconds_left"]) == (1e6, None)
    session.decisions.close()


def test_a_tables_rows_are_placed_by_their_columns(tmp_path):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, 200)
    frame = pd.DataFrame(
        {"size": 30.0 * (kind // 2), "colour": np.array(["red", "blue"])[kind % 2]}
    )
    frame["size"] += rng.normal(size=200)
    labels = np.array(["a", "b"])[rng.integers(0, 2, 200)]  # nothing can be predicted
    data = Dataset.from_arrays(frame, labels)
    cross_validate(data, "logistic", out=tmp_path / "run", folds=2, progress=False)
    with serve_review(Run.open(tmp_path / "run"), data=data, port=0) as address:
        client = Client(address)
        about = wait_for_map(client)
        places = read_places(client)
    assert about["basis"] == "features"
    assert measure_separation(places, kind) > 0.95
