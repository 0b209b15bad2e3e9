"""Finds label errors in data larger than memory: part by part, on an engine.

    labels, probabilities        parts (tasks)                    driver
    -----------------------------------------------------------------------------------
    sweep 1                      class counts and sums       ->   thresholds
    sweep 2                      pair counts                 ->   quotas
                                 counts by ranges of margins <->  bounds of the pairs' best
    sweep 3                      the best that a part has
                                 counts by ranges of margins <->  the pairs' cuts
                                 rows of the result          ->   numbers of flags

Everything that is sent is per class or per pair. Columns per sample stay in their part's file.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from uqled import arrays
from uqled.detect.core.rows import ProbabilityRows, align_to_chunks
from uqled.detect.core.sweeps import EntropyClass
from uqled.detect.find import get_class_names
from uqled.detect.methods.registry import DEFAULT_METHOD
from uqled.detect.parts.context import Part, TaskContext
from uqled.detect.parts.driver import Driver
from uqled.detect.parts.result import ErrorsInParts
from uqled.detect.parts.store import Store
from uqled.detect.request import DetectionRequest, check_request, name_inputs
from uqled.engines import Engine, make_engine
from uqled.progress import Progress
from uqled.storage.location import Location

#: Approximate size of a part: large enough that the overhead of a task does not matter, small
#: enough that losing one does not either.
_PART_BYTES = 512 * 2**20
_LEAST_PARTS, _LEAST_ROWS = 16, 4_096
#: For rows of this many bytes, reading is a large part of the work: then down to this many parts
#: are better than parts that read the same row group twice.
_LONG_ROW, _FEW_PARTS = 1_024, 4
#: Approximate bytes of a sample besides its probabilities, in arrays and files of its part.
_SAMPLE_BYTES = 300
#: Version of the temporary files: a detection begun with another version is not continued.
_FORMAT = 6


def find_label_errors_in_parts(
    labels: Any,
    pred_probs: Any = None,
    passes: Any = None,
    *,
    out: Any,
    engine: Engine | str = "local",
    workers: int | None = None,
    passes_kind: str | None = None,
    method: str | Sequence[str] = DEFAULT_METHOD,
    target: str | None = None,
    precision: float | None = None,
    recall: float | None = None,
    budget: int | None = None,
    cost: tuple[float, float] | None = None,
    agreement: int | None = None,
    entropy_class: EntropyClass = "candidate",
    min_examples_per_class: int = 1,
    frac_noise: float = 1.0,
    classes: Sequence[Any] | None = None,
    part_rows: int | None = None,
    progress: bool | None = None,
) -> ErrorsInParts:
    """Find wrong labels in shards, part by part, and write the result in parts.

    The flags are exactly those of `find_label_errors`, whatever the engine, the number of workers
    and the size of a part. A call that was killed continues when it is repeated. Options that are
    not listed below are those of `find_label_errors`.

    Parameters
    ----------
    labels, pred_probs, passes
        [N], [N,K] and [F,N,K]: paths or addresses of shards (a folder, a file, Zarr, `s3://...`),
        what `open_shards` returns for them, or arrays.
    out
        Folder of the result: a path, or an address such as `s3://bucket/result`. On a cluster, one
        that all machines see.
    engine
        Where tasks run: `"local"` (threads), `"ray"`, or an engine.
    workers
        How many tasks run at a time. Default: one per core.
    part_rows
        Rows in a part. Default: about half a gigabyte of probabilities.
    """
    request = check_request(
        method,
        inputs=name_inputs(pred_probs, passes),
        target=target,
        precision=precision,
        recall=recall,
        budget=budget,
        cost=cost,
        agreement=agreement,
        entropy_class=entropy_class,
        min_examples_per_class=min_examples_per_class,
        frac_noise=frac_noise,
        passes_kind=passes_kind,
    )
    with make_engine(engine, workers=workers) as workplace:
        detection = prepare(
            labels,
            pred_probs,
            passes,
            request,
            out=out,
            engine=workplace,
            classes=classes,
            part_rows=part_rows,
            progress=progress,
        )
        return detection.run(workplace, Progress(progress))


@dataclass(frozen=True)
class PreparedDetection:
    """A detection whose inputs were checked and whose parts are cut; nothing is written yet."""

    context: TaskContext
    fingerprint: dict[str, Any]
    rows: list[ProbabilityRows]
    parts: list[Part]

    def run(self, engine: Engine, progress: Progress) -> ErrorsInParts:
        """Begin, continue, or find it finished."""
        with Store.begin(self.context.store.place, self.fingerprint) as store:
            if store.is_finished:
                store.tidy()
            else:
                driver = Driver(engine, progress, self.parts, self.rows[0].shape[-2])
                store.finish(driver.run(self.context))
        return ErrorsInParts(store)

    def run_alone(self, part: Part, store: Store, engine: Engine) -> None:
        """Process one part as if it were the whole data, to plan the cost; the result is not
        used."""
        driver = Driver(engine, Progress(False), [part], part.stop - part.start, alone=True)
        driver.run(replace(self.context, store=store))


def prepare(
    labels: Any,
    pred_probs: Any,
    passes: Any,
    request: DetectionRequest,
    *,
    out: Any,
    engine: Engine,
    classes: Sequence[Any] | None = None,
    part_rows: int | None = None,
    progress: bool | None = None,
) -> PreparedDetection:
    """Open and check everything that can be checked without reading rows."""
    labels, softmax, stack = _open_inputs(labels, pred_probs, passes)
    rows = [
        ProbabilityRows(array, name=name, ndim=ndim)
        for array, name, ndim in ((softmax, "pred_probs", 2), (stack, "passes", 3))
        if array is not None
    ]
    shapes = {r.name: r.shape for r in rows}
    arrays.check_shapes_match(
        arrays.count_labels(labels), shapes.get("pred_probs"), shapes.get("passes")
    )
    parts = cut_in_parts(rows, part_rows)
    if classes is None:
        classes = get_class_names(softmax) or arrays.get_categories(labels)
    driver = Driver(engine, Progress(progress), parts, rows[0].shape[-2])
    values, names = driver.find_classes(labels, rows[0].n_classes, classes)
    F = 0 if stack is None else rows[-1].n_passes
    context = TaskContext(
        store=Store(Location.of(out)),
        labels=labels,
        softmax=softmax,
        passes=stack,
        values=values,
        names=names,
        request=request,
        plan=request.plan_sweeps(F, has_softmax=softmax is not None),
        n_passes=F,
    )
    point = request.point
    fingerprint = {
        "labels": _make_fingerprint(labels),
        "pred_probs": _make_fingerprint(softmax),
        "passes": _make_fingerprint(stack),
        "method": [choice.name for choice in request.choices],
        "entropy_class": request.entropy_class,
        "passes_kind": request.passes_kind,
        "min_examples_per_class": request.min_examples_per_class,
        "frac_noise": request.frac_noise,
        "classes": list(names),
        "point": [point.kind, point.value, point.missed_cost],
        "format": _FORMAT,
        "part_rows": parts[0].stop - parts[0].start,
    }
    return PreparedDetection(context, fingerprint, rows, parts)


def _open_inputs(*sources: Any) -> list[Any]:
    """Open labels, probabilities and passes that are addresses."""
    from uqled.storage.arrays.shards import open_shards, spare_page_cache

    return spare_page_cache(
        [
            open_shards(source, ndim=ndim, name=name)
            if isinstance(source, str | os.PathLike | Location)
            else source
            for source, ndim, name in zip(
                sources, (1, 2, 3), ("labels", "pred_probs", "passes"), strict=True
            )
        ]
    )


def cut_in_parts(rows: list[ProbabilityRows], part_rows: int | None) -> list[Part]:
    """Parts of about equal size, whole chunks each; their number does not depend on the engine."""
    N = rows[0].shape[-2]
    if part_rows is not None:
        size = arrays.check_whole_number(part_rows, "part_rows", low=1)
    else:
        row_bytes = sum(r.row_bytes for r in rows)
        size = _PART_BYTES // (row_bytes + _SAMPLE_BYTES)
        size = max(1, min(size, max(-(-N // _LEAST_PARTS), _LEAST_ROWS)))
        size = align_to_chunks(rows, size)
        if row_bytes >= _LONG_ROW:
            size = _align_to_groups(N, max(r.group_rows for r in rows), size)
    starts = range(0, N, size)
    return [Part(number, start, min(start + size, N)) for number, start in enumerate(starts)]


def _align_to_groups(N: int, group: int, size: int) -> int:
    """About `size` rows, chosen so that few parts begin in the middle of a row group: such a
    part must read the whole group before its rows."""
    if group <= size:
        return size - size % group
    if group * _FEW_PARTS <= N and group * _SAMPLE_BYTES <= _PART_BYTES:
        return group
    return max(size, -(-group // _FEW_PARTS))


def _make_fingerprint(source: Any) -> str | None:
    """Identifies an input; an array in memory is never recognised again."""
    if source is None:
        return None
    return str(getattr(source, "fingerprint", None) or uuid.uuid4())
