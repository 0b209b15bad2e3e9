"""Sources of uncertainty: where the stochastic passes [F,m,K] of a fold come from, one file each.

`source.py` says what one is. Another package adds one with an entry point of the group
`uqled.uncertainty`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uqled.errors import InputError, suggest_name
from uqled.registry import Registry

if TYPE_CHECKING:
    from uqled.predict.uncertainty.source import UncertaintySource

#: The source is then the learner's own choice.
AUTO_SOURCE = "auto"

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
    """Refuse the name of an unknown source."""
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
