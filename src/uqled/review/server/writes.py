"""The requests that write. Every decision is on the disk before it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from uqled.errors import InputError
from uqled.review.class_pages import describe_class_decision
from uqled.review.decisions.classes import decide_class
from uqled.review.decisions.opinions import give_opinions, undo_opinions
from uqled.review.server.lists import MAX_CHANGES, describe_decision, list_merges
from uqled.review.server.parameters import (
    LARGEST,
    check_choice,
    read_field,
    read_number,
    read_whole_number,
)
from uqled.review.session import ReviewSession


def decide(session: ReviewSession, body: dict[str, Any]) -> Any:
    versions = body.get("seen")
    if not isinstance(versions, dict):
        raise InputError("seen", "is missing", "Send the version of each sample that was seen")
    flags = session.get_list(_read_method(body))
    decisions = session.decisions.decide(
        _read_items(session, body),
        reviewer=read_field(body, "reviewer"),
        seen_versions={
            read_number(index, "seen", LARGEST) or 0: read_whole_number(version, "seen")
            for index, version in versions.items()
        },
        tab=read_field(body, "tab"),
    )
    session.state.refresh()
    return {
        "decided": [describe_decision(session, decision.index) for decision in decisions],
        **session.describe_progress(flags),
    }


def decide_all(session: ReviewSession, body: dict[str, Any]) -> Any:
    """Accept the suggestions of an offer, if it still stands: the same samples, still supported by
    the estimate."""
    flags = session.get_list(_read_method(body))
    kind = check_choice(body.get("kind"), "kind", ("next", "above"))
    n = read_whole_number(body.get("n"), "n")
    if kind is None or read_whole_number(body.get("number"), "number") < session.state.number:
        raise InputError("number", "is not the last decision", "Reload the list")
    estimates = session.estimate(flags)
    offers = [] if estimates is None else estimates.bulk
    offer = next((one for one in offers if (one.kind, one.n) == (kind, n)), None)
    if offer is None:
        raise InputError("n", f"is {n}, which the estimate does not support", "Decide one by one")
    suggested = flags.current.suggested_codes
    items = [_read_item(session, i, "relabel", int(suggested[i])) for i in offer.indices]
    latest = session.state.latest
    seen_versions = {index: latest[index].version for index, _, _ in items if index in latest}
    decisions = session.decisions.decide(
        items,
        reviewer=read_field(body, "reviewer"),
        seen_versions=seen_versions,
        tab=read_field(body, "tab"),
        in_bulk=True,
    )
    session.state.refresh()
    return {"number_decided": len(decisions), **session.describe_progress(flags)}


def undo(session: ReviewSession, body: dict[str, Any]) -> Any:
    """Take back what the reviewer did last: a decision or an opinion."""
    flags = session.get_list(_read_method(body))
    reviewer, tab = read_field(body, "reviewer"), read_field(body, "tab")
    last = session.decisions.find_last_change(reviewer, tab=tab)
    after = 0.0 if last is None else last.at
    opinions = undo_opinions(session.decisions, reviewer, after=after)
    undone = [] if opinions else session.decisions.undo(reviewer, tab=tab)
    session.state.refresh()
    return {
        "undone": [describe_decision(session, index) for index in undone[:MAX_CHANGES]],
        "number_undone": len(undone),
        "opinions": opinions[:MAX_CHANGES],
        **session.describe_progress(flags),
    }


def _read_items(session: ReviewSession, body: Mapping[str, Any]) -> list[Any]:
    """The decisions of a request, [sample, action, class] each."""
    items = body.get("items")
    if not isinstance(items, list) or not items:
        raise InputError("items", "are missing", "Send [sample, action, class] each")
    if not all(isinstance(item, list) and len(item) == 3 for item in items):
        raise InputError("items", "are not [sample, action, class] each", "Send such a list")
    return [_read_item(session, *item) for item in items]


def _read_item(session: ReviewSession, index: Any, action: Any, label: Any) -> Any:
    """Read a decision; relabelling with the given label means keeping it."""
    index = read_whole_number(index, "index")
    codes = session.predictions.labels.codes
    is_class = isinstance(label, int) and 0 <= index < len(codes)
    if action == "relabel" and is_class and label == codes[index]:
        return index, "keep", None
    return index, action, label


def _read_method(body: Mapping[str, Any]) -> str | None:
    method = body.get("method")
    return None if method is None else str(method)


def begin_audit(session: ReviewSession, body: dict[str, Any]) -> Any:
    """Draw an audit's samples; they are written to the run."""
    flags = session.get_list(_read_method(body))
    session.begin_audit()
    return {"audit": session.estimate_audit(flags)}


def give_opinion(session: ReviewSession, body: dict[str, Any]) -> Any:
    """Second opinions: stored beside the decisions, which stay as they are."""
    items = _read_items(session, body)
    give_opinions(session.decisions, items, reviewer=read_field(body, "reviewer"))
    return {"number": len(items)}


def change_class(session: ReviewSession, body: dict[str, Any]) -> Any:
    """Merge or rename a class, or leave it as it was."""
    index = read_whole_number(body.get("index"), "index")
    target, name = body.get("target"), body.get("name")
    decisions = decide_class(
        session.decisions,
        index,
        body.get("action"),
        reviewer=read_field(body, "reviewer"),
        target=None if target is None else read_whole_number(target, "target"),
        name=name if isinstance(name, str) else None,
    )
    session.state.refresh()
    return {
        "decision": describe_class_decision(decisions.get(index)),
        "merged": list_merges(session),
    }
