# Two commands: `make demo` and `make test`. Both set everything up first; a second run skips what is there.
PYTHON ?= python3
HOME_DIR := .lakemark
VENV := $(HOME_DIR)/venv
BIN := $(VENV)/bin
UV := VIRTUAL_ENV=$(VENV) $(BIN)/uv
# Compiled once, here: a job's process would take a second longer wherever Python may not write beside its modules.
INSTALL := pip install --quiet --require-hashes --compile-bytecode
WITHOUT_JVM := tests/pure tests/local
IN_AIRFLOW := tests/installation
WITH_JVM := tests/spark tests/faults tests/matrix
OLDER_VERSIONS := tests/upgrade
SHORT_SOAK := --rounds 4 --records-per-round 1000 --pipelines 2
export PYTHONUNBUFFERED = 1

.PHONY: help setup setup-dev demo up down test _test-beside test-pure test-all test-newest lint soak crowd bench bench-large bench-quality bench-growth bench-commits bench-restart bench-scale bench-fleet bench-ledger bench-savepoints bench-sinks bench-formats rooms pictures lock

help:            ## lists every target
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed 's/:.*##/ ##/' | column -t -s '#'

setup: $(VENV)/.ready $(HOME_DIR)/.jars  ## installs Python packages, Java and JARs under .lakemark/

$(VENV)/.python: requirements-setup.txt
	@echo "[setup 1/4] a virtual environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Lakemark needs Python 3.11 or newer; found " + sys.version.split()[0] + ". Try: make $(MAKECMDGOALS) PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-setup.txt
	@touch $@

$(VENV)/.ready: $(VENV)/.python requirements.txt pyproject.toml
	@echo "[setup 2/4] Airflow, PySpark, Delta and the rest, pinned with hashes (about 1.8 GB on disk)"
	@$(UV) $(INSTALL) -r requirements.txt
	@$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready $(HOME_DIR)/.jars requirements-dev.txt tests/support/browser.py
	@echo "[setup +] test tools"
	@$(UV) $(INSTALL) -r requirements-dev.txt
	@$(BIN)/python -m include.installation test registry mariadb
	@$(BIN)/python -m tests.support.browser
	@touch $@

