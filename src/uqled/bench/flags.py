"""What each method of a benchmark flags, uqled's own and a researcher's."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled import uncertainty
from uqled.arrays import Labels, show_value
from uqled.detect.find import find_label_errors
from uqled.detect.methods import list_method_names
from uqled.errors import InputError
from uqled.storage.reading import first_line

_GIVEN = "-given"  # with the other reading of the entropy threshold

Own = Callable[[NDArray[np.int32], NDArray[Any], NDArray[Any]], Any]
"""labels [N], pred_probs [N,K], passes [F,N,K] -> mask [N], or (mask [N], scores [N])."""


@dataclass(frozen=True)
class Flags:
    """One method's answer."""

    mask: NDArray[np.bool_]
    """[N] True = flagged."""
    ranking: NDArray[np.int64]
    """[N] all samples, most suspect first, the flagged before the others."""
    best: NDArray[np.int32]
    """[N] the class that it suggests."""


def check_methods(methods: Sequence[str]) -> None:
    """Refuse a name that is neither a method's nor a function's."""
    known = list_method_names()
    for name in methods:
        if isinstance(name, str) and ":" in name:
            _own(name)
        elif not isinstance(name, str) or name.removesuffix(_GIVEN) not in known:
            raise InputError(
                "methods",
                f"have {show_value(name)}",
                f"Choose among {', '.join(known)} (cl-mcd-e and alg-ens also with {_GIVEN}), or "
                "name a function of your own as module:function",
            )


def flags_of(
    methods: Sequence[str], labels: Labels, pred_probs: NDArray[Any], passes: NDArray[Any]
) -> dict[str, Flags]:
    """Each method's flags, from the same probabilities [N,K] and [F,N,K]."""
    plain = [name for name in methods if ":" not in name]
    found: dict[str, Flags] = {}
    readings: tuple[tuple[Literal["candidate", "given"], list[str]], ...] = (
        ("candidate", [name for name in plain if not name.endswith(_GIVEN)]),
        ("given", [name for name in plain if name.endswith(_GIVEN)]),
    )
    for reading, chosen in readings:
        if not chosen:
            continue
        errors = find_label_errors(
            labels, pred_probs, passes, method="all", entropy_class=reading, progress=False
        )
        for name in chosen:
            one = errors.by_method[name.removesuffix(_GIVEN)]
            found[name] = Flags(one.mask, one.ranking, one.best)
    for name in methods:
        if ":" in name:
            found[name] = _own_flags(name, labels.codes, pred_probs, passes)
    return {name: found[name] for name in methods}


def source_of(name: str) -> str | None:
    """A hash of an own function's source: another one flags otherwise. None for uqled's methods."""
    if ":" not in name:
        return None
    try:
        text = inspect.getsource(inspect.unwrap(_own(name)))
    except (OSError, TypeError):
        return "unknown"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _own(name: str) -> Own:
    module, _, function = name.partition(":")
    fix = "Name it module:function, with the module's folder on PYTHONPATH"
    if not all(part.isidentifier() for part in (*module.split("."), function)):
        raise InputError("methods", f"have {name!r}, which names no function", fix)
    try:
        found: Own = getattr(import_module(module), function)
    except Exception as error:  # whatever a module of one's own does when it is loaded
        raise InputError(
            "methods", f"have {name!r}, which cannot be imported ({first_line(error)})", fix
        ) from error
    if not callable(found):
        raise InputError("methods", f"have {name!r}, which is no function", fix)
    return found


def _own_flags(
    name: str, codes: NDArray[np.int32], pred_probs: NDArray[Any], passes: NDArray[Any]
) -> Flags:
    answer = _own(name)(codes.copy(), pred_probs.copy(), passes.copy())
    mean = uncertainty.mean(passes)
    own_scores = isinstance(answer, tuple)
    mask = np.asarray(answer[0] if own_scores else answer)
    scores = np.asarray(answer[1]) if own_scores else mean[np.arange(len(codes)), codes]
    if mask.shape != codes.shape or mask.dtype != bool or scores.shape != codes.shape:
        raise InputError(
            "methods",
            f"have {name!r}, which returned {mask.dtype} of shape {mask.shape}",
            f"Return a mask of {len(codes)} True or False, or (mask, scores), lower = more suspect",
        )
    ranking = np.lexsort((np.arange(len(codes)), scores, ~mask))
    return Flags(mask, ranking, mean.argmax(axis=1).astype(np.int32))
