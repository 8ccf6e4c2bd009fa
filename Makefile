# Everything that one does with loadstream, one word each. `make` alone lists the words.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DIR ?= tests/golden
ARGS ?=
SEED ?= 1
RUNS ?= 4
SEEDS ?= 1-50
# Base of the image, as in deploy/Dockerfile.
BASE := $(shell sed -n 's/^ARG BASE=//p' deploy/Dockerfile)
# More than cores: six wait for brokers, each with a Kafka of its own, while one computes (tests/conftest.py).
WORKERS ?= 7

# Dozens of processes start in a run of the tests or the demo: without bytecode that is kept, each would
# compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-kubernetes test control-plane helm manifests image test-quick check fix golden size yardstick bench figures chaos fuzz lock schemas clean

help: ## List the words.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# The locks name versions and hashes and no index: whichever is configured serves them.
$(STAMP): pyproject.toml locks/dev.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (about a minute, once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: $(STAMP) ## Place pods by real load on the embedded broker, in about two minutes; ARGS='--trace DIR' for real traces.
	@$(BIN)/loadstream demo $(ARGS)

demo-kubernetes: $(STAMP) ## Place and rebalance pods of a real control plane here, in two to four minutes, the first time with a build by Go.
	@LOADSTREAM_CONTROL_PLANE_MODULE=tests/control_plane $(BIN)/loadstream kubernetes demo $(ARGS)

test: $(STAMP) ## Run all tests; those that need Java and Maven, or Go, say so where these are missing.
	@if command -v go >/dev/null; then $(MAKE) --no-print-directory control-plane helm || true; fi
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --durations 20 $(ARGS)

# Before the tests: a slow first build must not look like a test that hangs.
control-plane: $(STAMP) ## Build the Kubernetes control plane of the tests with Go: some minutes, once.
	@$(BIN)/python -c 'from pathlib import Path; from simulation.control_plane.build import build; build(Path("tests/control_plane"))'

helm: $(STAMP) ## Build Helm of the tests with Go: some minutes, once.
	@$(BIN)/python -m tests.deploy.helm version --short

manifests: $(STAMP) ## Render the chart with VALUES=FILE into plain manifests; builds Helm with Go, once.
	@$(BIN)/python -m tests.deploy.helm template loadstream deploy/chart --namespace loadstream --values $(VALUES)

image: ## Build the image loadstream:local, its base pinned by digest, with a bill of materials; needs Docker.
	docker buildx build --file deploy/Dockerfile --tag loadstream:local --sbom=true --load \
	  --build-arg BASE=$(BASE)@$$(docker buildx imagetools inspect $(BASE) --format '{{.Manifest.Digest}}') \
	  --build-arg COMMIT=$$(git rev-parse --short HEAD) .

test-quick: $(STAMP) ## Run the tests that need no broker and no control plane and are not slow, with few examples of each invariant.
	@HYPOTHESIS_PROFILE=quick $(BIN)/pytest -n 3 --dist worksteal -m "not broker and not kafka and not control_plane and not slow" $(ARGS)

check: $(STAMP) ## Format, lint, types, architecture, published schemas, generated reference, docker-compose.yml, workflow of CI.
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/loadstream schema export --check
	@$(BIN)/python -m benchmarks.reference --check
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/ci.yml

fix: $(STAMP) ## Format, and mend what the linter can.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

golden: $(STAMP) ## Run the golden cases found below DIR.
	@$(BIN)/python -m tests.golden $(DIR)

size: $(STAMP) ## Count lines, words, topics, tables, fields, settings and commands, and compare them with their limits.
	@$(BIN)/python -m benchmarks.size --check

yardstick: $(STAMP) ## Tell whether decisions are the same as when their digests were recorded.
	@$(BIN)/python -m benchmarks.yardstick $(ARGS)

bench: $(STAMP) ## Measure; one JSON object a figure. ONLY=name for one.
	@$(BIN)/python -m benchmarks $(ONLY)

figures: $(STAMP) ## Measure everything, and write the figures into README and docs; FROM=FILE: of what was measured before.
	@$(if $(FROM),cp $(FROM),$(MAKE) --no-print-directory bench >) docs/contributing/figures.jsonl
	@$(BIN)/python -m benchmarks.publish

chaos: $(STAMP) ## Kill workers and brokers of a real Kafka under load, and judge what is left. SEED=n RUNS=k
	@$(BIN)/python -m tests.chaos --seed $(SEED) --runs $(RUNS) $(if $(SCENARIO),--scenario $(SCENARIO))

fuzz: $(STAMP) ## Run random histories of inputs and faults, and check the invariants after every event. SEEDS=a-b
	@$(BIN)/python -m tests.histories --seeds $(SEEDS)

LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-annotate --custom-compile-command "make lock" --upgrade

lock: ## Choose versions anew and lock them; needs uv.
	@$(LOCK) -o locks/run.txt pyproject.toml
	@$(LOCK) -c locks/run.txt -o locks/dev.txt --group dev pyproject.toml
	@$(LOCK) -c locks/dev.txt -o locks/build.txt --group build

schemas: $(STAMP) ## Write the published schemas and the reference pages that come from the code.
	@$(BIN)/loadstream schema export
	@$(BIN)/python -m benchmarks.reference

clean: ## Remove what the words above have made.
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis demo-output fuzz-failures
