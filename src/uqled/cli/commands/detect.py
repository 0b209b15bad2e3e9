"""`uqled detect`: flags from predictions: those of a run, of files, or of files in parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from uqled.cli.choices import Choices
from uqled.cli.console import CommandOutput
from uqled.cli.contents import describe_answer_content
from uqled.cli.options import (
    DecisionOptions,
    Engine,
    Method,
    OutputOptions,
    RayAddress,
    split_names,
)
from uqled.errors import InputError


@dataclass(frozen=True)
class FileOptions:
    """Predictions in files, in place of a run."""

    panel: ClassVar[str] = "Data (in place of a run)"

    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The given labels: .npy, .npz, .csv, .parquet or .zarr, or a folder of shards.",
        ),
    ] = None
    pred_probs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Out-of-sample probabilities, one row per sample and one column per class.",
        ),
    ] = None
    passes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Stochastic predictions of the same samples, with the axes pass, sample, class.",
        ),
    ] = None
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Names of the columns of the probabilities in their order, such as cat,dog. "
            "Default: the sorted labels.",
        ),
    ] = None
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="The samples themselves, in the same order, such as data.csv or "
            "data.csv::COLUMN with the column of labels. --out is then a run, on which report, "
            "review and export work. Default: no run is made.",
        ),
    ] = None


@dataclass(frozen=True)
class MethodOptions:
    """How the method works."""

    panel: ClassVar[str] = "Method"

    method: Method = "auto"
    agreement: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Flag what N of the four algorithms of alg-ens flag, from 2 to 4. Default: 3.",
        ),
    ] = None
    entropy_class: Annotated[
        str,
        Choices("candidate", "given"),
        typer.Option(help="Class whose entropy threshold cl-mcd-e compares a sample with."),
    ] = "candidate"
    min_examples_per_class: Annotated[
        int,
        typer.Option(metavar="N", help="Leave at least this many samples of a class unflagged."),
    ] = 1
    frac_noise: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Flag this share, from 0 to 1, of what the method would flag."
        ),
    ] = 1.0


@dataclass(frozen=True)
class PartOptions:
    """Where and how a detection in parts works."""

    panel: ClassVar[str] = "Cluster (where --out is a folder)"

    engine: Engine = None
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Work on N parts at a time. Default: one per core."),
    ] = None
    ray_address: RayAddress = None
    part_rows: Annotated[
        int | None,
        typer.Option(metavar="N", help="Rows of a part. Default: what fits in memory well."),
    ] = None
    memory: Annotated[
        float | None,
        typer.Option(
            metavar="GB", help="Refuse to begin if more gigabytes are needed. Default: no limit."
        ),
    ] = None
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what the detection would cost, and stop.")
    ] = False

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
        Path | None,
        typer.Argument(metavar="RUN", help="The folder of a finished run, in place of files."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Write the table of all samples to this file (.csv, .parquet or .json). A folder, "
            "also s3://..., makes the detection work part by part. Default: the run's own table.",
        ),
    ] = None,
    no_decisions: Annotated[
        bool, typer.Option("--no-decisions", help="Ignore what reviewers of the run have decided.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of threads, which changes the time but not the result. "
            "Default: one per core.",
        ),
    ] = None,
) -> CommandOutput:
    """Flag wrong labels, given predictions: those of a run, or of files.

    FILE::KEY names an array of an .npz or Zarr group, or a column of a table. Labels and
    probabilities may also be folders of .npy or Parquet shards, or addresses such as s3://...

    Examples:
        uqled detect runs/photos --budget 200
        uqled detect --labels labels.npy --pred-probs probs.npy --out issues.csv
        uqled detect --labels data.csv::label --pred-probs probs.npy --method cl-pbnr
        uqled detect --data data.csv::label --pred-probs probs.npy --out runs/mine
        uqled detect --labels s3://b/labels --pred-probs s3://b/probs --out s3://b/result --plan
    """
    from uqled.storage.run import check_issues_path

    options = vars(how) | {"progress": output.progress}
    if no_decisions and folder is None:
        raise InputError("no_decisions", "goes with a run only", "Leave it out, or name a run")
    if files.data is not None and folder is None:
        if out is None:
            raise InputError("out", "is missing beside --data", "Name the folder of the new run")
        parts.refuse_outside_parts()
        _make_run(files, Path(out))
        point = decision.operating_point()
        run_options = options | {"threads": threads}
        return _detect_in_run(Path(out), run_options, point, None, use_decisions=False)
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


def _make_run(files: FileOptions, out: Path) -> None:
    """Make a run of the predictions in files."""
    from uqled.data.prediction_files import open_labels, open_probabilities
    from uqled.predict.own_predictions import make_run
    from uqled.storage.arrays.shards import split_key

    if files.pred_probs is None:
        raise InputError("pred_probs", "are missing beside --data", "Pass --pred-probs FILE")
    place, label = split_key(str(files.data))
    make_run(
        None if files.labels is None else open_labels(files.labels),
        open_probabilities(files.pred_probs, ndim=2),
        None if files.passes is None else open_probabilities(files.passes, ndim=3),
        out=out,
        data=str(files.data) if label is None else str(place),
        classes=split_names(files.classes),
        label=label,
    )


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
    return CommandOutput(text, describe_answer_content(errors.answer, table=table))


def _detect_in_parts(
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
        raise InputError("ray_address", "goes with Ray only", "Add --engine ray")
    progress = options.pop("progress")
    request = check_request(given=name_inputs(files.pred_probs, files.passes), **options, **point)
    memory = None if parts.memory is None else int(parts.memory * 1e9)
    workers = threads if parts.workers is None else parts.workers
    with make_engine(parts.engine, workers=workers, address=parts.ray_address) as engine:
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
        estimate_cost(prepared, engine).refuse_what_cannot_fit(out, memory)
        if parts.plan:
            planned = plan_cost(prepared, engine)
            planned.refuse_what_cannot_fit(out, memory)
            return CommandOutput(planned.text(), {"plan": planned.text()})
        errors = prepared.run(engine, Progress(progress))
    return CommandOutput(
        f"{errors.summary()}\n\n"
        f"All {len(errors):,} samples are in {out}, one row each (folder issues).",
        describe_answer_content(errors.answer, folder=out),
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
    return CommandOutput(
        f"{text}\n\nAll {len(errors):,} samples are in {table}.",
        describe_answer_content(
            errors.answer, ids=predictions.ids, metrics=metrics, run=folder, table=table
        ),
    )
