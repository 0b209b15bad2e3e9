"""The ways `uqled detect` works: on a run, on files, on files turned into a run, or part by
part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uqled.cli.console import CommandOutput
from uqled.cli.contents import describe_answer_content
from uqled.cli.data_options import OwnDataOptions
from uqled.cli.detection_options import FileOptions, PartOptions
from uqled.cli.options import DecisionOptions, OutputOptions, split_names
from uqled.errors import InputError


def is_folder(out: str | None) -> bool:
    """Whether `--out` names a folder, where detection works part by part, rather than a table."""
    return out is not None and not Path(out).suffix


def detect_in_new_run(
    files: FileOptions,
    data_options: OwnDataOptions,
    out: str | None,
    options: dict[str, Any],
    decision: DecisionOptions,
    output: OutputOptions,
) -> CommandOutput:
    """Make a run from predictions in files, and detect in it."""
    if out is None:
        option = "--data" if files.data is not None else "--run"
        raise InputError(
            "out", f"is missing, but {option} needs it", "Name the folder of the new run"
        )
    for line in _write_new_run(files, data_options, Path(out)):
        output.tell(line)
    return detect_in_run(Path(out), options, decision, None, use_decisions=False)


def _check_table(out: str | None) -> Path | None:
    from uqled.storage.issue_tables import check_issues_path

    if out is not None:
        check_issues_path(Path(out))
    return None if out is None else Path(out)


def _write_new_run(files: FileOptions, data_options: OwnDataOptions, out: Path) -> list[str]:
    """Make a run from the predictions in files; returns its findings in one line each."""
    from uqled.data.prediction_files import open_labels, open_probabilities
    from uqled.predict.own_predictions import make_run
    from uqled.storage.arrays.shards import split_key
    from uqled.storage.run import Run
    from uqled.terminal import escape_controls

    if files.pred_probs is None:
        raise InputError("pred_probs", "are missing", "Pass --pred-probs FILE")
    place, label = (None, None) if files.data is None else split_key(files.data)
    arguments = data_options.as_arguments()
    if label is not None:
        if data_options.label is not None:
            raise InputError("label", f"is also named in {files.data!r}", "Name it once")
        arguments["label"] = label
    predictions = make_run(
        None if files.labels is None else open_labels(files.labels),
        open_probabilities(files.pred_probs, ndim=2),
        None if files.passes is None else open_probabilities(files.passes, ndim=3),
        out=out,
        data=files.data if label is None else str(place),
        classes=split_names(files.classes),
        **({} if place is None else arguments),
    )
    run = Run.open(predictions.path)
    lines = [escape_controls(line) for line in run.findings()]
    if run.unlabelled_path.exists():
        lines.append(f"The samples without a label are predicted in {run.unlabelled_path}")
    return lines


def detect_in_files(
    files: FileOptions, out: str | None, options: dict[str, Any], decision: DecisionOptions
) -> CommandOutput:
    """Detect in arrays from files, and write the table if `--out` names one."""
    from uqled.answer import describe_answer
    from uqled.data.prediction_files import open_labels, open_probabilities
    from uqled.detect.find import find_label_errors
    from uqled.storage.issue_tables import write_issues

    table, point = _check_table(out), decision.operating_point()
    if files.labels is None:
        raise InputError("labels", "are missing", "Pass --labels FILE, or name a run")
    errors = find_label_errors(
        open_labels(files.labels),
        None if files.pred_probs is None else open_probabilities(files.pred_probs, ndim=2),
        None if files.passes is None else open_probabilities(files.passes, ndim=3),
        classes=split_names(files.classes),
        **options,
        **point,
    )
    text = describe_answer(errors.answer)
    if table is not None:
        write_issues(errors, table)
        text += f"\n\nAll {len(errors):,} samples are in {table}."
    return CommandOutput(text, describe_answer_content(errors.answer, table=table))


def detect_in_parts(
    files: FileOptions,
    out: str,
    options: dict[str, Any],
    parts: PartOptions,
    decision: DecisionOptions,
    threads: int | None,
) -> CommandOutput:
    """Plan a detection in parts, refuse what cannot fit, and run it."""
    from uqled.detect.parts.cost import estimate_cost, plan_cost
    from uqled.detect.parts.prepare import prepare
    from uqled.detect.request import check_request, name_inputs
    from uqled.engines import make_engine
    from uqled.progress import Progress

    point = decision.operating_point()
    if files.labels is None:
        raise InputError("labels", "are missing", "Pass --labels with a file or a folder")
    if parts.ray_address is not None and parts.engine != "ray":
        raise InputError("ray_address", "is for Ray only", "Add --engine ray")
    progress = options.pop("progress")
    request = check_request(inputs=name_inputs(files.pred_probs, files.passes), **options, **point)
    memory = None if parts.memory is None else int(parts.memory * 1e9)
    workers = threads if parts.workers is None else parts.workers
    with make_engine(parts.engine, workers=workers, address=parts.ray_address) as engine:
        detection = prepare(
            files.labels,
            files.pred_probs,
            files.passes,
            request,
            out=out,
            engine=engine,
            classes=split_names(files.classes),
            part_rows=parts.part_rows,
            progress=progress,
        )
        estimate_cost(detection, engine).refuse_what_cannot_fit(out, memory)
        if parts.plan:
            cost_plan = plan_cost(detection, engine)
            cost_plan.refuse_what_cannot_fit(out, memory)
            return CommandOutput(cost_plan.text(), {"plan": cost_plan.text()})
        errors = detection.run(engine, Progress(progress))
    return CommandOutput(
        f"{errors.summary()}\n\n"
        f"All {len(errors):,} samples are in {out}, one row each (folder issues).",
        describe_answer_content(errors.answer, folder=out),
    )


def detect_in_run(
    folder: Path,
    options: dict[str, Any],
    decision: DecisionOptions,
    out: str | None,
    *,
    use_decisions: bool,
) -> CommandOutput:
    """Detect in a run, write its own table unless `--out` names another file, and describe the
    result.

    Without an operating point, that of the run's last detection is used.
    """
    from uqled.answer import describe_answer
    from uqled.detect.find import find_label_errors
    from uqled.detect.methods.registry import DEFAULT_METHOD
    from uqled.detect.request import POINT_OPTIONS, check_request, name_inputs
    from uqled.review.audits import collect_verdicts
    from uqled.storage.issue_tables import write_issues
    from uqled.storage.run import Run

    table, point = _check_table(out), decision.operating_point()
    run = Run.open(folder)
    predictions = run.predictions()
    inputs = name_inputs(predictions.pred_probs, predictions.passes)
    detection = {k: v for k, v in options.items() if k not in ("threads", "progress")}
    request = check_request(inputs=inputs, **detection, **point)
    is_probabilistic = request.asks_for_probabilities
    if is_probabilistic and not any(value is not None for value in point.values()):
        last = run.detection()[1]
        point = {name: last[name] for name in POINT_OPTIONS if name in last}
        request = check_request(inputs=inputs, **detection, **point)
    verdicts = collect_verdicts(predictions) if use_decisions else None
    errors = find_label_errors(
        predictions, **options, **point, verdicts=verdicts if is_probabilistic else None
    )
    if table is None:
        table = run.write_result(errors, request.options)
    else:
        write_issues(errors, table, ids=predictions.ids)
    metrics = errors.measure_methods(predictions.truth)
    text = describe_answer(errors.answer, ids=predictions.ids, metrics=metrics)
    if verdicts is not None:
        use = (
            "taken as certain, and update the estimates of the rest (--no-decisions ignores them)"
            if is_probabilistic
            else f"not used: {errors.method} gives no probabilities, but {DEFAULT_METHOD} does"
        )
        number = int((verdicts[0] > 0).sum())
        text = f"Reviewers' decisions so far ({number:,}) are {use}\n\n{text}"
    return CommandOutput(
        f"{text}\n\nAll {len(errors):,} samples are in {table}.",
        describe_answer_content(
            errors.answer, ids=predictions.ids, metrics=metrics, run=folder, table=table
        ),
    )
