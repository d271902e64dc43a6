# The project's commands. `make serve` and `make test` work from a bare checkout.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.setup-stamp
DEV_STAMP := $(VENV)/.setup-dev-stamp
PY := $(VENV)/bin/python
NATIVE := $(wildcard native/src/*.cpp native/src/*.hpp) CMakeLists.txt pyproject.toml

.PHONY: help serve setup setup-dev test test-slow test-conformance test-peer check format bench clean
.DEFAULT_GOAL := help

help: ## List the commands.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 20

setup: $(STAMP) ## Make .venv, install Tenfold, compile the kernels.

$(STAMP): $(NATIVE)
	@PYTHON="$(PYTHON)" scripts/setup

setup-dev: $(DEV_STAMP) ## The same with the tools of `make test` and `make check`.

$(DEV_STAMP): $(STAMP)
	@scripts/setup --dev

serve: setup ## Serve the default model on 127.0.0.1:8000 (ARGS="--port 9000" adds flags, MODEL=... picks one).
	@exec $(VENV)/bin/tenfold serve $(MODEL) $(ARGS)

test: setup-dev ## Run the default test suite.
	@$(PY) -m pytest -m "not slow and not conformance and not peer" $(ARGS)

test-slow: setup-dev ## Run the long tests: soak, wide same-bits mixes, fuzzing.
	@$(PY) -m pytest -m slow --timeout 3600 $(ARGS)

test-conformance: setup-dev ## Compare with transformers; installs torch.
	@scripts/setup --conformance
	@$(PY) -m pytest -m conformance --timeout 1800 $(ARGS)

test-peer: setup-dev ## Compare with llama.cpp; builds it under build/peers.
	@scripts/peers
	@$(PY) -m pytest -m peer --timeout 3600 $(ARGS)

check: setup-dev ## Types, lint and format.
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

format: setup-dev ## Format the Python sources.
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

bench: setup-dev ## Measure against llama.cpp, interleaved; writes bench/results.
	@scripts/peers
	@$(PY) bench/compare.py $(ARGS)

clean: ## Remove the environment and everything built.
	rm -rf $(VENV) build
