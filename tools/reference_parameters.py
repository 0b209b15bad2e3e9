"""The API reference shows each parameter with its own type and default.

Where a docstring explains several parameters together (`labels, pred_probs`), mkdocstrings' parser
gives all of them the type and default of the first.
"""

from __future__ import annotations

from typing import Any

import griffe


class OwnDefaults(griffe.Extension):
    """Named in mkdocs.yml; griffe calls it for every function and class of the package."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        _correct_parameters(func.docstring, func)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        init = cls.members.get("__init__")
        if isinstance(init, griffe.Function):  # a class explains what its constructor takes
            _correct_parameters(cls.docstring, init)


def _correct_parameters(docstring: griffe.Docstring | None, func: griffe.Function) -> None:
    for section in docstring.parsed if docstring else []:
        if section.kind is griffe.DocstringSectionKind.parameters:
            for parameter in section.value:
                if parameter.name in func.parameters:
                    parameter.value = func.parameters[parameter.name].default
                    parameter.annotation = func.parameters[parameter.name].annotation
