"""cleanlab's names and arguments, for people who come from there: `from cleanlab.filter import ...`
becomes `from uqled.compat.filter import ...`.

Modules: `filter`, `rank`, `count`, `dataset` (numbers about a whole data set), `classification`
(`CleanLearning`) and `datalab` (`Datalab`, label issues only). The answers are those of cleanlab
2.9 for data with one label per sample.
"""

from __future__ import annotations

from uqled.compat.filter import find_label_issues
from uqled.compat.rank import get_label_quality_scores

__all__ = ["find_label_issues", "get_label_quality_scores"]
