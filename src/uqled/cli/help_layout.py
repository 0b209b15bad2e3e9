"""How Typer lays out the help: names of values, not the types of Python."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class PlainCommand(TyperCommand):
    """A command whose help shows `--quiet` and `RUN`, not `--quiet <bool>` and `RUN <path>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [_hide_type(param) for param in super().get_params(ctx)]


class PlainGroup(TyperGroup):
    """The same for the list of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [_hide_type(param) for param in super().get_params(ctx)]


def _hide_type(param: Any) -> Any:
    if param.param_type_name == "argument":
        # Versions of Typer differ in which of these they ask for.
        param.display_type_rich = lambda ctx: None  # noqa: ARG005
        name = param.metavar or str(param.name).upper()
        param._usage_display_name = lambda: name if param.required else f"[{name}]"
    elif getattr(param, "is_flag", False) and param.metavar is None:
        param.metavar = ""
    return param
