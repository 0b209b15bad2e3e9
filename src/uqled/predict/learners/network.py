"""Networks as learners: trained per fold, then asked with Monte Carlo dropout or as an ensemble."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.errors import InputError
from uqled.predict.fold_files import MEMBER, make_member_folder, read_partial
from uqled.predict.learner import Advance, FoldPredictions
from uqled.predict.schedule import mix_seed
from uqled.predict.training_options import resolve_training
from uqled.predict.uncertainty import AUTO_SOURCE, SOURCES, load_source
from uqled.predict.uncertainty.source import SeveralFits, UncertaintySource
from uqled.storage.atomic import write_array

try:
    import torch
    from torch import nn

    from uqled import models
    from uqled.models.batch_norm import (
        AS_TRAINED,
        may_have_batch_norm_after_dropout,
        reestimate_batch_norm,
    )
    from uqled.models.hardware import keep_freed_memory
    from uqled.models.monte_carlo import split_at_dropout, stochastic_passes
    from uqled.predict.samples import Samples, normalise_like, normalise_samples
    from uqled.predict.training import (
        Training,
        make_fabric,
        resolve_precision,
        share_fabric,
        train,
    )
except ImportError as error:
    raise InputError(
        "model", "needs PyTorch and Lightning Fabric",
        "pip install 'uqled[torch]'",
    ) from error  # fmt: skip

_TRAINING_SHARE = 0.9  # of the progress of a fold
_BATCH = 512  # samples predicted at a time
_STATISTICS_BATCHES = (
    20  # batches of training samples for batch norm: means of 10,000 are precise enough
)


def make_learner(
    model: Any, data: Dataset, *, uncertainty: str, training: dict[str, Any]
) -> NetworkLearner:
    """A network by its name, a function that makes one, or `module:function`."""
    training = {name: value for name, value in training.items() if name != "offline"}
    settings = resolve_training(training)
    make_fabric(settings)  # refuse hardware that is not there before anything is written
    shape, n_classes = select_images(data).shape[1:], data.n_classes

    def make(seed: int) -> Any:
        return models.build(model, n_classes=n_classes, image_shape=shape, seed=seed)

    name = model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__)
    source = choose_network_source(uncertainty, make(0))  # refuse bad models and options at once
    return NetworkLearner(name, make, select_images, settings, source)


def choose_network_source(uncertainty: str, network: nn.Module) -> str:
    """Choose the source of passes for this network."""
    name = "mc-dropout" if uncertainty == AUTO_SOURCE else uncertainty
    load_source(name, network, is_network=True)
    return name


@dataclass(frozen=True)
class NetworkLearner:
    """A network that is created anew for every training."""

    name: str
    make: Callable[[int], nn.Module]
    """From a seed to an untrained network."""
    inputs_of: Callable[[Dataset], NDArray[Any]]
    """[N,H,W,C] images or [N,D] features of a data set."""
    training: Training
    source: str = "mc-dropout"
    sample_features: NDArray[np.float32] | None = None
    """[N,D] of the samples, where the network is a head on them."""

    def settings(self) -> dict[str, Any]:
        settings = asdict(self.training) | {"uncertainty": self.source}
        settings["precision"] = resolve_precision(self.training)
        network = self.make(0)
        if not may_have_batch_norm_after_dropout(network):
            del settings["batch_norm"]  # which changes nothing
        if self.training.optimiser == "sgd":
            del settings["optimiser"]  # so that runs begun before there was a choice go on
        if not self.training.small_images:
            del settings["small_images"]  # for the same reason
        return settings | {"network": hash_network(network)}

    def fit_predict(
        self,
        data: Dataset,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        *,
        passes: int,
        seed: int,
        folder: Path,
        advance: Advance,
    ) -> FoldPredictions:
        """Train on `train`, continuing from a checkpoint in `folder`; predict `test`."""
        fits = max(1, self.count_fits(passes))
        fold = NetworkFold(self, data, train, test, seed, folder, lambda x: advance(x / fits))
        return self._load_source().predict_fold(fold, passes)

    def count_fits(self, passes: int) -> int:
        """How many fits of a fold `fit_member` does, each on its own; 0 if there is one."""
        return passes if isinstance(self._load_source(), SeveralFits) else 0

    def fit_member(
        self,
        data: Dataset,
        train: NDArray[np.intp],
        test: NDArray[np.intp],
        member: int,
        *,
        seed: int,
        folder: Path,
        advance: Advance,
    ) -> NDArray[np.float32]:
        """[m,K] softmax of one member of an ensemble, kept in `folder` until the fold is done."""
        source = self._load_source()
        assert isinstance(source, SeveralFits)
        fold = NetworkFold(self, data, train, test, seed, folder, advance)
        return fold.fit_member(member, source.choose_rows(fold.labels, member, seed))

    def _load_source(self) -> UncertaintySource:
        return SOURCES.load(self.source)()


@dataclass(frozen=True)
class NetworkFold:
    """A network and one fold's samples: what a source of uncertainty asks for predictions."""

    learner: NetworkLearner
    data: Dataset
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    seed: int
    folder: Path
    advance: Advance

    @property
    def labels(self) -> NDArray[np.int32]:
        return self.data.labels.codes[self.train]

    def predict(self) -> NDArray[np.float32]:
        return self._predict(self.train, 0, self.seed, self.folder)[0]

    def predict_with_dropout(
        self, passes: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """(softmax [m,K], passes [F,m,K]) of one training."""
        return self._predict(self.train, passes, self.seed, self.folder)

    def fit_member(self, member: int, rows: NDArray[np.intp] | None) -> NDArray[np.float32]:
        folder = make_member_folder(self.folder, member)
        path = folder / MEMBER
        softmax = read_partial(path, (len(self.test), self.data.n_classes))
        if softmax is not None:
            self.advance(1.0)
            return softmax
        train = self.train if rows is None else self.train[rows]
        seed = mix_seed(self.seed, 7, member) if member else self.seed
        softmax, _ = self._predict(train, 0, seed, folder)
        write_array(path, softmax)
        return softmax

    def _predict(
        self, rows: NDArray[np.intp], passes: int, seed: int, folder: Path
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Train a network on these samples, and predict the held-out ones."""
        learner, inputs = self.learner, self.learner.inputs_of(self.data)
        train_samples = normalise_samples(
            inputs, rows, crop_and_flip=_should_augment(learner.training, inputs)
        )
        network = learner.make(mix_seed(seed, 0))
        train(
            network,
            train_samples,
            self.data.labels.codes[rows],
            learner.training,
            seed=seed,
            folder=folder,
            advance=lambda share: self.advance(share * _TRAINING_SHARE),
        )
        held_out = normalise_like(train_samples, inputs, self.test)
        predictions = predict_samples(
            network.eval(), held_out, passes, seed, learner.training, train_samples
        )
        self.advance(1 - _TRAINING_SHARE)
        return predictions


def predict_samples(
    network: nn.Module,
    samples: Samples,
    passes: int,
    seed: int,
    training: Training,
    training_samples: Samples,
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """(softmax [m,K], Monte Carlo passes [F,m,K] or None) of a network that was trained on
    `training_samples`."""
    fabric = share_fabric(training)
    network, samples = network.to(fabric.device), samples.to(fabric.device)
    softmax, stochastic = [], []
    with torch.inference_mode(), fabric.autocast(), keep_freed_memory():
        statistics = AS_TRAINED
        if training.batch_norm == "re-estimated":
            statistics = reestimate_batch_norm(
                network, _spread_batches(training_samples.to(fabric.device))
            )
        split = split_at_dropout(network, samples.batch(slice(0, 2))) if passes else None
        for start in range(0, len(samples), _BATCH):
            batch = samples.batch(slice(start, start + _BATCH))
            if split is None:
                with statistics.use_statistics():
                    probabilities = torch.softmax(network(batch).float(), dim=1)
            else:
                own_seed = mix_seed(seed, 1, start)
                probabilities, several = stochastic_passes(
                    split, batch, passes, seed=own_seed, softmax_statistics=statistics
                )
                stochastic.append(several.float().cpu().numpy())
            softmax.append(probabilities.float().cpu().numpy())
    return np.concatenate(softmax), np.concatenate(stochastic, axis=1) if stochastic else None


def _spread_batches(samples: Samples) -> Iterator[Any]:
    """Batches of one size, each spread evenly over all samples, and never augmented.

    A folder's samples lie class by class: batches of neighbours would have one class each, and
    the variances within a batch would miss how far the classes lie apart.
    """
    size = min(_BATCH, len(samples))
    count = min(_STATISTICS_BATCHES, len(samples) // size)
    rows = torch.linspace(0, len(samples) - 1, count * size).long()
    for start in range(count):
        yield samples.batch(rows[start::count])


def hash_network(network: nn.Module) -> str:
    """A hash of a network's layers and first weights: another network has another one."""
    key = hashlib.blake2b(str(network).encode(), digest_size=8)
    for name, tensor in network.state_dict().items():
        key.update(name.encode())
        key.update(tensor.detach().cpu().float().numpy().tobytes())
    return key.hexdigest()


def select_images(data: Dataset) -> NDArray[Any]:
    """The images themselves."""
    if data.kind != "images":
        raise InputError(
            "model", f"is a network of images, but the data is {data.kind}", "Choose another model"
        )
    images: NDArray[Any] = data.inputs
    return images


def _should_augment(training: Training, inputs: NDArray[Any]) -> bool:
    if inputs.ndim != 4 or training.augment == "none":
        return False
    return training.augment == "crop-flip" or inputs.shape[3] == 3
