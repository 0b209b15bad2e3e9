"""The command line: every command opens, calls and prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uqled import run
from uqled.errors import InputError, UqledError
from uqled.terminal import escape_controls, escape_message

if TYPE_CHECKING:
    from uqled.data.dataset import Dataset

app = typer.Typer(
    help="Find wrong labels in classification data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Data = Annotated[str, typer.Argument(help="Folder, file, archive, hf:NAME or digits.")]
RunFolder = Annotated[Path, typer.Option("--out", help="The run; a killed one continues there.")]
Model = Annotated[str, typer.Option(help="small, vgg11, resnet50, probe, logistic, forest, ...")]
Folds = Annotated[int, typer.Option(help="Each is predicted by a model trained on the others.")]
Passes = Annotated[int, typer.Option(help="Stochastic passes per sample.")]
Uncertainty = Annotated[str, typer.Option(help="mc-dropout, ensemble, bootstrap, members, none.")]
Epochs = Annotated[int | None, typer.Option(help="Of networks: passes over the data.")]
BatchSize = Annotated[int | None, typer.Option(help="Of networks: samples per step.")]
Rate = Annotated[float | None, typer.Option(help="Of networks: learning rate.")]
Preset = Annotated[str | None, typer.Option(help="Of networks: fast, paper or paper-mnist.")]
Device = Annotated[str | None, typer.Option(help="Of networks: auto, cpu, cuda or mps.")]
Devices = Annotated[int | None, typer.Option(help="Of networks: how many share a batch.")]
Precision = Annotated[str | None, typer.Option(help="Of networks: auto, 32-true, bf16-mixed.")]
FoldEngine = Annotated[
    str | None, typer.Option(help="Where folds run: local, one after the other, or ray, as tasks.")
]
FoldWorkers = Annotated[int | None, typer.Option(help="Of ray: folds computed at a time.")]
FoldCpus = Annotated[float, typer.Option(help="Of ray: cores that a fold asks for.")]
FoldGpus = Annotated[float, typer.Option(help="Of ray: GPUs that a fold asks for.")]
RayAddress = Annotated[str | None, typer.Option(help="Of a Ray cluster, such as auto.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]
Label = Annotated[str | None, typer.Option(help="Of a table: the column of labels.")]
InputColumns = Annotated[str | None, typer.Option(help="Of a table: input columns, a,b,c.")]
ImageSize = Annotated[int | None, typer.Option(help="Side in pixels that images are brought to.")]
Split = Annotated[str | None, typer.Option(help="Part of the data set: train, test, ...")]
Limit = Annotated[int | None, typer.Option(help="Use so many samples only.")]
SkipUnreadable = Annotated[bool, typer.Option(help="Go on without files that cannot be read.")]
Method = Annotated[str, typer.Option(help="auto, alg-ens, cl-mcd, cl-pbnr, ... or all.")]
Target = Annotated[str | None, typer.Option(help="Of auto: f1, which is the default.")]
Wanted = Annotated[float | None, typer.Option(help="Of auto: the most flags of this precision.")]
Recall = Annotated[float | None, typer.Option(help="Of auto: as few flags as reach this recall.")]
Budget = Annotated[int | None, typer.Option(help="Of auto: so many, the most worth a look.")]
Cost = Annotated[str | None, typer.Option(help="Of auto: of a review and of a miss: 1,20.")]
Threads = Annotated[int | None, typer.Option(help="Default: one per core. Same result for any.")]


def _print(text: str) -> None:
    """Print; names and texts from the data must not steer the terminal."""
    typer.echo(escape_message(text))


def _print_error(text: str) -> None:
    typer.secho(escape_message(text), fg="red", err=True)


@app.callback()
def main() -> None:
    """Find wrong labels in classification data."""


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn what is wrong with the input into one line and exit code 2."""
    try:
        yield
    except UqledError as error:
        _print_error(f"error: {error}.")
        raise typer.Exit(2) from None
    except OSError as error:  # a disk that is full or gone, rights that are missing
        where = f" {error.filename!r}" if error.filename else ""
        _print_error(f"error: the system refused{where} ({error.strerror or error})")
        raise typer.Exit(2) from None


