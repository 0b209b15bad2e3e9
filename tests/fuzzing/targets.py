"""All targets. A new reader of foreign bytes gets one here."""

from __future__ import annotations

from fuzzing.array_targets import ARRAY_TARGETS
from fuzzing.data_targets import DATA_TARGETS
from fuzzing.record_targets import RECORD_TARGETS
from fuzzing.run_targets import RUN_TARGETS
from fuzzing.table_targets import TABLE_TARGETS

TARGETS = [*DATA_TARGETS, *TABLE_TARGETS, *ARRAY_TARGETS, *RECORD_TARGETS, *RUN_TARGETS]
