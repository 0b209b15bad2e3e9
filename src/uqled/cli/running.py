"""Turns a function with groups of options into a command: options expanded, errors in one line."""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from uqled.cli.choices import Choices
from uqled.cli.console import CommandOutput, print_error, print_json, print_message, print_text
from uqled.cli.help_layout import SETTINGS_FILE, is_from_settings
from uqled.cli.options import OutputOptions
from uqled.cli.wording import describe_error
from uqled.errors import InputError, UqledError

_EXAMPLES = "\n\nExamples:\n"


@dataclass
class _Command:
    """A function as a command: its parameters, and what the wrapper needs to know about them."""

    name: str
    function: Callable[..., CommandOutput | None]
    renamed: Mapping[str, str]
    """Option of an earlier version -> what replaces it."""
    parameters: list[inspect.Parameter] = field(default_factory=list)
    groups: dict[str, type[Any]] = field(default_factory=dict)
    """Parameter of the function -> the group of options that it takes."""
    flags: dict[str, str] = field(default_factory=dict)
    """Parameter -> as the user types it."""
    choices: dict[str, Choices] = field(default_factory=dict)

    def add_function(self) -> None:
        hints = get_type_hints(self.function, include_extras=True)
        for parameter in inspect.signature(self.function).parameters.values():
            hint = hints[parameter.name]
            if isinstance(hint, type) and is_dataclass(hint):
                self.groups[parameter.name] = hint
                if hint is not OutputOptions:
                    self.add_group(hint)
            else:
                self.add_parameter(parameter.name, hint, parameter.default)
        self.add_group(OutputOptions)
        for old in self.renamed:
            option = typer.Option(old, hidden=True, help=f"Is now {self.renamed[old]}.")
            self.add_parameter(_name_parameter(old), Annotated[str | None, option], None)

    def add_group(self, group: type[Any]) -> None:
        """A group's fields as parameters, each below the group's heading in the help."""
        hints = get_type_hints(group, include_extras=True)
        for one in fields(group):
            default = inspect.Parameter.empty if one.default is MISSING else one.default
            self.add_parameter(one.name, hints[one.name], default, panel=group.panel)

    def add_parameter(
        self, name: str, hint: Any, default: Any, *, panel: str | None = None
    ) -> None:
        assert get_origin(hint) is Annotated, name
        kind, *metadata = get_args(hint)
        [info] = (one for one in metadata if isinstance(one, OptionInfo | ArgumentInfo))
        info = copy(info)
        if panel is not None:
            info.rich_help_panel = panel
        for one in metadata:
            if isinstance(one, Choices):
                self.choices[name], info = one, one.describe(info)
        self.flags[name] = _name_flag(name, info)
        if isinstance(info, OptionInfo) and info.default is ...:
            # Where no name is declared, older versions of Typer may derive it from the metavar.
            info.default = self.flags[name]
        keyword = inspect.Parameter.KEYWORD_ONLY
        annotation = Annotated[kind, info]  # type: ignore[valid-type]
        self.parameters.append(
            inspect.Parameter(name, keyword, annotation=annotation, default=default)
        )

    def run(
        self,
        before: OutputOptions | None,
        values: dict[str, Any],
        settings_files: Mapping[str, str],
    ) -> None:
        """Call the function and print its result, or in one line why there is none.

        `before` are the options of the output that were typed before the command;
        `settings_files` is where values come from that nobody typed: parameter -> file.
        """
        began = time.monotonic()
        output = _take_group(OutputOptions, values).join(before)
        try:
            if output.verbose:
                print_message(self._describe_settings(values))
            with self._show_command(output):
                result = self._call(values, output)
        except (UqledError, OSError) as error:
            self._print_error(error, output, settings_files)
            raise typer.Exit(2) from None
        if output.verbose:
            print_message(f"{self.name} took {time.monotonic() - began:.1f} s")
        if result is None:
            return
        if output.as_json:
            print_json(self.name, result=result.content)
        else:
            print_text(result.text)
        if result.exit_code:
            raise typer.Exit(result.exit_code)

    def _show_command(self, output: OutputOptions) -> AbstractContextManager[Any]:
        """Show that the command is busy whenever none of its stages does. A command without a
        result serves until it is stopped, and prints its own messages."""
        if get_type_hints(self.function)["return"] is type(None):
            return nullcontext()
        return output.stage(f"uqled {self.name}", says_end=False)

    def _call(self, values: dict[str, Any], output: OutputOptions) -> CommandOutput | None:
        for old, new in self.renamed.items():
            if values.pop(_name_parameter(old)) is not None:
                raise InputError(old, "is an option of an earlier version", f"Use {new}")
        for name, choices in self.choices.items():
            choices.check(self.flags[name], values[name])
        for name, group in self.groups.items():
            values[name] = output if group is OutputOptions else _take_group(group, values)
        return self.function(**values)

    def _print_error(
        self,
        error: UqledError | OSError,
        output: OutputOptions,
        settings_files: Mapping[str, str],
    ) -> None:
        if output.verbose:
            print_message("".join(traceback.format_exception(error)))
        if isinstance(error, UqledError):
            files = {self.flags[name]: file for name, file in settings_files.items()}
            content = describe_error(error, self.flags, files)
        else:  # a full or missing disk, missing permissions
            file_part = f" {error.filename!r}" if error.filename else ""
            content = {"message": f"the system refused{file_part} ({error.strerror or error})"}
        print_error(f"error: {content['message']}")
        if output.as_json:
            print_json(self.name, error=content)

    def _describe_settings(self, values: Mapping[str, Any]) -> str:
        settings = {self.flags[name]: value for name, value in values.items() if value is not None}
        return f"{self.name}: " + ", ".join(f"{flag} {value}" for flag, value in settings.items())


