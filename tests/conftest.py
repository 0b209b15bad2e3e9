"""Data for the tests: made from a seed, small, and of the shapes that go wrong."""

from __future__ import annotations

import gc
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny networks: a second thread only waits
# Some virtual machines announce AMX units that they do not have: using one ends the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ["HF_HUB_OFFLINE"] = "1"  # else its packages ask for every made-up name, time and again

import pytest
from hypothesis import HealthCheck, settings

from browsers import launch_browser
from made_predictions import make_predictions
from uqled.detect.core import kernels
from uqled.engines.local import count_cores

gc.disable()  # importing makes hardly any garbage; `pytest_collection_finish` enables it again

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("repeatable")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One process more than cores: a third of the time a test waits, for a process that it started
    or a browser."""
    return count_cores() + 1


#: Files whose tests take longest begin first, so that no process waits for one at the end.
LONGEST = (
    "test_ray", "test_bench", "test_fuzzing", "test_review_screens", "test_accidents",
    "test_predict", "test_review_decisions", "test_review_page",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONGEST)))


def pytest_collection_finish():
    """Imported packages stay: no collection of garbage looks through them again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module")
def browser():
    with launch_browser() as chromium:
        yield chromium


@pytest.fixture(params=["compiled", "numpy"])
def every_kernel(request, monkeypatch):
    """Once with the kernels of large data, once with those of small data."""
    limit = -1 if request.param == "compiled" else sys.maxsize
    monkeypatch.setattr(kernels, "SMALL_VALUES", limit)


@pytest.fixture
def compiled_kernels(monkeypatch):
    monkeypatch.setattr(kernels, "SMALL_VALUES", -1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Decoded images of tests stay among their temporary files."""
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(params=["simplejpeg", "Pillow"])
def decoder(request, monkeypatch):
    """Once with each library that decodes JPEG."""
    from uqled.data import images

    if request.param == "Pillow":
        monkeypatch.setattr(images, "simplejpeg", None)
    elif images.simplejpeg is None:
        pytest.skip("simplejpeg is not installed")
    return request.param


@pytest.fixture
def predictions():
    return make_predictions()


@pytest.fixture(scope="session")
def cluster():
    """Two nodes of Ray, which the files that one process runs share: starting them is slow."""
    from loopback import two_nodes

    with two_nodes() as nodes:
        yield nodes
