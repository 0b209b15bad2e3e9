"""`uqled.toml`: default options.

model = "forest"        # for every command that has such an option

[find]
label = "species"       # for one command
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uqled.arrays import show_value
from uqled.errors import FileError, suggest_name
from uqled.storage.reading import explain_file_problems, name_file, read_text

FILE = "uqled.toml"
#: Options that write, replace, run or contact what the user did not name. A downloaded data set may
#: contain a settings file, which is read when somebody works in that folder.
RISKY_OPTIONS = ("out", "overwrite", "junit", "allow-code", "host", "ray-address")


def read_settings(
    path: Path, options: Mapping[str, Mapping[str, str]], *, is_trusted: bool
) -> dict[str, Any]:
    """Command -> parameter -> value, as Typer takes defaults.

    `options` are those that there are: command -> option without dashes -> parameter. A file that
    the user did not name is not trusted: it may choose no code, address or place to write to.
    """
    with explain_file_problems(path, "Write it as TOML"):
        content = tomllib.loads(read_text(path))
    if not is_trusted:
        _refuse_risky_values(path, content)
    shared_settings = {key: value for key, value in content.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in content.items() if isinstance(value, dict)}
    _check_names(path, "a command", tables, list(options))
    _check_names(path, "an option", shared_settings, sorted(set().union(*options.values())))
    settings: dict[str, Any] = {}
    for command, parameters in options.items():
        own_settings = tables.get(command, {})
        _check_names(path, f"an option of {command}", own_settings, list(parameters))
        values = {key: value for key, value in shared_settings.items() if key in parameters}
        values |= own_settings
        settings[command] = {parameters[key]: _as_typed(value) for key, value in values.items()}
    return settings


def _refuse_risky_values(path: Path, content: Mapping[str, Any]) -> None:
    for name, value in content.items():
        if isinstance(value, dict):
            _refuse_risky_values(path, value)
        elif name in RISKY_OPTIONS or _names_code_or_address(value):
            raise FileError(
                name_file(path),
                f"sets {name!r} to {show_value(value)}, which a file that came with data must not",
                f"If you trust it, pass --config {path}; otherwise remove that line",
            )


def _names_code_or_address(value: Any) -> bool:
    """Whether a value is `module:function`, an address such as `s3://...`, or a network path."""
    values = value if isinstance(value, list) else [value]
    return any(isinstance(one, str) and (":" in one or one[:2] == r"\\") for one in values)


def _check_names(path: Path, what: str, names: Mapping[str, Any], known_names: list[str]) -> None:
    for name in names:
        if name not in known_names:
            raise FileError(
                name_file(path),
                f"has {name!r}, which is not {what}",
                suggest_name(name, known_names),
            )


def _as_typed(value: Any) -> Any:
    """A value as the user would type it: a list is names separated by commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else value
