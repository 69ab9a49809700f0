# Needs Python 3.11 or newer and make, nothing else. `make PYTHON=python3.13 test` picks a Python
# for the virtual environment, `make test ARGS="-k tanh -x"` hands arguments on.

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=8 --dist=worksteal

# Stamps: what the environment was last given, and that it is as new as pyproject.toml.
INSTALLED := .venv/.installed
INSTALLED_DEV := .venv/.installed-dev
INSTALLED_PEERS := .venv-peers/.installed

.DEFAULT_GOAL := help
.PHONY: help demo demo-web test test-all test-peers test-cuda lint format stub examples names ops seeds accuracy explain bench bench-peers dawn pyright peers clean
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED) ## a short tour that prints what it does, and ends with demo.png
	$(PIP) install --editable '.[examples]'
	$(BIN)/python examples/demo.py $(ARGS)

demo-web: $(INSTALLED_DEV) ## a page that trains a network in the browser, by WebGPU; served here
	$(BIN)/python examples/web.py $(ARGS)

test: $(INSTALLED_DEV) ## the tests, without the slow ones and the comparisons with peers
	$(PYTEST) -m "not slow and not peers" $(ARGS)

test-all: $(INSTALLED_DEV) ## every test; comparisons need `make peers` first, others `make dawn pyright`
	$(PYTEST) $(ARGS)

pyright: ## install pyright, for Node: a test checks the stubs and the examples with it too
	npm install --silent --no-fund --no-audit --prefix .node pyright@1.1.414

test-peers: $(INSTALLED_DEV) ## only the comparisons with PyTorch and JAX; `make peers` first
	$(PYTEST) -m peers $(ARGS)

test-cuda: ## the tests of the CUDA device; installs nothing: PYTHON has pytest and the packages
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTHONPATH=src $(PYTHON) -m pytest -q tests/devices/test_cuda*.py $(ARGS)

lint: $(INSTALLED_DEV) ## ruff, formatting and mypy, changing nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED_DEV) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

stub: $(INSTALLED_DEV) ## write the type stub of the tensor methods anew
	$(BIN)/python -m contraflow.stubs

examples: $(INSTALLED_DEV) ## make the examples in the docstrings of ops from their samples
	$(BIN)/python -m tests.helpers.op_examples

names: $(INSTALLED_DEV) ## decide about each name of PyTorch's and write docs/names.md
	$(BIN)/python -m tests.helpers.torch_names $(ARGS)

ops: $(INSTALLED_DEV) ## write docs/ops.md: how each device runs each op
	$(BIN)/python -m tests.helpers.op_table $(ARGS)

seeds: $(INSTALLED_DEV) ## try each promise of the five originals and write docs/seeds.md
	$(BIN)/python -m tests.helpers.seeds $(ARGS)

accuracy: $(INSTALLED_DEV) ## measure the errors of functions and of reducing ops and write docs/accuracy.md
	$(BIN)/python -m tests.helpers.accuracy_page $(ARGS)

explain: $(INSTALLED) ## write docs/gpt_explained.md: what a compiled step runs
	$(BIN)/python -m benchmarks.explained

bench: $(INSTALLED) ## the benchmarks, against the peers that `make bench-peers` installed
	$(if $(wildcard $(INSTALLED_PEERS)),.venv-peers/bin,$(BIN))/python -m benchmarks.run $(ARGS)

bench-peers: $(INSTALLED_PEERS) ## install PyTorch, JAX and tinygrad beside .venv (gigabytes)

dawn: ## install Dawn, the WebGPU of Chromium, for Node: tests compile every kernel with it
	npm install --silent --no-fund --no-audit --prefix .node webgpu@0.6

peers: $(INSTALLED_DEV) ## install PyTorch and JAX to compare with (gigabytes)
	$(PIP) install --editable '.[peers]'

clean: ## remove caches and build outputs, but not .venv
	rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

$(INSTALLED_PEERS): pyproject.toml
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers || { rm -rf .venv-peers; exit 1; }
	.venv-peers/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[bench]'
	touch $@

$(INSTALLED): pyproject.toml | .venv/bin/python
	$(PIP) install --editable .
	touch $@

$(INSTALLED_DEV): pyproject.toml | .venv/bin/python
	$(PIP) install --editable '.[dev]'
	touch $(INSTALLED) $@
