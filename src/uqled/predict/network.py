"""Networks as learners: trained per fold, then asked with Monte Carlo dropout or as an ensemble."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from uqled.data.dataset import Dataset
from uqled.errors import InputError
from uqled.models.dropout import need_dropout
from uqled.models.mcd import split_at_dropout, stochastic_passes
from uqled.predict.learner import (
    MEMBER,
    Advance,
    FoldPredictions,
    make_member_folder,
    read_kept,
)
from uqled.predict.samples import Samples, other_samples, samples_like
from uqled.predict.training import Training, make_fabric, mixed, resolved_precision, train
from uqled.storage.atomic import write_array

Source = Literal["mc-dropout", "ensemble", "none"]

_TRAINING_SHARE = 0.9  # of the progress of a fold
_PREDICTED = 512  # samples predicted at a time


@dataclass(frozen=True)
class NetworkLearner:
    """A network that is made anew for every training."""

    name: str
    make: Callable[[int], nn.Module]
    """From a seed to an untrained network."""
    inputs_of: Callable[[Dataset], NDArray[Any]]
    """[N,H,W,C] images or [N,D] features of a data set."""
    training: Training
    source: Source = "mc-dropout"

    def settings(self) -> dict[str, Any]:
        found = asdict(self.training) | {"uncertainty": self.source}
        found["precision"] = resolved_precision(self.training)
        return found | {"network": network_fingerprint(self.make(0))}

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
        if self.source == "ensemble":
            members = [
                self.fit_member(
                    data,
                    train,
                    test,
                    member,
                    seed=seed,
                    folder=folder,
                    advance=lambda part: advance(part / passes),
                )
                for member in range(passes)
            ]
            return FoldPredictions(members[0], np.stack(members))
        seen, asked, labels = self._samples(data, train, test)
        model = self._trained(seen, labels, seed, folder, advance)
        F = passes if self.source == "mc-dropout" else 0
        softmax, stochastic = self._predicted(model, asked, F, seed)
        advance(1 - _TRAINING_SHARE)
        return FoldPredictions(softmax, stochastic)

    def members(self, passes: int) -> int:
        """How many trainings of a fold `fit_member` does, each on its own; 0 if there is one."""
        return passes if self.source == "ensemble" else 0

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
        own = make_member_folder(folder, member)
        stored = own / MEMBER
        if (kept := read_kept(stored, (len(test), data.n_classes))) is not None:
            advance(1.0)
            return kept
        own_seed = mixed(seed, 7, member) if member else seed
        seen, asked, labels = self._samples(data, train, test)
        model = self._trained(seen, labels, own_seed, own, advance)
        found, _ = self._predicted(model, asked, 0, own_seed)
        write_array(stored, found)
        advance(1 - _TRAINING_SHARE)
        return found

    def _samples(
        self, data: Dataset, train: NDArray[np.intp], test: NDArray[np.intp]
    ) -> tuple[Samples, Samples, NDArray[Any]]:
        """(samples to train on, samples to predict, labels of the former)."""
        inputs = self.inputs_of(data)
        seen = samples_like(inputs, train, crop_and_flip=self._augmented(inputs))
        return seen, other_samples(seen, inputs, test), data.labels.codes[train]

    def _trained(
        self,
        samples: Samples,
        labels: NDArray[Any],
        seed: int,
        folder: Path,
        advance: Advance,
    ) -> nn.Module:
        model = self.make(mixed(seed, 0))
        if self.source == "mc-dropout":
            need_dropout(model)
        train(
            model,
            samples,
            labels,
            self.training,
            seed=seed,
            folder=folder,
            advance=lambda part: advance(part * _TRAINING_SHARE),
        )
        return model.eval()

    def _predicted(
        self, model: nn.Module, samples: Samples, passes: int, seed: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """(softmax [m,K], passes [F,m,K] or None)."""
        fabric = make_fabric(replace(self.training, devices=1))
        device = fabric.device
        model, samples = model.to(device), samples.to(device)
        single, several = [], []
        with torch.inference_mode(), fabric.autocast():
            network = split_at_dropout(model, samples.batch(slice(0, 2))) if passes else model
            for start in range(0, len(samples), _PREDICTED):
                batch = samples.batch(slice(start, start + _PREDICTED))
                if passes:
                    own = mixed(seed, 1, start)
                    softmax, stochastic = stochastic_passes(network, batch, passes, seed=own)
                    several.append(stochastic.float().cpu().numpy())
                else:
                    softmax = torch.softmax(model(batch).float(), dim=1)
                single.append(softmax.float().cpu().numpy())
        together = np.concatenate(several, axis=1) if several else None
        return np.concatenate(single), together

    def _augmented(self, inputs: NDArray[Any]) -> bool:
        if inputs.ndim != 4 or self.training.augment == "none":
            return False
        return self.training.augment == "crop-flip" or inputs.shape[3] == 3


def network_fingerprint(network: nn.Module) -> str:
    """A hash of a network's layers and first weights: another network has another one."""
    found = hashlib.blake2b(str(network).encode(), digest_size=8)
    for name, tensor in network.state_dict().items():
        found.update(name.encode())
        found.update(tensor.detach().cpu().float().numpy().tobytes())
    return found.hexdigest()


def image_inputs(data: Dataset) -> NDArray[Any]:
    """The images themselves."""
    if data.kind != "images":
        raise InputError(
            "model", f"is a network of images, but the data is {data.kind}", "Choose another model"
        )
    found: NDArray[Any] = data.inputs
    return found
