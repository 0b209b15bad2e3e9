"""The result of a detection in parts, in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.answer import Answer, describe_answer
from uqled.detect.core.joint import PairCounts
from uqled.detect.parts.store import Store
from uqled.errors import FileError
from uqled.storage.reading import explain_file_problems, name_file


@dataclass(frozen=True)
class ErrorsInParts:
    """The result of a detection in parts: each file is read when it is first needed."""

    store: Store

    @classmethod
    def open(cls, folder: Any) -> ErrorsInParts:
        """A finished detection."""
        return cls(Store.open(folder))

    @cached_property
    def about(self) -> dict[str, Any]:
        """What `result.json` says."""
        return self.store.result()

    def __len__(self) -> int:
        return int(self.about["samples"])

    def __repr__(self) -> str:
        n, N = self.n_flagged, len(self)
        return f"<ErrorsInParts {self.method}: {n:,} of {N:,} labels flagged ({n / N:.2%})>"

    @cached_property
    def answer(self) -> Answer:
        """How many labels are wrong, how many flags are real, which classes are confused, which
        samples are most suspect."""
        with explain_file_problems(str(self.store.place / "result.json"), "Repeat the detection"):
            return Answer.from_json(self.about)

    @property
    def method(self) -> str:
        return self.answer.method

    @property
    def n_flagged(self) -> int:
        return self.answer.n_flagged

    @property
    def joint(self) -> Any:
        """[K,K] given x true: estimated numbers of samples (scipy.sparse above 2,000 classes)."""
        joint = self.store.read_joint()
        K = int(joint["shape"][0])
        return PairCounts(K, joint["given"], joint["true"], joint["counts"]).to_matrix()

    def frames(self, columns: list[str] | None = None) -> Iterator[Any]:
        """The table, part by part, in the order of the samples."""
        rows, samples = 0, len(self)
        for number in range(int(self.about["parts"])):
            frame = self.store.read_issues(number, columns)
            rows += len(frame)
            yield frame
        if rows != samples:  # a part was replaced, or the result was edited
            raise FileError(
                name_file(str(self.store.place / "issues")),
                f"has {rows:,} rows for {samples:,} samples",
                "Repeat the detection",
            )

    def read_flag_table(self) -> Any:
        """The rows of the flagged samples as one pandas frame, most suspect first."""
        import pandas as pd

        flags = pd.concat([frame[frame["is_label_issue"]] for frame in self.frames()])
        return flags.sort_values(
            ["votes", "label_score", "index"], ascending=[False, True, True], ignore_index=True
        )

    def mask(self) -> NDArray[np.bool_]:
        """[N] True = flagged."""
        column = "is_label_issue"
        return np.concatenate([f[column].to_numpy(np.bool_) for f in self.frames([column])])

    def table(self) -> Any:
        """All rows as one `pyarrow.dataset.Dataset`, which reads what a query needs."""
        import pyarrow.dataset as ds

        issues = self.store.place / "issues"
        files, path = None, issues.path if issues.is_local else None
        if path is None:
            import fsspec

            files, path = fsspec.core.url_to_fs(str(issues))
        with explain_file_problems(str(issues), "Repeat the detection"):
            table = ds.dataset(path, filesystem=files, format="parquet")
            for fragment in table.get_fragments():  # a damaged part is named here, not in a query
                fragment.ensure_complete_metadata()
            rows, samples = table.count_rows(), len(self)
            if rows != samples:  # a part is missing, or was replaced
                raise ValueError(f"it has {rows:,} rows for {samples:,} samples")
        return table

    def summary(self, *, pairs: int = 5, suspects: int = 10) -> str:
        """The answer in a few lines of text."""
        return describe_answer(self.answer, pairs=pairs, suspects=suspects)
