"""cleanlab's names and arguments, for people who come from there: `from cleanlab.filter import ...`
becomes `from uqled.compat.filter import ...`, and `import cleanlab` becomes
`import uqled.compat as cleanlab`.

Modules: `filter`, `rank`, `count`, `dataset` (numbers about a whole data set), `classification`
(`CleanLearning`) and `datalab` (`Datalab`, label issues only). The results equal those of
cleanlab 2.9 for data with one label per sample.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from uqled.compat.filter import find_label_issues
from uqled.compat.rank import get_label_quality_scores

__all__ = ["Datalab", "find_label_issues", "get_label_quality_scores"]

_MODULES = ("filter", "rank", "count", "dataset", "classification", "datalab")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"uqled.compat.{name}")
    if name == "Datalab":
        return import_module("uqled.compat.datalab").Datalab
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
