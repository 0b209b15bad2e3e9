"""Formats a judgement for people and CI systems: text, Markdown for GitHub, JUnit XML."""

from __future__ import annotations

from xml.etree import ElementTree

from uqled.check.judging import Check, Judgement, Outcome
from uqled.terminal import escape_controls

_WORDS = {
    Outcome.PASS: "passes",
    Outcome.FAIL: "fails",
    Outcome.CANNOT_TELL: "cannot be judged",
}
_MAX_CHECKS = 20  # listed in the text; the others are only counted


def describe_judgement(judgement: Judgement) -> str:
    """The outcome, then one line per check, failures first."""
    checks = _order_checks(judgement)
    lines = [
        f"{_WORDS[judgement.outcome]}: {judgement.n_samples:,} labels, "
        f"intervals of {judgement.confidence:.0%} confidence"
    ]
    lines += [
        f"  {check.outcome.name.lower().replace('_', ' ')}: {escape_controls(check.name)}: "
        f"{check.reason}"
        for check in checks[:_MAX_CHECKS]
    ]
    if len(checks) > _MAX_CHECKS:
        lines.append(f"  and {len(checks) - _MAX_CHECKS:,} more checks")
    if judgement.outcome is Outcome.CANNOT_TELL and judgement.unsure:
        lines.append(judgement.unsure)
    return "\n".join(lines)


def render_markdown(judgement: Judgement) -> str:
    """The judgement as Markdown, for GitHub's job summary."""
    lines = [
        f"### Labels: {_WORDS[judgement.outcome]}",
        "",
        f"{judgement.n_samples:,} labels, intervals of {judgement.confidence:.0%} confidence.",
        "",
    ]
    if judgement.outcome is Outcome.CANNOT_TELL and judgement.unsure:
        lines += [_escape_cell(judgement.unsure), ""]
    lines += ["| | what | wrong labels | limit |", "|---|---|---|---|"]
    for check in _order_checks(judgement):
        rate = "unknown"
        if check.rate is not None:
            rate = f"{check.rate.value:.2%} ({check.rate.low:.2%} to {check.rate.high:.2%})"
        outcome = check.outcome.name.lower().replace("_", " ")
        lines.append(f"| {outcome} | {_escape_cell(check.name)} | {rate} | {check.limit:.2%} |")
    return "\n".join(lines) + "\n"


def render_junit(judgement: Judgement) -> bytes:
    """The judgement as JUnit XML: FAIL is a failure, CANNOT_TELL is skipped."""
    outcomes = [check.outcome for check in judgement.checks]
    suite = ElementTree.Element(
        "testsuite",
        name="uqled check",
        tests=str(len(outcomes)),
        failures=str(outcomes.count(Outcome.FAIL)),
        errors="0",
        skipped=str(outcomes.count(Outcome.CANNOT_TELL)),
    )
    for check in judgement.checks:
        name = escape_controls(check.name)
        case = ElementTree.SubElement(suite, "testcase", classname="uqled.check", name=name)
        reason = escape_controls(check.reason)
        if check.outcome is Outcome.FAIL:
            ElementTree.SubElement(case, "failure", message=reason)
        elif check.outcome is Outcome.CANNOT_TELL:
            ElementTree.SubElement(case, "skipped", message=reason)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _order_checks(judgement: Judgement) -> list[Check]:
    """Failures first, then by descending error rate."""
    rank = {Outcome.FAIL: 0, Outcome.CANNOT_TELL: 1, Outcome.PASS: 2}
    return sorted(
        judgement.checks,
        key=lambda check: (rank[check.outcome], -(check.rate.value if check.rate else 0.0)),
    )


def _escape_cell(text: str) -> str:
    """Escape a name from the data for a cell of a Markdown table."""
    return "".join(
        f"&#{ord(character)};" if character in "\\`*_{}[]<>()#+!|&~@" else character
        for character in escape_controls(text)
    )