@app.command()
def noise(
    labels: Annotated[str, typer.Option(help="Clean labels: .npy, .npz, .csv, .parquet, .zarr.")],
    out: Annotated[Path, typer.Option(help="Folder for labels, truth, matrices and picture.")],
    kind: Annotated[
        str,
        typer.Option(help="similarity, symmetric, pair, sparse, confusion, matrix or instance."),
    ] = "similarity",
    rate: Annotated[float | None, typer.Option(help="Share of wrong labels.")] = None,
    zeros: Annotated[float | None, typer.Option(help="Of sparse: impossible flips.")] = None,
    pred_probs: Annotated[str | None, typer.Option(help="Probabilities [N,K].")] = None,
    model_labels: Annotated[
        str | None, typer.Option(help="True labels of pred-probs, if of other samples.")
    ] = None,
    matrix: Annotated[Path | None, typer.Option(help="Of matrix: .csv or .json.")] = None,
    classes: Annotated[str | None, typer.Option(help="In order: cat,dog,ship.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same labels.")] = 0,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier run.")] = False,
) -> None:
    """Make labels wrong, and keep the truth.

    FILE::KEY names an array of an .npz or Zarr group, or a column of a table.
    """
    from uqled.data.files import open_labels, open_probabilities
    from uqled.noise.kinds import noise_of_kind
    from uqled.noise.transition import TransitionMatrix
    from uqled.report.noise import check_noise_folder, noise_summary, write_noise

    with _refusing():
        check_noise_folder(out, overwrite=overwrite)
        noisy = noise_of_kind(
            kind,
            open_labels(labels),
            rate=rate,
            zeros=zeros,
            pred_probs=None if pred_probs is None else open_probabilities(pred_probs, ndim=2),
            model_labels=None if model_labels is None else open_labels(model_labels),
            matrix=None if matrix is None else TransitionMatrix.load(matrix),
            classes=None if classes is None else classes.split(","),
            seed=seed,
        )
        written = write_noise(noisy, out, labels_file=labels, overwrite=overwrite)
    _print(noise_summary(noisy))
    _print(f"\nIn {out}: {', '.join(path.name for path in written)}")


@app.command()
def predict(
    data: Data,
    out: RunFolder,
    model: Model = "auto",
    folds: Folds = 4,
    passes: Passes = 5,
    uncertainty: Uncertainty = "auto",
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    lr: Rate = None,
    preset: Preset = None,
    device: Device = None,
    devices: Devices = None,
    precision: Precision = None,
    seed: Seed = 0,
    label: Label = None,
    inputs: InputColumns = None,
    image_size: ImageSize = None,
    split: Split = None,
    limit: Limit = None,
    skip_unreadable: SkipUnreadable = False,
    engine: FoldEngine = None,
    workers: FoldWorkers = None,
    cpus_per_fold: FoldCpus = 1,
    gpus_per_fold: FoldGpus = 0,
    ray_address: RayAddress = None,
) -> None:
    """Predict every sample by a model that was not trained on it."""
    options = locals()
    with _refusing():
        loaded, predictions = _predictions(**options)
    _tell_skipped(loaded)
    _print(
        f"{len(predictions):,} samples, {predictions.accuracy:.2%} predicted as labelled, in {out}"
    )


