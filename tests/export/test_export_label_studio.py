"""Label Studio: tasks that its own package accepts, and annotations that become decisions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import uqled
from exports import HOSTILE, decide, image_run, make_run, table_run
from uqled.cli import app
from uqled.errors import FileError, InputError, LimitError
from uqled.export import annotations
from uqled.export.annotations import import_annotations, read_annotations
from uqled.export.formats.label_studio import make_labelling_config
from uqled.export.plan import plan_export, write_export
from uqled.limits import override_limits
from uqled.review.decisions import ConflictError, Decisions
from uqled.storage.run import Run


def export_tasks(run, out, **options):
    write_export(plan_export(run, "label-studio", method="alg-ens"), out, **options)
    return json.loads((out / "tasks.json").read_text())


def choice(answer, question="label", what="image"):
    return {
        "from_name": question,
        "to_name": what,
        "type": "choices",
        "value": {"choices": [answer]},
    }


def answer_tasks(tasks, answers):
    """Tasks as Label Studio exports them: `answers` by uqled_index, several for several people."""
    result = []
    for number, task in enumerate(tasks):
        one_task = answers.get(task["data"]["uqled_index"], [])
        annotations = [
            {"id": 10 * number + n, "completed_by": n + 1, "was_cancelled": False, **one}
            for n, one in enumerate(one_task if isinstance(one_task, list) else [one_task])
        ]
        result.append({"id": number, "data": task["data"], "annotations": annotations})
    return result


def says(answer, **more):
    result = [choice("drop this sample", "drop")] if answer == "DROP" else [choice(answer)]
    return {"result": result, **more}


def save_tasks(tmp_path, tasks):
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps(tasks))
    return path


def current(run):
    with Decisions.of(Run.open(run).predictions()) as store:
        return {i: (d.action, d.label, d.reviewer) for i, d in store.current().items()}


# ---- tasks


def test_tasks_are_what_is_flagged_or_decided(tmp_path):
    run = image_run(tmp_path, decisions=[(1, "relabel", 2), (3, "keep", None), (5, "drop", None)])
    tasks = export_tasks(run, tmp_path / "tasks")
    by = {task["data"]["uqled_index"]: task for task in tasks}
    assert set(by) == {1, 3, 5, 9, 17, 18}
    assert [task["data"]["uqled_index"] for task in tasks][4:] == [3, 5]  # the flagged come first
    flagged = by[17]
    assert flagged["data"] | {"label_score": 0} == {
        "image": "/data/local-files/?d=tasks/images/00000017.png",
        "sample": "ship/1.png",
        "uqled_index": 17,
        "given_label": "ship",
        "suggested_label": "cat",
        "label_score": 0,
    }
    (prediction,) = flagged["predictions"]
    assert prediction["score"] == pytest.approx(0.96)
    assert prediction["result"] == [choice("cat")]
    assert "annotations" not in flagged
    assert by[1]["annotations"] == [{"result": [choice("ship")], "ground_truth": False}]
    assert by[3]["annotations"] == [{"result": [choice("cat")], "ground_truth": False}]
    assert by[5]["annotations"] == [
        {"result": [choice("drop this sample", "drop")], "ground_truth": False}
    ]
    image = tmp_path / "tasks/images/00000017.png"
    assert image.read_bytes() == (tmp_path / "data/ship/1.png").read_bytes()


def test_addresses_of_images(tmp_path):
    run = image_run(tmp_path)
    tasks = export_tasks(run, tmp_path / "a b&c", url="https://example.org/pics/")
    assert tasks[0]["data"]["image"].startswith("https://example.org/pics/0000")
    tasks = export_tasks(run, tmp_path / "x y&z")
    assert tasks[0]["data"]["image"].startswith("/data/local-files/?d=x%20y%26z/images/")


def test_texts_and_rows_are_shown(tmp_path):
    frame = pd.DataFrame({"text": [f"text <b>{i}" for i in range(6)], "label": list("aaabbb")})
    (tmp_path / "t").mkdir()
    run = table_run(tmp_path / "t", frame, wrong={0: 1})
    assert [task["data"]["text"] for task in export_tasks(run, tmp_path / "texts")] == ["text <b>0"]
    frame = pd.DataFrame({"x": [1.5, np.nan] * 3, "kind": list("uvwxyz"), "label": list("aaabbb")})
    (tmp_path / "r").mkdir()
    run = table_run(tmp_path / "r", frame, wrong={1: 1, 2: 1})
    rows = [task["data"]["row"] for task in export_tasks(run, tmp_path / "rows")]
    assert rows == [{"x": None, "kind": "v"}, {"x": 1.5, "kind": "w"}]


def test_any_class_name_is_in_the_configuration_as_it_is():
    names = [*HOSTILE, "name=\"x\" toName='y'", "&amp;", "]]>", "ü"]
    config = ET.fromstring(make_labelling_config("images", names))
    assert [one.get("value") for one in config.iter("Choice")] == [*names, "drop this sample"]
    for name in ("a\0b", "a\nb", " ", "\ud800"):
        with pytest.raises(InputError, match="Rename the class"):
            make_labelling_config("images", [name])


# ---- checked with Label Studio's own package


def hostile_run(tmp_path):
    frame = pd.DataFrame(
        {"text": [f"some text {i}" for i in range(14)], "label": [c for c in HOSTILE for _ in "ab"]}
    )
    return table_run(tmp_path, frame, wrong={0: 1, 5: 3, 9: 0, 12: 6})


@pytest.mark.filterwarnings("ignore")  # of a package that is not ours
@pytest.mark.parametrize("kind", ["images", "texts", "table"])
def test_label_studio_accepts_configuration_and_predictions(tmp_path, kind):
    interface = pytest.importorskip("label_studio_sdk.label_interface").LabelInterface
    objects = pytest.importorskip("label_studio_sdk.label_interface.objects")
    if kind == "images":
        run = image_run(tmp_path, decisions=[(1, "relabel", 2), (5, "drop", None)])
    elif kind == "texts":
        run = hostile_run(tmp_path)
    else:
        frame = pd.DataFrame({"x": range(6), "y": range(6), "label": list("aaabbb")})
        run = table_run(tmp_path, frame, wrong={0: 1})
    tasks = export_tasks(run, tmp_path / "tasks")
    config = interface((tmp_path / "tasks/config.xml").read_text())
    config.validate()
    names = Run.open(run).predictions().labels.names
    assert set(config.get_control("label").labels) == set(names)
    for task in tasks:
        assert config.validate_task({"data": task["data"]})
        objects.TaskValue(data=task["data"], predictions=task["predictions"])
        for prediction in task["predictions"]:
            assert config.validate_prediction(prediction, return_errors=True) == []
        for annotation in task.get("annotations", []):
            assert config.validate_annotation(annotation)
    wrong_result = tasks[0]["predictions"][0] | {"result": [choice("no such class")]}
    assert config.validate_prediction(wrong_result, return_errors=True) != []  # it does look


@pytest.mark.filterwarnings("ignore")  # of a package that is not ours
def test_annotations_made_by_label_studios_package_become_decisions(tmp_path):
    sdk = pytest.importorskip("label_studio_sdk.label_interface")
    objects = pytest.importorskip("label_studio_sdk.label_interface.objects")
    run = hostile_run(tmp_path)
    tasks = export_tasks(run, tmp_path / "tasks")
    config = sdk.LabelInterface((tmp_path / "tasks/config.xml").read_text())
    labels = Run.open(run).predictions().labels
    answers = {0: labels.names[3], 5: labels.names[labels.codes[5]], 9: "DROP"}
    for number, task in enumerate(tasks):
        answer = answers.get(task["data"]["uqled_index"])
        task["id"] = number
        task["annotations"] = []
        if answer is not None:
            question = config.get_control("drop" if answer == "DROP" else "label")
            region = question.label(["drop this sample" if answer == "DROP" else answer])
            value = objects.AnnotationValue(completed_by=7, result=[region])
            task["annotations"] = [value.model_dump()]
    import_annotations(save_tasks(tmp_path, tasks), Run.open(run).predictions())
    who = "Label Studio user 7"
    assert current(run) == {0: ("relabel", 3, who), 5: ("keep", None, who), 9: ("drop", None, who)}


@pytest.mark.filterwarnings("ignore")  # of a package that is not ours
def test_json_min_of_label_studios_converter_becomes_decisions(tmp_path):
    converter = pytest.importorskip("label_studio_sdk.converter")
    run = image_run(tmp_path)
    tasks = answer_tasks(
        export_tasks(run, tmp_path / "tasks"),
        {1: says("dog"), 9: says("dog"), 17: says("DROP"), 18: says("cat", was_cancelled=True)},
    )
    path = save_tasks(tmp_path, tasks)
    expected = read_annotations(path, Run.open(run).predictions()).decisions
    assert {i: d[:2] for i, d in expected.items()} == {
        1: ("relabel", 1), 9: ("keep", None), 17: ("drop", None)
    }  # fmt: skip
    config = (tmp_path / "tasks/config.xml").read_text()
    label_studio = converter.Converter(config, str(tmp_path), download_resources=False)
    label_studio.convert_to_json_min(str(path), str(tmp_path / "min"), is_dir=False)
    (small,) = (tmp_path / "min").glob("*.json")
    result = read_annotations(small, Run.open(run).predictions()).decisions
    assert {i: d[:2] for i, d in result.items()} == {i: d[:2] for i, d in expected.items()}


# ---- the way back


def test_annotations_become_decisions_once(tmp_path):
    run = image_run(tmp_path)
    tasks = export_tasks(run, tmp_path / "tasks")
    email = {"completed_by": {"id": 3, "email": "bea@example.org"}}
    path = save_tasks(
        tmp_path,
        answer_tasks(tasks, {1: says("dog"), 9: says("dog", **email), 17: says("DROP"), 18: []}),
    )
    words = ["import", str(run), str(path)]
    dry = CliRunner().invoke(app, [*words, "--dry-run"])
    assert "3 samples are annotated (1 keep, 1 relabel, 1 drop); 3 decisions would be" in dry.output
    assert current(run) == {}
    command_result = CliRunner().invoke(app, words)
    assert command_result.exit_code == 0, command_result.output
    assert "3 decisions written" in command_result.output
    assert "1 tasks have no answer" in command_result.output
    one = "Label Studio user 1"
    assert current(run) == {
        1: ("relabel", 1, one), 9: ("keep", None, "bea@example.org"), 17: ("drop", None, one)
    }  # fmt: skip
    again = CliRunner().invoke(app, words)
    assert "0 decisions written" in again.output
    assert "3 decisions the run already had" in again.output


def test_annotators_who_disagree_decide_nothing(tmp_path):
    run = image_run(tmp_path)
    tasks = export_tasks(run, tmp_path / "tasks")
    answers = {
        1: [says("dog"), says("ship")],
        9: [says("dog"), says("dog")],
        17: [says("cat"), says("ship", ground_truth=True)],
        18: [says("cat"), says("DROP", was_cancelled=True)],
    }
    result = read_annotations(
        save_tasks(tmp_path, answer_tasks(tasks, answers)), Run.open(run).predictions()
    )
    assert result.disagreements == [1]
    assert {i: d[:2] for i, d in result.decisions.items()} == {
        9: ("keep", None), 17: ("keep", None), 18: ("relabel", 0)
    }  # fmt: skip


def test_a_decision_is_not_overwritten_unasked(tmp_path):
    run = image_run(tmp_path)
    path = save_tasks(
        tmp_path, answer_tasks(export_tasks(run, tmp_path / "t"), {1: says("dog"), 9: says("dog")})
    )
    decide(run, (1, "drop", None), reviewer="ann")
    result = CliRunner().invoke(app, ["import", str(run), str(path)])
    assert "1 samples have another decision in the run, which stays (1)" in result.output
    assert current(run)[1] == ("drop", None, "ann")
    assert current(run)[9][0] == "keep"
    CliRunner().invoke(app, ["import", str(run), str(path), "--overwrite"])
    assert current(run)[1] == ("relabel", 1, "Label Studio user 1")


def test_decisions_go_there_and_come_back(tmp_path):
    decisions = [(1, "relabel", 2), (3, "keep", None), (5, "drop", None)]
    run = image_run(tmp_path, decisions=decisions)
    tasks = export_tasks(run, tmp_path / "tasks")
    for task in tasks:
        task.setdefault("annotations", [])
    result = read_annotations(save_tasks(tmp_path, tasks), Run.open(run).predictions())
    assert sorted((i, *d[:2]) for i, d in result.decisions.items()) == decisions


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("no json", "cannot be read"),
        ({"tasks": []}, "is not a list of tasks"),
        ([1], "is not a list of tasks"),
        ([{"data": {}}], "is not a list of tasks"),
        ([{"data": {}, "annotations": []}], "is not in run"),
        ([{"data": {"uqled_index": 99, "sample": "x"}, "annotations": []}], "is not in run"),
        (
            [{"data": {"uqled_index": True, "sample": "cat/1.png"}, "annotations": []}],
            "is not in run",
        ),
        ([{"data": {"uqled_index": 1, "sample": "dog/1.png"}, "annotations": []}], "is not in run"),
        ([{"uqled_index": 1, "sample": "cat/1.png", "label": "wolf"}], "classes"),
        (
            [{"uqled_index": 1, "sample": "cat/1.png", "label": {"choices": ["cat", "dog"]}}],
            "classes",
        ),
    ],
)
def test_what_is_not_of_this_run_is_refused(tmp_path, broken, message):
    run = image_run(tmp_path)
    path = tmp_path / "broken.json"
    path.write_text(broken if isinstance(broken, str) else json.dumps(broken))
    with pytest.raises(FileError, match=message):
        import_annotations(path, Run.open(run).predictions())
    assert current(run) == {}


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\xff\xfe[]",
        b"[" * 100_000,
        b"[1e999, " + b"9" * 5_000 + b"]",
        b'[{"data": {"uqled_index": 1e300, "sample": "cat/1.png"}, "annotations": []}]',
        b'[{"data": {"uqled_index": 1, "sample": {"a": [1]}}, "annotations": []}]',
        b'[{"uqled_index": 1, "sample": "cat/1.png", "label": "cat", "annotator": "a\\u001bb"}]',
        b'[{"uqled_index": 1, "sample": "cat/1.png", "label": [[["cat"]]]}]',
    ],
)
def test_json_of_any_shape_is_refused_by_name(tmp_path, broken):
    run = image_run(tmp_path)
    path = tmp_path / "broken.json"
    path.write_bytes(broken)
    with pytest.raises(FileError, match=r"file '.*broken\.json' ") as error_info:
        import_annotations(path, Run.open(run).predictions())
    assert len(str(error_info.value)) < 1_000
    assert current(run) == {}


def test_pipes_and_what_is_too_large_are_refused(tmp_path):
    predictions = Run.open(image_run(tmp_path)).predictions()
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(FileError, match="is not a regular file"):
        import_annotations(tmp_path / "pipe.json", predictions)
    path = save_tasks(tmp_path, [{"data": {}, "annotations": []}] * 10)
    with override_limits(json_bytes=100), pytest.raises(LimitError, match="JSON_BYTES"):
        import_annotations(path, predictions)


def said_by_three(tmp_path):
    """A run, and annotations of three people."""
    run = image_run(tmp_path)
    people = [{"completed_by": {"email": f"{who}@example.org"}} for who in ("ann", "bea", "cid")]
    answers = {index: says("DROP", **who) for index, who in zip((1, 9, 17), people, strict=True)}
    return run, save_tasks(tmp_path, answer_tasks(export_tasks(run, tmp_path / "tasks"), answers))


def test_a_conflict_leaves_all_as_it_was(tmp_path, monkeypatch):
    run, path = said_by_three(tmp_path)
    read = annotations._read_decisions

    def somebody_decides_meanwhile(predictions):
        before = read(predictions)
        decide(run, (17, "keep", None), reviewer="dora")
        return before

    monkeypatch.setattr(annotations, "_read_decisions", somebody_decides_meanwhile)
    with pytest.raises(ConflictError, match="samples 17 were decided by dora in the meantime"):
        import_annotations(path, Run.open(run).predictions())
    assert current(run) == {17: ("keep", None, "dora")}


def test_a_failure_in_the_middle_leaves_all_as_it_was(tmp_path, monkeypatch):
    run, path = said_by_three(tmp_path)
    write, calls = Decisions._write, []

    def fails(self, items, before, reviewer, *rest, **options):
        calls.append(reviewer)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return write(self, items, before, reviewer, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Decisions, "_write", fails)
        with pytest.raises(KeyboardInterrupt):
            import_annotations(path, Run.open(run).predictions())
    assert current(run) == {}
    import_annotations(path, Run.open(run).predictions())
    assert {index: who for index, (_, _, who) in current(run).items()} == {
        1: "ann@example.org", 9: "bea@example.org", 17: "cid@example.org"
    }  # fmt: skip


DIES = """
import os, signal, sys
from uqled.export.annotations import import_annotations
from uqled.review.decisions import Decisions
from uqled.storage.run import Run
write, calls = Decisions._write, []
def dies(*arguments, **options):
    calls.append(1)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(*arguments, **options)
Decisions._write = dies
import_annotations(sys.argv[2], Run.open(sys.argv[1]).predictions())
"""


def test_a_kill_in_the_middle_leaves_all_as_it_was(tmp_path):
    run, path = said_by_three(tmp_path)
    process = subprocess.run([sys.executable, "-c", DIES, str(run), str(path)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert current(run) == {}


def test_one_reviewer_takes_back_their_own(tmp_path):
    run, path = said_by_three(tmp_path)
    import_annotations(path, Run.open(run).predictions())
    with Decisions.of(Run.open(run).predictions()) as store:
        assert store.undo("bea@example.org") == [9]
    assert sorted(current(run)) == [1, 17]


def test_a_run_of_arrays_has_nothing_to_show(tmp_path):
    data = uqled.Dataset.from_arrays(np.zeros((6, 2)), [0, 0, 0, 1, 1, 1])
    run = make_run(tmp_path / "run", data, {0: 1})
    with pytest.raises(InputError, match="arrays in memory"):
        export_tasks(run, tmp_path / "tasks")
