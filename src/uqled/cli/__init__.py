"""The command line: one file per command, shared groups of options.

A command is a function that opens, calls, and returns what to print. A new one is a file in
`commands` and a line in `COMMANDS`, which is in the order of a person's day.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from uqled.cli.commands import (
    bench,
    demo,
    detect,
    export,
    find,
    import_,
    noise,
    predict,
    report,
    review,
)
from uqled.cli.console import CommandOutput
from uqled.cli.running import make_command

#: Panel of the help -> its commands.
COMMANDS: dict[str, list[Callable[..., CommandOutput | None]]] = {
    "Find and fix wrong labels": [find.find, review.review, export.export, import_.import_],
    "One step at a time": [predict.predict, detect.detect, report.report],
    "Experiments": [noise.noise, bench.bench, demo.demo],
}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def main() -> None:
    """Find wrong labels in classification data."""


for _panel, _functions in COMMANDS.items():
    for _function in _functions:
        _name = _function.__name__.rstrip("_")
        app.command(_name, rich_help_panel=_panel)(make_command(_function))
