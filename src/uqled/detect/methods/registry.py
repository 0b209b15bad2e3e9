"""The detection methods, and how their names are parsed: `alg-ens-2`, `all`.

Everything about a method is in its own file; no other file knows a method's name. Another package
adds one by an entry point of the group `uqled.methods` that names a `Method`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from uqled.errors import InputError, MissingInputError, suggest_name
from uqled.registry import Registry

if TYPE_CHECKING:
    from uqled.detect.methods.method import Method

_ROOM = "uqled.detect.methods"

METHODS: Registry[Method] = Registry(
    "uqled.methods",
    {
        "auto": f"{_ROOM}.auto:AUTO",
        "cl-pbnr": f"{_ROOM}.confident_learning:CL_PBNR",
        "cl-mcd": f"{_ROOM}.passes:CL_MCD",
        "cl-mcd-e": f"{_ROOM}.passes:CL_MCD_E",
        "cl-mcd-m": f"{_ROOM}.passes:CL_MCD_M",
        "cl-mcd-mi": f"{_ROOM}.passes:CL_MCD_MI",
        "cl-mcd-vr": f"{_ROOM}.passes:CL_MCD_VR",
        "cl-mcd-sd": f"{_ROOM}.passes:CL_MCD_SD",
        "cl-mcd-ens": f"{_ROOM}.passes:CL_MCD_ENS",
        "alg-ens": f"{_ROOM}.algorithm_ensemble:ALG_ENS",
        "cl-pbc": f"{_ROOM}.confident_learning:CL_PBC",
        "cl-both": f"{_ROOM}.confident_learning:CL_BOTH",
        "cl-joint": f"{_ROOM}.confident_learning:CL_JOINT",
        "argmax": f"{_ROOM}.baselines:ARGMAX",
        "argmax-mean": f"{_ROOM}.baselines:ARGMAX_MEAN",
        "low-self-confidence": f"{_ROOM}.baselines:LOW_SELF_CONFIDENCE",
        "low-normalized-margin": f"{_ROOM}.baselines:LOW_NORMALIZED_MARGIN",
    },
    argument="method",
)

#: The name for every method with `is_in_all` whose inputs are available.
ALL = "all"
#: The method that is run if none is named; its result leads those of `all`.
DEFAULT_METHOD = "auto"


@dataclass(frozen=True)
class MethodChoice:
    """A method with its full name and its agreement."""

    name: str
    """The name in results, with the agreement: `alg-ens-3`."""
    method: Method
    agreement: int = 0


def parse_method(name: str, agreement: int | None = None) -> MethodChoice:
    """Parse a name: the method, with the agreement that the name or `agreement` states.

    >>> parse_method("alg-ens").name, parse_method("alg-ens-2").agreement
    ('alg-ens-3', 2)
    """
    if not isinstance(name, str):
        raise _make_unknown_method_error(name)
    base, _, number = name.rpartition("-")
    if number.isdecimal() and base in METHODS:
        method = METHODS.load(base)
        if int(number) not in method.agreements or agreement not in (None, int(number)):
            raise _make_unknown_method_error(name)
        return MethodChoice(name, method, int(number))
    if name not in METHODS:
        raise _make_unknown_method_error(name)
    method = METHODS.load(name)
    if agreement is not None and not method.agreements:
        takers = [taker for taker, other in list_methods().items() if other.agreements]
        raise InputError(
            "agreement", f"is {agreement} with method {name!r}", f"Use it with method {takers[0]!r}"
        )
    if not method.agreements:
        return MethodChoice(name, method)
    agreement = method.usual_agreements[0] if agreement is None else agreement
    low, high = min(method.agreements), max(method.agreements)
    from uqled.arrays import check_whole_number  # later: the command line lists names without NumPy

    agreement = check_whole_number(agreement, "agreement", low=low, high=high)
    return MethodChoice(f"{name}-{agreement}", method, agreement)


def choose_methods(
    name: str | Sequence[str],
    agreement: int | None = None,
    *,
    inputs: tuple[str, ...],
    headline: str | None = None,
) -> list[MethodChoice]:
    """The methods for one or several names; the result of the first one leads.

    `inputs` names the available ones of `pred_probs` and `passes`. `headline` leads the methods of
    `all`; it may be a method or an agreement that `all` does not include.
    """
    if isinstance(name, Sequence) and not isinstance(name, str):
        choices = [parse_method(one, None) for one in name]
        for choice in choices:
            _refuse_missing(choice.name, choice.method, inputs)
        if not choices or agreement is not None or headline is not None:
            raise InputError(
                "method",
                f"is {list(name)!r} with other options or without a name",
                "Pass at least one name, the one that leads first, each with its agreement",
            )
        return list({choice.name: choice for choice in choices}.values())
    if name != ALL:
        choice = parse_method(name, agreement)
        _refuse_missing(name, choice.method, inputs)
        if headline not in (None, ALL) and parse_method(str(headline)).name != choice.name:
            raise InputError(
                "headline", f"is {headline!r} with method {name!r}", f"Use it with method {ALL!r}"
            )
        return [choice]
    first = parse_method(DEFAULT_METHOD if headline in (None, ALL) else str(headline))
    _refuse_missing(first.name, first.method, inputs)
    choices = [first]
    for one, method in list_methods().items():
        if method.is_in_all and all(need in inputs for need in method.needs):
            numbers = method.usual_agreements if agreement is None else (agreement,)
            choices += [parse_method(one, n) for n in (numbers if method.agreements else (None,))]
    return list({choice.name: choice for choice in choices}.values())


def list_methods() -> dict[str, Method]:
    """Every method by its name; those of other packages come last."""
    return {name: METHODS.load(name) for name in METHODS.names()}


def list_method_names() -> list[str]:
    """The name of every method, as in results."""
    return [
        parse_method(name, number).name
        for name, method in list_methods().items()
        for number in (method.usual_agreements or (None,))
    ]


def _refuse_missing(name: str, method: Method, inputs: tuple[str, ...]) -> None:
    needs = method.needs
    if missing := [need for need in needs if need not in inputs]:
        raise MissingInputError(
            "method",
            f"{name!r} needs {_join_arguments(needs)}, but {_join_arguments(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing",
            "Pass the out-of-sample probabilities of several stochastic passes [F,N,K] as "
            "`passes`" if "passes" in missing
            else "Pass the out-of-sample softmax probabilities [N,K] as `pred_probs`",
        )  # fmt: skip


def _join_arguments(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _make_unknown_method_error(name: object) -> InputError:
    fix = suggest_name(str(name), [*METHODS.names(), ALL])
    return InputError("method", f"is {name!r}", fix)