def make_command(
    name: str,
    function: Callable[..., CommandOutput | None],
    *,
    renamed: Mapping[str, str] | None = None,
) -> tuple[Callable[..., None], str, str]:
    """The function as Typer takes it, its help, and the examples that end its help.

    A group of options is a dataclass whose fields are annotated with `typer.Option`, and whose
    `panel` is the heading under which the help lists them: each field is an option. Every command
    has the options of its output; the function may have them as a parameter too. Examples are the
    lines that follow `Examples:` in the docstring.
    """
    command = _Command(name, function, renamed or {})
    command.add_function()

    def run(context: typer.Context, **values: Any) -> None:
        file = str(context.meta.get(SETTINGS_FILE))
        from_file = [name for name in values if is_from_settings(context, name)]
        command.run(context.obj, values, dict.fromkeys(from_file, file))

    keyword = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("context", keyword, annotation=typer.Context)
    parameters = [context, *command.parameters]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    text, _, examples = (inspect.getdoc(function) or "").partition(_EXAMPLES)
    lines = [f"$ {line.strip()}" for line in examples.splitlines() if line.strip()]
    return run, _join_lines(text), "\n".join(["Examples:", *lines]) if lines else ""


def _join_lines(text: str) -> str:
    """Each paragraph as one line, which the terminal breaks to its own width; lists stay lists."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        one if "\n- " in f"\n{one}" or "\n " in one else one.replace("\n", " ")
        for one in paragraphs
    )


def _name_parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _name_flag(name: str, info: Any) -> str:
    """A parameter as the user types it."""
    if isinstance(info, ArgumentInfo):
        return info.metavar or name.upper()
    names = [info.default, *(info.param_decls or ())]
    long = [one for one in names if isinstance(one, str) and one.startswith("--")]
    return long[0] if long else f"--{name.replace('_', '-')}"


def _take_group(group: type[Any], values: dict[str, Any]) -> Any:
    """Take the fields of a group out of `values`, and make the group."""
    return group(**{one.name: values.pop(one.name) for one in fields(group)})
