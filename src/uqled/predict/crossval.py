"""Out-of-sample predictions of a whole data set, fold by fold, in a run that can be continued."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import arrays
from uqled.arrays import Labels
from uqled.data.dataset import Dataset, is_frame
from uqled.data.inspection.copies import group_copies
from uqled.data.inspection.duplicates import find_contradictions
from uqled.engines import ENGINES, Engine, check_ray_is_installed, make_engine
from uqled.errors import InputError
from uqled.features.neighbours import group_near_duplicates, number_groups
from uqled.model_quality import measure_model_quality
from uqled.predict.fold_files import read_members
from uqled.predict.folds import Folds, compute_distributed, compute_here
from uqled.predict.history import write_history
from uqled.predict.learner import CombiningLearner, EnsembleLearner, Learner
from uqled.predict.learners import choose_learner
from uqled.predict.neighbours import find_sample_features, write_neighbours, write_table_vectors
from uqled.progress import Progress
from uqled.storage.run import Predictions, Run

_UNITS = 1_000  # of progress, per fold
_ALONE_SHARE = 0.9  # groups per sample, from which on there are few copies
_SMALL_SHARE = 0.2  # of a fold, up to which a group moves as a whole without making it uneven
_MANY_GROUPS = 5_000  # from here on, scikit-learn's folds of groups take long to make


def cross_validate(
    data: Dataset,
    model: Any = "auto",
    *,
    folds: int = 4,
    passes: int = 5,
    uncertainty: Any = "auto",
    out: Path | str,
    seed: int = 0,
    progress: bool | None = None,
    engine: str | Engine | None = None,
    workers: int | None = None,
    cpus: float = 1,
    gpus: float = 0,
    address: str | None = None,
    **training: Any,
) -> Predictions:
    """Predict every sample with a model that was not trained on it.

    Parameters
    ----------
    data
        A data set, such as `uqled.load` returns.
    model
        `"auto"`; `"committee"` (or `"committee:ENCODER"`) for any data; `"small"`, `"vgg11"`,
        `"resnet50"`, `"probe"` (or `"probe:ENCODER"`) for images; `"logistic"`, `"forest"`,
        `"boosting"` for texts and tables; a scikit-learn classifier; a function that makes a
        network, itself or as `"module:function"`.
    folds
        Number of stratified folds: each fold is predicted by a model trained on the others.
    passes
        Number of stochastic passes, F.
    uncertainty
        Where the passes come from: `"mc-dropout"`, `"ensemble"` (F trainings with different
        seeds), `"bootstrap"` (F fits on resampled data), `"members"` (of a forest or bagging),
        `"none"`, your own array [F,N,K], or `"auto"`, the first of these that the model supports.
    out
        The run's folder. A run that was killed continues there; another configuration is refused.
    seed
        Seeds all random choices. The same seed gives the same result.
    engine
        Where folds are computed: by default in this process, one after another; with `"ray"` as
        tasks on a Ray cluster, with the same arrays. All its machines must see `out`.
    workers
        How many folds Ray computes at a time. Default: as many as there is room for.
    cpus
        CPU cores that Ray reserves for each fold.
    gpus
        GPUs that Ray reserves for each fold.
    address
        The Ray cluster, such as `"auto"`. Default: one is started on this machine.
    training
        Options of networks: `epochs`, `batch_size`, `lr`, `preset`, `device`, `precision`,
        `augment`, `optimiser`, `small_images`.
    """
    options: dict[str, Any] = {"workers": workers, "cpus": cpus, "gpus": gpus, "address": address}
    folds, passes, seed = check_counts_and_seed(folds, passes, seed)
    check_engine_options(engine, options)
    own_passes, uncertainty = _separate_own_passes(uncertainty, data)
    bar = Progress(progress)
    with bar.stage("preparing the model", says_end=False):
        contradictions, own_groups = find_contradictions(data), data.groups
        data = replace(data, groups=group_copies(data))
        learner = choose_learner(model, data, uncertainty=uncertainty, **training)
        features = find_sample_features(learner, data)
        groups = _group_samples(learner, data, features)
        parts = split_stratified(data.labels, folds, seed=seed, groups=groups)
    configuration = {
        "data": {"name": data.name, "fingerprint": data.fingerprint, "samples": len(data)},
        "classes": list(data.labels.names),
        "model": learner.name,
        "settings": learner.settings(),
        "folds": folds,
        "passes": passes
        if own_passes is None
        else hashlib.blake2b(own_passes.tobytes()).hexdigest(),
        "seed": seed,
    }
    fold_of = _number_folds(parts)
    seeds = [make_fold_seed(seed, fold) for fold in range(folds)]
    name = f"cross-validation, {learner.name}, {folds} folds"
    with Run.hold(Path(out), configuration) as run:
        run.write_data(
            data.labels,
            data.ids.tolist(),
            data.truth,
            fold_of,
            data.source,
            data.inputs_fingerprint,
            contradictions,
        )
        work = Folds(run, learner, data, parts, seeds, passes)
        is_even = isinstance(learner, EnsembleLearner)  # trained step by step
        with (
            make_engine(
                engine if work.missing_folds else None, **options, store=_measure_inputs(data)
            ) as workplace,
            bar.stage(
                name,
                folds * _UNITS,
                done=(folds - len(work.missing_folds)) * _UNITS,
                cycle=None if is_even else _UNITS,
            ) as advance,
        ):
            # Threads share one random state, so that they compute one fold after the other too.
            compute_on_engine = partial(compute_distributed, engine=workplace)
            compute = compute_on_engine if workplace.is_distributed else compute_here
            compute(work, lambda share: advance(share * _UNITS))
        with bar.stage("collecting the predictions"):
            members = None
            if isinstance(learner, CombiningLearner):
                members = _combine_folds(run, learner, data, parts, fold_of)
            else:
                run.write_predictions(parts, data.n_classes, own_passes)
            write_history(run, folds)
            if features is not None:
                softmax = run.predictions().pred_probs
                write_neighbours(run.path, features, data.labels.codes, softmax)
            elif data.kind == "table":
                write_table_vectors(run.path, data)
            n_near = 0
            if features is not None and own_groups is None:
                n_near = _count_near_duplicates(groups)
            _write_quality(run, learner.name, members, n_near)
        if data.unlabelled_inputs is not None and not run.unlabelled_path.exists():
            same = learner.name if isinstance(model, str) else model
            make = partial(choose_learner, same, uncertainty=uncertainty, **training)
            from uqled.predict.new_samples import predict_unlabelled  # loads scikit-learn

            predict_unlabelled(run, data, make, seed=make_fold_seed(seed, folds), progress=progress)
    return run.predictions()


def _combine_folds(
    run: Run,
    learner: CombiningLearner,
    data: Dataset,
    parts: list[NDArray[np.intp]],
    fold_of: NDArray[np.int32],
) -> dict[str, float]:
    """Write a committee's predictions; {member: weight}."""
    members = read_members(run, parts, len(learner.members), data.n_classes)
    combination = learner.combine_folds(members, data.labels.codes, fold_of)
    run.write_predictions(
        parts, data.n_classes, combination.passes, "heads", combination.pred_probs
    )
    return dict(zip(learner.members, combination.weights.tolist(), strict=True))


