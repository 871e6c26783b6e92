# Works with GNU make 3.81 (macOS) and later. Leaves nothing outside this directory.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Twice quiet: errors alone.
PIP_FLAGS := --quiet --quiet --no-cache-dir --disable-pip-version-check --no-input
# Empty: what pyproject.toml says.
TESTS ?=

.PHONY: help demo test check sim crash fuzz bench bench-compare soak format lock clean

help:  ## Show this list
	@echo "make TARGET, where TARGET is one of:"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1 \2/p' Makefile | \
		while read -r name text; do printf '  %-13s %s\n' "$$name" "$$text"; done

demo: $(READY)  ## Run a small program that shows what bide does
	@$(BIN)/python -m examples.flights

test: check  ## Check, then run the tests (TESTS=path for some of them)
	@echo "== pytest"
	@tmp=`mktemp -d` && trap 'rm -rf "$$tmp"' EXIT && trap 'exit 130' INT TERM && \
		TMPDIR="$$tmp" $(BIN)/python -m pytest -n 2 --dist worksteal --basetemp="$$tmp/t" $(TESTS)

check: $(READY)  ## Look at format, style, types and imports
	@echo "== ruff format"
	@$(BIN)/ruff format --check .
	@echo "== ruff check"
	@$(BIN)/ruff check .
	@echo "== mypy"
	@$(BIN)/mypy
	@echo "== import-linter"
	@$(BIN)/lint-imports --no-logo

sim: $(READY)  ## Simulate worlds with faults for a minute (SEED=n STEPS=m replays one)
	@$(BIN)/python -m tests.sim $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS))

crash: $(READY)  ## Kill processes at every call that changes the disk, and at random moments
	@$(BIN)/python -m pytest -q tests/crash tests/unit/storage --all-points

fuzz: $(READY)  ## Feed each decoder damaged bytes for a minute (SECONDS=n)
	@$(BIN)/python -m tests.fuzz $(if $(SECONDS),--seconds $(SECONDS))

bench: $(READY)  ## Measure, beside the peers, and compare with the goals (QUICK=1: without them)
	@$(BIN)/python -m bench

bench-compare: $(READY)  ## Measure quickly, and say what is slower than in bench/results.json
	@$(BIN)/python -m bench.compare

soak: $(READY)  ## Ten million jobs in and out: how large the store gets, how fast it stays (JOBS=n)
	@$(BIN)/python -m bench.soak

format: $(READY)  ## Rewrite the sources in the project's format
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

lock:  ## Pin the newest releases that pyproject.toml allows
	@echo "Resolving the newest releases ..."
	@rm -rf .venv-lock
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip install $(PIP_FLAGS) -e '.[dev]'
	@head -n 1 requirements/dev.lock > .venv-lock/dev.lock
	@.venv-lock/bin/python -m pip freeze --exclude-editable >> .venv-lock/dev.lock
	@mv .venv-lock/dev.lock requirements/dev.lock
	@rm -rf .venv-lock

clean:  ## Remove everything that make has made
	@rm -rf .venv .venv-lock .venv-peers bide-peers-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Made anew whenever what it was made from changes: a package that left the lock leaves .venv too.
$(READY): pyproject.toml requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || { \
		echo "bide needs Python 3.11 or newer, but '$(PYTHON)' is: `$(PYTHON) --version 2>&1`"; \
		echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; \
		exit 1; }
	@echo "Preparing .venv (once; about half a minute) ..."
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps -r requirements/dev.lock
	@$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps --no-build-isolation -e .
	@touch $(READY)
