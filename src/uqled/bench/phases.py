"""What each cell computes: the seven phases of the paper's evaluation, and its pilot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled import uncertainty
from uqled.arrays import Labels
from uqled.bench.benchmark_data import BenchmarkData
from uqled.bench.cell_checks import take_numbers, take_probabilities
from uqled.bench.cell_graph import list_compared_methods, list_needed_cells
from uqled.bench.cells import Cell, Cells
from uqled.bench.method_flags import (
    Flags,
    compute_flags,
    hash_method_source,
    pack_flags,
    shorten_codes,
    unpack_flags,
)
from uqled.bench.metrics import score_detection
from uqled.bench.suite import Suite
from uqled.data.dataset import draw_stratified
from uqled.errors import InputError
from uqled.model_quality import measure_model_quality
from uqled.noise.kinds import NoisyLabels, apply_noise_kind
from uqled.noise.matrices import similarity_scores
from uqled.predict.crossval import make_fold_seed, split_stratified
from uqled.predict.learner import CombiningLearner, FoldPredictions

CellResult = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""The content that tables need, and the arrays that later cells need."""

_MONITORED_SHARE = 0.2  # of the training set, while pre-training


def compute_cell(suite: Suite, cell: Cell, cells: Cells, bench_data: BenchmarkData) -> CellResult:
    """Compute the result of a cell; `whole` is its data set."""
    phase = {
        "pretraining": _pretrain,
        "pilot": _run_pilot,
        "fold": _predict_fold,
        "detection": _detect,
        "retraining": _retrain,
    }[cell.kind]
    return phase(_Context(suite, cell, cells, bench_data))


