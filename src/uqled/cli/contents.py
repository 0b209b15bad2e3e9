"""The content of `--json`, described in `docs/reference/command-line.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uqled.answer import Answer, Estimate, FlaggedSample, FlagMetrics
    from uqled.check.judging import Judgement


def describe_answer_content(
    answer: Answer,
    *,
    ids: list[str] | None = None,
    metrics: Mapping[str, FlagMetrics] | None = None,
    findings: Sequence[str] = (),
    **files: Any,
) -> dict[str, Any]:
    """The content of a detection's answer; `findings` are those of the inspection, `files` maps
    what was written to its path."""
    confidence = answer.precision_confidence
    return {
        "method": answer.method,
        "samples": answer.n_samples,
        "flagged": answer.n_flagged,
        "flagged_by_method": dict(answer.flags_by_method),
        "wrong_labels": _describe_estimate(answer.n_errors, 0.8),
        "precision": _describe_estimate(answer.precision, confidence),
        "recall": _describe_estimate(answer.recall, None),
        "tiers": [
            {
                "name": tier.name,
                "samples": tier.n_samples,
                "precision": _describe_estimate(tier.precision, 0.8),
            }
            for tier in answer.tiers
        ],
        "contradicted": answer.n_contradicted,
        "nearly_contradicted": answer.n_nearly_contradicted,
        "unsure": answer.unsure,
        "findings": list(findings),
        "predicted_as_labelled": answer.predicted_as_labelled,
        "model": None if answer.model is None else answer.model.to_json(),
        "verdicts": answer.n_verdicts,
        "confused_pairs": [
            {"given": label, "suggested": suggested, "flagged": number}
            for label, suggested, number in answer.confused_pairs
        ],
        "most_suspect": list_suspect_contents(answer.most_suspect, ids),
        "metrics": {
            name: {"precision": one.precision, "recall": one.recall, "f1": one.f1}
            for name, one in (metrics or {}).items()
        },
        "files": {name: str(path) for name, path in files.items() if path is not None},
    }


def list_suspect_contents(
    samples: list[FlaggedSample], ids: list[str] | None
) -> list[dict[str, Any]]:
    """Flagged samples, each with its id where there are ids."""
    return [
        asdict(sample) | {"id": None if ids is None else ids[sample.index]} for sample in samples
    ]


def describe_judgement_content(judgement: Judgement) -> dict[str, Any]:
    """The checks of a run."""
    return {
        "outcome": judgement.outcome.name.lower(),
        "samples": judgement.n_samples,
        "confidence": judgement.confidence,
        "checks": [
            {
                "name": check.name,
                "outcome": check.outcome.name.lower(),
                "error_rate": None if check.rate is None else asdict(check.rate),
                "limit": check.limit,
                "reason": check.reason,
            }
            for check in judgement.checks
        ],
    }


def _describe_estimate(estimate: Estimate | None, confidence: float | None) -> Any:
    if estimate is None:
        return None
    bounds = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return bounds | {"confidence": confidence}
