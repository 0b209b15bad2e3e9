"""The results of inspecting a data set, as plain data that can be printed and saved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from uqled.data.tables.columns import Column, describe_columns
from uqled.errors import list_first

Severity = Literal["error", "warning", "note"]
#: In the order in which findings are shown.
_ORDER: dict[str, int] = {"error": 0, "warning": 1, "note": 2}
_MAX_IDS = 3  # ids in a line


@dataclass(frozen=True)
class Finding:
    """One problem, or something worth knowing."""

    check: str
    """Which check found it, such as `duplicates`."""
    severity: Severity
    """error: some labels are wrong for certain; warning: results may mislead; note: for your
    information."""
    message: str
    advice: str
    """What to do, in one line."""
    ids: tuple[str, ...] = ()
    """The affected samples; empty if it is about the data as a whole."""

    @property
    def sentence(self) -> str:
        """What is wrong and what to do, without the samples."""
        return f"{self.message[:1].upper()}{self.message[1:]}. {self.advice}."

    def __str__(self) -> str:
        noun = "sample" if len(self.ids) == 1 else "samples"
        example = f" ({noun} {list_first(self.ids, _MAX_IDS)})" if self.ids else ""
        return f"{self.severity}: {self.message}{example}. {self.advice}."


@dataclass(frozen=True)
class Inspection:
    """A data set at a glance, and what is plainly wrong with it."""

    name: str
    kind: str
    n_samples: int
    class_counts: dict[str, int]
    columns: tuple[Column, ...]
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        noun = "rows" if self.kind == "table" else self.kind
        lines = [
            f"{self.name}: {self.n_samples:,} {noun} of {len(self.class_counts):,} classes",
            *describe_columns(self.columns),
            *map(str, self.findings),
        ]
        return "\n".join(lines if self.findings else [*lines, "nothing is plainly wrong"])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def format_count(n: int, one: str, many: str) -> str:
    """A number with its noun, singular or plural.

    >>> format_count(1, "class", "classes"), format_count(1200, "sample has", "samples have")
    ('1 class', '1,200 samples have')
    """
    return f"{n:,} {one if n == 1 else many}"


def sort_findings(findings: list[Finding]) -> tuple[Finding, ...]:
    """Certain errors first, notes last."""
    return tuple(sorted(findings, key=lambda finding: _ORDER[finding.severity]))
