"""The command line: every command opens, calls and prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uqled import run
from uqled.errors import UqledError

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
Precision = Annotated[str | None, typer.Option(help="Of networks: auto, 32-true, bf16-mixed.")]
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


@app.callback()
def main() -> None:
    """Find wrong labels in classification data."""


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn what is wrong with the input into one line and exit code 2."""
    try:
        yield
    except UqledError as error:
        typer.secho(f"error: {error}.", fg="red", err=True)
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
    typer.echo(noise_summary(noisy))
    typer.echo(f"\nIn {out}: {', '.join(path.name for path in written)}")


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
    precision: Precision = None,
    seed: Seed = 0,
    label: Label = None,
    inputs: InputColumns = None,
    image_size: ImageSize = None,
    split: Split = None,
    limit: Limit = None,
    skip_unreadable: SkipUnreadable = False,
) -> None:
    """Predict every sample by a model that was not trained on it."""
    options = locals()
    with _refusing():
        loaded, found = _predictions(**options)
    _tell_skipped(loaded)
    typer.echo(f"{len(found):,} samples, {found.accuracy:.2%} predicted as labelled, in {out}")


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
    precision: Precision = None,
    seed: Seed = 0,
    label: Label = None,
    inputs: InputColumns = None,
    image_size: ImageSize = None,
    split: Split = None,
    limit: Limit = None,
    skip_unreadable: SkipUnreadable = False,
) -> None:
    """Find wrong labels in labelled data: predict, detect and report in one."""
    options = locals()
    from uqled.detect.find import find_label_errors
    from uqled.detect.methods import check_method
    from uqled.detect.summary import summary
    from uqled.report.page import report_run

    with _refusing():
        check_method(options.pop("method"), with_passes=uncertainty != "none")
        for name in ("target", "wanted_precision", "recall", "budget", "cost"):
            options.pop(name)
        point = _point(target, wanted_precision, recall, budget, cost)
        loaded, found = _predictions(**options)
        errors = find_label_errors(found, method=method, **point)
        folder = run.Run.open(out)
        folder.write_detection(errors.method, point)
        table = folder.write_issues(errors)
        page = report_run(out, data=loaded, top=60)
    _tell_skipped(loaded)
    typer.echo(f"{found.accuracy:.2%} of {len(found):,} samples are predicted as labelled\n")
    typer.echo(summary(errors, ids=found.ids, truth=found.truth))
    typer.echo(f"\nThe table of all samples is {table}")
    typer.echo(f"The report, to open in a browser, is {page}")


def _point(
    target: str | None,
    precision: float | None,
    recall: float | None,
    budget: int | None,
    cost: str | None,
) -> dict[str, Any]:
    """The operating point as `find_label_errors` takes it, refused now if there is no such."""
    from uqled.detect.probability import operating_point

    pair: Any = None if cost is None else tuple(cost.split(","))
    operating_point(target, precision, recall, budget, pair)
    names = ("target", "precision", "recall", "budget", "cost")
    return dict(zip(names, (target, precision, recall, budget, pair), strict=True))


def _tell_skipped(loaded: Dataset) -> None:
    if loaded.skipped:
        first, why = next(iter(loaded.skipped.items()))
        number = len(loaded.skipped)
        typer.echo(f"left out because unreadable: {number:,}, such as {first} ({why})\n")


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
    return loaded, cross_validate(loaded, out=out, seed=seed, progress=True, **options)


@app.command()
def detect(
    labels: Annotated[str, typer.Option(help="Given labels: .npy, .npz, .csv, .parquet, .zarr.")],
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
    threads: Threads = None,
    out: Annotated[Path | None, typer.Option(help="Table: .csv, .parquet or .json.")] = None,
) -> None:
    """Flag wrong labels, given probabilities.

    FILE::KEY names an array of an .npz or Zarr group, or a column of a table.
    """
    from uqled.data.files import open_labels, open_probabilities
    from uqled.detect.find import find_label_errors
    from uqled.detect.summary import summary

    with _refusing():
        if out is not None:
            run.check_issues_path(out)
        errors = find_label_errors(
            open_labels(labels),
            None if pred_probs is None else open_probabilities(pred_probs, ndim=2),
            None if passes is None else open_probabilities(passes, ndim=3),
            method=method,
            **_point(target, precision, recall, budget, cost),
            agreement=agreement,
            entropy_class=entropy_class,  # type: ignore[arg-type]
            min_examples_per_class=min_examples_per_class,
            frac_noise=frac_noise,
            classes=None if classes is None else classes.split(","),
            threads=threads,
            progress=True,
        )
        if out is not None:
            run.write_issues(errors, out)
    typer.echo(summary(errors))
    if out is not None:
        typer.echo(f"\nAll {len(errors):,} samples are in {out}.")


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

    with _refusing():
        page = report_run(folder, out, method=method, top=top)
    typer.echo(f"The report, to open in a browser, is {page}")


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
        typer.echo(described(plan))
        if dry_run:
            typer.echo("\nNothing was written (--dry-run).")
            return
        written = write(plan, out, link=link, url=url, overwrite=overwrite, progress=True)
    typer.echo(f"\nWritten: {', '.join(map(str, written))}")


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
    typer.echo(import_summary(done, dry_run=dry_run))


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
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: one per core.")] = None,
) -> None:
    """Compare methods where the truth is known: the paper's two-stage benchmark."""
    from uqled.bench.cells import Cells
    from uqled.bench.running import Benchmark, run_benchmark
    from uqled.bench.running import plan as planned
    from uqled.bench.suite import read_suite

    with _refusing():
        benchmark = Benchmark(read_suite(suite), data, out, only, everyone)
        for folder in merge or []:
            typer.echo(f"{Cells(out).merge(folder)} cells taken over from {folder}")
        if plan:
            typer.echo(planned(benchmark, pilot=pilot, jobs=jobs).text())
            return
        _, written = run_benchmark(benchmark, pilot=pilot, jobs=jobs)
    typer.echo(f"In {out}: {', '.join(str(path.relative_to(out)) for path in written)}")


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
        typer.echo(run_demo(out, seed=seed))
