# The commands: make demo, make test, make lint, make bench. Everything happens inside .venv and build/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export LINKWISE_CUDA_ARCHS ?= 90
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)

.DEFAULT_GOAL := help
.PHONY: help build demo docs test test-all wheel sanitize lint check ci format bench swarm clean

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

# Installs what a build needs into the development environment: building without isolation keeps nvcc's path, and with
# it every object file, from one build to the next.
$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python scripts/install_dependencies.py build
	@touch $@

$(VENV)/ready-to-test: $(VENV)/ready
	$(BIN)/python scripts/install_dependencies.py test
	@touch $@

build: $(VENV)/ready
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip install -q --no-build-isolation --no-deps .

## make demo    write a Parquet file of 20 million rows, sort it, and show what happened where
demo: build
	$(BIN)/python -m linkwise.demo

## make test    all tests but the slow ones; those for GPUs run where there is one
## make test-all  all of them
test: WHICH := -m "not slow"
test test-all: build $(VENV)/ready-to-test
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal $(WHICH)

## make wheel   a wheel for four architectures, repaired, checked, and tried in an empty environment (TRY=python3.13)
TRY ?= $(PYTHON)
wheel: $(VENV)/ready
	$(BIN)/python scripts/install_dependencies.py wheel
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/make_wheel.py --try $(TRY)

## make sanitize  programs, fuzzers and 500 scenarios of the swarm under AddressSanitizer and UBSan
sanitize: build $(VENV)/ready-to-test
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/sanitize.py

## make lint    clang-format, clang-tidy, ruff, mypy and the house rules
## make check   the same without clang-tidy, in a minute
lint: LINT :=
check: LINT := --quick
lint check: build $(VENV)/ready-to-test
	$(BIN)/python scripts/install_dependencies.py lint
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/lint.py $(LINT)

## make docs    the site in build/site, its notebooks run, and the figures of README and docs; no GPU needed
docs: build
	$(BIN)/python scripts/install_dependencies.py docs
	$(BIN)/python benchmarks/figures.py
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site

## make ci      what has to pass before anything lands
ci: check docs test-all sanitize

## make format  let clang-format and ruff rewrite what they can
format: $(VENV)/ready
	$(BIN)/python scripts/install_dependencies.py lint
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/lint.py --fix

## make bench   measure files, arrays, plans and joins beside DuckDB, Polars and NumPy; without a GPU, simulate the plans and joins
bench: build $(VENV)/ready-to-test
	$(BIN)/python benchmarks/files.py
	$(BIN)/python benchmarks/sort.py
	$(BIN)/python benchmarks/numpy_arrays.py
	$(BIN)/python benchmarks/arrow_joins.py
	machine=$$($(BIN)/python -c "from linkwise import local_machine; print('local' if local_machine() else 'h200x8')"); \
	$(BIN)/python -m linkwise bench plan --machine $$machine --output build/bench/plan.json && \
	$(BIN)/python -m linkwise bench join --machine $$machine --workload A --output build/bench/join-a.json && \
	$(BIN)/python -m linkwise bench join --machine $$machine --workload B --output build/bench/join-b.json

## make swarm   sorts and joins drawn at random, for MINUTES=60, each checked against NumPy, DuckDB and Polars
MINUTES ?= 60
swarm: build $(VENV)/ready-to-test
	$(BIN)/python scripts/swarm.py --minutes $(MINUTES) --output build/swarm.json

## make clean   remove everything that was built
clean:
	rm -rf $(VENV) build demo
