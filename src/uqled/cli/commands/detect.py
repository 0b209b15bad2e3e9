"""`uqled detect`: flags from predictions: those of a run, of files, or of files in parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.options import DecisionOptions, Method, OutputOptions, RayAddress, split_names
from uqled.errors import InputError


@dataclass(frozen=True)
class FileOptions:
    """Predictions in files, in place of a run."""

    panel: ClassVar[str] = "Data"

    labels: Annotated[
        str | None, typer.Option(help="Given labels: .npy, .npz, .csv, .parquet, .zarr.")
    ] = None
    pred_probs: Annotated[str | None, typer.Option(help="Probabilities [N,K].")] = None
    passes: Annotated[str | None, typer.Option(help="Stochastic passes [F,N,K].")] = None
    classes: Annotated[str | None, typer.Option(help="The columns, in order: cat,dog.")] = None


@dataclass(frozen=True)
class MethodOptions:
    """How the method works."""

    panel: ClassVar[str] = "Decision"

    method: Method = "auto"
    agreement: Annotated[int | None, typer.Option(help="Of alg-ens: how many of four.")] = None
    entropy_class: Annotated[str, typer.Option(help="Of cl-mcd-e: candidate, given.")] = "candidate"
    min_examples_per_class: Annotated[int, typer.Option(help="So many stay unflagged.")] = 1
    frac_noise: Annotated[float, typer.Option(help="Flag this part of each count.")] = 1.0


@dataclass(frozen=True)
class PartOptions:
    """Where and how a detection in parts works."""

    panel: ClassVar[str] = "Cluster"

    engine: Annotated[
        str | None, typer.Option(help="Where parts run: local (threads), ray (tasks).")
    ] = None
    workers: Annotated[int | None, typer.Option(help="Parts worked on at a time.")] = None
    ray_address: RayAddress = None
    part_rows: Annotated[int | None, typer.Option(help="Rows of a part.")] = None
    memory: Annotated[float | None, typer.Option(help="Gigabytes that all may take.")] = None
    plan: Annotated[bool, typer.Option("--plan", help="Say what parts would cost.")] = False

    def refuse_outside_parts(self) -> None:
        for name, value in vars(self).items():
            if value not in (None, False):
                raise InputError(
                    name,
                    f"is {value!r}, but this detection is not in parts",
                    "Name a folder as --out, and files or shards rather than a run",
                )


def detect(
    files: FileOptions,
    how: MethodOptions,
    decision: DecisionOptions,
    parts: PartOptions,
    output: OutputOptions,
    folder: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A finished run, in place of files.")
    ] = None,
    no_decisions: Annotated[
        bool, typer.Option("--no-decisions", help="Of a run: as if nobody had reviewed it.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(help="Default: one per core. Same result for any.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="Table: .csv, .parquet or .json. Of a run: its own. Or a folder (also s3://...): "
            "work part by part, and write the result in parts."
        ),
    ] = None,
) -> CommandOutput:
    """Flag wrong labels, given probabilities: those of a run, or of files.

    FILE::KEY names an array of an .npz or Zarr group, or a column of a table. Labels and
    probabilities may also be folders of .npy or Parquet shards, or addresses such as s3://...
    """
    from uqled.storage.run import check_issues_path

    options = vars(how) | {"progress": output.progress}
    if no_decisions and folder is None:
        raise InputError("no_decisions", "goes with a run only", "Leave it out, or name a run")
    if folder is None and out is not None and not Path(out).suffix:
        return _detect_in_parts(files, out, options, parts, decision, threads)
    parts.refuse_outside_parts()
    table = None if out is None else Path(out)
    if table is not None:
        check_issues_path(table)
    point = decision.operating_point()
    options["threads"] = threads
    if folder is None:
        return _detect_in_files(files, table, options | point)
    for name, value in vars(files).items():
        if value is not None:
            raise InputError(name, "are given beside a run, which has its own", "Pass one of both")
    return _detect_in_run(folder, options, point, table, use_decisions=not no_decisions)


def _detect_in_files(
    files: FileOptions, table: Path | None, options: dict[str, Any]
) -> CommandOutput:
    from uqled.answer import describe_answer
    from uqled.data.prediction_files import open_labels, open_probabilities
    from uqled.detect.find import find_label_errors
    from uqled.storage.run import write_issues

    if files.labels is None:
        raise InputError("labels", "are missing", "Pass --labels FILE, or name a run")
    errors = find_label_errors(
        open_labels(files.labels),
        None if files.pred_probs is None else open_probabilities(files.pred_probs, ndim=2),
        None if files.passes is None else open_probabilities(files.passes, ndim=3),
        classes=split_names(files.classes),
        **options,
    )
    text = describe_answer(errors.answer)
    if table is not None:
        write_issues(errors, table)
        text += f"\n\nAll {len(errors):,} samples are in {table}."
    return CommandOutput(text)


def _detect_in_parts(
    files: FileOptions,
    out: str,
    options: dict[str, Any],
    parts: PartOptions,
    decision: DecisionOptions,
    threads: int | None,
) -> CommandOutput:
    """Plan a detection in parts, refuse what cannot fit, and run it."""
    from uqled.detect.parts.cost import by_shapes, plan
    from uqled.detect.parts.prepare import prepare
    from uqled.detect.request import check_request, name_inputs
    from uqled.engines import engine_of
    from uqled.progress import Progress

    point = decision.operating_point()
    if files.labels is None:
        raise InputError("labels", "are missing", "Pass --labels with a file or a folder")
    if parts.ray_address is not None and parts.engine != "ray":
        raise InputError("ray_address", "goes with Ray only", "Add --engine ray")
    progress = options.pop("progress")
    request = check_request(given=name_inputs(files.pred_probs, files.passes), **options, **point)
    memory = None if parts.memory is None else int(parts.memory * 1e9)
    workers = threads if parts.workers is None else parts.workers
    with engine_of(parts.engine, workers=workers, address=parts.ray_address) as engine:
        prepared = prepare(
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
        by_shapes(prepared, engine).refuse_what_cannot_fit(out, memory)
        if parts.plan:
            planned = plan(prepared, engine)
            planned.refuse_what_cannot_fit(out, memory)
            return CommandOutput(planned.text())
        errors = prepared.run(engine, Progress(progress))
    return CommandOutput(
        f"{errors.summary()}\n\n"
        f"All {len(errors):,} samples are in {out}, one row each (folder issues)."
    )


def _detect_in_run(
    folder: Path,
    options: dict[str, Any],
    point: dict[str, Any],
    table: Path | None,
    *,
    use_decisions: bool,
) -> CommandOutput:
    """Detect, write the run's own table unless `table` names another file, and describe it.

    Where no operating point is asked for, it is the one that the run was asked for before.
    """
    from uqled.answer import describe_answer
    from uqled.detect.find import find_label_errors
    from uqled.detect.request import POINT_OPTIONS, check_request, name_inputs
    from uqled.review.decisions import read_verdicts
    from uqled.storage.run import Run, write_issues

    run = Run.open(folder)
    predictions = run.predictions()
    inputs = name_inputs(predictions.pred_probs, predictions.passes)
    detection = {k: v for k, v in options.items() if k not in ("threads", "progress")}
    request = check_request(given=inputs, **detection, **point)
    is_probabilistic = request.asks_for_probabilities
    if is_probabilistic and not any(value is not None for value in point.values()):
        last = run.detection()[1]
        point = {name: last[name] for name in POINT_OPTIONS if name in last}
        request = check_request(given=inputs, **detection, **point)
    verdicts = read_verdicts(predictions) if use_decisions else None
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
            "taken as certain, and the estimates of the rest follow them (--no-decisions: without)"
            if is_probabilistic
            else f"not used: {errors.method} knows no probabilities, auto does"
        )
        number = int((verdicts[0] > 0).sum())
        text = f"Reviewers' decisions so far ({number:,}) are {use}\n\n{text}"
    return CommandOutput(f"{text}\n\nAll {len(errors):,} samples are in {table}.")