@dataclass(frozen=True)
class _Context:
    suite: Suite
    cell: Cell
    cells: Cells
    bench_data: BenchmarkData

    def train_and_predict(
        self, labels: NDArray[Any], train: NDArray[Any], test: NDArray[Any], seed: int
    ) -> FoldPredictions:
        """Predict `test` by a network trained on `train`; `labels` are those of all samples."""
        folder = self.cells.work(self.cell)
        folder.mkdir(parents=True, exist_ok=True)
        return self.bench_data.learner.fit_predict(
            self.bench_data.data.with_labels(labels),
            train,
            test,
            passes=self.suite.count_passes(self.cell.data),
            seed=seed,
            folder=folder,
            advance=lambda _: None,
        )

    def select_kept_rows(self) -> NDArray[np.intp]:
        """[N] positions in the training set, without what is removed before noise is added."""
        all_rows = np.arange(len(self.bench_data.train))
        if self.suite.clean_first is None:
            return all_rows
        cell = Cell("detection", self.cell.data, self.cell.seed)
        flags = self.read_flags(cell, self.cells.read_arrays(cell), len(all_rows))
        return all_rows[~flags[self.suite.clean_first].mask]

    def read_predictions(self, cell: Cell, n: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """(probabilities [n,K], passes [F,n,K] if there are any) that a finished cell holds."""
        arrays, K = self.cells.read_arrays(cell), self.bench_data.data.n_classes
        name = self.cells.name_arrays(cell)
        first = "test" if cell.kind == "pretraining" else "pred"
        stack = "test_passes" if cell.kind == "pretraining" else "passes"
        probs = take_probabilities(arrays, f"{first}_probs", (n, K), name)
        if stack not in arrays:
            return probs, None
        learner = self.bench_data.learner
        passes = self.suite.count_passes(cell.data)
        if isinstance(learner, CombiningLearner):  # whose members are the passes
            passes = len(learner.members)
        return probs, take_probabilities(arrays, stack, (passes, n, K), name)

    def read_flags(self, cell: Cell, arrays: dict[str, NDArray[Any]], n: int) -> dict[str, Flags]:
        """The flags of every method for n samples, from the arrays of a finished detection."""
        shape = n, self.bench_data.data.n_classes
        return unpack_flags(arrays, shape, self.cells.name_arrays(cell))

    def make_noisy(self) -> tuple[NDArray[np.intp], NoisyLabels]:
        """(positions in the training set that take part, their noisy labels)."""
        cell, bench_data = self.cell, self.bench_data
        rows = self.select_kept_rows()
        options = dict(self.suite.noise)
        kind = options.pop("kind")
        if kind in ("similarity", "confusion"):
            pretraining = Cell("pretraining", cell.data, cell.seed)
            options["pred_probs"] = self.read_predictions(pretraining, len(bench_data.test))[0]
            options["model_labels"] = bench_data.data.labels.codes[bench_data.test]
        elif kind == "instance":
            clean = Cell("detection", cell.data, cell.seed)
            options["pred_probs"] = self.read_predictions(clean, len(bench_data.train))[0][rows]
        return rows, self.flip_labels(kind, bench_data.true_labels[rows], **options)

    def flip_labels(self, kind: str, labels: NDArray[np.int32], **options: Any) -> NoisyLabels:
        """The labels with noise of this kind at the cell's rate."""
        cell = self.cell
        return apply_noise_kind(
            kind,
            labels,
            rate=cell.rate,
            seed=make_fold_seed(cell.seed, round((cell.rate or 0) * 1_000_000)),
            classes=None if "pred_probs" in options else range(self.bench_data.data.n_classes),
            **options,
        )

    def merge_labels(self, rows: NDArray[np.intp], given_labels: NDArray[Any]) -> NDArray[np.int32]:
        """Labels of all samples, the training samples `kept` with their given ones."""
        codes = self.bench_data.data.labels.codes.copy()
        codes[self.bench_data.train[rows]] = given_labels
        return codes


def _pretrain(context: _Context) -> CellResult:
    """Phase 1a: a network trained on clean data predicts the test set."""
    bench_data, seed = context.bench_data, context.cell.seed
    n = round(_MONITORED_SHARE * len(bench_data.train))
    monitored_rows = bench_data.train[draw_stratified(bench_data.true_labels, n, seed=seed)]
    train = np.setdiff1d(bench_data.train, monitored_rows)
    test = np.concatenate([monitored_rows, bench_data.test])
    predictions = context.train_and_predict(
        bench_data.data.labels.codes, train, test, make_fold_seed(seed, 0)
    )
    right = predictions.pred_probs.argmax(axis=1) == bench_data.data.labels.codes[test]
    arrays: dict[str, NDArray[Any]] = {"test_probs": predictions.pred_probs[n:]}
    if predictions.passes is not None:
        arrays["test_passes"] = predictions.passes[:, n:]
    content = {
        "accuracy": float(right[n:].mean()),
        "monitored_accuracy": float(right[:n].mean()),
        "train": len(bench_data.train),
        "test": len(bench_data.test),
        "classes": list(bench_data.data.labels.names),
    }
    test_labels = bench_data.data.labels.codes[bench_data.test]
    if (
        len(np.unique(test_labels)) == bench_data.data.n_classes
    ):  # a class without samples has no scores
        scores = similarity_scores(test_labels, arrays["test_probs"])
        content["similarity"] = _round_matrix(scores)
    return content, arrays


def _run_pilot(context: _Context) -> CellResult:
    """Noise on the test labels, and the network that learned from clean data."""
    cell, bench_data = context.cell, context.bench_data
    pretraining = Cell("pretraining", cell.data, cell.seed)
    pred_probs, passes = context.read_predictions(pretraining, len(bench_data.test))
    true_labels = bench_data.data.labels.codes[bench_data.test]
    options = dict(context.suite.noise)
    kind = options.pop("kind")
    if kind in ("similarity", "confusion", "instance"):
        options["pred_probs"] = pred_probs
    noisy = context.flip_labels(kind, true_labels, **options)
    return _score_methods(context, noisy, true_labels, pred_probs, passes)[0], {}


def _predict_fold(context: _Context) -> CellResult:
    """Phases 1b and 2: noise, and one fold's out-of-sample predictions."""
    cell, bench_data = context.cell, context.bench_data
    rows, given_labels = _read_given_labels(context)
    labels = context.merge_labels(rows, given_labels)
    part = _split_folds(context, given_labels)[cell.fold or 0]
    train = np.setdiff1d(np.arange(len(rows)), part)
    predictions = context.train_and_predict(
        labels,
        bench_data.train[rows[train]],
        bench_data.train[rows[part]],
        make_fold_seed(cell.seed, cell.fold or 0),
    )
    arrays = {"pred_probs": predictions.pred_probs}
    if predictions.passes is not None:
        arrays["passes"] = predictions.passes
    return {
        "accuracy": float((predictions.pred_probs.argmax(axis=1) == given_labels[part]).mean())
    }, arrays


@dataclass(frozen=True)
class OutOfSample:
    """What a detection looks at: [N] positions in the training set and labels, and predictions."""

    rows: NDArray[np.intp]
    labels: NDArray[np.int32]
    true_labels: NDArray[np.int32]
    pred_probs: NDArray[np.float32]
    passes: NDArray[np.float32] | None


def _join_folds(context: _Context) -> OutOfSample:
    rows, given_labels = _read_given_labels(context)
    pred_probs = np.empty((len(rows), context.bench_data.data.n_classes), np.float32)
    passes: NDArray[np.float32] | None = None
    folds = list_needed_cells(context.suite, context.cell)
    for part, cell in zip(_split_folds(context, given_labels), folds, strict=True):
        pred_probs[part], fold_passes = context.read_predictions(cell, len(part))
        if fold_passes is not None:
            if passes is None:
                passes = np.empty((len(fold_passes), *pred_probs.shape), np.float32)
            passes[:, part] = fold_passes
    return OutOfSample(rows, given_labels, context.bench_data.true_labels[rows], pred_probs, passes)


def _detect(context: _Context) -> CellResult:
    """Phases 3 and 4: the flags of every method, and how good they are."""
    predictions = _join_folds(context)
    labels, pred_probs, passes = predictions.labels, predictions.pred_probs, predictions.passes
    if context.cell.rate is None:  # clean labels, looked at before noise is added
        flags = _flag_samples(context, labels, pred_probs, passes)
        content = {
            "flagged": {name: int(one.mask.sum()) for name, one in flags.items()},
            "sources": {name: hash_method_source(name) for name in flags},
        }
        return content, {"pred_probs": pred_probs, **pack_flags(flags)}
    _, noisy = context.make_noisy()
    content, flags = _score_methods(context, noisy, predictions.true_labels, pred_probs, passes)
    return content, {"given": shorten_codes(labels), "kept": predictions.rows, **pack_flags(flags)}


def _retrain(context: _Context) -> CellResult:
    """Phases 5 and 6: train a network on the samples that a treatment leaves; its test accuracy."""
    cell, bench_data = context.cell, context.bench_data
    n_changed, arrays = 0, dict[str, NDArray[Any]]()
    detection = Cell("detection", cell.data, cell.seed, cell.rate)
    if cell.rate is None:
        rows, given_labels = (
            context.select_kept_rows(),
            bench_data.true_labels[context.select_kept_rows()],
        )
    else:
        arrays, name = context.cells.read_arrays(detection), context.cells.name_arrays(detection)
        rows = take_numbers(arrays, "kept", (None,), len(bench_data.train), name)
        given_labels = take_numbers(arrays, "given", rows.shape, bench_data.data.n_classes, name)
        given_labels = given_labels.astype(np.int32)
    selected_rows = np.arange(len(rows))
    limit = context.suite.get_data(cell.data).retraining_limit
    if limit is not None and limit < len(rows):
        selected_rows = draw_stratified(given_labels, limit, seed=cell.seed)
    if cell.method:
        flags = context.read_flags(detection, arrays, len(rows))[cell.method]
        flagged = flags.mask[selected_rows]
        n_changed = int(flagged.sum())
        if cell.treatment == "remove":
            selected_rows = selected_rows[~flagged]
        else:
            given_labels = np.where(flags.mask, flags.best, given_labels)
    labels = context.merge_labels(rows, given_labels)
    predictions = context.train_and_predict(
        labels,
        bench_data.train[rows[selected_rows]],
        bench_data.test,
        make_fold_seed(cell.seed, 1_000),
    )
    right = predictions.pred_probs.argmax(axis=1) == bench_data.data.labels.codes[bench_data.test]
    return {
        "accuracy": float(right.mean()),
        "trained_on": len(selected_rows),
        "changed": n_changed,
    }, {}


def _read_given_labels(context: _Context) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """(positions in the training set that take part, their given labels)."""
    if context.cell.rate is None:
        all_rows = np.arange(len(context.bench_data.train))
        return all_rows, context.bench_data.true_labels
    rows, noisy = context.make_noisy()
    return rows, noisy.labels.astype(np.int32)


def _split_folds(context: _Context, given_labels: NDArray[np.int32]) -> list[NDArray[np.intp]]:
    labels = replace(context.bench_data.data.labels, codes=given_labels)
    folds = context.suite.count_folds(context.cell.data)
    return split_stratified(labels, folds, seed=context.cell.seed)


def _flag_samples(
    context: _Context, given_labels: NDArray[np.int32], pred_probs: NDArray[Any], passes: Any
) -> dict[str, Flags]:
    labels: Labels = replace(context.bench_data.data.labels, codes=given_labels)
    if passes is None:
        raise InputError(
            "model",
            f"of {context.cell.data!r} has no source of uncertainty",
            "Choose a network, a forest, or a model with bootstrap",
        )
    return compute_flags(list_compared_methods(context.suite), labels, pred_probs, passes)


def _score_methods(
    context: _Context,
    noisy: NoisyLabels,
    true_labels: NDArray[np.int32],
    pred_probs: NDArray[Any],
    passes: Any,
) -> tuple[dict[str, Any], dict[str, Flags]]:
    """(metrics of every method, their flags)."""
    given_labels = noisy.labels.astype(np.int32)
    flags = _flag_samples(context, given_labels, pred_probs, passes)
    names = context.bench_data.data.labels.names
    best, mean_best = pred_probs.argmax(axis=1), uncertainty.mean(passes).argmax(axis=1)
    content: dict[str, Any] = {
        "n": len(given_labels),
        "wrong": int(noisy.is_error.sum()),
        "given_accuracy": float((best == given_labels).mean()),
        "true_accuracy": float((best == true_labels).mean()),
        "passes_given_accuracy": float((mean_best == given_labels).mean()),
        "passes_true_accuracy": float((mean_best == true_labels).mean()),
        "passes_differ": measure_model_quality(
            context.cell.data, given_labels, names, pred_probs, passes
        ).passes_differ,
        "methods": {
            name: score_detection(one.mask, one.ranking, noisy.is_error)
            for name, one in flags.items()
            if name in context.suite.methods
        },
        "sources": {name: hash_method_source(name) for name in flags},
        "classes": list(names),
    }
    if noisy.intended is not None:
        content["matrix"] = _round_matrix(noisy.intended.probabilities)
        content["realised"] = _round_matrix(noisy.realised.probabilities)
    return content, flags


def _round_matrix(matrix: NDArray[np.float64]) -> list[list[float]]:
    return [[round(p, 6) for p in row] for row in matrix.tolist()]
