"""Flagged samples as tasks of Label Studio, with predictions and scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from uqled.detect.methods import METHODS
from uqled.detect.result import LabelErrors
from uqled.errors import InputError
from uqled.export.names import distinct
from uqled.export.samples import Samples
from uqled.progress import Progress
from uqled.review.decisions import Decision
from uqled.storage.atomic import write_json
from uqled.storage.run import Predictions

LOCAL_FILES = "/data/local-files/?d="
"""How Label Studio addresses files of its own machine."""

LABEL, DROP = "label", "drop"
"""The two questions of a task."""
DROPPED = "drop this sample"
_TAGS = {"images": ("Image", "image"), "texts": ("Text", "text"), "table": ("Table", "row")}


def write_tasks(
    folder: Path,
    predictions: Predictions,
    errors: LabelErrors,
    decisions: Mapping[int, Decision],
    samples: Samples,
    *,
    url: str,
    progress: Progress,
) -> int:
    """Write `tasks.json` and `config.xml`, and `images/` of image data; returns how many tasks.

    Tasks are the samples that are flagged or decided, most suspect first. What the model would
    say is a prediction with its probability as the score, what somebody decided an annotation.
    `url` precedes a file's name.
    """
    names = distinct(predictions.labels.names)
    config = labelling_config(samples.kind, names)
    rows = task_rows(errors, decisions)
    sure = suggested_probability(predictions, errors, rows)
    what = _TAGS[samples.kind][1]
    tasks = []
    if samples.kind == "images":
        (folder / "images").mkdir()
    with progress.stage("writing tasks", len(rows)) as advance:
        for index, probability in zip(rows.tolist(), sure.tolist(), strict=True):
            shown = _shown(folder, samples, index, url)
            given, best = int(errors.labels.codes[index]), int(errors.best[index])
            task: dict[str, Any] = {
                "data": {
                    what: shown,
                    "sample": predictions.ids[index],
                    "uqled_index": index,
                    "given_label": names[given],
                    "suggested_label": names[best],
                    "label_score": float(errors.scores[index]),
                },
                "predictions": [
                    {
                        "model_version": f"uqled {errors.method}",
                        "score": min(1.0, probability),
                        "result": [_choice(LABEL, what, names[best])],
                    }
                ],
            }
            if index in decisions:
                task["annotations"] = [_annotation(decisions[index], given, what, names)]
            tasks.append(task)
            advance(1)
    (folder / "config.xml").write_text(config, encoding="utf-8")
    write_json(folder / "tasks.json", tasks)
    return len(tasks)


def task_rows(errors: LabelErrors, decisions: Mapping[int, Decision]) -> NDArray[np.int64]:
    """Samples that are flagged or decided, most suspect first."""
    wanted = errors.mask.copy()
    wanted[list(decisions)] = True
    return errors.ranking[wanted[errors.ranking]]


def labelling_config(kind: str, names: Iterable[str]) -> str:
    """The labelling interface: the sample, its classes, and whether to drop it.

    >>> print(labelling_config("texts", ["a", "<b>"]))
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
        if not _fits_xml(name):
            raise InputError(
                "to",
                f"is label-studio, whose configuration cannot hold the class name {name!r}",
                "Rename the class",
            )
        ET.SubElement(classes, "Choice", value=name)
    dropping = ET.SubElement(view, "Choices", {"name": DROP, **options, "choice": "multiple"})
    ET.SubElement(dropping, "Choice", value=DROPPED)
    ET.indent(view)
    return ET.tostring(view, encoding="unicode")


def suggested_probability(
    predictions: Predictions, errors: LabelErrors, rows: NDArray[Any]
) -> NDArray[np.float64]:
    """[len(rows)] probability of the suggested class: the softmax's if the method looks at that
    alone, otherwise the mean of the passes."""
    name = "alg-ens" if errors.method.startswith("alg-ens") else errors.method
    best, found = errors.best[rows], predictions.pred_probs
    if predictions.passes is not None and METHODS[name].needs != ("pred_probs",):
        return np.asarray(np.mean(predictions.passes[:, rows, best], axis=0, dtype=np.float64))
    return np.asarray(found[rows, best], np.float64)


def _shown(folder: Path, samples: Samples, index: int, url: str) -> Any:
    """What the task shows: an image's address, the text, or the row."""
    if samples.kind == "images":
        data, ending = samples.image(index)
        name = f"{index:08d}{ending}"
        (folder / "images" / name).write_bytes(data)
        return f"{url}{name}"
    one = samples.inputs(np.array([index]))
    if samples.kind == "texts":
        return str(one[0])
    if hasattr(one, "columns"):
        return {str(name): _plain(one[name].iloc[0]) for name in one.columns}
    return {str(number): float(value) for number, value in enumerate(one[0])}


def _choice(question: str, what: str, answer: str) -> dict[str, Any]:
    value = {"choices": [answer]}
    return {"from_name": question, "to_name": what, "type": "choices", "value": value}


def _annotation(decision: Decision, given: int, what: str, names: list[str]) -> dict[str, Any]:
    label = given if decision.label is None else decision.label
    dropped = decision.action == "drop"
    answer = _choice(DROP, what, DROPPED) if dropped else _choice(LABEL, what, names[label])
    # Label Studio takes imported annotations for ground truth, unless told otherwise; an annotator
    # who disagrees with an earlier decision should be heard.
    return {"result": [answer], "ground_truth": False}


def _fits_xml(name: str) -> bool:
    """Whether an XML attribute can hold the name and give it back as it is."""
    plain = all(
        c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff" for c in name
    )
    return plain and bool(name.strip())


def _plain(value: Any) -> Any:
    """A cell as JSON has it."""
    import pandas as pd

    if pd.isna(value):
        return None
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, str | int | float | bool) else str(value)
