"""From what the user calls a model to a learner."""

from __future__ import annotations

from typing import Any

from uqled.data.dataset import Dataset
from uqled.errors import InputError
from uqled.predict.learner import Learner
from uqled.predict.training_options import resolve_training

NETWORKS = ("small", "vgg11", "resnet50")
ESTIMATORS = ("logistic", "forest", "boosting")
SOURCES = ("auto", "mc-dropout", "ensemble", "bootstrap", "members", "none")


def learner_for(
    model: Any, data: Dataset, *, uncertainty: str = "auto", **training: Any
) -> Learner:
    """A learner of a name, a scikit-learn classifier, or a function that makes a network."""
    if uncertainty not in SOURCES:
        raise InputError(
            "uncertainty", f"is {uncertainty!r}", f"Choose one of {', '.join(SOURCES)}"
        )
    given = {name: value for name, value in training.items() if value is not None}
    if isinstance(model, str) and model == "auto":
        model = "small" if data.kind == "images" else "auto"
    if _is_estimator(model):
        if given:
            raise InputError(
                next(iter(given)), f"is given with {model!r}", "It is an option of networks"
            )
        from uqled.predict.estimators import estimator_learner

        if uncertainty == "mc-dropout":
            raise InputError(
                "uncertainty", "is 'mc-dropout', but the model is no network", "Use auto"
            )
        return estimator_learner(model, data, uncertainty)  # type: ignore[arg-type]
    return _network(model, data, uncertainty, given)


def _is_estimator(model: Any) -> bool:
    if isinstance(model, str):
        return model in ESTIMATORS or model == "auto"
    return hasattr(model, "fit") and hasattr(model, "get_params")


def _network(model: Any, data: Dataset, uncertainty: str, given: dict[str, Any]) -> Learner:
    try:
        from uqled.predict.network import NetworkLearner, image_inputs
        from uqled.predict.training import make_fabric
    except ImportError as error:
        raise InputError(
            "model", f"{model!r} needs PyTorch and Lightning Fabric", "pip install 'uqled[torch]'"
        ) from error
    if uncertainty in ("members", "bootstrap"):
        raise InputError(
            "uncertainty",
            f"is {uncertainty!r}, but a network has none",
            "Use mc-dropout or ensemble",
        )
    training = resolve_training(given)
    make_fabric(training)  # refuse hardware that is not there before anything is written
    source: Any = "mc-dropout" if uncertainty == "auto" else uncertainty

    from uqled import models
    from uqled.models.dropout import need_dropout

    if isinstance(model, str) and model.split(":")[0] == "probe":
        from uqled.predict.probing import probe_learner

        own = given.keys() - {"preset"}
        return probe_learner(model, data, training, source, given=set(own))
    shape, n_classes = image_inputs(data).shape[1:], data.n_classes

    def make(seed: int) -> Any:
        return models.build(model, n_classes=n_classes, image_shape=shape, seed=seed)

    network = make(0)  # refuse what cannot be built or asked before anything is written
    if source == "mc-dropout":
        need_dropout(network)
    name = model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__)
    return NetworkLearner(name, make, image_inputs, training, source)
