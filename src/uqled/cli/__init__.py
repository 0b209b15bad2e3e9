"""The command line: one file per command, shared groups of options.

A command is a function that opens, calls, and returns what to print. A new one is a file in
`commands` and a line in `COMMANDS`, which is in the order of a person's day.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from uqled.cli.commands import (
    audit,
    bench,
    check,
    demo,
    detect,
    export,
    find,
    import_,
    inspect,
    noise,
    predict,
    report,
    review,
)
from uqled.cli.console import CommandOutput, print_error, print_json, print_text
from uqled.cli.help_layout import SETTINGS_FILE, WANTS_JSON, PlainCommand, PlainGroup
from uqled.cli.options import JsonFlag, OutputOptions, QuietFlag, VerboseFlag
from uqled.cli.running import make_command
from uqled.errors import UqledError

#: Panel of the help -> its commands.
COMMANDS: dict[str, dict[str, Callable[..., CommandOutput | None]]] = {
    "Find and fix wrong labels": {
        "find": find.find,
        "inspect": inspect.inspect,
        "review": review.review,
        "audit": audit.audit,
        "export": export.export,
        "import": import_.import_,
        "check": check.check,
    },
    "One step at a time": {
        "predict": predict.predict,
        "detect": detect.detect,
        "report": report.report,
    },
    "Experiments": {"noise": noise.noise, "bench": bench.bench, "demo": demo.demo},
}

#: Command -> option of an earlier version -> what replaces it.
RENAMED = {
    "find": {
        "--precision": "--min-precision for the flags, or --dtype for the network's arithmetic",
        "--wanted-precision": "--min-precision",
    },
    "predict": {"--precision": "--dtype"},
    "detect": {"--precision": "--min-precision"},
    "export": {"--flags": "--unreviewed"},
}

app = typer.Typer(
    cls=PlainGroup,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read default options from this file. Default: uqled.toml in the current folder, "
            "if there is one.",
        ),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Find wrong labels in classification data."""
    context.obj = OutputOptions(as_json, quiet, verbose)
    if version:
        from uqled import __version__

        print_text(f"uqled {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print_text(context.get_help())
        raise typer.Exit
    from uqled.cli.settings import FILE, read_settings

    if config is None and not Path(FILE).is_file():
        return
    context.meta[SETTINGS_FILE] = str(config or FILE)
    try:
        context.default_map = read_settings(
            config or Path(FILE), _list_options(context), is_trusted=config is not None
        )
    except UqledError as error:
        print_error(f"error: {error}.")
        if context.meta[WANTS_JSON]:
            print_json(context.invoked_subcommand, error={"message": f"{error}."})
        raise typer.Exit(2) from None


def _list_options(context: Any) -> dict[str, dict[str, str]]:
    """Command -> option without dashes -> its parameter."""
    return {
        name: {
            flag.removeprefix("--"): parameter.name
            for parameter in command.params
            if not getattr(parameter, "hidden", False)
            for flag in parameter.opts
            if flag.startswith("--")
        }
        for name, command in context.command.commands.items()
    }


for _panel, _commands in COMMANDS.items():
    for _name, _function in _commands.items():
        _run, _help, _examples = make_command(_name, _function, renamed=RENAMED.get(_name))
        app.command(
            _name,
            cls=PlainCommand,
            help=_help,
            epilog=_examples,
            rich_help_panel=_panel,
            no_args_is_help=False,
        )(_run)
