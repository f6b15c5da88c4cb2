# `make run` and `make test` set up everything they need in .venv, all extras included; a repeated call skips it.
#
#   make run                     the main job with its defaults; ARGS="--samples 8" adds options
#   make test                    the test suite;                 ARGS="-k affine" adds options
#   make test-all                the slow tests too, and Hypothesis's properties on fresh examples
#   make lint                    ruff, mypy, the import contracts and the budget of code lines
#   make docs                    the documentation as a site in site/, to be opened as files
#   make audit                   known vulnerabilities of the pinned versions, from the network
#   make PYTHON=python3.12 run   another Python (3.11 or newer) than python3 for a new .venv
#
# torch's CPU build suffices, and is a much smaller download than the CUDA build on PyPI:
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make run

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
# Each process gets a block of neighboring tests, which share fixtures; an idle process takes over some of another's.
PYTEST = $(BIN)/python -m pytest -n auto --dist worksteal
STAMP := $(VENV)/.installed-from-constraints
DOCS_STAMP := $(VENV)/.installed-docs-from-constraints
SITE ?= site

.PHONY: run test test-all lint format docs setup constraints audit clean
.DEFAULT_GOAL := run

run: $(STAMP)
	$(BIN)/python -m pipeline.compile --optimizer adaptive $(ARGS)

test: $(STAMP)
	$(PYTEST) -m "not slow" $(ARGS)

test-all: $(STAMP)
	$(PYTEST) --hypothesis-profile=fresh $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.size --check

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A strict build, whose warnings are errors; then no page may load anything from the network.
docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --site-dir '$(abspath $(SITE))'
	$(BIN)/python -m scripts.documentation.offline '$(SITE)'
	@echo "$(SITE)/index.html"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "This project needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one: make PYTHON=/path/to/python3.12 run" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version); this takes some minutes once" >&2
	$(PYTHON) -m venv $(VENV)

# Records the versions in .venv, without local parts (builds such as +cpu, and this package).
constraints:
	@{ sed -n '/^#/p' constraints.txt; \
	   $(BIN)/python -m pip freeze --exclude-editable | sed -E 's/\+[a-zA-Z0-9.]+$$//'; } > constraints.new
	@mv constraints.new constraints.txt

# Needs the network: known vulnerabilities of the pinned versions.
audit:
	scripts/audit $(ARGS)

clean:
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache *.egg-info
