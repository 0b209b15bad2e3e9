"""Decisions about classes: stored, checked, exported; their pages, and groups of similar flags."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from decision_files import edit
from review_runs import finish, image_run, open_session
from uqled import InputError
from uqled.data import load
from uqled.errors import FileError
from uqled.export.plan import plan_export, write_export
from uqled.export.record import restore_given_labels
from uqled.review.decisions import Decisions
from uqled.review.decisions.classes import decide_class, read_class_decisions
from uqled.review.decisions.opinions import give_opinions, read_opinions
from uqled.review.groups import group_like, list_groups

# ---- classes


def test_the_last_decision_about_a_class_holds(decisions):
    decide_class(decisions, 0, "rename", name="alpha", reviewer="ana")
    decide_class(decisions, 0, "merge", target=1, reviewer="bo")
    current = decide_class(decisions, 2, "rename", name="gamma", reviewer="ana")
    assert {k: (one.action, one.target, one.name) for k, one in current.items()} == {
        0: ("merge", 1, None),
        2: ("rename", None, "gamma"),
    }
    decide_class(decisions, 0, None, reviewer="ana")
    assert list(read_class_decisions(decisions)) == [2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"action": "merge", "target": 0}, "class itself"),
        ({"action": "merge", "target": 9}, "below 4"),
        ({"action": "merge"}, "below 4"),
        ({"action": "rename", "name": "b"}, "Merge the class"),
        ({"action": "rename", "name": " x"}, "1 to 200"),
        ({"action": "rename", "name": "a\nb"}, "1 to 200"),
        ({"action": "rename"}, "1 to 200"),
        ({"action": "burn"}, "merge or rename"),
    ],
)
def test_impossible_decisions_about_a_class_are_refused(decisions, options, message):
    with pytest.raises(InputError, match=message):
        decide_class(decisions, 0, reviewer="ana", **options)
    assert read_class_decisions(decisions) == {}


def test_no_class_is_led_in_a_circle(decisions):
    decide_class(decisions, 0, "merge", target=1, reviewer="ana")
    with pytest.raises(InputError, match="holds merged classes"):
        decide_class(decisions, 1, "merge", target=2, reviewer="ana")
    with pytest.raises(InputError, match="merged itself"):
        decide_class(decisions, 2, "merge", target=0, reviewer="ana")


ROWS = {
    "class = 4": "class 4",
    "class = 'a'": "class 'a'",
    "action = 'burn'": "action 'burn'",
    "action = NULL": "target 1 for action None",
    "action = 'rename'": "target 1 for action 'rename'",
    "target = 0": "target 0",
    "target = 9": "target 9",
    "target = NULL": "target None",
    "name = 'x'": "name 'x'",
    "reviewer = ''": "reviewer ''",
    "at = 'soon'": "at 'soon'",
}


@pytest.mark.parametrize("change", ROWS)
def test_rows_that_nobody_wrote_are_refused(decisions, change):
    decide_class(decisions, 0, "merge", target=1, reviewer="ana")
    decisions.close()
    edit(decisions.path, f"UPDATE class_changes SET {change}")
    with (
        Decisions(decisions.path) as decision_file,
        pytest.raises(FileError, match=ROWS[change].replace("'", ".")),
    ):
        read_class_decisions(decision_file)


TOGETHER = {
    "a circle": ((0, "merge", 1, None), (1, "merge", 0, None)),
    "a chain": ((0, "merge", 1, None), (1, "merge", 2, None)),
    "a class's name": ((0, "rename", None, "b"),),
    "one name twice": ((0, "rename", None, "x"), (1, "rename", None, "x")),
}


@pytest.mark.parametrize("rows", TOGETHER.values(), ids=list(TOGETHER))
def test_classes_that_nobody_can_have_decided_together_are_refused(decisions, rows):
    decisions.close()
    with closing(sqlite3.connect(decisions.path)) as connection, connection:
        for number, row in enumerate(rows, 1):
            values = (number, *row, "ana", 1e9)
            connection.execute("INSERT INTO class_changes VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    with (
        Decisions(decisions.path) as decision_file,
        pytest.raises(FileError, match=r"which is merged itself|the name of another class"),
    ):
        read_class_decisions(decision_file)


@pytest.mark.parametrize(
    "change", ["sample = 50", "action = 'burn'", "label = 9", "reviewer = ''", "at = 'soon'"]
)
def test_opinions_that_nobody_gave_are_refused(decisions, change):
    decisions.decide([(3, "keep", None)], reviewer="ana")
    give_opinions(decisions, [(3, "relabel", 2)], reviewer="bo")
    decisions.close()
    edit(decisions.path, f"UPDATE opinions SET {change}")
    with (
        Decisions(decisions.path) as decision_file,
        pytest.raises(FileError, match="of an opinion has"),
    ):
        read_opinions(decision_file)


LATER = ("bulk_changes", "opinions", "class_changes")


@pytest.mark.parametrize("n_missing", [1, 3])
def test_a_file_of_an_earlier_version_gets_the_new_tables(decisions, n_missing):
    decisions.decide([(3, "keep", None)], reviewer="ana")
    decisions.close()
    edit(decisions.path, *(f"DROP TABLE {name}" for name in LATER[:n_missing]))
    with Decisions(decisions.path) as decision_file:
        assert list(decision_file.current()) == [3]
        decide_class(decision_file, 0, "merge", target=1, reviewer="ana")
    with closing(sqlite3.connect(decisions.path)) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert set(LATER) <= names
    edit(decisions.path, "DROP TABLE opinions")
    with pytest.raises(FileError, match="lacks the table 'opinions'"):
        Decisions(decisions.path)


def make_table_run(folder):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 60)
    lines = [f"{x:.3f},{'abc'[k]}" for x, k in zip(rng.normal(size=60) + codes, codes, strict=True)]
    (folder / "data.csv").write_text("x,label\n" + "\n".join(lines) + "\n")
    return finish(folder / "run", load(folder / "data.csv", label="label"), wrong=0.0)


@pytest.mark.parametrize("to", ["csv", "parquet", "cleanlab"])
def test_export_merges_and_renames_and_can_be_undone(tmp_path, to):
    run = make_table_run(tmp_path)
    given_labels = run.predictions().labels
    truth = given_labels.values[given_labels.codes].tolist()
    is_of_merged_class = truth.index("c")
    with Decisions.of(run.predictions()) as decisions:
        decide_class(decisions, 0, "merge", target=1, reviewer="ana")
        decide_class(decisions, 1, "rename", name="beta", reviewer="bo")
        decisions.decide([(is_of_merged_class, "relabel", 0)], reviewer="ana")
    out = tmp_path / f"clean.{'parquet' if to == 'parquet' else 'csv'}"
    plan = plan_export(run.path, to)
    expected = [
        "c" if one == "c" and i != is_of_merged_class else "beta" for i, one in enumerate(truth)
    ]
    assert plan.corrected.values.tolist() == expected
    write_export(plan, out)
    with (tmp_path / f"{out.name}.changes.csv").open(newline="") as file:
        changes = {int(row["index"]): row for row in csv.DictReader(file)}
    assert changes[truth.index("a")]["because"] == "merged class"
    assert changes[truth.index("a")]["reviewer"] == "ana"
    assert changes[truth.index("b")]["because"] == "renamed class"
    assert changes[is_of_merged_class]["because"] == "decision"
    assert {row["to"] for row in changes.values()} == {"beta"}
    if to != "cleanlab":
        assert restore_given_labels(out).tolist() == truth
    with Decisions.of(run.predictions()) as decisions:
        for k in (0, 1):
            decide_class(decisions, k, None, reviewer="ana")
    assert len(plan_export(run.path, to).corrected.corrections) == 1


def test_flags_between_merged_classes_are_settled(run, client):
    """Nobody has to look at them any more, and none of them is dropped by an export."""
    session, errors = open_session(run)
    session.decisions.close()
    i, j = errors.ranked_pairs[0][:2]

    def read_page():
        page, estimates = client.json("api/samples?size=500"), client.json("api/estimates")
        tiers = {one["name"]: one["n"] for one in estimates["overview"]["tiers"]}
        n_tiers = sum(n for name, n in tiers.items() if name != "worth a look")
        pairs = {tuple(pair[:2]) for pair in estimates["overview"]["pairs"]}
        rows = {row["index"]: {row["given"], row["suggested"]} for row in page["samples"]}
        return rows, page["counts"]["flagged"], n_tiers, pairs

    assert set(read_page()[0]) == set(np.flatnonzero(errors.mask).tolist())
    first = next(k for k, classes in read_page()[0].items() if classes == {i, j})
    client.decide([first, "keep", None], reviewer="ana")
    before = read_page()
    flags_between = {k for k, classes in before[0].items() if classes == {i, j}}
    assert 1 < len(flags_between) < len(before[0])
    body = {"index": i, "action": "merge", "target": j, "reviewer": "ana"}
    assert client.post("api/class", body)[0] == 200
    rows, n, n_tiers, pairs = read_page()
    assert set(rows) == set(before[0]) - flags_between | {first}  # what is decided stays
    assert n == len(rows)
    assert n_tiers == before[2] - len(flags_between - {first})
    assert before[3] - pairs <= {(i, j), (j, i)}
    plan = plan_export(run.path, "csv", unreviewed="drop")
    dropped = {one.index for one in plan.corrected.corrections if one.action == "drop"}
    assert dropped
    assert not dropped & flags_between
    assert client.post("api/class", {**body, "action": None})[0] == 200
    assert read_page() == before


def test_a_class_of_images_is_merged_in_folders(tmp_path):
    run = image_run(tmp_path, N=40)
    names = run.predictions().labels.names
    with Decisions.of(run.predictions()) as decisions:
        decide_class(decisions, 0, "merge", target=1, reviewer="ana")
        decide_class(decisions, 2, "rename", name="toad", reviewer="ana")
    write_export(plan_export(run.path, "folder"), tmp_path / "out")
    folders = {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()}
    assert folders == {names[1], names[3], "toad"}


@pytest.fixture
def changed_images(tmp_path):
    """A run of images with a class that is merged and one that is renamed; its right labels."""
    run = image_run(tmp_path, N=40)
    labels = run.predictions().labels
    assert labels.names == ("cat", "dog", "frog", "ship")
    with Decisions.of(run.predictions()) as decisions:
        decide_class(decisions, 0, "merge", target=2, reviewer="ana")
        decide_class(decisions, 2, "rename", name="toad", reviewer="ana")
        decisions.decide([(5, "relabel", 0)], reviewer="ana")
    expected = [
        {"cat": "toad", "frog": "toad"}.get(one, one) for one in labels.values[labels.codes]
    ]
    expected[5] = "toad"
    return run, expected


def test_a_hub_data_set_has_the_classes_that_are_left(changed_images, tmp_path):
    from datasets import load_dataset

    run, expected = changed_images
    write_export(plan_export(run.path, "huggingface"), tmp_path / "out")
    data = load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    label = data.features["label" if "label" in data.features else "labels"]
    assert label.names == ["dog", "ship", "toad"]
    name = "label" if "label" in data.features else "labels"
    assert [label.int2str(row) for row in data[name]] == expected
    labels = run.predictions().labels
    given_labels = labels.values[labels.codes].tolist()
    assert restore_given_labels(tmp_path / "out").tolist() == given_labels


def test_fiftyone_has_the_classes_that_are_left(changed_images, tmp_path):
    run, expected = changed_images
    write_export(plan_export(run.path, "fiftyone"), tmp_path / "out")
    content = json.loads((tmp_path / "out" / "labels.json").read_text())
    # As its documentation lays it out: a list of classes, and for each file below data/ (without
    # its ending) the place of its class in that list.
    assert content["classes"] == ["dog", "ship", "toad"]
    files = {path.stem for path in (tmp_path / "out" / "data").iterdir()}
    assert files == set(content["labels"])
    classes = [content["classes"][content["labels"][f"{i:08d}"]["label"]] for i in range(40)]
    assert classes == expected
    attributes = content["labels"]["00000005"]["attributes"]
    labels = run.predictions().labels
    assert attributes["given_label"] == labels.values[labels.codes[5]]
    assert restore_given_labels(tmp_path / "out").tolist() == labels.values[labels.codes].tolist()


# ---- class pages and alike ones


def test_a_class_page_is_what_the_arrays_say(run, client):
    errors = open_session(run)[1]
    codes, k = errors.labels.codes, 1
    rows = {row["index"]: row for row in client.json("api/classes")["classes"]}
    assert rows[k]["given"] == np.count_nonzero(codes == k)
    assert rows[k]["wrong"] == pytest.approx(errors.probability[codes == k].sum())
    page = client.json(f"api/class/{k}")
    assert page["rate"]["low"] <= page["rate"]["value"] <= page["rate"]["high"]
    assert page["rate"]["value"] == pytest.approx(errors.probability[codes == k].mean(), abs=0.01)
    flagged = errors.mask & (codes == k)
    assert sum(n for _, n in page["taken_for"]) == np.count_nonzero(flagged)
    oddest = [row["index"] for row in page["oddest"]]
    members = np.flatnonzero(codes == k)
    assert oddest == members[np.argsort(errors.scores[members], kind="stable")][:12].tolist()
    body = {"index": k, "action": "rename", "name": "<b>x</b>", "reviewer": "ana"}
    assert client.post("api/class", body)[1]["decision"]["name"] == "<b>x</b>"
    assert client.json(f"api/class/{k}")["decision"]["name"] == "<b>x</b>"
    for bad in ({}, body | {"index": 99}, body | {"name": 3}, body | {"action": ["merge"]},
                body | {"action": "merge", "target": "x"}):  # fmt: skip
        assert client.post("api/class", bad)[0] == 400, bad
    assert client.get("api/class/99")[0] == 404


def test_all_like_this_one_are_the_nearest(tmp_path):
    run = image_run(tmp_path, N=400, margin=3.0)
    session, errors = open_session(run)
    flags = session.get_list(None)
    vectors = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)
    index = int(errors.ranked[5])
    group = group_like(index, flags, session.predictions, vectors)
    similar_samples = [i for i in errors.ranked.tolist() if errors.best[i] == errors.best[index]]
    by_distance = sorted(
        similar_samples, key=lambda i: float(((vectors[i] - vectors[index]) ** 2).sum())
    )
    assert group.indices.tolist() == by_distance[:48]
    without = group_like(index, flags, session.predictions)
    pair = [i for i in similar_samples if errors.labels.codes[i] == errors.labels.codes[index]]
    assert without.indices[0] == index
    assert set(without.indices.tolist()) == set(pair[:48])
    groups, _ = list_groups(flags, session.predictions, 1, vectors)
    walk = groups[0].indices
    rest = ((vectors[walk[1:]] - vectors[walk[0]]) ** 2).sum(axis=1)
    assert rest.argmin() == 0  # the nearest of the group comes next
    session.decisions.close()
