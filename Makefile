# Two commands do everything: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow fuzz accidents audit check lowest package docs bench clean

demo: .venv/torch
	$(BIN)/uqled demo --out demo-output

test: .venv/dev
	@# A process for each core and one more; a file's tests stay together, because they share what they set up.
	@# Bytecode is kept, whatever the shell says: else each of the many processes compiles the sources again.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test-slow: .venv/dev
	@# Ray ends a process whose cluster dies, and its tests kill some: test_ray.py gives each file its own.
	$(BIN)/python -m pytest -m "slow or not slow" --ignore-glob='*/test_?*_ray.py'

fuzz: .venv/dev
	@# Damaged input for every reader: an answer, our own error, or a failure that is kept. SEED=1: other cases.
	PYTHONPATH=tests:tests/shared $(BIN)/python -m fuzzing --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

accidents: .venv/dev
	@# Every command killed, on a full disk, twice at once: the same files after a repetition.
	PYTHONPATH=tests:tests/shared $(BIN)/python -m fuzzing.accidents --kills $(or $(KILLS),200)

audit: .venv/dev
	@# Known vulnerabilities of the pinned packages.
	$(BIN)/python .ci/audit.py

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lowest:
	@# Works with the lowest versions that pyproject.toml allows.
	PYTHON=$(PYTHON) .ci/lowest

package: .venv/dev
	@# Builds sdist and wheel; the wheel works without PyTorch, the sdist passes its own tests.
	PYTHON=$(abspath $(BIN)/python) .ci/package $(TESTS)

docs: .venv/docs
	@# The site, in site/; a broken link or an unknown name is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

bench: .venv/bench
	$(BIN)/python benchmarks/detection.py
	$(BIN)/python benchmarks/mc_dropout.py
	PYTHONPATH=benchmarks $(BIN)/python -m review_page.screens
	$(BIN)/python benchmarks/decoding.py $(if $(DATA),--data $(DATA))
	$(if $(DATA),$(BIN)/python benchmarks/prediction.py --data $(DATA))
	$(if $(DATA),PYTHONPATH=benchmarks $(BIN)/python -m training_speed.measure --data $(DATA))
	PYTHONPATH=benchmarks $(BIN)/python -m training_speed.profile
	$(if $(DATA),$(BIN)/python benchmarks/published_predictions.py --data $(DATA))
	$(if $(WORK),PYTHONPATH=benchmarks $(BIN)/python -m scale.measure --work $(WORK))
	$(BIN)/python benchmarks/results_page.py

clean:
	rm -rf .venv demo-output site

# torch first, and pinned: any looser request pulls several gigabytes of GPU packages.
TORCH_OPTIONS := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
.venv/torch: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	@$(BIN)/python .ci/announce.py torch==2.13.0 $(TORCH_OPTIONS)
	$(INSTALL) torch==2.13.0 $(TORCH_OPTIONS)
	$(INSTALL) -e '.[torch,jpeg,review]'
	touch $@

.venv/dev: .venv/torch
	$(INSTALL) -e '.[dev]'
	touch $@

.venv/bench: .venv/dev constraints-bench.txt
	$(INSTALL) -c constraints-bench.txt -e '.[dev,bench]'
	touch $@

.venv/docs: .venv/torch constraints-docs.txt
	$(INSTALL) -c constraints-docs.txt -e '.[docs]'
	touch $@
