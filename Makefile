# Every target sets up what it needs: a virtual environment of its own, filled once per change of pyproject.toml.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.tpuprof-ready

.PHONY: prove questions newcomer azurite search preflight-zoo published
.PHONY: torchtpu torchtpu-environment help setup demo test test-browser test-all check lint format types layers tests docs samples scenarios advice zoo fuzz fuzz-commands bench proto clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

setup: $(READY)  ## make the virtual environment with everything (torch and torch_xla included: about 7 GB)

$(READY): pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev -e ".[all]"
	@# Browser tests use Debian's Chromium; where it cannot be installed they are skipped and say so.
	command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || true
	touch $(READY)

# TorchTPU needs another torch than torch_xla, so it has an environment of its own. Where it cannot be made, its tests
# are skipped and say so.
torchtpu: $(READY) torchtpu-environment  ## make a second environment with TorchTPU on a CPU plugin (about 2 GB), and run its tests
	$(BIN)/python -m pytest -q --timeout 900 tests/capture/test_torch_tpu_capture.py tests/expect/test_expect_torch_tpu.py \
		tests/preflight/test_torch_tpu_script.py

torchtpu-environment:
	test -x .venv-torchtpu/bin/python || $(PYTHON) -m venv .venv-torchtpu
	{ .venv-torchtpu/bin/python -m pip install --quiet "torch==2.13.*" "numpy>=2" \
		&& .venv-torchtpu/bin/python -m pip install --quiet --no-deps torch_tpu==0.2.0 xla-cpu-pjrt==0.0.1 "libtpu>=0.0.50" \
		&& .venv-torchtpu/bin/python -m pip install --quiet absl-py portpicker frozendict immutabledict pyzmq protobuf; } \
		|| { echo "the TorchTPU environment cannot be made here: its tests and scenarios are skipped"; rm -rf .venv-torchtpu; }

# Azurite is a program of Node.js, so it stays out of the virtual environment. Without it the tests of az:// that need it
# are skipped and say so.
azurite: $(READY)  ## install Microsoft's emulator of az:// with npm (370 MB), and run the tests that need it
	test -x .azurite/node_modules/.bin/azurite-blob \
		|| npm install --prefix .azurite --no-save --no-fund --no-audit --ignore-scripts azurite@3
	$(BIN)/python -m pytest -q tests/storage/test_azure.py

prove: $(READY)  ## prove the fix of every scenario, and refute six "fixes" that change nothing (hours)
	$(BIN)/python benchmarks/prove_scenarios.py

newcomer: $(READY)  ## go from a first capture to a proved fix on eight scenarios, each in five minutes (ONLY=NAME for one)
	$(BIN)/python benchmarks/newcomer.py $(ONLY)

questions: $(READY)  ## ask an MCP server fifty questions whose answers are known
	$(BIN)/python -m benchmarks.questions.run

demo: $(READY)  ## train a small model with a planted fault, capture it, print what is wrong
	$(BIN)/tpuprof demo

test: $(READY)  ## run the tests, each capability for real at least once (about 8 minutes on two cores)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 10 -m "not slow and not browser"

test-browser: $(READY)  ## do on the dashboard's pages what users do, in Chromium (about 2 minutes on two cores)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 10 -m "browser and not slow" tests/dashboard

# A machine with other work may stretch the longest of them past the 300 seconds of `make test`.
test-all: $(READY)  ## run every test, those marked `slow` too (about 45 minutes on two cores)
	TPUPROF_SCREENSHOTS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 10 --timeout 900 \
		--hypothesis-profile thorough

check: lint types layers tests  ## what must pass before a commit lands

lint: $(READY)
	@# Without a cache: a file that did not change may import a module that is gone.
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/python docs/generate.py --check

format: $(READY)  ## put all code into the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

tests: test test-browser

docs: $(READY)  ## regenerate the pages that are made from code
	$(BIN)/python docs/generate.py

samples: $(READY)  ## capture the sample traces again
	$(BIN)/python sample_traces/make.py

scenarios: $(READY) torchtpu-environment  ## run faulty and cured scripts: is the fault found, is its price right (ONLY=NAME for one)
	$(BIN)/python scenarios/run.py $(ONLY)

advice: $(READY)  ## run what every rule advises, before and after, and keep the record (ONLY=RULE for one)
	$(BIN)/python scenarios/advice.py $(ONLY)
	$(BIN)/python docs/generate.py

zoo: $(READY)  ## run programs that know nothing of tpuprof: captured, unchanged, named right? (ONLY=NAME for one)
	$(BIN)/python -m pip install --quiet --group zoo
	$(BIN)/python scenarios/zoo/run.py $(ONLY)

published: $(READY)  ## compare predicted steps with published ones, write docs/published.md (half an hour; ONLY=NAME for one)
	$(BIN)/python benchmarks/published_steps.py $(ONLY)

search: $(READY)  ## search ten models for faster variants with the TPU compiler, write docs/search.md (hours; ONLY=NAME for one)
	$(BIN)/python -m pip install --quiet --group zoo
	$(BIN)/python benchmarks/search_models.py $(ONLY)

preflight-zoo: $(READY)  ## trace programs of the zoo beside planted files: the right graph or an honest refusal (15 minutes; ONLY=NAME)
	$(BIN)/python -m pip install --quiet --group zoo
	$(BIN)/python benchmarks/preflight_zoo.py $(ONLY)

fuzz: $(READY)  ## damage files in many ways: the readers and analyze must refuse or read each (SECONDS=600 for each target)
	$(BIN)/python fuzz/mutate.py --seconds $(or $(SECONDS),600)

fuzz-commands: $(READY)  ## run whole commands on damaged files and folders: documented exit statuses alone (COUNT=10000, FILES=...)
	$(BIN)/python fuzz/commands.py --count $(or $(COUNT),10000) $(FILES)

bench: $(READY)  ## measure speed and memory against other readers, and what instrumentation and capturing cost
	$(BIN)/python -m pip install --quiet xprof-rs
	$(BIN)/python benchmarks/compare_readers.py
	$(BIN)/python benchmarks/matrix.py --largest
	$(BIN)/python benchmarks/instrumentation_overhead.py
	$(BIN)/python benchmarks/capture_overhead.py
	$(BIN)/python benchmarks/jax_stop.py
	$(BIN)/python benchmarks/dashboard_responses.py
	$(BIN)/python benchmarks/tricks.py

# Generated code must load under protobuf 6.30 and later, so it is made by the compiler of that version.
proto:  ## regenerate protobuf code from our .proto files
	$(PYTHON) -m venv .venv-proto
	.venv-proto/bin/pip install --quiet "grpcio-tools==1.72.*" "setuptools<80"
	.venv-proto/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. $$(git ls-files '*.proto')

clean:  ## remove caches and build results, keep the virtual environment
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis artifacts runs
