"""What the command line prints. Results go to standard output, all else to standard error.

With `--json` a result is one document, described in `docs/reference/command-line.md`. A change
that could break a program that reads it changes `SCHEMA`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import typer

from uqled.terminal import escape_message

SCHEMA = "uqled/1"


@dataclass(frozen=True)
class CommandOutput:
    """The result of a command."""

    text: str
    """For people."""
    content: dict[str, Any] = field(default_factory=dict)
    """The same for programs, as plain JSON."""
    exit_code: int = 0


def print_text(text: str) -> None:
    """Print a result for people."""
    typer.echo(escape_message(text))


def print_json(command: str, **content: Any) -> None:
    """Print a result or an error for programs; ASCII, so that no terminal can misread it."""
    document = {"schema": SCHEMA, "command": command, **content}
    typer.echo(json.dumps(document, indent=1, allow_nan=False, default=str))


def print_message(text: str) -> None:
    """Print a message that is not part of the result."""
    typer.echo(escape_message(text), err=True)


def print_error(text: str) -> None:
    """Print why a command ended without a result."""
    typer.secho(escape_message(text), fg="red", err=True)
