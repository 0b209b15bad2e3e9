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
    ("flags", "returncode", "expected"),
    [
        ("avx2", 0, "32-true"),
        ("avx512_bf16", ILLEGAL_INSTRUCTION, "bf16-mixed"),  # nothing is tried without AMX
        ("avx512_bf16 amx_bf16", 0, "bf16-mixed"),
        ("avx512_bf16 amx_bf16", ILLEGAL_INSTRUCTION, "32-true"),
    ],
)
def test_units_that_do_not_work_are_not_used(processor, flags, returncode, expected):
    processor(flags, returncode)
    assert resolve_precision(Training(precision="auto", device="cpu")) == expected


def test_asking_for_units_that_do_not_work_is_refused(processor):
    processor("amx_bf16", ILLEGAL_INSTRUCTION)
    with pytest.raises(InputError, match=r"precision is 'bf16-mixed'.*Use 32-true"):
        resolve_precision(Training(precision="bf16-mixed", device="cpu"))


def test_the_probe_multiplies():
    assert hardware.survives_bfloat16() in (True, False)  # and this process is still there


@pytest.mark.skipif(hardware._load_glibc() is None, reason="needs glibc")
def test_memory_that_is_freed_is_used_again():
    import resource  # which Windows has not

    def count_faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(1 << 24)  # beyond what the library keeps by itself
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    usual_faults = count_faults()
    with hardware.keep_freed_memory():
        later_faults = [count_faults() for _ in range(50)]
    assert (
        min(later_faults[-10:]) < usual_faults / 10
    )  # as soon as there is a free piece of this size
    assert count_faults() > usual_faults / 2  # as it was before


def test_without_glibc_nothing_happens(monkeypatch):
    monkeypatch.setattr(hardware, "_load_glibc", lambda: None)
    with hardware.keep_freed_memory():
        pass
