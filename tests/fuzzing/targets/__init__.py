"""All targets. A new reader of foreign bytes gets one here."""

from __future__ import annotations

from fuzzing.targets.arrays import ARRAY_TARGETS
from fuzzing.targets.commands import COMMAND_TARGETS
from fuzzing.targets.data import DATA_TARGETS
from fuzzing.targets.features import FEATURE_TARGETS
from fuzzing.targets.records import RECORD_TARGETS
from fuzzing.targets.requests import REQUEST_TARGETS
from fuzzing.targets.runs import RUN_TARGETS
from fuzzing.targets.tables import TABLE_TARGETS

TARGETS = [
    *DATA_TARGETS,
    *TABLE_TARGETS,
    *ARRAY_TARGETS,
    *RECORD_TARGETS,
    *RUN_TARGETS,
    *COMMAND_TARGETS,
    *REQUEST_TARGETS,
    *FEATURE_TARGETS,
]