$(HOME_DIR)/.jars: $(VENV)/.ready include/installation/jars.txt $(wildcard include/installation/*.java)
	@echo "[setup 3/4] Java and the JARs of Kafka, Delta, Spark's Kafka source, and S3"
	@$(BIN)/python -m include.installation
	@touch $@

setup-dev: setup $(VENV)/.ready-dev  ## installs what tests and lints need, too

demo: setup      ## runs a year of flights end to end, with kills on the way; on S3: make demo ARGS="--lake s3"
	@$(BIN)/lakemark demo $(ARGS)

up: setup        ## starts Kafka, a warm Spark server and Airflow on this machine; with a lake on S3: make up ARGS="--lake s3"
	@$(BIN)/lakemark up $(ARGS)

down:            ## ends what `up` or `demo` started, and nothing else
	@if [ -x $(BIN)/lakemark ]; then $(BIN)/lakemark down; else echo "nothing was set up"; fi

lint: setup-dev  ## checks style, types, and the floors between the rooms
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-cache && $(BIN)/mypy

test-pure: setup-dev ## runs the tests that need no table, no JVM and no server (half a minute)
	@$(BIN)/pytest tests/pure

test: setup-dev  ## runs all that CI runs (23 minutes on two cores)
	@echo "the lints, the tests without a JVM, those in Airflow and a short soak run beside the others; what they say comes in one piece"
	@{ $(MAKE) -s _test-beside > $(HOME_DIR)/beside.log 2>&1; code=$$?; cat $(HOME_DIR)/beside.log; exit $$code; } & beside=$$!; \
	$(BIN)/pytest -m "not slow" --durations=30 $(WITH_JVM) && $(BIN)/pytest -m "not slow" -q $(OLDER_VERSIONS); code=$$?; \
	wait $$beside && exit $$code

_test-beside: lint
	@$(BIN)/pytest -m "not slow" -q $(WITHOUT_JVM)
	@$(BIN)/pytest -m "not slow" -q $(IN_AIRFLOW)
	@$(BIN)/python -m tests.soak $(SHORT_SOAK)

test-all: lint   ## runs the slow tests, too, and those of `make test` on the newest Python of this machine
	@$(BIN)/pytest
	@$(MAKE) test-newest

test-newest: setup-dev ## runs what `make test` runs on the newest Python of this machine, if that is another one
	@set -- $$($(BIN)/python -m tests.support.newest_python); \
	if [ -z "$$1" ]; then echo "no newer Python is installed here"; \
	else echo "on Python $$1, $$2"; $(MAKE) test VENV=$(HOME_DIR)/venv-$$1 PYTHON=$$2; fi

soak: setup-dev  ## deals load and faults from a seed: make soak ARGS="--rounds 300 --seed 7"
	@$(BIN)/python -m tests.soak $(ARGS)

crowd: setup-dev ## runs 20 pipelines at once in one Airflow, with kills: make crowd ARGS="--minutes 15"
	@$(BIN)/python -m tests.crowd $(ARGS)

$(HOME_DIR)/hudi/.ready: $(VENV)/.ready-dev tests/bench/contenders/hudi/requirements.txt
	@echo "[setup +] Hudi, with a Spark 3.5 of its own (about 400 MB to fetch), only for make bench"
	@$(PYTHON) -m venv $(HOME_DIR)/hudi
	@VIRTUAL_ENV=$(HOME_DIR)/hudi $(BIN)/uv pip install --quiet --require-hashes -r tests/bench/contenders/hudi/requirements.txt
	@$(BIN)/python -m include.installation hudi
	@touch $@

bench: setup-dev $(HOME_DIR)/hudi/.ready ## measures Lakemark against what one would pick instead, as ratios within one run: make bench ARGS="8k 200k --rounds 6"
	@$(BIN)/python -m tests.bench --report docs/bench $(ARGS)

bench-large: setup-dev $(HOME_DIR)/hudi/.ready ## measures the same with tables of 50M rows and batches of 1M (about 15 GB of disk)
	@$(BIN)/python -m tests.bench --report docs/bench-large --large $(ARGS)

bench-quality: setup-dev ## measures what a quality suite costs a batch
	@$(BIN)/python -m tests.bench.quality $(ARGS)

bench-commits: setup-dev ## measures commits of small batches as two thousand of them pile up on one table, without Spark
	@$(BIN)/python -m tests.bench.commits $(ARGS)

bench-restart: setup-dev ## measures the time from the death of the Spark server to the first batch after it
	@$(BIN)/python -m tests.bench.restart $(ARGS)

bench-growth: setup-dev ## measures a batch as its table grows a hundred times, and as small files pile up
	@$(BIN)/python -m tests.bench.growth $(ARGS)

bench-savepoints: setup-dev ## measures what keeping a state and going back to it costs, beside cp -r (needs 14 GB of disk)
	@$(BIN)/python -m tests.bench.savepoints $(ARGS)

bench-sinks: setup-dev ## measures deliveries to PostgreSQL, MariaDB and Kafka beside the fastest plain way
	@$(BIN)/python -m tests.bench.sinks $(ARGS)

bench-fleet: setup-dev ## measures where the CPU of an installation goes while many small pipelines run: make bench-fleet ARGS="--pipelines 20"
	@$(BIN)/python -m tests.bench.fleet $(ARGS)

bench-ledger: setup-dev ## measures plan and settle, also after ten thousand batches
	@$(BIN)/python -m tests.bench.ledger $(ARGS)

bench-scale: setup-dev ## measures batches of 1M to 20M changes on a standalone cluster, with a driver of bounded memory
	@$(BIN)/python -m tests.bench.scale $(ARGS)

bench-formats: setup-dev ## measures decoding, by format
	@$(BIN)/python -m tests.bench.formats $(ARGS)

rooms: setup-dev ## draws the rooms and their arrows from the imports: docs/images/rooms.svg
	@$(BIN)/python -m tests.pictures.rooms

pictures: setup-dev ## takes the screenshots of the docs, in an installation of its own (needs a Chromium)
	@$(BIN)/python -m tests.pictures

lock: setup      ## compiles requirements*.in into hashed pins
	@for f in requirements requirements-dev requirements-setup tests/bench/contenders/hudi/requirements; do \
	  $(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet $$f.in -o $$f.txt; done
