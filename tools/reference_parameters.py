"""The API reference shows each parameter with its own type and default.

Where a docstring explains several parameters together (`data, label`), mkdocstrings' parser gives
all of them the type and default of the first.
"""

from __future__ import annotations

from typing import Any

import griffe


class OwnDefaults(griffe.Extension):
    """Named in mkdocs.yml; griffe calls it for every function of the package."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        for section in func.docstring.parsed if func.docstring else []:
            if section.kind is griffe.DocstringSectionKind.parameters:
                for documented in section.value:
                    if documented.name in func.parameters:
                        documented.value = func.parameters[documented.name].default
                        documented.annotation = func.parameters[documented.name].annotation
