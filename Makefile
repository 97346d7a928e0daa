# The front door. `make demo` and `make test` set up everything they need on a machine with Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# One BLAS thread per process: two threads on a busy machine run slower than one.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
# Compiled modules are kept, whatever the caller's environment says: tests start hundreds of processes, and each would compile the library.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all lint format bench docs dist release clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      three organisations in one process: a story in ten questions, and its price"
	@echo "make test      the tests (a fixed slice of every fault and audit matrix)"
	@echo "make test-all  the tests, the matrices whole"
	@echo "make lint      format, lint, types, layers, style"
	@echo "make docs      the documentation, in site/; fails on a broken link"
	@echo "make dist      wheel and archive of sources, in dist/, checked; the wheel runs the README's example in a clean environment"
	@echo "make release   what a release needs: lint, recordings and pages of the present code, and dist"
	@echo "make bench     list the benchmarks (BENCH="name --quick", "all --check")"

$(STAMP): pyproject.toml requirements/tested.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements/tested.txt -e ".[dev]"
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/colonnade demo

# Three processes on two cores: tests of whole federations wait for other processes a good part of their time.
test: $(STAMP)
	$(BIN)/python -m pytest -q -n 3 --dist worksteal

test-all: $(STAMP)
	$(BIN)/python -m pytest -q -n 3 --dist worksteal --full

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/style.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

bench: $(STAMP)
	$(BIN)/colonnade bench $(BENCH)

# Two environments of their own: one builds and checks, the other has the wheel and what it asks for, and nothing of this checkout.
dist:
	rm -rf build/tools build/clean dist
	$(PYTHON) -m venv build/tools
	$(PYTHON) -m venv build/clean
	build/tools/bin/pip install --quiet --disable-pip-version-check build twine
	build/tools/bin/python -m build --outdir dist
	build/tools/bin/twine check --strict dist/*
	build/clean/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	cd build && env -u PYTHONPATH clean/bin/python ../packaging/quickstart.py
	cd build && env -u PYTHONPATH clean/bin/colonnade doctor

# Recordings are of one tree, so this is asked of a release and not of every edit: `make test` does not look at them.
release: lint
	$(BIN)/python -m benchmarks.frame release
	$(MAKE) dist

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
