# SPDX-License-Identifier: Apache-2.0
# `make` alone lists the targets. Every target does its own set-up first (scripts/setup.sh; a second or so when done).
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
BIN := .venv/bin
PYTHON := $(BIN)/python

.PHONY: help setup prepare demo test lint unit kafka kubernetes cluster chaos bench jvm classes crd lock wheel images clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## get everything ready: tools, .venv, jars (the other targets do this by themselves)
	@scripts/setup.sh

demo: setup ## a word count on a real broker, killed with -9 at its work and continued from Kafka alone
	@$(PYTHON) examples/word_count_demo.py

# Programs are installed before the first test. The last line names the tests that could not run.
test: export STREAMAPP_LEFT_OUT := $(CURDIR)/.build/left-out
test: setup lint prepare unit kafka kubernetes ## all checks and tests
	@if [ -s .build/left-out ]; then sort -u .build/left-out; else echo "every test has run"; fi

prepare: setup ## the programs, packages and images that tests on a Kubernetes cluster take
	@rm -f .build/left-out; PYTHONPATH=tests $(PYTHON) -m cluster --prepare

lint: setup ## style, types, layers
	@echo "== ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy"; $(BIN)/mypy operator runtime/streamapp runtime/jvm/*.py container tests benchmarks examples
	@echo "== import-linter"; $(BIN)/lint-imports

unit: setup ## tests without a broker, and the examples in docstrings
	@echo "== unit tests"; $(PYTHON) -m pytest -q --doctest-modules runtime/streamapp operator/streamapp_operator tests -m "not kafka and not chaos and not cluster" \
	  --numprocesses 2 $(ARGS)

# Three at a time: a test that kills a process and starts it again waits half of its time.
kafka: setup ## tests on the embedded broker
	@echo "== broker tests"; $(PYTHON) -m pytest -q tests -m "kafka and not chaos and not cluster" \
	  --numprocesses 3 --dist worksteal $(ARGS)

# Each of the two workers has a cluster of its own. A free one takes the next test.
kubernetes: setup prepare ## tests on a Kubernetes cluster
	@echo "== cluster tests"; $(PYTHON) -m pytest -q tests -m "cluster and not chaos" --numprocesses 2 --dist load --maxschedchunk 1 $(ARGS)

cluster: setup ## a Kubernetes cluster to work with, until Ctrl-C
	@PYTHONPATH=tests $(PYTHON) -m cluster $(ARGS)

chaos: setup ## the long runs under faults
	@echo "== chaos"; $(PYTHON) -m pytest -q tests -m chaos --timeout 7200 $(ARGS)

bench: setup ## benchmarks against Kafka Streams and stock Spark
	@PYTHONPATH=tests $(PYTHON) -m benchmarks $(ARGS)

jvm: setup ## the Scala part only

classes: setup ## the list of classes that apps load, after another version of Spark
	@$(PYTHON) runtime/jvm/record_classes.py

crd: setup ## crds/streamapp.yaml, the chart's copy of it and the manual's tables of fields, from the manifest's model
	@$(PYTHON) -m streamapp_operator.crd > .build/crd && mv .build/crd crds/streamapp.yaml
	@cp crds/streamapp.yaml charts/streamapp-operator/files/streamapp.yaml
	@$(PYTHON) -m pytest -q tests/unit/project/test_manual.py -k every_field --rewrite-golden

# Versions stay if pyproject.toml allows them; ARGS=--upgrade takes the newest, ARGS="--upgrade-package NAME" that of one.
# The lists of the images are parts of requirements.lock, so each follows it.
UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
  --no-emit-package colorama
lock: setup ## requirements.lock and the lists of the images, with hashes, from pyproject.toml; ARGS=--upgrade for newer versions
	@$(UV_COMPILE) pyproject.toml --all-extras --group build $(ARGS) -o requirements.lock >/dev/null
	@$(UV_COMPILE) --group build -c requirements.lock -o container/build.lock >/dev/null
	@for image in runtime operator; do $(PYTHON) container/requirements.py $$image pyproject.toml \
	  | $(UV_COMPILE) - -c requirements.lock -o container/$$image.lock >/dev/null || exit 1; done
	@for file in requirements.lock container/{build,runtime,operator}.lock; do \
	  { printf '# %s\n' 'SPDX-License-Identifier: Apache-2.0' 'Made by `make lock`: change pyproject.toml first.'; \
	    sed '/^#/d' $$file; } > .build/lock && cp .build/lock $$file || exit 1; done

wheel: setup ## dist/streamapp-VERSION-py3-none-any.whl, jars included
	@rm -rf dist
	@$(PYTHON) -m hatchling build -t wheel

images: wheel ## the container images streamapp/runtime:dev and streamapp/operator:dev, with Docker
	@for image in runtime operator; do \
	  $(PYTHON) container/docker_images.py $$image streamapp/$$image:dev localhost/streamapp/$$image:dev || exit 1; done

clean: ## remove what set-up and runs made (keeps .venv)
	@rm -rf .build build dist runtime/streamapp/jars .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .streamapp
