"""Finding label errors in arrays that no machine holds: part by part, on an engine.

    labels, probabilities        parts (tasks)                    driver
    -----------------------------------------------------------------------------------
    sweep 1                      class counts and sums       ->   thresholds
    sweep 2                      pair counts                 ->   quotas
                                 counts by ranges of margins <->  bounds of the pairs' best
    sweep 3                      the best that a part has
                                 counts by ranges of margins <->  the pairs' cuts
                                 rows of the result          ->   numbers of flags

Everything that travels is per class or per pair. What is per sample stays in its part's file.
"""

from __future__ import annotations

import operator
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.detect.auto.estimate import Estimate
from uqled.detect.core.cuts import Cuts, find_cuts
from uqled.detect.core.joint import PairCounter, PairCounts, Quotas, calibrated, quotas
from uqled.detect.core.rows import ProbabilityRows, whole_chunks
from uqled.detect.core.sweeps import EntropyClass, Member, Statistics
from uqled.detect.find import column_names
from uqled.detect.methods import SOFTMAX, Choice, Ranking
from uqled.detect.parts import tasks
from uqled.detect.parts.auto_tasks import flagging, statistics_and_candidates, told
from uqled.detect.parts.store import Store
from uqled.detect.parts.tasks import Asked, Decided, Groups, Part, Tally, merged
from uqled.detect.request import DetectionRequest, check_request, name_inputs
from uqled.detect.summary import estimate_lines
from uqled.engines import Engine, engine_of
from uqled.errors import InputError
from uqled.places import Place
from uqled.progress import Progress

#: Of a part, about: large enough that a task's own cost does not matter, small enough that the
#: loss of one does not either.
_PART_BYTES = 512 * 2**20
_LEAST_PARTS, _LEAST_ROWS = 16, 4_096
#: Of rows of so many bytes, reading is a large part of the work. Then fewer parts are better than
#: parts that read the same twice, down to so many.
_LONG_ROW, _FEW_PARTS = 1_024, 4
#: About what a sample takes beside its probabilities, in arrays and files of its part.
_SAMPLE_BYTES = 300
#: Of asking the parts for a bound: it need not be the best there is.
_BOUND_ROUNDS = 4
#: Of what lies in the folder while it runs: one begun with another is not continued.
_FORMAT = 2


@dataclass(frozen=True)
class ErrorsInParts:
    """What detection found, as it lies in a folder: nothing is read before it is asked for."""

    store: Store

    @classmethod
    def open(cls, folder: Any) -> ErrorsInParts:
        """A finished detection."""
        return cls(Store.open(folder))

    @cached_property
    def about(self) -> dict[str, Any]:
        """What `result.json` says."""
        return self.store.result()

    def __len__(self) -> int:
        return int(self.about["samples"])

    def __repr__(self) -> str:
        n, N = self.n_flagged, len(self)
        return f"<ErrorsInParts {self.method}: {n:,} of {N:,} labels flagged ({n / N:.2%})>"

    @property
    def method(self) -> str:
        return str(self.about["method"])

    @property
    def n_flagged(self) -> int:
        return int(self.about["flagged"][self.method])

    @property
    def joint(self) -> Any:
        """[K,K] given x true: estimated numbers of samples (scipy.sparse above 2,000 classes)."""
        found = self.store.read_joint()
        K = int(found["shape"][0])
        return PairCounts(K, found["given"], found["true"], found["counts"]).matrix()

    def frames(self, columns: list[str] | None = None) -> Iterator[Any]:
        """The table, part by part, in the order of the samples."""
        for number in range(int(self.about["parts"])):
            yield self.store.read_issues(number, columns)

    def flagged(self) -> Any:
        """The rows of the flagged samples as one pandas frame, most suspect first."""
        import pandas as pd

        found = pd.concat([frame[frame["is_label_issue"]] for frame in self.frames()])
        return found.sort_values(
            ["votes", "label_score", "index"], ascending=[False, True, True], ignore_index=True
        )

    def mask(self) -> NDArray[np.bool_]:
        """[N] True = flagged."""
        column = "is_label_issue"
        return np.concatenate([f[column].to_numpy(np.bool_) for f in self.frames([column])])

    def table(self) -> Any:
        """All rows as one `pyarrow.dataset.Dataset`, which reads what a query needs."""
        import pyarrow.dataset as ds

        issues = self.store.place / "issues"
        if issues.is_local:
            return ds.dataset(issues.path, format="parquet")
        import fsspec  # type: ignore[import-untyped]

        files, path = fsspec.core.url_to_fs(str(issues))
        return ds.dataset(path, filesystem=files, format="parquet")

    def _estimated(self, about: dict[str, Any]) -> list[str]:
        number, real, found = (
            None if about[name] is None else Estimate(**about[name])
            for name in ("number", "precision", "recall")
        )
        assert number is not None
        return estimate_lines(number, len(self), real, found, about["unsure"])

    def summary(self, *, pairs: int = 5, suspects: int = 10) -> str:
        """How many are flagged, the most confused pairs and the most suspect samples."""
        n, N, about = self.n_flagged, len(self), self.about
        lines = [f"{n:,} of {N:,} labels flagged ({n / N:.2%}) by {self.method}"]
        if about["estimate"] is not None:
            lines += self._estimated(about["estimate"])
        if len(about["flagged"]) > 1:
            lines += ["", "flagged by each method:"]
            lines += [f"  {number:>9,}  {name}" for name, number in about["flagged"].items()]
        if n:
            lines += ["", "most confused (given -> suggested):"]
            lines += [f"  {m:>9,}  {i} -> {j}" for i, j, m in about["confused"][:pairs]]
            lines += ["", "most suspect (index: given -> suggested):"]
            lines += [f"  {z:>9}  {i} -> {j}" for z, i, j in about["suspects"][:suspects]]
        return "\n".join(lines)


