"""Sources of uncertainty: where the stochastic passes [F,m,K] of a fold come from, one file each.

A source asks a fold's model for predictions, and says which models it cannot be used with. Another
package adds one with an entry point of the group `uqled.uncertainty`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from uqled.errors import InputError, suggest_name
from uqled.predict.learner import FoldPredictions
from uqled.registry import Registry

#: The source is then the learner's own choice.
AUTO_SOURCE = "auto"


class FoldModel(Protocol):
    """A model and the samples of one fold, as a source of uncertainty sees them."""

    labels: NDArray[Any]
    """[n] the training samples' labels."""
    seed: int
    """Of this fold."""

    def predict(self) -> NDArray[np.float32]:
        """[m,K] probabilities of the held-out samples, after one fit on all training samples."""

    def fit_member(self, member: int, rows: NDArray[np.intp] | None) -> NDArray[np.float32]:
        """[m,K] the same after the fit number `member`, which has a seed of its own.

        `rows` are the training samples it sees, repeated or left out; None: all of them. The result
        stays on disk until the fold is finished, so that a killed run continues behind it.
        """


class UncertaintySource(Protocol):
    """One way to get F predictions that differ where the model is uncertain."""

    fits_networks: bool
    """If networks have it."""
    fits_classifiers: bool
    """If scikit-learn classifiers have it."""

    def check_model(self, model: Any) -> None:
        """Refuse a network or classifier that has no such passes."""

    def predict_fold(self, model: Any, passes: int) -> FoldPredictions:
        """The softmax and F passes of a fold's model (a `FoldModel`)."""


class SeveralFits:
    """F fits of the same model: a subclass chooses the rows that each fit sees."""

    fits_networks = fits_classifiers = True

    def check_model(self, model: Any) -> None:
        """Any model can be fitted several times."""

    def choose_rows(self, labels: NDArray[Any], member: int, seed: int) -> NDArray[np.intp] | None:
        """The training rows of one fit; None: all of them."""
        raise NotImplementedError

    def predict_fold(self, model: FoldModel, passes: int) -> FoldPredictions:
        members = [
            model.fit_member(member, self.choose_rows(model.labels, member, model.seed))
            for member in range(passes)
        ]
        return FoldPredictions(members[0], np.stack(members))


SOURCES: Registry[type[UncertaintySource]] = Registry(
    "uqled.uncertainty",
    {
        "mc-dropout": "uqled.predict.uncertainty.mc_dropout:MonteCarloDropout",
        "members": "uqled.predict.uncertainty.members:Members",
        "ensemble": "uqled.predict.uncertainty.ensemble:Ensemble",
        "bootstrap": "uqled.predict.uncertainty.bootstrap:Bootstrap",
        "none": "uqled.predict.uncertainty.no_passes:NoPasses",
    },
    argument="uncertainty",
)


def list_uncertainty_sources(*, of_networks: bool | None = None) -> list[str]:
    """`auto` and the names of the sources: all, or those of networks, or of classifiers."""
    names = SOURCES.names()
    if of_networks is not None:
        kind = "fits_networks" if of_networks else "fits_classifiers"
        names = [name for name in names if getattr(SOURCES.load(name), kind)]
    return [AUTO_SOURCE, *names]


def check_source_name(name: Any) -> None:
    """Refuse a name that is no source's."""
    if name not in list_uncertainty_sources():
        fix = suggest_name(str(name), list_uncertainty_sources())
        raise InputError("uncertainty", f"is {name!r}", fix)


def load_source(name: str, model: Any, *, is_network: bool) -> UncertaintySource:
    """The source of this name, which this network or classifier has."""
    source = SOURCES.load(name)()
    if not (source.fits_networks if is_network else source.fits_classifiers):
        subject = "a network" if is_network else type(model).__name__
        reason = "has none" if is_network else "is not a network"
        names = ", ".join(list_uncertainty_sources(of_networks=is_network))
        raise InputError(
            "uncertainty", f"is {name!r}, but {subject} {reason}", f"Choose one of {names}"
        )
    source.check_model(model)
    return source
