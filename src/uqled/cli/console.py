"""What the command line prints. Results go to standard output, all else to standard error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import typer

from uqled.terminal import escape_message


@dataclass(frozen=True)
class CommandOutput:
    """The result of a command."""

    text: str
    """For people."""
    content: dict[str, Any] = field(default_factory=dict)
    """The same for programs, as plain JSON."""


def print_output(output: CommandOutput) -> None:
    """Print a command's result."""
    typer.echo(escape_message(output.text))


def print_message(text: str) -> None:
    """Print a message that is not part of the result."""
    typer.echo(escape_message(text), err=True)


def print_error(text: str) -> None:
    """Print why a command ended without a result."""
    typer.secho(escape_message(text), fg="red", err=True)