@app.command()
def find(
    data: Data,
    out: RunFolder,
    method: Method = "auto",
    target: Target = None,
    wanted_precision: Wanted = None,
    recall: Recall = None,
    budget: Budget = None,
    cost: Cost = None,
    model: Model = "auto",
    folds: Folds = 4,
    passes: Passes = 5,
    uncertainty: Uncertainty = "auto",
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    lr: Rate = None,
    preset: Preset = None,
    device: Device = None,
    devices: Devices = None,
    precision: Precision = None,
    seed: Seed = 0,
    label: Label = None,
    inputs: InputColumns = None,
    image_size: ImageSize = None,
    split: Split = None,
    limit: Limit = None,
    skip_unreadable: SkipUnreadable = False,
    engine: FoldEngine = None,
    workers: FoldWorkers = None,
    cpus_per_fold: FoldCpus = 1,
    gpus_per_fold: FoldGpus = 0,
    ray_address: RayAddress = None,
) -> None:
    """Find wrong labels in labelled data: predict, detect and report in one."""
    options = locals()
    from uqled.detect.answer import describe_answer, measure_methods
    from uqled.detect.find import find_label_errors
    from uqled.detect.request import check_request
    from uqled.report.page import write_report

    with _refusing():
        for name in ("method", "target", "wanted_precision", "recall", "budget", "cost"):
            options.pop(name)
        point = _point(target, wanted_precision, recall, budget, cost)
        given = ("pred_probs", "passes") if uncertainty != "none" else ("pred_probs",)
        check_request(method, given=given, **point)
        loaded, predictions = _predictions(**options)
        errors = find_label_errors(predictions, method="all", headline=method, **point)
        table = run.Run.open(out).write_result(errors, point)
        page = write_report(
            errors,
            out / "report.html",
            loaded,
            predictions.pred_probs,
            predictions.passes,
            top=60,
        )
    _tell_skipped(loaded)
    metrics = measure_methods(errors, predictions.truth)
    _print(describe_answer(errors.answer, ids=predictions.ids, metrics=metrics))
    _print(f"\nThe table of all samples is {table}")
    _print(f"The report, to open in a browser, is {page}")


def _point(
    target: str | None,
    precision: float | None,
    recall: float | None,
    budget: int | None,
    cost: str | None,
) -> dict[str, Any]:
    """The operating point as `find_label_errors` takes it, refused now if there is no such."""
    from uqled.detect.auto.estimate import operating_point

    pair: Any = None if cost is None else tuple(cost.split(","))
    operating_point(target, precision, recall, budget, pair)
    names = ("target", "precision", "recall", "budget", "cost")
    return dict(zip(names, (target, precision, recall, budget, pair), strict=True))


def _tell_skipped(loaded: Dataset) -> None:
    if loaded.skipped:
        first, why = next(iter(loaded.skipped.items()))
        number = len(loaded.skipped)
        shown = escape_controls(f"{first} ({why})")
        _print(f"left out because unreadable: {number:,}, such as {shown}\n")


def _predictions(
    data: str,
    out: Path,
    label: str | None,
    inputs: str | None,
    image_size: int | None,
    split: str | None,
    limit: int | None,
    skip_unreadable: bool,
    seed: int,
    cpus_per_fold: float,
    gpus_per_fold: float,
    ray_address: str | None,
    **options: Any,
) -> tuple[Dataset, run.Predictions]:
    """Load, then cross-validate."""
    from uqled.data import load
    from uqled.predict.crossval import cross_validate

    loaded = load(
        data,
        label=label,
        inputs=inputs.split(",") if inputs else None,
        image_size=image_size,
        split=split,
        limit=limit,
        seed=seed,
        skip_unreadable=skip_unreadable,
        progress=True,
    )
    options |= {"cpus": cpus_per_fold, "gpus": gpus_per_fold, "address": ray_address}
    return loaded, cross_validate(loaded, out=out, seed=seed, progress=True, **options)


