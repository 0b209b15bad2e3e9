"""Learners by name, one file each, and from what the user calls a model to a learner.

An entry is a function `make_learner(model, data, *, uncertainty, training)`; `model` is what the
user wrote, such as `probe:NAME`, and `training` the options of training that were set. Another
package adds one with an entry point of the group `uqled.learners`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from uqled.data.dataset import Dataset
from uqled.errors import InputError, suggest_name
from uqled.predict.learner import Learner
from uqled.predict.training_options import Training, check_device_name
from uqled.predict.uncertainty import AUTO_SOURCE, check_source_name
from uqled.registry import Registry

_ROOM = "uqled.predict.learners"
#: Arguments of `cross_validate`, for suggestions.
_ARGUMENTS = ("model", "folds", "passes", "uncertainty", "out", "seed", "progress", "engine")

LEARNERS: Registry[Callable[..., Learner]] = Registry(
    "uqled.learners",
    {
        "auto": f"{_ROOM}.auto:make_learner",
        "logistic": f"{_ROOM}.estimator:make_learner",
        "forest": f"{_ROOM}.estimator:make_learner",
        "boosting": f"{_ROOM}.estimator:make_learner",
        "small": f"{_ROOM}.network:make_learner",
        "vgg11": f"{_ROOM}.network:make_learner",
        "resnet50": f"{_ROOM}.network:make_learner",
        "probe": f"{_ROOM}.probe:make_learner",
        "committee": f"{_ROOM}.committee:make_learner",
    },
    argument="model",
)


def choose_learner(
    model: Any, data: Dataset, *, uncertainty: str = AUTO_SOURCE, **training: Any
) -> Learner:
    """Make a learner from a name, a scikit-learn classifier, or a function that makes a network."""
    check_source_name(uncertainty)
    _refuse_unknown_options(training)
    options = {name: value for name, value in training.items() if value is not None}
    if "device" in options:
        check_device_name(options["device"])
    return find_learner_maker(model)(model, data, uncertainty=uncertainty, training=options)


def _refuse_unknown_options(training: dict[str, Any]) -> None:
    """Refuse what is not a training option: a misspelt argument would be taken for one."""
    known_options = [*(field.name for field in fields(Training)), "preset", "offline"]
    for name in training:
        if name not in known_options:
            raise InputError(
                name, "is not an argument", suggest_name(name, [*_ARGUMENTS, *known_options])
            )


def find_learner_maker(model: Any) -> Callable[..., Learner]:
    """The function that makes learners of such a model; refused if there is none, or a package is
    missing."""
    if not isinstance(model, str):
        is_classifier = hasattr(model, "fit") and hasattr(model, "get_params")
        return LEARNERS.load("forest" if is_classifier else "small")  # the files that make them
    name, colon, _ = model.partition(":")
    if name in LEARNERS or colon:  # module:function makes a network
        try:
            return LEARNERS.load(name if name in LEARNERS else "small")
        except InputError as error:  # a package is missing
            problem = f"is {model!r}, which {error.problem}"
            raise InputError("model", problem, error.fix) from error
    raise InputError(
        "model",
        f"is {model!r}",
        f"{suggest_name(model, LEARNERS.names())}, or module:function of your own",
    )
