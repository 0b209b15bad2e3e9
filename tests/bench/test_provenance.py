"""Every result says on what it was made."""

from __future__ import annotations

import pytest

from uqled.bench.provenance import describe_hardware, describe_instructions


@pytest.mark.parametrize(
    ("flags", "expected"),
    [({"sse2", "avx2", "avx512f"}, "AVX-512"), ({"sse2", "avx2"}, "AVX2"), ({"asimd"}, "NEON")],
)
def test_the_widest_vector_instructions_are_named(flags, expected, monkeypatch):
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    assert describe_instructions(flags) == expected
    monkeypatch.setenv("NUMBA_CPU_NAME", "haswell")
    assert describe_instructions(flags) == f"{expected}, compiled for haswell"


def test_the_hardware_names_its_instructions():
    assert describe_hardware()["instructions"]
