"""`label-studio`: flagged samples as tasks of Label Studio, with predictions and scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from uqled.detect.methods.registry import parse_method
from uqled.detect.result import LabelErrors
from uqled.errors import InputError
from uqled.export.export_format import ExportFormat, ExportPlan, WriteOptions
from uqled.export.file_names import number_repeats
from uqled.export.source_samples import SourceSamples
from uqled.review.decisions import Decision
from uqled.storage.atomic import write_json
from uqled.storage.run import Predictions

LOCAL_FILES = "/data/local-files/?d="
"""The prefix by which Label Studio addresses local files."""

LABEL, DROP = "label", "drop"
"""The two questions of a task."""
DROP_CHOICE = "drop this sample"
_TAGS = {"images": ("Image", "image"), "texts": ("Text", "text"), "table": ("Table", "row")}


class LabelStudioFormat(ExportFormat):
    """`tasks.json` and `config.xml`, and `images/` of image data.

    Tasks are the samples that are flagged or decided, most suspect first. The predicted class is a
    prediction with its probability as the score, a reviewer's decision an annotation.
    """

    name = "label-studio"
    options = frozenset({"url"})

    def write(self, plan: ExportPlan, target: Path, options: WriteOptions) -> dict[str, Any]:
        predictions, errors, samples = plan.predictions, plan.errors, plan.samples
        assert samples is not None
        url = options.url
        if url is None:
            url = f"{LOCAL_FILES}{quote(options.out.resolve().name)}/images/"
        names = number_repeats(predictions.labels.names)
        config = make_labelling_config(samples.kind, names)
        rows = list_task_rows(errors, plan.decisions)
        probabilities = read_suggested_probabilities(predictions, errors, rows)
        field = _TAGS[samples.kind][1]
        tasks = []
        if samples.kind == "images":
            (target / "images").mkdir()
        with options.progress.stage("writing tasks", len(rows)) as advance:
            for index, probability in zip(rows.tolist(), probabilities.tolist(), strict=True):
                label, best = int(errors.labels.codes[index]), int(errors.suggested_codes[index])
                task: dict[str, Any] = {
                    "data": {
                        field: _write_sample(target, samples, index, url),
                        "sample": predictions.ids[index],
                        "uqled_index": index,
                        "given_label": names[label],
                        "suggested_label": names[best],
                        "label_score": float(errors.scores[index]),
                    },
                    "predictions": [
                        {
                            "model_version": f"uqled {errors.method}",
                            "score": min(1.0, probability),
                            "result": [_make_choice(LABEL, field, names[best])],
                        }
                    ],
                }
                if index in plan.decisions:
                    decision = plan.decisions[index]
                    task["annotations"] = [_make_annotation(decision, label, field, names)]
                tasks.append(task)
                advance(1)
        (target / "config.xml").write_text(config, encoding="utf-8")
        write_json(target / "tasks.json", tasks)
        return {"tasks": len(tasks), "options": {"url": url}}

    def describe(self, plan: ExportPlan) -> str:
        tasks = len(list_task_rows(plan.errors, plan.decisions))
        return (
            f"{tasks:,} tasks: {plan.errors.n_flagged:,} samples flagged by {plan.errors.method}, "
            f"{len(plan.decisions):,} decided"
        )


def list_task_rows(errors: LabelErrors, decisions: Mapping[int, Decision]) -> NDArray[np.int64]:
    """Samples that are flagged or decided, most suspect first; before them what contradicts a
    duplicate."""
    is_task = errors.mask.copy()
    is_task[list(decisions)] = True
    is_task[errors.contradicted_labels.rows] = False
    return np.concatenate(
        [errors.contradicted_labels.rows, errors.ranking[is_task[errors.ranking]]]
    )


def make_labelling_config(kind: str, names: Iterable[str]) -> str:
    """The labelling interface: the sample, its classes, and whether to drop it.

    >>> print(make_labelling_config("texts", ["a", "<b>"]))
    <View>
      <Text name="text" value="$text" />
      <Choices name="label" toName="text" choice="single" showInLine="true">
        <Choice value="a" />
        <Choice value="&lt;b&gt;" />
      </Choices>
      <Choices name="drop" toName="text" choice="multiple" showInLine="true">
        <Choice value="drop this sample" />
      </Choices>
    </View>
    """
    tag, what = _TAGS[kind]
    view = ET.Element("View")
    ET.SubElement(view, tag, name=what, value=f"${what}")
    options = {"toName": what, "choice": "single", "showInLine": "true"}
    classes = ET.SubElement(view, "Choices", {"name": LABEL, **options})
    for name in names:
        if not _is_valid_xml(name):
            raise InputError(
                "to",
                f"is label-studio, whose configuration cannot hold the class name {name!r}",
                "Rename the class",
            )
        ET.SubElement(classes, "Choice", value=name)
    dropping = ET.SubElement(view, "Choices", {"name": DROP, **options, "choice": "multiple"})
    ET.SubElement(dropping, "Choice", value=DROP_CHOICE)
    ET.indent(view)
    return ET.tostring(view, encoding="unicode")


def read_suggested_probabilities(
    predictions: Predictions, errors: LabelErrors, rows: NDArray[Any]
) -> NDArray[np.float64]:
    """[len(rows)] probability of the suggested class: from the softmax if the method uses only
    that, otherwise from the mean of the passes."""
    best = errors.suggested_codes[rows]
    needs = parse_method(errors.method).method.needs
    if predictions.passes is not None and needs != ("pred_probs",):
        return np.asarray(np.mean(predictions.passes[:, rows, best], axis=0, dtype=np.float64))
    return np.asarray(predictions.pred_probs[rows, best], np.float64)


def _write_sample(folder: Path, samples: SourceSamples, index: int, url: str) -> Any:
    """What the task shows: an image's address, the text, or the row."""
    if samples.kind == "images":
        data, ending = samples.read_image(index)
        name = f"{index:08d}{ending}"
        (folder / "images" / name).write_bytes(data)
        return f"{url}{name}"
    one = samples.read_inputs(np.array([index]))
    if samples.kind == "texts":
        return str(one[0])
    if hasattr(one, "columns"):
        return {str(name): _to_json_value(one[name].iloc[0]) for name in one.columns}
    return {str(number): float(value) for number, value in enumerate(one[0])}


def _make_choice(question: str, what: str, answer: str) -> dict[str, Any]:
    value = {"choices": [answer]}
    return {"from_name": question, "to_name": what, "type": "choices", "value": value}


def _make_annotation(
    decision: Decision, given_label: int, what: str, names: list[str]
) -> dict[str, Any]:
    label = given_label if decision.label is None else decision.label
    is_dropped = decision.action == "drop"
    answer = (
        _make_choice(DROP, what, DROP_CHOICE)
        if is_dropped
        else _make_choice(LABEL, what, names[label])
    )
    # Label Studio takes imported annotations for ground truth, unless told otherwise; an annotator
    # who disagrees with an earlier decision should be heard.
    return {"result": [answer], "ground_truth": False}


def _is_valid_xml(name: str) -> bool:
    """Whether an XML attribute can hold the name and give it back as it is."""
    is_plain = all(
        c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff" for c in name
    )
    return is_plain and bool(name.strip())


def _to_json_value(value: Any) -> Any:
    """A cell as JSON has it."""
    import pandas as pd

    if pd.isna(value):
        return None
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, str | int | float | bool) else str(value)
