# Everything sets itself up: virtual environment, pinned dependencies, broker, database. `make help` lists the targets.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
VERSION := -c 'import sys; print("%d.%d" % sys.version_info[:2])'
NAMED = $(if $(filter file,$(origin PYTHON)),$(PY),$(PYTHON))
INSTALL := sh requirements/install $(PY)
SECONDS_OF_DEMO ?= 60
SCHEDULES ?= 20000
SECONDS ?= 60
WORKERS ?= 3
# There is no wheel of it for Linux on ARM; its source builds without a compiler too, in Python alone.
BUILT = $(if $(filter aarch64,$(shell uname -m)),--no-binary faust-streaming)
IMPORTS := import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())
export PYTHONDONTWRITEBYTECODE :=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-full test-engines fuzz stranger compiled imported bench simulator up down down-all status lint format lock docs manifests migration sbom site clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# Made anew where that never came to its end, where its Python is another one since, and where another one is named.
# Those of 0.1.0 have no stamp: one that something was installed into stays.
$(VENV)/.python: FORCE
	@if test ! -e $@ && test -e $(VENV)/.run && \
	  test -d "$(VENV)/lib/python$$($(PY) $(VERSION) 2>/dev/null)/site-packages/pip"; then \
	  $(PY) $(VERSION) > $@ && touch -r $(VENV)/.run $@; fi
	@{ made=$$(cat $@) && test "$$($(PY) $(VERSION))" = "$$made" && test "$$($(NAMED) $(VERSION))" = "$$made"; } 2>/dev/null || { \
	  $(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' || \
	    { echo "fleetpulse needs Python 3.11 to 3.14; say which: make PYTHON=/path/to/python3.11 ..." >&2; exit 2; } && \
	  $(PYTHON) -m venv --clear $(VENV) && $(PY) $(VERSION) > $@; }
FORCE:

# Without bytecode: most files of these packages are never imported; Python compiles the others when they are.
$(VENV)/.run: requirements/run.lock pyproject.toml lab/pyproject.toml sdk/pyproject.toml $(VENV)/.python
	$(INSTALL) --require-hashes --only-binary :all: $(BUILT) -r requirements/run.lock
	$(INSTALL) --no-deps --no-build-isolation --editable . --editable ./lab --editable ./sdk
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.run
	$(INSTALL) --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/.fuzz: requirements/fuzz.lock $(VENV)/.dev
	$(INSTALL) --require-hashes -r requirements/fuzz.lock
	@touch $@

$(VENV)/.release: requirements/release.lock $(VENV)/.run
	$(PYTHON) -m venv --clear $(VENV)-release
	sh requirements/install $(VENV)-release/bin/python --require-hashes -r requirements/release.lock
	@touch $@

demo: $(VENV)/.run ## a whole fleet on this machine for a minute: percentiles, cost of nothing, exact books
	$(PY) -m fleetpulse demo --seconds $(SECONDS_OF_DEMO)

test: $(VENV)/.dev ## lint, types, import rules, unit and integration tests
	$(MAKE) --no-print-directory -j 2 lint imported
	$(PY) -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not full and not gpu and not stranger and not engines"

test-full: $(VENV)/.fuzz ## what needs Debian packages on top (installed where allowed) and Go, which builds helm once
	sh .ci/debian-packages
	PY=$(PY) sh .ci/kubernetes-tools
	$(PY) -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m full

test-engines: $(VENV)/.dev ## a real vLLM on this processor, measured by default (6 GB in FLEETPULSE_TEST_ENGINES_DIR, once)
	$(PY) -m pytest -q -n 0 -m engines tests/engines

stranger: $(VENV)/.dev ## follow the README line by line in a fresh clone, with empty caches (ten minutes)
	$(PY) -m pytest -q -m stranger

compiled: $(VENV)/.run ## compile the loops of jobs and simulation, once, so that every start is quick
	@$(PY) -m fleetpulse compile

# In a fresh clone each of the workers would compile every module to bytecode, side by side. What is wrong with one shows
# when they collect.
imported: compiled $(VENV)/.dev ## collect the tests once, where that was never done
	@test -d tests/__pycache__ || $(PY) -m pytest -q -n 0 --collect-only -p no:cacheprovider > /dev/null 2>&1 || true

simulator: $(VENV)/.dev ## random crash schedules against the real cores (SCHEDULES=20000)
	$(PY) -m tests.simulator --schedules $(SCHEDULES) --seed 1

fuzz: $(VENV)/.fuzz ## search every reader of foreign bytes for inputs that break it (SECONDS=60 for each)
	$(PY) -m tests.fuzz --seconds $(SECONDS)

bench: $(VENV)/.run ## measure throughput, freshness and size on this machine
	$(PY) -m fleetpulse bench throughput --profile bulk
	$(PY) -m fleetpulse bench throughput --profile fleet
	$(PY) -m fleetpulse bench freshness
	$(PY) -m fleetpulse bench size

up: $(VENV)/.run ## start the local stack (Kafka and ClickHouse)
	$(PY) -m fleetpulse up

down: ## stop the local stack
	@test ! -e $(VENV)/.run || $(PY) -m fleetpulse down

down-all: ## stop it, and the stacks that tests and benches have left below .fleetpulse
	@test ! -e $(VENV)/.run || find .fleetpulse -name stack.json 2>/dev/null | { left=0; while IFS= read -r state; do \
	  $(PY) -m fleetpulse down --data-dir "$${state%/*}" || left=1; done; exit $$left; }

status: $(VENV)/.run ## what of the local stack is running
	$(PY) -m fleetpulse status

lint: $(VENV)/.dev ## ruff, mypy --strict, import-linter
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -c '$(IMPORTS)'
	$(PY) -c '$(IMPORTS)' --config sdk/pyproject.toml

format: $(VENV)/.dev ## let ruff tidy the code
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

docs: $(VENV)/.run ## write the reference pages that follow from schemas/
	$(PY) -m schemas.reference
	$(PY) -m producers.engines.filled
	$(PY) -m fleetpulse.commands.reference
	$(PY) -m grafana

manifests: $(VENV)/.run ## write deploy/kubernetes from the Helm chart (needs Go; builds helm once, two minutes)
	sh deploy/kubernetes/render "$$(PY=$(PY) sh .ci/kubernetes-tools)/helm"

migration: $(VENV)/.run ## write the SQL file that brings databases to what schemas/ declares (NAME=what_it_does)
	@test -n "$(NAME)" || { echo "say what it does: make migration NAME=add_region_to_gpu_samples" >&2; exit 2; }
	$(PY) -m fleetpulse.migrate.write $(NAME) --upgrade-from tests/data/releases/0.1.0

site: $(VENV)/.dev ## the pages of docs/ as a site below .fleetpulse/site
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

lock: $(VENV)/.python ## resolve dependencies again and pin them with hashes
	$(PY) -m pip install --quiet --upgrade uv
	echo uv | $(PY) -m uv pip compile - --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --no-header --quiet -o requirements/uv.lock
	$(PY) -m uv pip compile pyproject.toml requirements/build.in --extra local --extra dashboard --extra otlp --extra tracing --extra files --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet -o requirements/run.lock
	$(PY) -m uv pip compile pyproject.toml requirements/build.in --extra local --extra dashboard --extra otlp --extra tracing --extra files --extra dev --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet \
	  -c requirements/run.lock -o requirements/dev.lock
	echo "atheris==3.0.0" | $(PY) -m uv pip compile - --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-annotate --no-header --quiet -o requirements/fuzz.lock
	echo "kubernetes-validate==1.34.1" | $(PY) -m uv pip compile - --no-deps --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header --quiet -o requirements/kubernetes.lock
	printf 'cyclonedx-bom\npip-licenses\n' | $(PY) -m uv pip compile - --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header --quiet -o requirements/release.lock

# Of an environment that holds what is installed to run it, and nothing else.
sbom: $(VENV)/.release ## what a release consists of: CycloneDX and licences, below dist/
	rm -rf $(VENV)-shipped dist/fleetpulse.cdx.json dist/licences.csv
	mkdir -p dist
	$(PYTHON) -m venv --without-pip $(VENV)-shipped
	$(PY) -m uv pip install --quiet --python $(VENV)-shipped/bin/python --require-hashes -r requirements/run.lock
	$(VENV)-release/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --validate \
	  --output-file dist/fleetpulse.cdx.json $(VENV)-shipped/bin/python
	$(VENV)-release/bin/pip-licenses --python $(VENV)-shipped/bin/python --from=mixed --format=csv --with-urls \
	  --output-file dist/licences.csv
	rm -rf $(VENV)-shipped

clean: ## stop the stacks and remove what the targets made
	-@$(MAKE) --no-print-directory --keep-going down down-all
	rm -rf $(VENV) $(VENV)-release .fleetpulse .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
