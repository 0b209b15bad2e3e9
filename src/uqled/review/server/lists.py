"""The requests that read: the list, one sample, groups, estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from uqled.detect.auto.tiers import TIERS
from uqled.detect.reasons import REASONS
from uqled.review.class_pages import describe_class, list_classes
from uqled.review.decisions.opinions import count_opinions
from uqled.review.decisions.state import STATES
from uqled.review.estimates import Estimates
from uqled.review.flag_list import FlagList, ListQuery
from uqled.review.groups import group_like, list_groups
from uqled.review.orders import ORDERS
from uqled.review.sample_content import read_content, read_preview
from uqled.review.server.parameters import (
    LARGEST,
    check_choice,
    read_number,
    read_sample_number,
)
from uqled.review.session import ReviewSession

_MAX_PAGE = 500  # samples
_MAX_GROUPS = 3  # in one answer; the page asks for the next ones when it has shown them
MAX_CHANGES = 500  # above this, a page reloads its list


def start_page(session: ReviewSession, request: Request) -> Any:
    """What the page needs to know about the run and a method."""
    flags = session.get_list(request.query_params.get("method"))
    session.update()  # a page begins with a list that follows all decisions
    labels, source = session.predictions.labels, session.source
    first = session.errors.first
    return {
        "classes": list(labels.names),
        "kind": "none" if source is None else source.kind,
        "notes": [] if source is None else source.notes,
        "samples": len(session.predictions),
        "methods": {name: one.n_flagged for name, one in first.items()},
        "headline": session.errors.headline,
        "method": flags.method,
        "reasons": list(REASONS),
        "reviewer": session.reviewer,
        "overview": session.count_overview(flags),
        "merged": list_merges(session),
        "queue": len(session.state.list_decided(flags.is_listed)),
        **session.describe_progress(flags),
    }


def list_merges(session: ReviewSession) -> list[tuple[int, int]]:
    """(class, the class that it is merged into) of every merge."""
    return sorted(session.state.class_targets.items())


def list_samples(session: ReviewSession, request: Request) -> Any:
    """A page of the list."""
    query = request.query_params
    flags = session.get_list(query.get("method"))
    backwards = "before" in query
    session.state.refresh()
    list_query = _read_query(session, flags, query)
    start = query.get("before") if backwards else query.get("from", "0")
    if start == "queue":  # after the decided samples
        start = str(flags.find_queue(list_query))
    page = flags.read_page(
        list_query,
        start=read_number(start, "before" if backwards else "from", LARGEST) or 0,
        size=max(1, read_number(query.get("size", "100"), "size", _MAX_PAGE + 1) or 0),
        backwards=backwards,
    )
    rows = flags.describe_samples(page.indices, page.places)
    for row in rows:
        _add_preview(session, row)
        if query.get("second"):  # given without sight of the first decision
            row |= {"action": None, "label": None, "reviewer": None}
    return {
        "samples": rows,
        "before": page.before,
        "total": page.total,
        "undecided": page.undecided,
        **session.describe_progress(flags),
    }


def _add_preview(session: ReviewSession, row: dict[str, Any]) -> None:
    """The content of a sample's card; for a row of a table, first the columns in which it is
    unusual for its label, and their names."""
    unusual_columns = session.evidence.list_unusual_columns(
        row["index"], row["given"], row["suggested"]
    )
    row["telling"] = [name for name, *_ in unusual_columns]
    row["preview"] = read_preview(session.source, row["index"], leading=row["telling"])


def show_sample(session: ReviewSession, request: Request) -> Any:
    """A text or a row at its full length, and what speaks for either of its labels."""
    index = read_sample_number(request, len(session.predictions))
    flags = session.get_list(request.query_params.get("method"))
    return {
        "index": index,
        "content": read_content(session.source, index),
        "evidence": session.evidence.collect(index, flags),
        "opinions": [
            {"reviewer": one.reviewer, "action": one.action, "label": one.label}
            for one in session.read_opinions().get(index, {}).values()
        ],
    }


def show_classes(session: ReviewSession, request: Request) -> Any:
    """All classes, most wrong labels first."""
    flags = session.get_list(request.query_params.get("method"))
    return {"classes": list_classes(session, flags)}


def show_class(session: ReviewSession, request: Request) -> Any:
    """One class in full."""
    flags = session.get_list(request.query_params.get("method"))
    k = read_sample_number(request, session.predictions.labels.n_classes)
    return describe_class(session, flags, k)


def show_agreement(session: ReviewSession, request: Request) -> Any:
    """The agreement of reviewers, and the number of decisions that wait for this one's opinion."""
    reviewer = request.query_params.get("reviewer", "")
    agreements = session.measure_agreement()
    return {
        "waiting": len(session.list_second_opinions(reviewer)),
        "differ": len({i for one in agreements for i in one.disagreements}),
        "pairs": [
            {"reviewers": one.reviewers, "n": one.n, "same": one.n_same, "kappa": one.kappa}
            for one in agreements
        ],
    }


