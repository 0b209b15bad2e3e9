"""The driver: merges the results of the parts, and runs the next tasks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.answer import MAX_PAIRS, Answer, Tier, are_counts_at_chance
from uqled.detect.core.class_statistics import ClassStatistics
from uqled.detect.core.cuts import Cuts, find_cuts
from uqled.detect.core.joint import (
    PairCounter,
    PairCounts,
    Quotas,
    calibrate_joint,
    compute_quotas,
    rank_confused_pairs,
)
from uqled.detect.core.sweeps import Member
from uqled.detect.methods.method import SOFTMAX, Ranking
from uqled.detect.parts import part_results, tasks
from uqled.detect.parts.auto_tasks import (
    collect_statistics_and_candidates,
    estimate_flags,
    estimate_tiers,
    find_auto_flags,
)
from uqled.detect.parts.context import Part, TaskContext
from uqled.detect.parts.part_results import GlobalResults, Tally
from uqled.detect.parts.tasks import JointCounts, PairGroups, merge_results
from uqled.engines import Engine
from uqled.errors import InputError
from uqled.progress import Progress

#: Rounds of the search for a bound, which need not be the best one.
_BOUND_ROUNDS = 4


@dataclass(frozen=True)
class Driver:
    engine: Engine
    progress: Progress
    parts: list[Part]
    N: int
    alone: bool = False
    """Whether these rows are only a trial, which may contain a single class."""

    def find_classes(
        self, labels: Any, K: int, classes: Sequence[Any] | None
    ) -> tuple[NDArray[Any], tuple[str, ...]]:
        """(values, names) of the classes: those given, the column numbers, or those that occur."""
        sample = np.asarray(labels[: min(self.N, 1_000)])
        if classes is None and sample.dtype.kind not in "iu":
            values = self._map_parts("labels", tasks.find_distinct_labels, operator.or_, labels, K)
            sample = np.array(sorted(values))
        class_labels = arrays.encode_labels(sample, n_classes=K, classes=classes)
        return class_labels.values, class_labels.names

    def run(self, context: TaskContext) -> dict[str, Any]:
        """Run the three sweeps and the steps between them; returns the content of `result.json`."""
        request, name = context.request, "sweep 1 of 3, class statistics"
        with_auto = request.asks_for_probabilities
        statistics = (
            self._map_parts(name, collect_statistics_and_candidates, merge_results, context, self.N)
            if with_auto
            else self._map_parts(name, tasks.collect_part_statistics, merge_results, context)
        )
        statistics.compute_thresholds()
        self._refuse_one_class(statistics, context)
        joint_counts: JointCounts = self._map_parts(
            "sweep 2 of 3, confident joint",
            tasks.count_part_joints,
            merge_results,
            context,
            statistics,
        )
        joints: dict[Member, PairCounts] = {}
        numbers: dict[Member, Quotas] = {}
        for member, pairs in joint_counts.pairs.items():
            counter = PairCounter(pairs.n_classes)
            counter.merge(pairs)
            joints[member] = calibrate_joint(counter.get_joint(), statistics.class_counts)
            numbers[member] = compute_quotas(
                joints[member],
                statistics.class_counts,
                min_examples_per_class=request.min_examples_per_class,
                frac_noise=request.frac_noise,
            )
        groups = PairGroups(
            {member: numbers[member].pairs for member in context.plan.selecting_members}
        )
        rankings = self._find_ranking_cuts(context, statistics, numbers)
        cuts = self._find_cuts(context, groups)
        auto = levels = None
        if with_auto:
            auto, levels = find_auto_flags(self._map_parts, context, self.N, joints, request.point)
        right = joint_counts.right
        at_chance = {
            name: are_counts_at_chance(statistics.class_counts, counts)
            for name, counts in right.items()
        }
        results = GlobalResults(numbers, joints, at_chance, groups, cuts, rankings, auto)
        tally: Tally = self._map_parts(
            "writing the result",
            part_results.write_part_issues,
            merge_results,
            context,
            statistics,
            results,
        )
        headline = request.headline
        source = headline.method.choose_source(None if auto is None else auto.source)
        joint = joints[headline.method.joint_member(request.entropy_class, source)]
        K = joint.n_classes
        context.store.write_joint((K, K), joint.given, joint.true, joint.counts)
        n_errors = precision = recall = doubt = None
        tiers: list[Tier] = []
        if levels is not None and auto is not None:
            n_errors, precision, recall, doubt = estimate_flags(levels, auto, tally.flag_sums)
            tiers = estimate_tiers(levels, auto, tally.tiers)
        names = context.names
        answer = Answer(
            method=headline.name,
            n_samples=self.N,
            flags_by_method=tally.flags_by_method,
            n_errors=n_errors,
            precision=precision,
            recall=recall,
            unsure=doubt,
            tiers=tiers,
            n_off_diagonal=int(joint.counts[joint.given != joint.true].sum()),
            n_as_predicted={name: int(counts.sum()) for name, counts in right.items()},
            confused_pairs=[
                (names[i], names[j], number)
                for i, j, number in rank_confused_pairs(tally.pair_counts)[:MAX_PAIRS]
            ],
            most_suspect=tally.suspects,
        )
        if at_chance[source]:
            answer = answer.withhold_estimates()
        return {"parts": len(self.parts), "classes": list(names), **answer.to_json()}

    def _find_cuts(self, context: TaskContext, groups: PairGroups) -> Cuts:
        """Find each pair's cut.

        First comes a bound, from the samples whose predicted class differs from the label (known
        since sweep 2), so that sweep 3 keeps few samples. A pair that wants more than those has no
        bound yet: for it, sweep 3 processes a few parts first, which give a bound for the rest.
        """
        cuts = Cuts.start(groups.counts)
        if not groups.quotas:
            return cuts
        bounds = find_cuts(
            groups.counts,
            partial(self._map_parts, None, tasks.count_bound_round, merge_results, context, groups),
            rounds=_BOUND_ROUNDS,
        ).get_lower_bounds()
        with self.progress.stage("sweep 3 of 3, selection", self.N) as advance:
            for begin, end in self._split_waves():
                self.engine.reduce(
                    tasks.select_part_samples,
                    self.parts[begin:end],
                    operator.add,
                    arguments=(context, groups, bounds),
                    advance=lambda part: advance(part.stop - part.start),
                )
                so_far = replace(self, parts=self.parts[:end])
                cuts = find_cuts(
                    groups.counts,
                    partial(
                        so_far._map_parts,
                        None,
                        tasks.count_selection_round,
                        merge_results,
                        context,
                    ),
                    rounds=_BOUND_ROUNDS if end < len(self.parts) else None,
                )
                bounds = np.maximum(bounds, cuts.get_lower_bounds())
        return cuts

    def _split_waves(self) -> list[tuple[int, int]]:
        """The waves of parts in sweep 3: if there are more parts than workers, first a sixteenth of
        them, then four times as many, then the rest. The first two keep every worker busy."""
        n, workers = len(self.parts), self.engine.workers
        first = workers * -(-n // (16 * workers))
        ends = sorted({min(end, n) for end in (first, 4 * first, n)})
        return list(zip([0, *ends], ends, strict=False))

    def _find_ranking_cuts(
        self, context: TaskContext, statistics: ClassStatistics, numbers: dict[Member, Quotas]
    ) -> dict[Ranking, Cuts]:
        """The cuts of rankings of all samples, or of those of each class."""
        cuts_by_ranking: dict[Ranking, Cuts] = {}
        for ranking in context.plan.rankings:
            if ranking == "by-class":
                quotas = numbers[SOFTMAX].per_class
            else:
                number = self._map_parts(
                    None, part_results.count_off_diagonal, operator.add, context, statistics
                )
                quotas = np.array([number], np.int64)
            ask = partial(
                self._map_parts,
                None,
                part_results.count_ranking_round,
                merge_results,
                context,
                statistics,
                ranking,
            )
            cuts_by_ranking[ranking] = find_cuts(quotas, ask)
        return cuts_by_ranking

    def _map_parts(
        self,
        stage: str | None,
        task: Callable[..., Any],
        merge: Callable[..., Any],
        *arguments: Any,
    ) -> Any:
        if stage is None:
            return self.engine.reduce(task, self.parts, merge, arguments=arguments)
        with self.progress.stage(stage, self.N) as advance:
            return self.engine.reduce(
                task,
                self.parts,
                merge,
                arguments=arguments,
                advance=lambda part: advance(part.stop - part.start),
            )

    def _refuse_one_class(self, statistics: ClassStatistics, context: TaskContext) -> None:
        if np.count_nonzero(statistics.class_counts) < 2 and not self.alone:
            only = context.names[int(statistics.class_counts.argmax())]
            raise InputError(
                "labels",
                f"contain one class only ({only!r}, {self.N} samples)",
                "Pass the whole data set: a wrong label can only be seen beside another class",
            )
