# Two commands: `make demo` shows the whole idea, `make test` checks everything. Both set up what they need.
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3))
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check install clean

demo: install
	$(BIN)/fewer demo

test: install check
	$(BIN)/pytest -n 2

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: $(VENV)/installed

# torch comes first and pinned: on some machines any other request brings gigabytes of CUDA.
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fewer needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q torch==2.13.0 -c constraints.txt
	$(BIN)/pip install -q -e '.[dev]' -c constraints.txt
	$(BIN)/pip install -q -e '.[kenlm]' -c constraints.txt || echo 'kenlm could not be built: its agreement tests will be skipped'
	touch $@

clean:
	rm -rf $(VENV)
