# The commands of the project. `make demo` and `make test` work from a fresh clone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Of the tests: the first mostly waits, the others compute.
JOBS ?= 3

# The demo weights: a distribution of their own, beside this one in a checkout, else from the index.
# Without make: pip install -e tools/demo -e '.[server]' (it is on no index yet, and [server] wants it).
DEMO := $(addprefix -e ,$(wildcard tools/demo))

.PHONY: demo test check coverage rooms bench-live bench-offline gpu-check gpu-bench gpu-profile clean

demo: $(VENV)/.server
	@$(BIN)/lookhear demo $(if $(ONCE),--once) $(if $(PORT),--port $(PORT))

# Three workers and hundreds of processes import the same files: what one has compiled, the others read.
test: $(VENV)/.test
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(JOBS) $(ARGS)

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -n 2
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_docs.py

# Lines of the pure core (pyproject.toml lists its modules) that its own tests run; fails below 95 %.
CORE_TESTS = tests/engine/core tests/engine/paged tests/engine/qwen3_asr tests/engine/speech tests/engine/transducer \
	tests/engine/voxtral tests/engine/whisper tests/gateway/realtime

coverage: $(VENV)/.test
	$(BIN)/coverage run -m pytest -q $(CORE_TESTS)
	$(BIN)/coverage report

# Draws the import graph in docs/architecture.md again.
rooms:
	$(PYTHON) -m tools.rooms

bench-live: $(VENV)/.bench
	$(BIN)/lookhear bench live $(ARGS)

bench-offline: $(VENV)/.bench
	$(BIN)/lookhear bench offline $(ARGS)

# On a machine with a GPU, with the Python that has torch there; nothing is installed: lookhear lies in
# clients/, with links to the rest.
HAS_TORCH = PYTHONPATH=clients:tools/demo $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))

gpu-check:
	$(HAS_TORCH) -m benchmarks.gpu_check $(ARGS)

gpu-bench:
	$(HAS_TORCH) -m benchmarks.gpu_bench $(ARGS)

gpu-profile:
	$(HAS_TORCH) -m benchmarks.gpu_profile $(ARGS)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"lookhear needs Python 3.11 or newer, this is {sys.version.split()[0]}")'
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.server: pyproject.toml | $(BIN)/python
	@echo "installing the server (torch among it; minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(DEMO) -e '.[server]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "installing the server and the test tools (minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(DEMO) -e '.[server,test]'
	@touch $@ $(VENV)/.server

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	@echo "installing the server and the benchmarks (minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(DEMO) -e '.[server,bench,peers]'
	@touch $@ $(VENV)/.server

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
