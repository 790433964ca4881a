# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all lint bench clean

demo: $(READY) jail
	$(BIN)/trainsmith demo

test: $(READY) jail
	$(BIN)/python -m pytest -m "not slow"

test-all: $(READY) jail lint
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks.run

# Readable by all: the jail's own user runs this Python.
$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info < (3, 14); sys.exit(None if ok else "trainsmith needs Python 3.11, 3.12 or 3.13; name one with make PYTHON=/path/to/python")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq python3-venv; \
	  else echo "this Python cannot make virtual environments; install python3-venv"; exit 1; fi; }
	umask 022 && { test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); }
	umask 022 && $(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $(READY)

# The author's code runs in bubblewrap, or in Landlock where bubblewrap cannot run.
.PHONY: jail
jail:
	@command -v bwrap >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq bubblewrap; \
	  else echo "bubblewrap is missing; install it (Debian: sudo apt-get install bubblewrap). Landlock is tried instead."; fi; }

clean:
	rm -rf $(VENV) build
