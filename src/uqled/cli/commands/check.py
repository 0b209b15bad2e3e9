"""`uqled check`: a gate that fails where too many labels are wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.contents import describe_judgement_content, list_suspect_contents
from uqled.cli.options import OutputOptions, RunArgument, RunData
from uqled.cli.predicting import describe_data

if TYPE_CHECKING:
    from uqled.detect.result import LabelErrors
    from uqled.storage.run import Predictions

_MAX_SUSPECTS = 10  # suspects of new data


def check(
    folder: RunArgument,
    output: OutputOptions,
    max_error_rate: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Fail if more than this share of the labels is wrong, from 0 to 1, such as 0.03. "
            "Default: no limit; then --baseline is required.",
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Use intervals of this confidence, between 0 and 1."),
    ] = 0.8,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Judge each class by the same limit as well.")
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Fail if the error rate is above the interval of this earlier run. "
            "Default: no comparison.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Judge this new data with the model of the run: a file or folder of the same "
            "form, with the same columns and classes. Default: judge the data of the run.",
        ),
    ] = None,
    data: RunData = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Read the labels of the new data from this column, and those of --data if the run "
            "was made from data in memory. Default: the column that the run used.",
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the checks to this file as JUnit XML. Default: no file.",
        ),
    ] = None,
) -> CommandOutput:
    """Fail if too many labels of a run are wrong, as a gate for CI.

    The exit code is 0 if the data passes, 1 if it fails, 2 after a usage error, and 3
    if the data cannot be judged. A check fails only if the whole interval of the error rate lies
    above the limit. Labels that reviewers decided on count as certain. In a GitHub workflow, a
    table is added to the summary of the job.

    With --against, the model is fitted again on the data of the run without its flagged samples,
    and the labels of the new data are judged. The data of the run must still be where it was, or
    where --data says; a run made from data in memory needs --data.

    Examples:
        uqled check runs/photos --max-error-rate 0.03
        uqled check runs/photos --max-error-rate 0.05 --confidence 0.95 --per-class
        uqled check runs/today --baseline runs/yesterday --junit check.xml
        uqled check runs/reviews --against new.csv --max-error-rate 0.03
    """
    from uqled.answer import tabulate_suspects
    from uqled.check.judging import check_judging_options, give_no_judgement, judge_labels
    from uqled.check.summaries import describe_judgement, render_junit, render_markdown
    from uqled.errors import InputError
    from uqled.storage.atomic import check_file_target, replace_file

    if junit is not None:
        check_file_target(junit)
    for name, value in (("data", data), ("label", label)):
        if value is not None and against is None:
            raise InputError(
                name, f"is {str(value)!r} without `against`", "Add `against`, or leave it out"
            )
    check_judging_options(
        max_error_rate, confidence, per_class=per_class, has_baseline=baseline is not None
    )
    before = None if baseline is None else _find_errors(baseline)[1]
    predictions, errors = _find_errors(folder)
    label_errors: LabelErrors | None = errors
    ids = predictions.ids
    if against is not None:
        from uqled.check.new_data import find_errors_in_new_data

        new, label_errors = find_errors_in_new_data(
            against, predictions, errors, data=data, label=label, progress=output.progress
        )
        ids = new.ids.tolist()
        output.tell(describe_data(new)[0])
    if label_errors is None:
        reason = "All new labels are of one class, which cannot be judged"
        judgement = give_no_judgement(
            len(ids), reason, max_error_rate=max_error_rate, confidence=confidence
        )
    else:
        judgement = judge_labels(
            label_errors,
            max_error_rate=max_error_rate,
            confidence=confidence,
            per_class=per_class,
            baseline=before,
        )
    if junit is not None:
        with replace_file(junit) as part:
            part.write_bytes(render_junit(judgement))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(render_markdown(judgement))
    suspects = [] if label_errors is None else label_errors.answer.most_suspect
    text = describe_judgement(judgement)
    if against is not None and suspects:
        lines = tabulate_suspects(suspects[:_MAX_SUSPECTS], ids)
        text = "\n".join([text, "", "most suspect of the new samples:", *lines])
    content = describe_judgement_content(judgement)
    content["most_suspect"] = list_suspect_contents(suspects, ids)
    return CommandOutput(text, content, judgement.outcome.value)


def _find_errors(folder: Path) -> tuple[Predictions, LabelErrors]:
    """A run's predictions, and its label errors by `auto` with the decisions of reviewers."""
    from uqled.detect.find import find_label_errors
    from uqled.review.audits import collect_verdicts
    from uqled.storage.run import Run

    predictions = Run.open(folder).predictions()
    verdicts = collect_verdicts(predictions)
    return predictions, find_label_errors(predictions, verdicts=verdicts)
