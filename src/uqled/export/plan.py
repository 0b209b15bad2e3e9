"""`uqled export`: plan the export of a run's samples, and write it in one of the formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uqled.data.reopening import relocate_source
from uqled.detect.find import find_errors_in_run
from uqled.errors import InputError
from uqled.export import targets
from uqled.export.corrections import Unreviewed, correct_labels
from uqled.export.export_format import (
    ExportFormat,
    ExportPlan,
    WriteOptions,
    check_options,
)
from uqled.export.formats import EXPORT_FORMATS
from uqled.export.record import mark_unfinished, name_record, write_record
from uqled.export.source_samples import SourceSamples, is_table, read_source_samples
from uqled.progress import Progress
from uqled.review.audits import collect_verdicts
from uqled.review.decisions import read_decisions
from uqled.review.decisions.classes import read_run_classes
from uqled.storage.atomic import flush_to_disk, remove_leftovers, replace_file
from uqled.storage.run import Predictions, Run


def plan_export(
    run: Path | str,
    to: str,
    *,
    method: str | None = None,
    unreviewed: Unreviewed | None = None,
    data: Path | str | None = None,
) -> ExportPlan:
    """Plan the export of a run; nothing is written.

    Flags follow reviewers' decisions, as on the review page. `method` names whose flags: the one
    that the run was asked for, unless given. `unreviewed` says what happens to flagged samples
    without a decision: `keep` (the default), `drop` or `relabel`. `data` names where the samples
    are now, if they were moved. A sample whose file is gone is dropped.
    """
    form = EXPORT_FORMATS.load(to)()
    check_options(form, unreviewed=unreviewed)
    predictions = relocate_source(Run.open(run).predictions(), data)
    errors = find_errors_in_run(
        predictions, headline=method, verdicts=collect_verdicts(predictions)
    )
    decisions = read_decisions(predictions)
    samples = _read_samples(predictions, form)
    corrected = correct_labels(
        predictions.labels,
        errors,
        decisions,
        unreviewed=unreviewed or "keep",
        ids=predictions.ids,
        missing=[] if samples is None else samples.missing,
        classes=read_run_classes(predictions),
    )
    if not len(corrected.rows):
        raise InputError(
            "unreviewed", f"is {unreviewed!r}, and no sample would stay", "Pass unreviewed='keep'"
        )
    return ExportPlan(form, predictions, errors, decisions, corrected, samples)


def check_export_target(
    plan: ExportPlan,
    out: Path,
    *,
    link: bool = False,
    url: str | None = None,
    overwrite: bool = False,
) -> None:
    """Refuse a target or options that the export cannot have, before anything is written."""
    targets.check_outside(out, plan.predictions.source)
    check_target_options(plan.format.name, out, link=link, url=url, overwrite=overwrite)


def check_target_options(
    to: str, out: Path, *, link: bool = False, url: str | None = None, overwrite: bool = False
) -> None:
    """The same checks as far as they need only the format, before the run and its samples are
    read."""
    form = EXPORT_FORMATS.load(to)()
    if form.file_endings:
        targets.check_file(out, form.file_endings, overwrite=overwrite)
    else:
        targets.check_folder(out)
        if overwrite:
            raise InputError(
                "overwrite", f"is not an option for {form.name}", "Name a new or empty folder"
            )
    check_options(form, link=link, url=url)


def write_export(
    plan: ExportPlan,
    out: Path | str,
    *,
    link: bool = False,
    url: str | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> list[Path]:
    """Write what was planned and the record of every change; returns what was written.

    A folder is built beside `out` and renamed. A file and its record are renamed one after the
    other: meanwhile the record says that it is unfinished.
    """
    out = Path(out)
    check_export_target(plan, out, link=link, url=url, overwrite=overwrite)
    options = WriteOptions(out, Progress(progress), link, url)
    note = {
        "to": plan.format.name,
        "run": str(plan.predictions.path.resolve()),
        "options": {"link": link} if "link" in plan.format.options else {},
    }
    if plan.format.file_endings:
        _write_file(plan, options, note)
    else:
        with targets.build_folder(out) as folder:
            note |= plan.format.write(plan, folder, options)
            write_record(*name_record(folder), plan.corrected, note)
    return [out, *name_record(out)]


def _write_file(plan: ExportPlan, options: WriteOptions, note: dict[str, Any]) -> None:
    out = options.out
    table, note_file = name_record(out)
    remove_leftovers(out.parent)
    # They are renamed in reverse: the data first, the note last.
    with (
        replace_file(note_file) as note_part,
        replace_file(table) as table_part,
        replace_file(out) as part,
    ):
        note |= plan.format.write(plan, part, options)
        write_record(table_part, note_part, plan.corrected, note)
        # A full disk is noticed while the old files are still there.
        for file in (part, table_part, note_part):
            flush_to_disk(file)
        mark_unfinished(note_part, note_file)


def _read_samples(predictions: Predictions, form: ExportFormat) -> SourceSamples | None:
    """The samples that this format needs; refused if they are not available."""
    source = predictions.source
    if form.needs == "labels":
        return None
    if form.needs == "table" and (source is None or not is_table(source)):
        return None
    samples = read_source_samples(predictions)
    if form.needs == "images" and samples.kind != "images":
        raise InputError(
            "to", f"writes a folder of images, but the data is {samples.kind}", "Export csv"
        )
    return samples