@app.command()
def detect(
    folder: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A finished run, in place of files.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Given labels: .npy, .npz, .csv, .parquet, .zarr.")
    ] = None,
    pred_probs: Annotated[str | None, typer.Option(help="Probabilities [N,K].")] = None,
    passes: Annotated[str | None, typer.Option(help="Stochastic passes [F,N,K].")] = None,
    method: Method = "auto",
    target: Target = None,
    precision: Wanted = None,
    recall: Recall = None,
    budget: Budget = None,
    cost: Cost = None,
    agreement: Annotated[int | None, typer.Option(help="Of alg-ens: how many of four.")] = None,
    entropy_class: Annotated[str, typer.Option(help="Of cl-mcd-e: candidate, given.")] = (
        "candidate"
    ),
    min_examples_per_class: Annotated[int, typer.Option(help="So many stay unflagged.")] = 1,
    frac_noise: Annotated[float, typer.Option(help="Flag this part of each count.")] = 1.0,
    classes: Annotated[str | None, typer.Option(help="The columns, in order: cat,dog.")] = None,
    no_decisions: Annotated[
        bool, typer.Option("--no-decisions", help="Of a run: as if nobody had reviewed it.")
    ] = False,
    threads: Threads = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="Table: .csv, .parquet or .json. Of a run: its own. Or a folder (also s3://...): "
            "work part by part, and write the result in parts."
        ),
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Where parts run: local (threads), ray (tasks).")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Parts worked on at a time.")] = None,
    ray_address: Annotated[str | None, typer.Option(help="Of a Ray cluster, such as auto.")] = None,
    part_rows: Annotated[int | None, typer.Option(help="Rows of a part.")] = None,
    memory: Annotated[float | None, typer.Option(help="Gigabytes that all may take.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what parts would cost.")] = False,
) -> None:
    """Flag wrong labels, given probabilities: those of a run, or of files.

    FILE::KEY names an array of an .npz or Zarr group, or a column of a table. Labels and
    probabilities may also be folders of .npy or Parquet shards, or addresses such as s3://...
    """
    from uqled.data.files import open_labels, open_probabilities
    from uqled.detect.answer import describe_answer
    from uqled.detect.find import find_label_errors

    options = {
        "method": method,
        "agreement": agreement,
        "entropy_class": entropy_class,
        "min_examples_per_class": min_examples_per_class,
        "frac_noise": frac_noise,
        "threads": threads,
        "progress": True,
    }
    files = {"labels": labels, "pred_probs": pred_probs, "passes": passes, "classes": classes}
    how = {
        "engine": engine, "workers": workers, "ray_address": ray_address,
        "part_rows": part_rows, "memory": memory, "plan": plan or None,
    }  # fmt: skip
    in_parts = folder is None and out is not None and not Path(out).suffix
    with _refusing():
        if no_decisions and folder is None:
            raise InputError("no_decisions", "goes with a run only", "Leave it out, or name a run")
        if in_parts:
            del options["threads"]
            how["workers"] = threads if workers is None else workers
            point = _point(target, precision, recall, budget, cost)
            _detect_in_parts(files, str(out), options, how, point)
            return
        _refuse_outside_parts(how)
        table = None if out is None else Path(out)
        if table is not None:
            run.check_issues_path(table)
        point = _point(target, precision, recall, budget, cost)
        if folder is not None:
            _refuse_beside_run(files)
            text = _detect_in_run(folder, options, point, table, use_decisions=not no_decisions)
        elif labels is None:
            raise InputError("labels", "are missing", "Pass --labels FILE, or name a run")
        else:
            errors = find_label_errors(
                open_labels(labels),
                None if pred_probs is None else open_probabilities(pred_probs, ndim=2),
                None if passes is None else open_probabilities(passes, ndim=3),
                classes=None if classes is None else classes.split(","),
                **options,  # type: ignore[arg-type]
                **point,
            )
            text = describe_answer(errors.answer)
            if table is not None:
                run.write_issues(errors, table)
                text += f"\n\nAll {len(errors):,} samples are in {out}."
    _print(text)


def _refuse_outside_parts(how: dict[str, Any]) -> None:
    for name, value in how.items():
        if value is not None:
            raise InputError(
                name,
                f"is {value!r}, but this detection is not in parts",
                "Name a folder as --out, and files or shards rather than a run",
            )