def show_groups(session: ReviewSession, request: Request) -> Any:
    """Some groups of undecided flags, with their samples."""
    flags = session.get_list(request.query_params.get("method"))
    session.update()
    vectors, like = session.similar.vectors, request.query_params.get("like")
    if like:
        index = read_number(like, "like", len(session.predictions)) or 0
        groups, n_groups = [group_like(index, flags, session.predictions, vectors)], 1
    else:
        start = read_number(request.query_params.get("from"), "from", LARGEST) or 0
        groups, n_groups = list_groups(
            flags, session.predictions, _MAX_GROUPS, vectors, start=start
        )
    content = []
    for group in groups:
        rows = flags.describe_samples(group.indices, np.arange(len(group.indices)))
        for row in rows:
            _add_preview(session, row)
        content.append(
            {
                "given": group.given,
                "suggested": group.suggested,
                "n_more": group.n_more,
                "errors": group.errors,
                "samples": rows,
            }
        )
    return {"groups": content, "n_groups": n_groups}


def list_changes(session: ReviewSession, request: Request) -> Any:
    """The decisions since the page last asked."""
    query = request.query_params
    after = read_number(query.get("after", "0"), "after", LARGEST) or 0
    session.state.refresh()
    changed_samples = {change.index for change in session.decisions.history(after)}
    is_many = len(changed_samples) > MAX_CHANGES
    return {
        "many": is_many,
        "changed": []
        if is_many
        else [describe_decision(session, index) for index in sorted(changed_samples)],
        "opinions": count_opinions(session.decisions),
        "merged": list_merges(session),
        **session.describe_progress(session.get_list(query.get("method"))),
    }


def show_estimates(session: ReviewSession, request: Request) -> Any:
    """The estimates, in a request of their own because they may take a second."""
    flags = session.get_list(request.query_params.get("method"))
    estimates = session.estimate(flags)
    return {
        "estimates": None if estimates is None else _describe_estimates(estimates),
        "audit": session.estimate_audit(flags),
        "overview": session.count_overview(flags),
        **session.describe_progress(flags),
    }


def _describe_estimates(estimates: Estimates) -> dict[str, Any]:
    """The estimates as JSON, without the samples of each offer."""
    content = asdict(replace(estimates, bulk=[]))
    content["bulk"] = [
        {"kind": one.kind, "n": one.n, "errors": asdict(one.errors)} for one in estimates.bulk
    ]
    return content


def _read_query(session: ReviewSession, flags: FlagList, query: Mapping[str, str]) -> ListQuery:
    K = session.predictions.labels.n_classes
    return ListQuery(
        flags.method,
        given=read_number(query.get("given"), "given", K),
        suggested=read_number(query.get("suggested"), "suggested", K),
        reason=check_choice(query.get("reason"), "reason", REASONS),
        state=check_choice(query.get("state"), "state", STATES),
        tier=check_choice(query.get("tier"), "tier", TIERS),
        order=check_choice(query.get("order"), "order", ORDERS) or "suspect",
        chosen=_read_chosen(session, query),
    )


def describe_decision(session: ReviewSession, index: int) -> dict[str, Any]:
    return {"index": index, **session.state.describe(index)}


def _read_chosen(session: ReviewSession, query: Mapping[str, str]) -> NDArray[np.bool_] | None:
    """[N] the samples inside a lasso on the map, a named sample, those that wait for a second
    opinion, or those on which reviewers differ; None without any of these."""
    N = len(session.predictions)
    if second := query.get("second"):
        return _mark(session.list_second_opinions(second), N)
    if query.get("differ"):
        return _mark([i for one in session.measure_agreement() for i in one.disagreements], N)
    only = read_number(query.get("only"), "only", len(session.predictions))
    if only is not None:
        return _mark([only], N)
    lasso = query.get("lasso")
    return session.map.find_inside(lasso) if lasso else None


def _mark(indices: list[int], N: int) -> NDArray[np.bool_]:
    """[N] True for these samples."""
    is_chosen = np.zeros(N, np.bool_)
    is_chosen[indices] = True
    return is_chosen
