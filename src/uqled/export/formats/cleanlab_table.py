"""`cleanlab`: the columns of cleanlab's tables of label issues, one row per sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uqled.export.export_format import ExportFormat, ExportPlan, WriteOptions


class CleanlabFormat(ExportFormat):
    """A decision wins over the flag: a label that a reviewer kept is no issue, one that a reviewer
    changed is one."""

    name = "cleanlab"
    file_endings = (".csv", ".parquet")
    needs = "labels"

    def write(self, plan: ExportPlan, target: Path, _: WriteOptions) -> dict[str, Any]:
        import pandas as pd

        corrected, errors = plan.corrected, plan.errors
        issue = errors.mask.copy()
        issue[list(plan.decisions)] = False
        issue[[c.index for c in corrected.corrections if c.index in plan.decisions]] = True
        labels = pd.Series(corrected.labels.values[corrected.codes]).astype(object)
        labels[~corrected.is_kept] = None
        frame = pd.DataFrame(
            {
                "id": plan.predictions.ids,
                "is_label_issue": issue,
                "label_score": errors.scores,  # as Datalab names it
                "label_quality": errors.scores,  # as CleanLearning names it
                "given_label": errors.given,
                "predicted_label": errors.labels.values[errors.best],
                "corrected_label": labels.convert_dtypes(),
            }
        )
        if target.suffix.lower() == ".csv":
            frame.to_csv(target, index=False)
        else:
            frame.to_parquet(target, index=False)
        return {}