def _group_samples(
    learner: Learner, data: Dataset, features: NDArray[np.float32] | None
) -> NDArray[Any] | None:
    """[N] samples that must share a fold: near duplicates, and the user's own groups."""
    if isinstance(learner, CombiningLearner):
        return learner.groups
    if features is None:
        return data.groups
    return group_near_duplicates(features, number_groups(data.groups))


def _count_near_duplicates(groups: NDArray[Any] | None) -> int:
    """Samples that share a group with another."""
    sizes = np.unique([] if groups is None else groups, return_counts=True)[1]
    return int(sizes[sizes > 1].sum())


def _write_quality(
    run: Run, name: str, members: dict[str, float] | None, near_duplicates: int
) -> None:
    predictions = run.predictions()
    labels = predictions.labels
    quality = measure_model_quality(
        name,
        labels.codes,
        labels.names,
        predictions.pred_probs,
        predictions.passes,
        members=members,
        near_duplicates=near_duplicates,
    )
    run.write_quality(quality)


def make_fold_seed(seed: int, fold: int) -> int:
    """A different seed for every fold, and for the folds of every other seed."""
    return int(np.random.SeedSequence([seed, fold, 1]).generate_state(1)[0])


def split_stratified(
    labels: Labels, folds: int, *, seed: int, groups: NDArray[Any] | None = None
) -> list[NDArray[np.intp]]:
    """The samples that each fold predicts: a partition, each class spread evenly.

    Samples of one of the `groups` [N] share a fold.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    arrays.check_two_classes(labels)
    counts = np.bincount(labels.codes, minlength=labels.n_classes)
    small = np.flatnonzero((counts > 0) & (counts < folds))
    if len(small) == np.count_nonzero(counts) and 2 * len(small) > len(labels):
        raise InputError(
            "label",
            f"has {len(small):,} classes for {len(labels):,} samples",
            "Name a column of classes: this one looks like ids or measurements",
        )
    if len(small):
        examples = ", ".join(f"{labels.names[k]!r} ({counts[k]})" for k in small[:5])
        raise InputError(
            "folds",
            f"is {folds}, but {len(small)} classes have fewer samples: {examples}"
            f"{' ...' if len(small) > 5 else ''}",
            "Lower the number of folds, or merge or leave out such classes",
        )
    n_groups = len(labels) if groups is None else len(np.unique(groups))
    if n_groups < folds:
        raise InputError(
            "folds",
            f"is {folds}, but there are {n_groups} groups",
            "Lower the number of folds, or name another column of groups",
        )
    is_alone = groups is None or n_groups == len(labels)
    has_many = n_groups > _MANY_GROUPS
    are_small = not is_alone and has_many and _are_groups_small(groups)
    are_few = not is_alone and not has_many and _are_copies_few(groups, folds)
    kind = StratifiedKFold if is_alone or are_small or are_few else StratifiedGroupKFold
    splitter = kind(folds, shuffle=True, random_state=seed)
    fold_groups = groups if kind is StratifiedGroupKFold else None
    parts = [test for _, test in splitter.split(np.zeros(len(labels)), labels.codes, fold_groups)]
    if are_small:
        parts = _join_groups(parts, groups)
    if are_few:
        parts = _swap_copies(parts, groups, labels.codes)
    times = np.bincount(np.concatenate(parts), minlength=len(labels))
    if not (times == 1).all():
        raise AssertionError("the folds do not partition the data")
    return parts


def _are_groups_small(groups: Any) -> bool:
    """Whether no group has more than a hundredth of the samples: folds then stay even in any
    case."""
    return int(np.unique(groups, return_counts=True)[1].max()) * 100 <= len(groups)


def _are_copies_few(groups: Any, folds: int) -> bool:
    """Whether nearly all samples are alone and no group is large compared with a fold. A few copies
    can then move without changing the folds of the others."""
    sizes = np.unique(groups, return_counts=True)[1]
    is_small = int(sizes.max()) * folds <= _SMALL_SHARE * len(groups)
    return is_small and len(sizes) >= _ALONE_SHARE * len(groups)


def _join_groups(parts: list[NDArray[np.intp]], groups: Any) -> list[NDArray[np.intp]]:
    """Move every sample to the fold of the first sample of its group."""
    fold_of = _number_folds(parts)
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    fold_of = fold_of[first[group]]
    return [np.flatnonzero(fold_of == fold) for fold in range(len(parts))]


def _swap_copies(
    parts: list[NDArray[np.intp]], groups: Any, codes: NDArray[np.int32]
) -> list[NDArray[np.intp]]:
    """The same, but each moving sample is exchanged for a sample of its class that is alone."""
    before, after = _number_folds(parts), _number_folds(_join_groups(parts, groups))
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    is_free = sizes[group] == 1
    for row in np.flatnonzero(before != after).tolist():
        partners = np.flatnonzero(is_free & (after == after[row]) & (codes == codes[row]))
        if len(partners):
            after[partners[0]], is_free[partners[0]] = before[row], False
    return [np.flatnonzero(after == fold) for fold in range(len(parts))]


def _number_folds(parts: list[NDArray[np.intp]]) -> NDArray[np.int32]:
    """[N] the fold of each sample; `parts` are the samples of each fold."""
    fold_of = np.empty(sum(map(len, parts)), np.int32)
    for fold, part in enumerate(parts):
        fold_of[part] = fold
    return fold_of


def check_counts_and_seed(folds: int, passes: int, seed: int) -> tuple[int, int, int]:
    """Check (folds, passes, seed)."""
    return (
        arrays.check_whole_number(folds, "folds", low=2),
        arrays.check_whole_number(passes, "passes", low=1),
        arrays.check_whole_number(seed, "seed", low=0),
    )


def check_engine_options(engine: str | Engine | None, options: Mapping[str, Any]) -> None:
    """Refuse options that only a cluster has, before anything is written."""
    if engine is not None and engine not in ENGINES and isinstance(engine, str):
        raise InputError("engine", f"is {engine!r}", f"Choose one of {', '.join(ENGINES)}")
    if engine == "ray":
        check_ray_is_installed()
    defaults = {"workers": None, "cpus": 1, "gpus": 0, "address": None}
    for name, value in options.items():
        if engine != "ray" and value != defaults[name]:
            raise InputError(
                name, f"is {value!r} without `engine='ray'`", "Leave it out, or add `engine='ray'`"
            )


def _measure_inputs(data: Dataset) -> int:
    """The approximate number of bytes of inputs in memory."""
    if isinstance(data.inputs, np.memmap):
        return 0
    if data.kind == "texts":
        return sum(map(len, data.inputs))
    inputs = data.inputs
    return int(np.sum(inputs.memory_usage()) if is_frame(inputs) else inputs.nbytes)


def _separate_own_passes(uncertainty: Any, data: Dataset) -> tuple[NDArray[np.float32] | None, str]:
    """(the user's own passes or None, the name of the source)."""
    if isinstance(uncertainty, str):
        return None, uncertainty
    passes = arrays.check_passes(uncertainty, "uncertainty").astype(np.float32)
    if passes.shape[1] != len(data):
        raise InputError(
            "uncertainty",
            f"has shape {passes.shape}, but there are {len(data)} samples and the axes are [F,N,K]",
            "Give one row per sample in every pass",
        )
    if passes.shape[2] != data.n_classes:
        raise InputError(
            "uncertainty",
            f"has {passes.shape[2]} classes (shape {passes.shape}), but the data has "
            f"{data.n_classes}",
            "Give one column per class",
        )
    return passes, "none"
