"""Fixtures of the tests that read data."""

from __future__ import annotations

import pytest

from uqled.data import image_cache


@pytest.fixture
def no_decoding(monkeypatch):
    """Fails whoever decodes."""

    def forbid():
        def refuse(*_, **__):
            raise AssertionError("decoded again")

        monkeypatch.setattr(image_cache, "decode_into", refuse)

    return forbid
