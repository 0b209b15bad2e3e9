# Two commands do everything: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow check bench clean

demo: .venv/base
	$(BIN)/uqled demo --out demo-output

test: .venv/dev
	$(BIN)/python -m pytest

test-slow: .venv/dev
	$(BIN)/python -m pytest -m "slow or not slow"

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/dev
	$(BIN)/python benchmarks/detection.py

clean:
	rm -rf .venv demo-output

.venv/base: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e .
	touch $@

# torch first, and pinned: any looser request pulls several gigabytes of GPU packages.
.venv/dev: .venv/base
	$(INSTALL) torch==2.13.0
	$(INSTALL) -e '.[dev]'
	touch $@