def _detect_in_parts(
    files: dict[str, str | None],
    out: str,
    options: dict[str, Any],
    how: dict[str, Any],
    point: dict[str, Any],
) -> None:
    """Plan a detection in parts, refuse what cannot fit, and run it."""
    from uqled.detect.parts.cost import by_shapes, plan
    from uqled.detect.parts.prepare import prepare
    from uqled.detect.request import check_request, name_inputs
    from uqled.engines import engine_of
    from uqled.progress import Progress

    labels, classes = files["labels"], files["classes"]
    if labels is None:
        raise InputError("labels", "are missing", "Pass --labels with a file or a folder")
    if how["ray_address"] is not None and how["engine"] != "ray":
        raise InputError("ray_address", "goes with Ray only", "Add --engine ray")
    progress = options.pop("progress")
    given = name_inputs(files["pred_probs"], files["passes"])
    request = check_request(given=given, **options, **point)
    memory = None if how["memory"] is None else int(how["memory"] * 1e9)
    running = engine_of(how["engine"], workers=how["workers"], address=how["ray_address"])
    with running as engine:
        prepared = prepare(
            labels,
            files["pred_probs"],
            files["passes"],
            request,
            out=out,
            engine=engine,
            classes=None if classes is None else classes.split(","),
            part_rows=how["part_rows"],
            progress=progress,
        )
        by_shapes(prepared, engine).refuse_what_cannot_fit(out, memory)
        if how["plan"]:
            planned = plan(prepared, engine)
            _print(planned.text())
            planned.refuse_what_cannot_fit(out, memory)
            return
        errors = prepared.run(engine, Progress(True))
    _print(errors.summary())
    _print(f"\nAll {len(errors):,} samples are in {out}, one row each (folder issues).")


def _refuse_beside_run(files: dict[str, str | None]) -> None:
    for name, value in files.items():
        if value is not None:
            raise InputError(name, "are given beside a run, which has its own", "Pass one of both")


def _detect_in_run(
    folder: Path,
    options: dict[str, Any],
    point: dict[str, Any],
    out: Path | None,
    *,
    use_decisions: bool,
) -> str:
    """Detect, write the run's own table unless `out` names another file, and say what was found.

    Where no operating point is asked for, it is the one that the run was asked for before.
    """
    from uqled.detect.answer import describe_answer, measure_methods
    from uqled.detect.find import find_label_errors
    from uqled.detect.request import check_request, name_inputs
    from uqled.review.decisions import reviewed

    opened = run.Run.open(folder)
    predictions = opened.predictions()
    inputs = name_inputs(predictions.pred_probs, predictions.passes)
    request = check_request(options["method"], given=inputs, agreement=options["agreement"])
    knows = request.asks_for_probabilities
    if knows and not any(value is not None for value in point.values()):
        point = opened.detection()[1]
    verdicts = reviewed(predictions) if use_decisions else None
    errors = find_label_errors(
        predictions, **options, **point, verdicts=verdicts if knows else None
    )
    if out is None:
        out = opened.write_result(errors, point)
    else:
        run.write_issues(errors, out, ids=predictions.ids)
    metrics = measure_methods(errors, predictions.truth)
    text = describe_answer(errors.answer, ids=predictions.ids, metrics=metrics)
    if verdicts is not None:
        decided = f"Reviewers' decisions so far ({int((verdicts[0] > 0).sum()):,}) are"
        how = (
            "taken as certain, and the estimates of the rest follow them (--no-decisions: without)"
            if knows
            else f"not used: {errors.method} knows no probabilities, auto does"
        )
        text = f"{decided} {how}\n\n{text}"
    return f"{text}\n\nAll {len(errors):,} samples are in {out}."


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    out: Annotated[Path | None, typer.Option(help="HTML file. Default: RUN/report.html.")] = None,
    method: Annotated[
        str | None, typer.Option(help="Whose flags to show: alg-ens, cl-mcd, cl-pbnr, ...")
    ] = None,
    top: Annotated[int, typer.Option(help="How many of the most suspect to show.")] = 60,
) -> None:
    """Show what was found as one HTML file."""
    from uqled.report.page import report_run
    from uqled.review.decisions import reviewed

    with _refusing():
        verdicts = reviewed(run.Run.open(folder).predictions())
        page = report_run(folder, out, method=method, verdicts=verdicts, top=top)
    _print(f"The report, to open in a browser, is {page}")


