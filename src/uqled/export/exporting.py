"""`export`: plan what becomes of a run's samples, and write it in one of many forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import quote

from uqled.detect.find import find_errors_in_run
from uqled.detect.result import LabelErrors
from uqled.errors import InputError
from uqled.export import folders, huggingface, label_studio, places, tables
from uqled.export.cleaning import Cleaning, Flags, cleaning, summary
from uqled.export.record import mark_unfinished, record_paths, write_record
from uqled.export.samples import Samples, is_table, samples_of
from uqled.progress import Progress
from uqled.review.decisions import Decision, Decisions, has_decisions
from uqled.storage.atomic import flush_to_disk, remove_leftovers, replace_file
from uqled.storage.run import Predictions, Run

Kind = Literal["csv", "parquet", "folder", "huggingface", "label-studio", "fiftyone", "cleanlab"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: Kinds that show what is suspect: there, a flag changes nothing unless asked to.
_SHOWING = ("label-studio", "fiftyone", "cleanlab")
_FILES = {"csv": (".csv", ".tsv"), "parquet": (".parquet",), "cleanlab": (".csv", ".parquet")}
_IMAGES_ONLY = ("folder", "fiftyone")


@dataclass(frozen=True, eq=False)
class Plan:
    """What an export will do."""

    to: Kind
    predictions: Predictions
    errors: LabelErrors
    decisions: Mapping[int, Decision]
    cleaning: Cleaning
    samples: Samples | None
    """Of kinds that write the samples, or the columns of the table they came from."""


def planned(
    run: Path | str, to: str, *, method: str | None = None, flags: Flags | None = None
) -> Plan:
    """What an export of a run would do; nothing is written.

    `method` is any of `find_label_errors`, the one that the run was asked for unless given. `flags`
    is `"remove"` unless given, and `"keep"` for the kinds that show what is suspect.
    """
    if to not in KINDS:
        raise InputError("to", f"is {to!r}", f"Choose one of {', '.join(KINDS)}")
    kind: Kind = to
    if kind == "label-studio" and flags is not None:
        raise InputError("flags", "do not go with label-studio", "There, people decide")
    predictions = Run.open(run).predictions()
    errors = find_errors_in_run(predictions, headline=method)
    decisions = _decisions(predictions)
    flags = flags or ("keep" if kind in _SHOWING else "remove")
    done = cleaning(predictions.labels, errors, decisions, flags=flags, ids=predictions.ids)
    if not len(done.rows):
        raise InputError("flags", f"is {flags!r}, and no sample would stay", "Pass flags='keep'")
    return Plan(kind, predictions, errors, decisions, done, _samples(predictions, kind))


def described(plan: Plan) -> str:
    """What the export will do, in a few lines."""
    if plan.to != "label-studio":
        return summary(plan.cleaning)
    tasks = len(label_studio.task_rows(plan.errors, plan.decisions))
    return (
        f"{tasks:,} tasks: {plan.errors.n_flagged:,} samples flagged by {plan.errors.method}, "
        f"{len(plan.decisions):,} decided"
    )


def check_target(
    plan: Plan, out: Path, *, link: bool = False, url: str | None = None, overwrite: bool = False
) -> None:
    """Refuse a place or options that the export cannot have, before anything is done."""
    places.check_outside(out, plan.predictions.source)
    if plan.to in _FILES:
        places.check_file(out, _FILES[plan.to], overwrite=overwrite)
    else:
        places.check_folder(out)
    if overwrite and plan.to not in _FILES:
        raise InputError("overwrite", f"does not go with {plan.to}", "Name a new or empty folder")
    if link and plan.to not in _IMAGES_ONLY:
        raise InputError("link", f"does not go with {plan.to}", "It goes with folder and fiftyone")
    if url is not None and plan.to != "label-studio":
        raise InputError("url", f"does not go with {plan.to}", "It goes with label-studio")


def write(
    plan: Plan,
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
    check_target(plan, out, link=link, url=url, overwrite=overwrite)
    options = {"link": link} if plan.to in _IMAGES_ONLY else {}
    about = {"to": plan.to, "run": str(plan.predictions.path.resolve()), "options": options}
    if plan.to in _FILES:
        _write_file(plan, out, about)
        return [out, *record_paths(out)]
    with places.building(out) as folder:
        about |= _write_folder(plan, folder, out, link, url, Progress(progress))
        write_record(*record_paths(folder), plan.cleaning, about)
    return [out, *record_paths(out)]


def _write_file(plan: Plan, out: Path, about: dict[str, Any]) -> None:
    done, predictions = plan.cleaning, plan.predictions
    table, note = record_paths(out)
    remove_leftovers(out.parent)
    # They are renamed in reverse: the data first, the note last.
    with replace_file(note) as options, replace_file(table) as changes, replace_file(out) as part:
        if plan.to == "cleanlab":
            tables.write_cleanlab(part, done, predictions, plan.errors, set(plan.decisions))
        else:
            write_table = tables.write_csv if plan.to == "csv" else tables.write_parquet
            about["label"] = write_table(part, done, predictions, plan.samples)
        write_record(changes, options, done, about)
        for ready in (part, changes, options):  # a full disk is noticed while all is as it was
            flush_to_disk(ready)
        mark_unfinished(options, note)


def _write_folder(
    plan: Plan, folder: Path, out: Path, link: bool, url: str | None, progress: Progress
) -> dict[str, Any]:
    """Write one kind of folder; returns what the record should say of it."""
    samples, done = plan.samples, plan.cleaning
    assert samples is not None
    if plan.to == "folder":
        folders.write_class_folders(folder, done, samples, link=link, progress=progress)
    elif plan.to == "fiftyone":
        folders.write_fiftyone(
            folder, done, samples, plan.errors, set(plan.decisions), link=link, progress=progress
        )
    elif plan.to == "huggingface":
        label = huggingface.write_huggingface(folder, done, samples, progress=progress)
        return {"label": label}
    else:
        url = (
            f"{label_studio.LOCAL_FILES}{quote(out.resolve().name)}/images/" if url is None else url
        )
        tasks = label_studio.write_tasks(
            folder,
            plan.predictions,
            plan.errors,
            plan.decisions,
            samples,
            url=url,
            progress=progress,
        )
        return {"tasks": tasks, "options": {"url": url}}
    return {}


def _samples(predictions: Predictions, kind: Kind) -> Samples | None:
    """The samples that an export of this kind writes; refused where it cannot have them."""
    source = predictions.source
    if kind == "cleanlab" or (kind in _FILES and (source is None or not is_table(source))):
        return None
    samples = samples_of(predictions)
    if kind in _IMAGES_ONLY and samples.kind != "images":
        raise InputError("to", f"makes a folder of images, of {samples.kind}", "Export csv")
    return samples


def _decisions(predictions: Predictions) -> dict[int, Decision]:
    """What was decided so far; no file is made where nobody reviewed."""
    if not has_decisions(predictions):
        return {}
    with Decisions.of(predictions) as store:
        return store.current()
