"""`uqled find`: from labelled data to flags, a table and a report."""

from __future__ import annotations

from uqled.cli.console import CommandOutput
from uqled.cli.contents import describe_answer_content
from uqled.cli.data_options import DataArgument, DataOptions
from uqled.cli.model_options import FoldOptions, ModelOptions
from uqled.cli.options import DecisionOptions, MethodName, OutputOptions, RunFolder, Seed
from uqled.cli.predicting import load_and_predict
from uqled.detect.methods.registry import ALL, DEFAULT_METHOD


def find(
    data: DataArgument,
    data_options: DataOptions,
    model: ModelOptions,
    decision: DecisionOptions,
    cluster: FoldOptions,
    output: OutputOptions,
    out: RunFolder = None,
    method: MethodName = DEFAULT_METHOD,
    seed: Seed = 0,
) -> CommandOutput:
    """Find wrong labels in your data.

    A model predicts each sample after training on the others. Labels that contradict the
    predictions are flagged, and a table and a report are written to the folder of the run.

    Examples:
        uqled find photos/
        uqled find reviews.csv --label sentiment --out runs/reviews
        uqled find photos/ --model resnet50 --epochs 30 --device cuda
        uqled find iris.csv --label species --budget 50 --json
    """
    from uqled.answer import describe_answer
    from uqled.detect.find import find_label_errors
    from uqled.detect.request import check_request
    from uqled.report.page import write_report
    from uqled.storage.run import Run

    point = decision.operating_point()
    request = check_request(method, inputs=model.name_inputs(), **point)
    samples, predictions = load_and_predict(
        data, out, data_options, model, cluster, output, seed=seed
    )
    errors = find_label_errors(
        predictions, method=ALL, headline=method, progress=output.progress, **point
    )
    run = Run.open(predictions.path)
    with output.stage("writing the table"):
        table = run.write_result(errors, request.options)
    unlabelled_path = run.unlabelled_path if run.unlabelled_path.exists() else None
    with output.stage("writing the report"):
        page = write_report(
            errors, predictions.path / "report.html", predictions, top=60, samples=samples
        )
    metrics = errors.measure_methods(predictions.truth)
    text = describe_answer(errors.answer, ids=predictions.ids, metrics=metrics)
    lines = [
        f"{text}\n",
        f"The table of all samples is {table}",
        f"The report, to open in a browser, is {page}",
    ]
    if len(errors.suspects):
        lines.append(f"To decide about the flagged samples: uqled review {predictions.path}")
    if unlabelled_path is not None:
        n = len(samples.unlabelled)
        lines.insert(1, f"The {n:,} samples without a label are predicted in {unlabelled_path}")
    return CommandOutput(
        "\n".join(lines),
        describe_answer_content(
            errors.answer,
            ids=predictions.ids,
            metrics=metrics,
            run=predictions.path,
            table=table,
            report=page,
            unlabelled=unlabelled_path,
            findings=run.findings(),
        ),
    )
