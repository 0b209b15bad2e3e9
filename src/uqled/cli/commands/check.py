"""`uqled check`: a gate that fails where too many labels are wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.contents import describe_judgement_content
from uqled.cli.options import RunArgument

if TYPE_CHECKING:
    from uqled.detect.result import LabelErrors


def check(
    folder: RunArgument,
    max_error_rate: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="The largest share of wrong labels that passes, from 0 to 1, such as 0.03. "
            "Default: none, which needs --baseline.",
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Confidence of the interval of the error rate, between 0 and 1."
        ),
    ] = 0.8,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Judge each class by the same limit, too.")
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Fail where the error rate is above the interval of this earlier run. "
            "Default: none.",
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the checks to this file, as JUnit's XML. Default: none.",
        ),
    ] = None,
) -> CommandOutput:
    """Judge whether too many labels of a run are wrong, for CI.

    The exit code is 0 if the data passes, 1 if it fails, 2 if the command was used wrongly, and 3
    if the data cannot be judged. A check fails only where the lower end of the interval of the
    error rate is above the limit. Decisions of reviewers count. On GitHub, the summary of the job
    gets a table.

    Examples:
        uqled check runs/photos --max-error-rate 0.03
        uqled check runs/photos --max-error-rate 0.05 --confidence 0.95 --per-class
        uqled check runs/today --baseline runs/yesterday --junit check.xml
    """
    from uqled.check.judging import judge_labels
    from uqled.check.summaries import describe_judgement, render_junit, render_markdown
    from uqled.storage.atomic import check_target, replace_file

    if junit is not None:
        check_target(junit)
    judgement = judge_labels(
        _find_errors(folder),
        max_error_rate=max_error_rate,
        confidence=confidence,
        per_class=per_class,
        baseline=None if baseline is None else _find_errors(baseline),
    )
    if junit is not None:
        with replace_file(junit) as part:
            part.write_bytes(render_junit(judgement))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(render_markdown(judgement))
    content = describe_judgement_content(judgement)
    return CommandOutput(describe_judgement(judgement), content, judgement.outcome.value)


def _find_errors(folder: Path) -> LabelErrors:
    """A run's label errors as `auto` sees them, with the decisions of reviewers."""
    from uqled.detect.find import find_label_errors
    from uqled.review.decisions import read_verdicts
    from uqled.storage.run import Run

    predictions = Run.open(folder).predictions()
    return find_label_errors(predictions, method="auto", verdicts=read_verdicts(predictions))