@app.command()
def review(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    method: Annotated[
        str | None, typer.Option(help="Whose flags come first: alg-ens, cl-mcd, cl-pbnr, ...")
    ] = None,
    reviewer: Annotated[
        str | None, typer.Option(help="Name to decide under. Default: yours on this machine.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 lets others in.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int | None, typer.Option(help="Default: 8790, or a free one.")] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Decide about the flagged samples, on a page in the browser."""
    from uqled.review.serve import review as serve

    with _refusing():
        serve(
            folder, method=method, reviewer=reviewer, host=host, port=port, browser=not no_browser
        )


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    to: Annotated[
        str,
        typer.Option(help="csv, parquet, folder, huggingface, label-studio, fiftyone or cleanlab."),
    ],
    out: Annotated[Path, typer.Option(help="File or folder to write.")],
    method: Annotated[
        str | None, typer.Option(help="Whose flags: alg-ens, cl-mcd, cl-pbnr, ...")
    ] = None,
    flags: Annotated[
        str | None,
        typer.Option(help="What a flag does where nobody decided: remove, relabel or keep."),
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="Of images: links, not copies.")] = False,
    url: Annotated[
        str | None, typer.Option(help="Of label-studio: what precedes an image's name.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is there.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, write nothing.")
    ] = False,
) -> None:
    """Write cleaned data: decisions applied, and a method's flags where none was made.

    Sources stay as they are. A record of every change is written beside the data.
    """
    from uqled.export.exporting import check_target, described, planned, write

    with _refusing():
        plan = planned(folder, to, method=method, flags=flags)  # type: ignore[arg-type]
        check_target(plan, out, link=link, url=url, overwrite=overwrite)
        _print(described(plan))
        if dry_run:
            _print("\nNothing was written (--dry-run).")
            return
        written = write(plan, out, link=link, url=url, overwrite=overwrite, progress=True)
    _print(f"\nWritten: {', '.join(map(str, written))}")


@app.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    annotations: Annotated[
        Path, typer.Argument(help="What Label Studio exports as JSON or JSON-MIN.")
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace decisions that differ.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be decided, write nothing.")
    ] = False,
) -> None:
    """Make decisions of annotations: the way back from `export --to label-studio`."""
    from uqled.export.annotations import import_annotations, import_summary

    with _refusing():
        predictions = run.Run.open(folder).predictions()
        done = import_annotations(annotations, predictions, overwrite=overwrite, dry_run=dry_run)
    _print(import_summary(done, dry_run=dry_run))


@app.command()
def bench(
    suite: Annotated[str, typer.Argument(help="smoke, laptop, paper, or a .toml file.")],
    out: Annotated[Path, typer.Option(help="The cells, tables and page; a killed one continues.")],
    data: Annotated[Path, typer.Option(help="Folder of the suite's data sets.")] = Path(),
    plan: Annotated[bool, typer.Option("--plan", help="Say what it would cost, and stop.")] = False,
    pilot: Annotated[
        bool, typer.Option("--pilot", help="Only the pilot on the test sets.")
    ] = False,
    everyone: Annotated[
        bool, typer.Option("--all", help="Keep methods that lost the pilot to the baseline.")
    ] = False,
    only: Annotated[str, typer.Option(help="Cells to compute here, such as 'mnist/*'.")] = "*",
    merge: Annotated[
        list[Path] | None, typer.Option(help="Take over the cells finished in this folder.")
    ] = None,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Tables of the cells there are; needs no data.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: one per core.")] = None,
) -> None:
    """Compare methods where the truth is known: the paper's two-stage benchmark."""
    from uqled.bench.cells import Cells
    from uqled.bench.planning import plan as planned
    from uqled.bench.running import Benchmark, run_benchmark, write_tables
    from uqled.bench.suite import read_suite

    with _refusing():
        benchmark = Benchmark(read_suite(suite), data, out, only, everyone)
        for folder in merge or []:
            _print(f"{Cells(out).merge(folder)} cells taken over from {folder}")
        if plan:
            _print(planned(benchmark, pilot=pilot, jobs=jobs).text())
            return
        if tables_only:
            _, written = write_tables(benchmark)
        else:
            _, written = run_benchmark(benchmark, pilot=pilot, jobs=jobs)
    _print(f"In {out}: {', '.join(str(path.relative_to(out)) for path in written)}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run and its report.")] = Path(
        "demo-output"
    ),
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
) -> None:
    """Find wrong labels in scikit-learn's digits, where the truth is known."""
    from uqled.demo import demo as run_demo

    with _refusing():
        _print(run_demo(out, seed=seed))
