# `make run` and `make test` do everything from a bare clone: the one installs what a broker needs, the other the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NEEDED := $(VENV)/.needed
RUNS := $(VENV)/.runs
BUILD := .venv-build
.INTERMEDIATE: $(BUILD)/.built
STAMP := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
FUZZ_STAMP := $(VENV)/.fuzz-installed
# Two for each core of CI's machine: tests wait for disks, clocks and other processes.
WORKERS ?= 4
ARGS ?=
SEEDS ?= 500
TARGET ?= all
MINUTES ?= 20
DIST ?= dist
PROTO_OUT ?= .
PROTOS := $(addprefix tailrace/protocol/proxy/,common.proto write_proxy.proto read_proxy.proto proxy_admin.proto)
# Where it is set, every server that tests or `make run` start would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install environments run check test sim fuzz dist bench image proto lock clean

help:           ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/'

$(NEEDED): requirements/image.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check --no-compile --require-hashes -r requirements/image.lock
	touch $(NEEDED)

$(BUILD)/.built: requirements/image-build.lock pyproject.toml hatch_build.py protocol/records/record_loops.py
	rm -rf $(BUILD)
	$(PYTHON) -m venv $(BUILD)
	$(BUILD)/bin/pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/image-build.lock
	$(BUILD)/bin/python -c 'import hatchling.build; hatchling.build.build_editable("$(BUILD)")'
	touch $@

$(RUNS): $(NEEDED) $(BUILD)/.built
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-index $(BUILD)/tailrace-*.whl
	rm -r $(BUILD)
	touch $(RUNS)

$(STAMP): requirements/dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

$(FUZZ_STAMP): $(STAMP) requirements/fuzz.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/fuzz.lock
	touch $(FUZZ_STAMP)

$(COMPILED): $(STAMP) hatch_build.py protocol/records/record_loops.py
	-$(BIN)/python hatch_build.py
	touch $(COMPILED)

install: $(COMPILED)   ## a virtual environment in .venv with every locked dependency and `tailrace`

environments: $(COMPILED) $(FUZZ_STAMP)  ## what `make test` needs

run:            ## a broker on 127.0.0.1:9092 over ./tailrace-data
	$(MAKE) --no-print-directory --jobs=2 $(if $(wildcard $(STAMP)),$(COMPILED),$(RUNS))
	$(BIN)/tailrace start $(ARGS)

check: install  ## ruff, mypy, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check environments   ## static checks, then every test
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup tests

sim: install    ## SEEDS=N random schedules of ledgers, of logs, of a group, under faults, on a virtual clock
	$(BIN)/python -m tests.sim --seeds $(SEEDS) $(ARGS)
	$(BIN)/python -m tests.sim --world logs --seeds $(SEEDS) $(ARGS)
	$(BIN)/python -m tests.sim --world groups --seeds $(SEEDS) $(ARGS)

fuzz: $(COMPILED) $(FUZZ_STAMP)  ## TARGET=NAME MINUTES=20: hostile bytes for one decoder, coverage-guided; all: one after the other
	$(BIN)/python -m tests.fuzz $(TARGET) --minutes $(MINUTES)

dist: install   ## a wheel for this platform and a source distribution, in DIST=dist
	$(BIN)/python -m build --no-isolation --outdir $(DIST)

bench: install  ## measure beside Apache Kafka (minutes); figures as JSON and as a table
	$(BIN)/python -m tests.bench $(ARGS)

image: ## an image `tailrace`; BASE=IMAGE to build on another one than python:3.11-slim
	docker build --file docker/Dockerfile --tag tailrace $(if $(BASE),--build-arg BASE=$(BASE)) .

proto: install  ## the Python of protocol/proxy/*.proto
	$(BIN)/python -m grpc_tools.protoc --proto_path=. --python_out=$(PROTO_OUT) --pyi_out=$(PROTO_OUT) $(PROTOS)

lock:           ## resolve the files of requirements/ again
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 --no-emit-index-url --no-header \
	  --extra s3 --extra parquet --extra spark --extra testcontainers --group dev pyproject.toml -o requirements/dev.lock
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 --no-emit-index-url --no-header \
	  --constraint requirements/dev.lock --group fuzz -o requirements/fuzz.lock
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 --no-emit-index-url --no-header \
	  --constraint requirements/dev.lock pyproject.toml -o requirements/image.lock
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 --no-emit-index-url --no-header \
	  --constraint requirements/dev.lock --group image-build -o requirements/image-build.lock

clean:          ## everything that install and tests leave behind
	rm -rf $(VENV) $(BUILD) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -prune -exec rm -rf {} +
	rm -f protocol/records/_record_loops.*
