"""From a function with groups of options to a command: options expanded, errors in one line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_args, get_type_hints

import typer

from uqled.cli.console import CommandOutput, print_error, print_output
from uqled.cli.options import OutputOptions
from uqled.errors import UqledError


def make_command(function: Callable[..., CommandOutput | None]) -> Callable[..., None]:
    """The function as Typer takes it: every field of its option groups is a parameter.

    A group is a dataclass whose fields are annotated with `typer.Option`, and whose `panel` is the
    heading under which the help lists them. Every command has the options of its output; the
    function may have them as a parameter too.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        if isinstance(hint, type) and is_dataclass(hint):
            groups[parameter.name] = hint
            if hint is not OutputOptions:
                parameters += _list_options(hint)
        else:
            parameters.append(_make_parameter(parameter.name, hint, parameter.default))
    parameters += _list_options(OutputOptions)

    def command(**values: Any) -> None:
        output = _take_group(OutputOptions, values)
        for name, group in groups.items():
            values[name] = output if group is OutputOptions else _take_group(group, values)
        with _refuse_in_one_line():
            result = function(**values)
        if result is not None:
            print_output(result)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _list_options(group: type[Any]) -> list[inspect.Parameter]:
    """A group's fields as parameters, each below the group's heading in the help."""
    hints = get_type_hints(group, include_extras=True)
    parameters = []
    for field in fields(group):
        kind, option = get_args(hints[field.name])
        option = copy(option)
        option.rich_help_panel = group.panel
        parameters.append(_make_parameter(field.name, Annotated[kind, option], field.default))
    return parameters


def _make_parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    if default is MISSING:
        default = inspect.Parameter.empty
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, annotation=annotation, default=default)


def _take_group(group: type[Any], values: dict[str, Any]) -> Any:
    """The group of those values that are its fields, which leave `values`."""
    return group(**{field.name: values.pop(field.name) for field in fields(group)})


@contextmanager
def _refuse_in_one_line() -> Iterator[None]:
    """Turn what is wrong with the input into one line and exit code 2."""
    try:
        yield
    except UqledError as error:
        print_error(f"error: {error}.")
        raise typer.Exit(2) from None
    except OSError as error:  # a disk that is full or gone, rights that are missing
        where = f" {error.filename!r}" if error.filename else ""
        print_error(f"error: the system refused{where} ({error.strerror or error})")
        raise typer.Exit(2) from None
