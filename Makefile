# Every target sets up what it needs: a virtual environment of its own, filled once per change of pyproject.toml.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.tpuprof-ready

.PHONY: help setup demo test check lint format types layers tests proto bench clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: $(READY)  ## make the virtual environment with everything (torch and torch_xla included: about 7 GB)

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev -e ".[all]"
	touch $(READY)

demo: $(READY)  ## train a small model with a planted fault, capture it, print what is wrong
	$(BIN)/tpuprof demo

test: $(READY)  ## run every test
	$(BIN)/python -m pytest

check: lint types layers tests  ## what must pass before a commit lands

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

format: $(READY)  ## put all code into the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

tests: test

# Generated code must load under protobuf 6.30 and later, so it is made by the compiler of that version.
proto:  ## regenerate protobuf code from our .proto files
	$(PYTHON) -m venv .venv-proto
	.venv-proto/bin/pip install --quiet "grpcio-tools==1.72.*" "setuptools<80"
	.venv-proto/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. $$(git ls-files '*.proto')

clean:  ## remove caches and build results, keep the virtual environment
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis artifacts runs
