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
from uqled.bench.cell_checks import take_array, take_numbers
from uqled.detect.find import find_label_errors
from uqled.detect.methods.registry import list_method_names, list_methods
from uqled.errors import InputError
from uqled.storage.reading import first_line

#: Ending of a method's name if a sample's uncertainty is compared with that of its given class.
GIVEN_ENDING = "-given"

OwnMethod = Callable[[NDArray[np.int32], NDArray[Any], NDArray[Any]], Any]
"""labels [N], pred_probs [N,K], passes [F,N,K] -> mask [N], or (mask [N], scores [N])."""


@dataclass(frozen=True)
class Flags:
    """One method's answer."""

    mask: NDArray[np.bool_]
    """[N] True = flagged."""
    ranking: NDArray[np.int64]
    """[N] all samples, most suspect first, flagged ones before the others."""
    best: NDArray[np.int32]
    """[N] the suggested class of each sample."""


def check_methods(methods: Sequence[str]) -> None:
    """Refuse a name that is neither a method nor a function."""
    known_names = list_method_names()
    for name in methods:
        if isinstance(name, str) and ":" in name:
            _import_function(name)
        elif not isinstance(name, str) or name.removesuffix(GIVEN_ENDING) not in known_names:
            readers = [one for one, method in list_methods().items() if method.reads_entropy_class]
            raise InputError(
                "methods",
                f"have {show_value(name)}",
                f"Choose among {', '.join(known_names)} ({', '.join(readers)} also with "
                f"{GIVEN_ENDING}), or "
                "name a function of your own as module:function",
            )


def compute_flags(
    methods: Sequence[str], labels: Labels, pred_probs: NDArray[Any], passes: NDArray[Any]
) -> dict[str, Flags]:
    """The flags of each method, from the same probabilities [N,K] and [F,N,K]."""
    plain_methods = [name for name in methods if ":" not in name]
    flags: dict[str, Flags] = {}
    readings: tuple[tuple[Literal["candidate", "given"], list[str]], ...] = (
        ("candidate", [name for name in plain_methods if not name.endswith(GIVEN_ENDING)]),
        ("given", [name for name in plain_methods if name.endswith(GIVEN_ENDING)]),
    )
    for reading, method_names in readings:
        if not method_names:
            continue
        errors = find_label_errors(
            labels,
            pred_probs,
            passes,
            method=[name.removesuffix(GIVEN_ENDING) for name in method_names],
            entropy_class=reading,
            progress=False,
        )
        for name in method_names:
            one = errors.by_method[name.removesuffix(GIVEN_ENDING)]
            flags[name] = Flags(one.mask, one.ranking, one.best)
    for name in methods:
        if ":" in name:
            flags[name] = _compute_own_flags(name, labels.codes, pred_probs, passes)
    return {name: flags[name] for name in methods}


def hash_method_source(name: str) -> str | None:
    """A hash of the source of your own function, because another source gives other flags. None for
    uqled's methods."""
    if ":" not in name:
        return None
    try:
        text = inspect.getsource(inspect.unwrap(_import_function(name)))
    except (OSError, TypeError):
        return "unknown"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def pack_flags(flags: dict[str, Flags]) -> dict[str, NDArray[Any]]:
    """Pack masks as bits, and store equal arrays of suggested classes once."""
    suggested: list[NDArray[np.int32]] = []
    whose = []
    for one in flags.values():
        same = [i for i, classes in enumerate(suggested) if np.array_equal(classes, one.best)]
        whose.append(same[0] if same else len(suggested))
        if not same:
            suggested.append(one.best)
    return {
        "methods": np.array(list(flags)),
        "masks": np.packbits(np.stack([one.mask for one in flags.values()]), axis=1),
        "whose": np.array(whose),
        "suggested": shorten_codes(np.stack(suggested)),
    }


def shorten_codes(codes: NDArray[np.int32]) -> NDArray[Any]:
    """Class numbers in 16 bits, where they fit."""
    return codes.astype(np.int16) if codes.max(initial=0) < 2**15 else codes


def unpack_flags(
    arrays: dict[str, NDArray[Any]],
    shape: tuple[int | None, int] = (None, 2**31),
    subject: str = "the arrays of a detection",
) -> dict[str, Flags]:
    """Unpack the result of `pack_flags`, which leaves rankings out.

    `shape` is (samples, classes), as far as they are known.
    """
    methods = take_array(arrays, "methods", (None,), "U", subject)
    suggested = take_numbers(arrays, "suggested", (None, shape[0]), shape[1], subject)
    n, suggested = suggested.shape[1], suggested.astype(np.int32)
    packed_masks = take_array(arrays, "masks", (len(methods), (n + 7) // 8), "u", subject)
    whose = take_numbers(arrays, "whose", methods.shape, len(suggested), subject)
    masks = np.unpackbits(packed_masks.astype(np.uint8), axis=1, count=n).astype(np.bool_)
    no_samples = np.empty(0, np.int64)
    return {
        str(name): Flags(mask, no_samples, suggested[at])
        for name, mask, at in zip(methods, masks, whose, strict=True)
    }


def _import_function(name: str) -> OwnMethod:
    module, _, function = name.partition(":")
    fix = "Name it module:function, with the module's folder on PYTHONPATH"
    if not all(part.isidentifier() for part in (*module.split("."), function)):
        raise InputError("methods", f"have {name!r}, which names no function", fix)
    try:
        method: OwnMethod = getattr(import_module(module), function)
    except Exception as error:  # a user's module may raise anything on import
        raise InputError(
            "methods", f"have {name!r}, which cannot be imported ({first_line(error)})", fix
        ) from error
    if not callable(method):
        raise InputError("methods", f"have {name!r}, which is not a function", fix)
    return method


def _compute_own_flags(
    name: str, codes: NDArray[np.int32], pred_probs: NDArray[Any], passes: NDArray[Any]
) -> Flags:
    answer = _import_function(name)(codes.copy(), pred_probs.copy(), passes.copy())
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
