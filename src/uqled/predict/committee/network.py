"""A small network with dropout on features, predicting without dropout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from uqled.predict.committee.heads import CommitteeFold
from uqled.predict.schedule import mix_seed, schedule_rate
from uqled.predict.training_options import Training

if TYPE_CHECKING:
    from torch import Tensor

_RATE, _DECAY = 0.05, 5e-4
_FEW, _FEW_PER_CLASS = 1_000, 40  # samples, below which they are seen more often
#: With few samples and with many, of which more epochs or steps did not make it more accurate.
_EPOCHS, _STEPS = (12, 8), (64, 32)  # steps of an epoch, as long as the batches allow
_BATCHES = (64, 512)  # samples: with few and with many of them
_SMALL_BATCH = 128  # up to which several threads would spend their time waiting


def predict_held_out(fold: CommitteeFold) -> NDArray[np.float32]:
    import torch
    from torch.nn import functional

    from uqled.models.heads import make_head

    X = torch.from_numpy(fold.features[fold.train])
    y = torch.from_numpy(fold.labels[fold.train].astype(np.int64))
    # Without the head's batch norm, which would blow up the components of little variance.
    network = make_head(X.shape[1], fold.n_classes, mix_seed(fold.seed, 0))[2:]
    parameters = list(network.parameters())
    velocities = [torch.zeros_like(one) for one in parameters]
    are_many = len(y) >= max(_FEW, _FEW_PER_CLASS * fold.n_classes)
    batch = min(int(np.clip(len(y) // _STEPS[are_many], *_BATCHES)), len(y))
    steps, epochs = len(y) // batch, _EPOCHS[are_many]
    plan = Training(epochs=epochs, lr=_RATE)
    with _limit_threads(1 if batch <= _SMALL_BATCH else fold.threads), torch.random.fork_rng([]):
        torch.manual_seed(mix_seed(fold.seed, 1))
        for step in range(epochs * steps):
            if step % steps == 0:
                order = torch.randperm(len(y))
            begin = step % steps * batch
            rows = order[begin : begin + batch]
            functional.cross_entropy(network(X[rows]), y[rows]).backward()
            descend(parameters, velocities, *schedule_rate(plan, step / steps))
        with torch.inference_mode():
            scores = network.eval()(torch.from_numpy(fold.features[fold.test]))
    probabilities: NDArray[np.float32] = torch.softmax(scores, dim=1).numpy()
    return probabilities


def descend(
    parameters: Sequence[Tensor], velocities: Sequence[Tensor], rate: float, momentum: float
) -> None:
    """One step down the gradients, which are cleared, with decay and Nesterov's momentum.

    As `torch.optim.SGD`, which takes longer to import than this network takes to train.
    """
    import torch

    with torch.no_grad():
        for parameter, velocity in zip(parameters, velocities, strict=True):
            assert parameter.grad is not None
            gradient = parameter.grad.add_(parameter, alpha=_DECAY)
            velocity.mul_(momentum).add_(gradient)
            parameter.sub_(gradient.add_(velocity, alpha=momentum), alpha=rate)
            parameter.grad = None


@contextmanager
def _limit_threads(threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
