"""bfloat16 is used where the processor really has it: some virtual machines only say so."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
import torch

from uqled.errors import InputError
from uqled.models import hardware
from uqled.predict.training import Training, resolve_precision

ILLEGAL_INSTRUCTION = -4


@pytest.fixture
def processor(monkeypatch):
    """Pretend to have a processor with these flags, on which the probe ends like that."""

    def pretend(flags, returncode):
        hardware.survives_bfloat16.cache_clear()
        monkeypatch.setattr(hardware, "_read_processor_flags", lambda: flags)
        process = SimpleNamespace(returncode=returncode)
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: process)

    yield pretend
    hardware.survives_bfloat16.cache_clear()


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks the processor only without a GPU")
@pytest.mark.parametrize(
    ("flags", "returncode", "wanted"),
    [
        ("avx2", 0, "32-true"),
        ("avx512_bf16", ILLEGAL_INSTRUCTION, "bf16-mixed"),  # nothing is tried without AMX
        ("avx512_bf16 amx_bf16", 0, "bf16-mixed"),
        ("avx512_bf16 amx_bf16", ILLEGAL_INSTRUCTION, "32-true"),
    ],
)
def test_units_that_do_not_work_are_not_used(processor, flags, returncode, wanted):
    processor(flags, returncode)
    assert resolve_precision(Training(precision="auto", device="cpu")) == wanted


def test_asking_for_units_that_do_not_work_is_refused(processor):
    processor("amx_bf16", ILLEGAL_INSTRUCTION)
    with pytest.raises(InputError, match=r"precision is 'bf16-mixed'.*Use 32-true"):
        resolve_precision(Training(precision="bf16-mixed", device="cpu"))


def test_the_probe_multiplies():
    assert hardware.survives_bfloat16() in (True, False)  # and this process is still there
