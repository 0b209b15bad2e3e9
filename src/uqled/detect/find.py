"""Finds label errors: check the inputs, sweep three times, apply each method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.arrays import Labels
from uqled.detect.auto.explanations import estimate_error_probabilities
from uqled.detect.core.inputs import Inputs
from uqled.detect.core.joint import calibrate_joint, compute_quotas
from uqled.detect.core.rows import ProbabilityRows
from uqled.detect.core.sweeps import EntropyClass, Member, Sweeps
from uqled.detect.methods.method import SweepEvidence
from uqled.detect.methods.registry import ALL, DEFAULT_METHOD, MethodChoice
from uqled.detect.request import DetectionRequest, check_request, name_inputs
from uqled.detect.result import LabelErrors, choose_suggestions
from uqled.engines.local import Threads, count_cores
from uqled.errors import InputError
from uqled.progress import Progress
from uqled.storage.run import Predictions, Run


def find_label_errors(
    labels: Any,
    pred_probs: Any = None,
    passes: Any = None,
    *,
    features: Any = None,
    passes_kind: str | None = None,
    method: str | Sequence[str] = DEFAULT_METHOD,
    headline: str | None = None,
    target: str | None = None,
    precision: float | None = None,
    recall: float | None = None,
    budget: int | None = None,
    cost: tuple[float, float] | None = None,
    verdicts: tuple[Any, Any] | None = None,
    agreement: int | None = None,
    entropy_class: EntropyClass = "candidate",
    min_examples_per_class: int = 1,
    frac_noise: float = 1.0,
    classes: Sequence[Any] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> LabelErrors:
    """Find samples whose given label is probably wrong.

    Parameters
    ----------
    labels
        [N] given labels: class numbers, or strings (sorted, unless `classes` orders them), as a
        list, a NumPy array, a pandas or Arrow column. Or the predictions of
        `uqled.cross_validate`, which also hold the probabilities.
    pred_probs
        [N,K] out-of-sample probabilities, as a NumPy array (float16, 32 or 64, in memory or
        memory-mapped), a torch tensor, a pandas frame or a Zarr array. They are read in blocks and
        never copied whole.
    passes
        [F,N,K] out-of-sample probabilities of F stochastic passes, such as Monte Carlo dropout.
    features
        [N,D] embeddings, instead of probabilities: a committee of simple models predicts each
        sample out of fold (see `uqled.predict.embeddings`).
    passes_kind
        What the passes are: `mc-dropout` of one network, an `ensemble` of seeds, different
        `networks`, different `heads` on one set of features, `bootstrap` fits, or the `members` of
        a forest. The more different the members, the stronger is the evidence for `auto` if they
        agree.
    method
        `auto`, which estimates the probability that each label is wrong; one of the algorithms
        `cl-pbnr`, `cl-mcd`, `cl-mcd-e`, `cl-mcd-ens`, `alg-ens`; `cl-mcd-m`, `cl-mcd-mi`,
        `cl-mcd-vr`, `cl-mcd-sd`, which limit another measure of uncertainty than `cl-mcd-e`;
        `cl-pbc`, `cl-both`, `cl-joint`, `argmax`, `argmax-mean`, `low-self-confidence`,
        `low-normalized-margin`; or a method that another package adds. Several names, or `all` for
        every usual method that the inputs allow, are computed in one set of sweeps: each has its
        own result in `by_method`, and this result is that of the first.
    headline
        With `all`: the method whose result this is. Default: `auto`.
    target
        `"f1"`, the default of `auto`: flag the samples with the best expected F1. At most one of
        target, precision, recall, budget and cost may be given, for `auto` only.
    precision
        Flag as many samples as possible with at least this expected precision; possibly none.
    recall
        Flag as few samples as possible with at least this expected recall.
    budget
        Flag this many samples, those most probably wrong that nobody has reviewed.
    cost
        (cost of a review, cost of a missed error): flag the samples with the lowest expected cost.
    verdicts
        What reviewers decided: (actions [N], labels [N]). Actions are 0 undecided, 1 keep, 2
        relabel, 3 drop, 4 a suggestion accepted in bulk, without a look; labels are class numbers.
        All are taken as certain; all but 4 update the probabilities of the others.
    agreement
        `alg-ens` flags what at least this many of its four algorithms flag. Default: 3.
    entropy_class
        `cl-mcd-e` and its relatives compare a sample's uncertainty with the mean of the class being
        counted (`"candidate"`) or of its given class (`"given"`).
    min_examples_per_class
        At least this many samples of each class stay unflagged; smaller classes are never flagged.
    frac_noise
        Flag only this share of each estimated count.
    classes
        [K] the classes of the columns, if they do not follow from the labels.
    threads
        Number of threads, which does not change the result. Default: one per core.
    progress
        Show a progress bar if it takes longer than a second. None: on a terminal only. True: as
        plain lines elsewhere. False: never.

    Examples
    --------
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.95, 0.05]]
    >>> errors = find_label_errors([0, 0, 1, 1, 1], probs, method="cl-pbnr")
    >>> errors.ranked.tolist(), errors.suggested[errors.ranked].tolist()
    ([4], [0])
    """
    model = contradictions = contents = None
    if isinstance(labels, Predictions):
        model = labels.quality
        contradictions, contents = labels.contradictions, labels.contents
        if pred_probs is not None or passes is not None or classes is not None:
            raise InputError(
                "labels", "are predictions, which already hold probabilities", "Pass them alone"
            )
        passes_kind = passes_kind or labels.passes_kind
        labels, pred_probs, passes = labels.labels, labels.pred_probs, labels.passes
    if features is not None:
        if pred_probs is not None or passes is not None:
            raise InputError(
                "features", "cannot be combined with probabilities", "Pass one or the other"
            )
        from uqled.predict.embeddings import predict_from_features

        labels, pred_probs, passes = predict_from_features(
            labels, features, classes=classes, progress=progress
        )
        passes_kind, classes = passes_kind or "heads", None
    request = check_request(
        method,
        inputs=name_inputs(pred_probs, passes),
        headline=headline,
        target=target,
        precision=precision,
        recall=recall,
        budget=budget,
        cost=cost,
        verdicts=verdicts,
        agreement=agreement,
        entropy_class=entropy_class,
        min_examples_per_class=min_examples_per_class,
        frac_noise=frac_noise,
        passes_kind=passes_kind,
    )
    inputs = read_inputs(labels, pred_probs, passes, classes=classes)
    arrays.check_two_classes(inputs.labels)
    n_threads = count_threads(threads)
    if threads is None and inputs.are_small and request.is_comparison:
        n_threads = 1  # NumPy's short calls take turns at the interpreter, which costs more
    with Threads(n_threads) as engine:
        evidence = collect_evidence(Sweeps(inputs, engine, Progress(progress)), request)
    results = [
        replace(
            make_result(choice, evidence, inputs.labels),
            model=model,
            contradictions=contradictions,
            contents=contents,
        )
        for choice in request.choices
    ]
    if not request.is_comparison:
        return results[0]
    return replace(results[0], by_method={one.method: one for one in results})


def find_errors_in_run(
    predictions: Predictions,
    *,
    headline: str | None = None,
    verdicts: tuple[Any, Any] | None = None,
) -> LabelErrors:
    """Every method's result, with the options of the run's last detection.

    `headline` leads: the method of the run's last detection, unless given.
    """
    method, options = Run.open(predictions.path).detection()
    return find_label_errors(
        predictions, method=ALL, headline=headline or method, verdicts=verdicts, **options
    )


def read_inputs(
    labels: Any, pred_probs: Any, passes: Any, *, classes: Sequence[Any] | None = None
) -> Inputs:
    """Read labels and probabilities, and refuse those that do not belong together."""
    softmax = stack = None
    if pred_probs is not None:
        softmax = ProbabilityRows(pred_probs, name="pred_probs", ndim=2)
        classes = classes if classes is not None else get_class_names(pred_probs)
    if passes is not None:
        stack = ProbabilityRows(passes, name="passes", ndim=3)
    shapes = softmax.shape if softmax else None, stack.shape if stack else None
    n_labels = arrays.count_labels(labels)
    arrays.check_shapes_match(n_labels, *shapes)
    rows = softmax or stack
    assert rows is not None
    if isinstance(labels, Labels):
        codes = labels
        if codes.n_classes != rows.n_classes:
            raise InputError(
                rows.name,
                f"has {rows.n_classes} columns, and the labels have {codes.n_classes} classes",
                "Give one column per class",
            )
    else:
        codes = arrays.encode_labels(labels, n_classes=rows.n_classes, classes=classes)
    return Inputs(codes, softmax, stack)


def count_threads(threads: int | None, name: str = "threads") -> int:
    """The number of threads to use: one per core, unless the option `name` says how many."""
    return count_cores() if threads is None else arrays.check_whole_number(threads, name, low=1)


def collect_evidence(sweeps: Sweeps, request: DetectionRequest) -> SweepEvidence:
    """Sweep three times, for all the chosen methods at once; probabilities take one more sweep."""
    inputs = sweeps.inputs
    F = inputs.passes.n_passes if inputs.passes else 0
    plan = request.plan_sweeps(F, has_softmax=inputs.softmax is not None)
    statistics = sweeps.collect_class_statistics(plan.members)
    joints = sweeps.count_confident_joints(
        plan.members,
        statistics,
        keep_confident=plan.keep_confident,
        with_margin=plan.with_margin,
        with_votes=request.asks_for_probabilities
        and F > 1
        and {Member(f) for f in range(F)} <= set(plan.members),
    )
    joints.pairs = {
        member: calibrate_joint(counter.get_joint(), statistics.class_counts)
        for member, counter in joints.counters.items()
    }
    numbers = {
        member: compute_quotas(
            pairs,
            statistics.class_counts,
            min_examples_per_class=request.min_examples_per_class,
            frac_noise=request.frac_noise,
        )
        for member, pairs in joints.pairs.items()
    }
    selected: dict[Member, NDArray[np.bool_]] = {}
    if plan.selecting_members:
        best = sweeps.select_top_margins(
            {member: numbers[member].pairs for member in plan.selecting_members}, joints
        )
        selected = {member: selection.to_mask(sweeps.N) for member, selection in best.items()}
    labels = inputs.labels.codes
    auto = None
    if request.asks_for_probabilities:
        auto = estimate_error_probabilities(sweeps, joints, request.passes_kind)
    if auto is not None and request.verdicts is not None:
        auto = replace(auto, estimate=auto.estimate.with_verdicts(*request.verdicts, labels))
    return SweepEvidence(
        labels,
        statistics,
        joints,
        numbers,
        selected,
        request.entropy_class,
        F,
        auto,
        request.point,
    )


def make_result(choice: MethodChoice, evidence: SweepEvidence, labels: Labels) -> LabelErrors:
    """One method's result."""
    method, auto = choice.method, evidence.auto
    votes = method.votes(evidence).astype(np.int16)
    mask = votes >= method.least_votes(evidence.n_passes, choice.agreement)
    source = method.choose_source(None if auto is None else auto.source)
    joint_member = method.joint_member(evidence.entropy_class, source)
    scores = evidence.statistics.self_confidence[source]
    best = evidence.joints.predicted[source]
    if method.is_probabilistic:
        assert auto is not None
        scores = 1 - auto.estimate.probability
        best = choose_suggestions(mask, labels.codes, best, auto.other)
    return LabelErrors(
        method=choice.name,
        labels=labels,
        mask=mask,
        scores=scores,
        best=best,
        votes=votes,
        joint=evidence.joints.pairs[joint_member].to_matrix(),
        entropy=evidence.statistics.uncertainty.get("entropy"),
        mutual_information=evidence.statistics.uncertainty.get("mutual-information"),
        estimate=None if auto is None else auto.estimate,
        other=None if auto is None else auto.other,
        n_as_predicted=evidence.n_as_predicted,
        model_is_at_chance=evidence.is_at_chance(source),
    )


def get_class_names(frame: Any) -> Sequence[Any] | None:
    """The columns of a pandas frame, if they are names rather than numbers."""
    columns = getattr(frame, "columns", None)
    if columns is None or not all(isinstance(column, str) for column in columns):
        return None
    return list(columns)
