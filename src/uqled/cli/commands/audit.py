"""`uqled audit`: how many labels are wrong, from verdicts on samples drawn at random."""

from __future__ import annotations

from typing import Annotated

import typer

from uqled.cli.console import CommandOutput
from uqled.cli.options import RunArgument, Seed


def audit(
    folder: RunArgument,
    size: Annotated[
        int,
        typer.Option(
            metavar="N", help="Draw N samples, unless an audit of the run has already begun."
        ),
    ] = 40,
    seed: Seed = 0,
) -> CommandOutput:
    """Estimate how many labels are wrong from samples that a person judges.

    The first time, this draws the samples and writes them to RUN/audit.csv. Write yes or no in the
    column is_wrong, or judge the same samples on the review page, then repeat the command. The
    estimate follows from how the samples were drawn, so it holds for any model. You can repeat the
    command after every verdict.

    Examples:
        uqled audit runs/photos
        uqled audit runs/photos --size 100 --seed 1
    """
    from uqled.detect.auto.audit import estimate_audit
    from uqled.detect.find import find_label_errors
    from uqled.review.audits import (
        collect_verdicts,
        find_settled_by_merges,
        open_audit,
        read_audit_verdicts,
    )
    from uqled.storage.run import Run

    run = Run.open(folder)
    predictions = run.predictions()
    errors = find_label_errors(predictions)
    verdicts = read_audit_verdicts(predictions)
    settled = find_settled_by_merges(predictions, errors)
    sample = open_audit(folder, errors, predictions.ids, size, seed, settled=settled)
    samples = sample.indices[~settled[sample.indices]].tolist()
    judged_indices = [z for z in samples if z in verdicts]
    file = folder / "audit.csv"
    files = {"audit": str(file)}
    content = {"samples": samples, "judged": len(judged_indices), "files": files}
    if not samples:
        text = (
            f"The {len(sample)} samples that were drawn for the audit are between merged classes, "
            f"so there is nothing to judge. Remove {folder / 'audit.json'} to draw others."
        )
        return CommandOutput(text, content)
    if not judged_indices:
        text = (
            f"{len(samples)} samples are drawn for the audit. Write yes or no in the column "
            f"is_wrong of {file}, or decide on the review page, then repeat the command."
        )
        return CommandOutput(text, content)
    result = estimate_audit(errors, sample, verdicts, settled=settled)
    after = find_label_errors(predictions, verdicts=collect_verdicts(predictions))
    n_flags = int((errors.mask & ~settled).sum())
    number, wide_number = result.n_errors[0.8], result.n_errors[0.95]
    precision, wide_precision = result.precision[0.8], result.precision[0.95]
    lines = [
        f"{result.n_judged} of {len(samples)} samples judged, {result.n_wrong} of them wrong",
        f"about {number.value:,.0f} labels are wrong "
        f"({number.value / len(predictions):.2%}); 80% interval {number.low:,.0f} to "
        f"{number.high:,.0f}, 95% interval {wide_number.low:,.0f} to {wide_number.high:,.0f}",
        f"about {precision.value:.0%} of the {n_flags:,} flags of {errors.method} are real; "
        f"80% interval {precision.low:.0%} to {precision.high:.0%}, "
        f"95% interval {wide_precision.low:.0%} to {wide_precision.high:.0%}",
        f"with these verdicts, {after.n_flagged:,} labels are flagged; "
        f"`uqled detect {folder}` writes them to the table",
        result.advice,
    ]
    content |= {
        "wrong": result.n_wrong,
        "flagged": after.n_flagged,
        "wrong_labels": {str(c): vars(one) for c, one in result.n_errors.items()},
        "precision": {str(c): vars(one) for c, one in result.precision.items()},
        "advice": result.advice,
    }
    return CommandOutput("\n".join(lines), content)
