"""Rewords errors for the command line: `label='...'` in Python is `--label ...` here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from uqled.errors import InputError, UqledError
from uqled.terminal import escape_message

#: Names of arguments in Python -> of parameters here, where these differ.
_OTHER_NAMES = {
    "precision": "min_precision",
    "cpus": "cpus_per_fold",
    "gpus": "gpus_per_fold",
    "address": "ray_address",
    "flags": "unreviewed",
    "new_data": "against",
}


def describe_error(
    error: UqledError, flags: Mapping[str, str], settings_files: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The message, argument, problem and fix of an error, in terms of the command's options.

    `flags` are the command's: name of the parameter -> as the user types it. `settings_files` is
    where values come from that nobody typed: flag -> file.
    """
    flags_by_name = dict(flags)
    flags_by_name |= {name: flags[other] for name, other in _OTHER_NAMES.items() if other in flags}
    flags_by_name["place"] = flags["data"] if flags.get("data") == "DATA" else "the data"
    if not isinstance(error, InputError):
        return {"message": f"{_translate(str(error), flags_by_name)}."}
    argument = flags_by_name.get(error.argument, error.argument)
    problem, fix = (_translate(text, flags_by_name) for text in (error.problem, error.fix))
    file = (settings_files or {}).get(argument)
    file_part = f" (in {file})" if file else ""
    message = escape_message(f"{argument}{file_part} {problem}. {fix}.")
    return {"message": message, "argument": argument, "problem": problem, "fix": fix}


def _translate(text: str, names: Mapping[str, str]) -> str:
    """Write every argument that the text names in Python style as an option.

    A name with an underscore is no English word; any other one must be marked as code.

    >>> _translate("Pass `classes`, or inputs='a', but pred_probs has 3", {
    ...     "classes": "--classes", "inputs": "--inputs", "pred_probs": "--pred-probs"})
    "Pass --classes, or --inputs 'a', but --pred-probs has 3"
    """
    for name, flag in names.items():
        text = text.replace(f"`{name}`", flag)
        text = re.sub(rf"`{name}=([^`]+)`", rf"{flag} \1", text)
        text = re.sub(rf"(?<![\w.-]){name}=(?=\S)", f"{flag} ", text)
        if "_" in name:
            text = re.sub(rf"(?<![\w./'\"-]){name}(?![\w./(\[])", flag, text)
    return text
