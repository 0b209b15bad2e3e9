"""How Typer lays out the help: names of values, not the types of Python. And what it refuses, as
JSON for programs that asked for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from uqled.cli.console import print_json

#: Entry of a context's `meta`: whether `--json` is given, before or after the command.
WANTS_JSON = "uqled.json"
#: Entry of a context's `meta`: the file of default options, if there is one.
SETTINGS_FILE = "uqled.settings"
#: Usage errors; some versions of Typer have their own class.
_UsageError: Any = typer.BadParameter.__base__

_NO_NUMBER = re.compile(r"valid (integer|number|float)")


class PlainCommand(TyperCommand):
    """A command whose help shows `--quiet` and `RUN`, not `--quiet <bool>` and `RUN <path>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [_hide_type(param) for param in super().get_params(ctx)]

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        is_json = parent is not None and parent.meta[WANTS_JSON]
        with _print_refusal(info_name, is_json=is_json, words=tuple(args)):
            return super().make_context(info_name, args, parent, **extra)


class PlainGroup(TyperGroup):
    """The same for the list of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [_hide_type(param) for param in super().get_params(ctx)]

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        # Set before the arguments are parsed, so that a usage error can follow it.
        ctx.meta[WANTS_JSON] = ctx.params["as_json"] or "--json" in args
        with _print_refusal(args[0], is_json=ctx.meta[WANTS_JSON]):
            return super().resolve_command(ctx, args)


@contextmanager
def _print_refusal(command: str, *, is_json: bool, words: tuple[str, ...] = ()) -> Iterator[None]:
    """Print as JSON why the words after `uqled` cannot be understood, if the user wants JSON."""
    try:
        yield
    except _UsageError as error:
        _name_value(error, words)
        name = getattr(error.param, "name", None) if hasattr(error, "param") else None
        if error.ctx is not None and is_from_settings(error.ctx, name):
            error.message = f"{error.message}. It is set in {error.ctx.meta[SETTINGS_FILE]}"
        if is_json:
            print_json(command, error={"message": error.format_message()})
        raise


def _name_value(error: Any, words: tuple[str, ...]) -> None:
    """Let an error about a number name what was typed, which some versions of Typer leave out."""
    no_number = _NO_NUMBER.search(error.message or "")
    options = getattr(getattr(error, "param", None), "opts", ())
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if no_number is None or option not in options:
            continue
        value = value if equals else "".join(words[at + 1 : at + 2])
        kind = "whole number" if no_number[1] == "integer" else "number"
        share = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", value, re.ASCII)
        fix = f". Write {float(share[1]) / 100:g} for {value}" if share and kind == "number" else ""
        error.message = f"{value!r} is not a {kind}{fix}"


def is_from_settings(context: Any, parameter: str | None) -> bool:
    """Whether a parameter has its value from the file of default options."""
    source = context.get_parameter_source(parameter) if parameter else None
    return getattr(source, "name", "") == "DEFAULT_MAP"


def _hide_type(param: Any) -> Any:
    if param.param_type_name == "argument":
        # Versions of Typer differ in which of these they ask for.
        param.display_type_rich = lambda ctx: None  # noqa: ARG005
        name = param.metavar or str(param.name).upper()
        param._usage_display_name = lambda: name if param.required else f"[{name}]"
    elif getattr(param, "is_flag", False) and param.metavar is None:
        param.metavar = ""
    return param