def find_label_errors_in_parts(
    labels: Any,
    pred_probs: Any = None,
    passes: Any = None,
    *,
    out: Any,
    engine: Engine | str = "local",
    workers: int | None = None,
    method: str = "auto",
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

    The flags are those of `find_label_errors`, to the sample, whatever the engine, its workers and
    the size of a part. A call that was killed continues when it is repeated.

    Parameters
    ----------
    labels, pred_probs, passes
        [N], [N,K] and [F,N,K]: addresses of shards as `uqled.data.shards.open_shards` takes them
        (a folder, a file, Zarr, `s3://...`), what that gives, or arrays.
    out
        Folder of the result: a path, or an address such as `s3://bucket/found`. On a cluster, one
        that all machines see.
    engine, workers
        Where tasks run: `"local"` (threads), `"ray"`, or an engine; and how many at a time.
    part_rows
        Rows of one task. Default: about half a gigabyte of probabilities.

    The other options are those of `find_label_errors`.
    """
    request = check_request(
        method,
        given=name_inputs(pred_probs, passes),
        target=target,
        precision=precision,
        recall=recall,
        budget=budget,
        cost=cost,
        agreement=agreement,
        entropy_class=entropy_class,
        min_examples_per_class=min_examples_per_class,
        frac_noise=frac_noise,
    )
    with engine_of(engine, workers=workers) as running:
        prepared = prepare(
            labels,
            pred_probs,
            passes,
            request,
            out=out,
            engine=running,
            classes=classes,
            part_rows=part_rows,
            progress=progress,
        )
        return prepared.run(running, Progress(progress))


@dataclass(frozen=True)
class Prepared:
    """A detection whose inputs were checked and whose parts are cut; nothing is written yet."""

    asked: Asked
    fingerprint: dict[str, Any]
    rows: list[ProbabilityRows]
    parts: list[Part]

    def run(self, engine: Engine, progress: Progress) -> ErrorsInParts:
        """Begin, continue, or find it finished."""
        with Store.begin(self.asked.store.place, self.fingerprint) as store:
            if store.is_finished:
                store.tidy()
            else:
                driver = _Driver(engine, progress, self.parts, self.rows[0].shape[-2])
                store.finish(driver.run(self.asked))
        return ErrorsInParts(store)

    def run_alone(self, part: Part, store: Store, engine: Engine) -> None:
        """Treat a part as if it were all, for the plan; nothing is done with what is found."""
        driver = _Driver(engine, Progress(False), [part], part.stop - part.start, alone=True)
        driver.run(replace(self.asked, store=store))


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
) -> Prepared:
    """Open and check everything that can be checked without reading rows."""
    labels, softmax, stack = _opened(labels, pred_probs, passes)
    rows = [
        ProbabilityRows(array, name=name, ndim=ndim)
        for array, name, ndim in ((softmax, "pred_probs", 2), (stack, "passes", 3))
        if array is not None
    ]
    shapes = {r.name: r.shape for r in rows}
    arrays.same_shape(arrays.n_labels(labels), shapes.get("pred_probs"), shapes.get("passes"))
    parts = cut_in_parts(rows, part_rows)
    if classes is None:
        classes = column_names(softmax) or arrays.categories(labels)
    driver = _Driver(engine, Progress(progress), parts, rows[0].shape[-2])
    values, names = driver.classes(labels, rows[0].n_classes, classes)
    F = 0 if stack is None else rows[-1].n_passes
    asked = Asked(
        store=Store(Place.of(out)),
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
        "labels": _fingerprint(labels),
        "pred_probs": _fingerprint(softmax),
        "passes": _fingerprint(stack),
        "method": [choice.name for choice in request.choices],
        "entropy_class": request.entropy_class,
        "min_examples_per_class": request.min_examples_per_class,
        "frac_noise": request.frac_noise,
        "classes": list(names),
        "point": [point.kind, point.value, point.missed],
        "format": _FORMAT,
        "part_rows": parts[0].stop - parts[0].start,
    }
    return Prepared(asked, fingerprint, rows, parts)


def _opened(*sources: Any) -> list[Any]:
    """Labels, probabilities and passes as arrays, where they are addresses."""
    from uqled.data.shards import open_shards, sparing_cache

    return sparing_cache(
        [
            open_shards(source, ndim=ndim, name=name)
            if isinstance(source, str | os.PathLike | Place)
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
        size = arrays.whole_number(part_rows, "part_rows", low=1)
    else:
        row_bytes = sum(r.row_bytes for r in rows)
        size = _PART_BYTES // (row_bytes + _SAMPLE_BYTES)
        size = max(1, min(size, max(-(-N // _LEAST_PARTS), _LEAST_ROWS)))
        size = whole_chunks(rows, size)
        if row_bytes >= _LONG_ROW:
            size = _whole_groups(N, max(r.group_rows for r in rows), size)
    starts = range(0, N, size)
    return [Part(number, start, min(start + size, N)) for number, start in enumerate(starts)]


def _whole_groups(N: int, group: int, size: int) -> int:
    """So many rows, or more, that few parts begin in the middle of a row group: who does reads all
    of the group before that."""
    if group <= size:
        return size - size % group
    if group * _FEW_PARTS <= N and group * _SAMPLE_BYTES <= _PART_BYTES:
        return group
    return max(size, -(-group // _FEW_PARTS))


def _fingerprint(source: Any) -> str | None:
    """What tells one input from another; an array in memory is never the same again."""
    if source is None:
        return None
    return str(getattr(source, "fingerprint", None) or uuid.uuid4())


@dataclass(frozen=True)
class _Driver:
    engine: Engine
    progress: Progress
    parts: list[Part]
    N: int
    alone: bool = False
    """These rows are a trial, and may be of one class."""

    def classes(
        self, labels: Any, K: int, classes: Sequence[Any] | None
    ) -> tuple[NDArray[Any], tuple[str, ...]]:
        """(values, names) of the classes: those given, the column numbers, or those that occur."""
        few = np.asarray(labels[: min(self.N, 1_000)])
        if classes is None and few.dtype.kind not in "iu":
            found = self._over_parts("labels", tasks.distinct, operator.or_, labels, K)
            few = np.array(sorted(found))
        known = arrays.as_labels(few, n_classes=K, classes=classes)
        return known.values, known.names

    def run(self, asked: Asked) -> dict[str, Any]:
        """Three sweeps and what lies between them; the content of `result.json`."""
        request, name = asked.request, "sweep 1 of 3, class statistics"
        with_auto = request.asks_for_probabilities
        limits = (
            self._over_parts(name, statistics_and_candidates, merged, asked, self.N)
            if with_auto
            else self._over_parts(name, tasks.class_statistics, merged, asked)
        )
        limits.settle()
        self._refuse_one_class(limits, asked)
        counted = self._over_parts(
            "sweep 2 of 3, confident joint",
            tasks.confident_joints,
            tasks.merged_counts,
            asked,
            limits,
        )
        joints: dict[Member, PairCounts] = {}
        numbers: dict[Member, Quotas] = {}
        for member, pairs in counted.items():
            counter = PairCounter(pairs.n_classes)
            counter.merge(pairs)
            joints[member] = calibrated(counter.pairs(), limits.class_counts)
            numbers[member] = quotas(
                joints[member],
                limits.class_counts,
                min_examples_per_class=request.min_examples_per_class,
                frac_noise=request.frac_noise,
            )
        groups = Groups({member: numbers[member].pairs for member in asked.plan.selecting})
        rankings = self._ranking_cuts(asked, limits, numbers)
        cuts = self._cuts(asked, groups)
        auto = levels = None
        if with_auto:
            auto, levels = flagging(self._over_parts, asked, self.N, joints, request.point)
        decided = Decided(numbers, joints, groups, cuts, rankings, auto)
        tally = self._over_parts(
            "writing the result", tasks.write_issues, merged, asked, limits, decided
        )
        headline = asked.request.headline
        member = headline.method.joint_member(asked.request.entropy_class)
        if headline.method.is_probabilistic and auto is not None:
            member = Member(auto.reader.source)
        joint = joints[member]
        K = joint.n_classes
        asked.store.write_joint((K, K), joint.given, joint.true, joint.counts)
        estimate = None if levels is None or auto is None else told(levels, auto, tally.real)
        return self._result(headline, asked, tally) | {"estimate": estimate}

    def _cuts(self, asked: Asked, groups: Groups) -> Cuts:
        """Each pair's cut.

        A bound comes first, from samples whose guess is not the label, known since sweep 2, so
        that sweep 3 keeps little. A pair that wants more than those has no bound yet: sweep 3 goes
        over a few parts, and what they keep is a bound for many more.
        """
        cuts = Cuts.at_first(groups.wanted)
        if not groups.quotas:
            return cuts
        bounds = find_cuts(
            groups.wanted,
            partial(self._over_parts, None, tasks.lead_round, merged, asked, groups),
            rounds=_BOUND_ROUNDS,
        ).least_values()
        with self.progress.stage("sweep 3 of 3, selection", self.N) as advance:
            for begin, end in self._waves():
                self.engine.reduce(
                    tasks.select,
                    self.parts[begin:end],
                    operator.add,
                    given=(asked, groups, bounds),
                    advance=lambda part: advance(part.stop - part.start),
                )
                so_far = replace(self, parts=self.parts[:end])
                cuts = find_cuts(
                    groups.wanted,
                    partial(so_far._over_parts, None, tasks.selection_round, merged, asked),
                    rounds=_BOUND_ROUNDS if end < len(self.parts) else None,
                )
                bounds = np.maximum(bounds, cuts.least_values())
        return cuts

    def _waves(self) -> list[tuple[int, int]]:
        """Parts that sweep 3 goes over at a time: up to a sixteenth of them, to four times as many
        and to the end, if there are more than can be worked on at a time."""
        n = len(self.parts)
        first = max(self.engine.workers, -(-n // 16))
        ends = sorted({min(end, n) for end in (first, 4 * first, n)})
        return list(zip([0, *ends], ends, strict=False))

    def _ranking_cuts(
        self, asked: Asked, limits: Statistics, numbers: dict[Member, Quotas]
    ) -> dict[Ranking, Cuts]:
        """Where rankings of all samples, or of all of a class, end."""
        found: dict[Ranking, Cuts] = {}
        for ranking in asked.plan.rankings:
            if ranking == "by-class":
                wanted = numbers[SOFTMAX].per_class
            else:
                number = self._over_parts(None, tasks.off_diagonal, operator.add, asked, limits)
                wanted = np.array([number], np.int64)
            ask = partial(
                self._over_parts, None, tasks.ranking_round, merged, asked, limits, ranking
            )
            found[ranking] = find_cuts(wanted, ask)
        return found

    def _over_parts(
        self, stage: str | None, task: Callable[..., Any], merge: Callable[..., Any], *given: Any
    ) -> Any:
        if stage is None:
            return self.engine.reduce(task, self.parts, merge, given=given)
        with self.progress.stage(stage, self.N) as advance:
            return self.engine.reduce(
                task,
                self.parts,
                merge,
                given=given,
                advance=lambda part: advance(part.stop - part.start),
            )

    def _refuse_one_class(self, limits: Statistics, asked: Asked) -> None:
        if np.count_nonzero(limits.class_counts) < 2 and not self.alone:
            only = asked.names[int(limits.class_counts.argmax())]
            raise InputError(
                "labels",
                f"contain one class only ({only!r}, {self.N} samples)",
                "Pass the whole data set: a wrong label can only be seen beside another class",
            )

    def _result(self, headline: Choice, asked: Asked, tally: Tally) -> dict[str, Any]:
        names, confused = asked.names, tally.confused
        order = np.argsort(-confused.counts, kind="stable")
        return {
            "samples": self.N,
            "parts": len(self.parts),
            "classes": list(names),
            "method": headline.name,
            "flagged": tally.flagged,
            "confused": [
                (names[confused.given[q]], names[confused.true[q]], int(confused.counts[q]))
                for q in order[:100]
            ],
            "suspects": [(z, names[i], names[j]) for _, _, z, i, j in tally.suspects],
        }
