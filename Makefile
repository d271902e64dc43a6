# The project's commands. `make serve` and `make test` work from a bare checkout; PYTHON=... picks the interpreter.
VENV := .venv
PY := $(VENV)/bin/python
TENFOLD_TEST_MODELS ?= $(CURDIR)/build/test-models
PEERS ?= llama.cpp vllm transformers
export TENFOLD_TEST_MODELS PYTHON

.PHONY: help setup serve test test-slow test-conformance test-peer check format bench bench-scaling readme clean
.DEFAULT_GOAL := help

help: ## List the commands.
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## Make .venv, install Tenfold, compile the kernels. Does only what is not done yet.
	@scripts/setup

serve: setup ## Serve the default model on 127.0.0.1:8000 (MODEL=... picks one, ARGS="--port 9000" adds flags).
	@exec $(VENV)/bin/tenfold serve $(MODEL) $(ARGS)

test: ## Run the default test suite (ARGS="tests/kv -x" narrows it).
	@scripts/setup --dev
	@scripts/test-models
	@$(PY) -m pytest -m "not slow and not conformance and not peer" $(ARGS)

test-slow: ## Run the long tests: soak, wide same-bits mixes, fuzzing.
	@scripts/setup --dev
	@scripts/test-models
	@$(PY) -m pytest -m slow --timeout 3600 $(ARGS)

test-conformance: ## Compare with transformers; installs torch.
	@scripts/setup --conformance
	@scripts/test-models
	@$(PY) -m pytest -m conformance --timeout 1800 $(ARGS)

test-peer: ## Compare with llama.cpp; builds it under build/peers.
	@scripts/setup --dev
	@scripts/test-models
	@scripts/peers llama.cpp
	@$(PY) -m pytest -m peer --timeout 3600 $(ARGS)

check: ## Types, lint and format.
	@scripts/setup --dev
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

format: ## Format the Python sources.
	@scripts/setup --dev
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

bench: ## Measure against llama.cpp, vLLM and transformers, interleaved (PEERS="llama.cpp" picks, ARGS="--quick").
	@scripts/setup --bench
	@scripts/peers $(PEERS) || echo "Measuring without those peers." >&2
	@$(PY) bench/compare.py --peers $(PEERS) $(ARGS)

bench-scaling: ## Measure the cost of a token against context and batch (ARGS="--model FILE").
	@scripts/setup --bench
	@$(PY) bench/scaling.py $(ARGS)

readme: ## Write the README's table of speeds from the newest bench/results.
	@scripts/setup
	@$(PY) bench/readme.py

clean: ## Remove the environment and everything built.
	rm -rf $(VENV) build
