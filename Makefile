# `make` lists the commands. Each does all its own set-up in .venv.

SUPPORTED := 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))'
PYTHON ?= $(shell for p in python3 python3.12 python3.11 python3.10; do $$p -c $(SUPPORTED) 2>/dev/null && echo $$p && break; done)
VENV := .venv

# uv makes the environments: the machine's, or one that pip installs from a lock. Where uv cannot be had, pip makes them.
UV := $(or $(shell command -v uv),$(VENV)-uv/bin/uv)
HAS_UV = $(shell test -x "$(UV)" && echo yes)
MAKE_VENV = $(if $(HAS_UV),$(UV) venv --quiet --allow-existing --python '$(or $(PYTHON),>=3.10$(comma)<3.13)',$(or $(PYTHON),false) -m venv) $(@D)
CHECK_PYTHON = $(@D)/bin/python -c $(SUPPORTED) || { echo "Python 3.10, 3.11 or 3.12 is needed; name one: make PYTHON=/path/to/python3.11"; exit 1; }
INSTALL = $(if $(HAS_UV),$(UV) pip install --python $(@D)/bin/python,$(@D)/bin/python -m pip --disable-pip-version-check install) --quiet
INSTALL_LOCK = $(INSTALL) --no-deps --require-hashes --requirement
comma := ,

# Tests write a gigabyte and a half of small files. In memory that takes a fifth less time than on a disk.
MEMORY := 'import os; s = os.statvfs("/dev/shm"); s.f_bavail * s.f_frsize >> 32 and not s.f_flag & os.ST_NOEXEC and print("/dev/shm")'
TMPDIR ?= $(shell $(or $(PYTHON),python3) -c $(MEMORY) 2>/dev/null)
PYTEST = TMPDIR=$(TMPDIR) $(VENV)/bin/python -m pytest $(PYTEST_OPTIONS)
DEMO := build/demo
SITE := build/docs
DOCS := .
LINKS := build/links
# What the wheel is made of, if it is newer. Names in template/ have spaces, which make can't list.
CHANGED := $(shell find src hooks template examples/*/pipeline.yml pyproject.toml CHANGELOG.md -type f -newer template/vendor/requirements.txt -not -name '*.pyc' -not -name '*.whl' -print -quit 2>&1)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-unit test-slow test-docker test-cluster test-browser dashboard test-ray coverage pages docs links lint lock dist wheel

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

setup: $(VENV)/.dev ## make the environment, with test tools and linters

$(VENV)-uv/bin/uv: locks/requirements-uv.lock
	@echo "Installing uv in $(VENV)-uv ..."
	@$(or $(PYTHON),python3) -m venv $(VENV)-uv && $(VENV)-uv/bin/pip --quiet --disable-pip-version-check install --no-deps --require-hashes --requirement $< && touch $@ || echo "uv cannot be installed; pip makes the environments"

# What `make demo` needs: Copier, and what serves the default project.
$(VENV)/.ready: locks/requirements.lock | $(UV)
	@echo "Making the environment in $(@D) ..."
	@$(MAKE_VENV) && $(CHECK_PYTHON)
	@$(INSTALL_LOCK) $<
	@touch $@

# What all other commands but `make docs` need, and the package of src/, editable. Tests start thousands of processes, some
# with PYTHONDONTWRITEBYTECODE: what they import is compiled once, also what .ready has installed.
$(VENV)/.dev: locks/requirements-dev.lock pyproject.toml tests/helpers/shared_work.pth $(VENV)/.ready
	@echo "Installing test tools and linters ..."
	@$(INSTALL_LOCK) $<
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@ln -sf $(CURDIR)/tests/helpers/shared_work.py $(CURDIR)/tests/helpers/shared_work.pth $(@D)/lib/python3.*/site-packages/
	@$(@D)/bin/python -m compileall -qq -j 0 src $(@D)/lib || true # a file for other Pythons may fail
	@touch $@

# The TorchScript tests need torch, which is large: only `make test` and `make test-slow` install it, with the version that generated
# projects ask for. pip takes it for a CPU from where its configuration says; uv would take it for a GPU, 5 GB.
$(VENV)/.torch: $(VENV)/.dev
	@echo "Installing torch ..."
	@$(@D)/bin/python -m pip --quiet --disable-pip-version-check install torch==2.13.0
	@touch $@

# The default project needs no environment of its own: .ready has its packages.
OUR_VENV = SETUP= PYTHONPATH=$(CURDIR)/src VENV=$(abspath $(VENV))
demo: $(VENV)/.ready wheel ## generate the default project, or that of PIPELINE=ocr, in build/demo, serve it, send it real images
	@rm -rf $(DEMO)
	@$(VENV)/bin/copier copy --quiet --defaults $(if $(PIPELINE),--data starting_pipeline=$(PIPELINE)) --vcs-ref HEAD $(CURDIR) $(DEMO)
	@$(MAKE) --no-print-directory --directory $(DEMO) $(if $(PIPELINE),VENV=.venv,$(OUR_VENV)) UV=$(if $(HAS_UV),$(abspath $(UV))) infer

test: $(VENV)/.torch wheel lint ## lint, and the tests that take five minutes together
	@$(PYTEST) -n $(or $(TEST_WORKERS),4) --dist loadfile --no-loadscope-reorder -m "not slow"

test-unit: PYTEST_OPTIONS := -n auto --dist loadfile
test-unit: setup ## the tests that start no process; CI runs them on Linux, macOS and Windows
	@$(PYTEST) tests/unit

test-slow: $(VENV)/.torch wheel ## the rest of them; ALL=1: in each case, as before a release
	@$(PYTEST) -n $(or $(TEST_WORKERS),4) --dist worksteal -m "slow$(if $(ALL),, and not matrix)"

test-docker: setup wheel ## container tests, on a Docker engine; REQUIRE_DOCKER=1 makes a missing one an error
	@$(PYTEST) $(if $(ALL),,-m "not matrix") tests/docker

test-cluster: setup wheel ## manifests for Kubernetes and KServe, against their schemas; what of them runs without a cluster
	@PATH="$(abspath $(VENV))/bin:$$PATH" $(PYTEST) -n 2 --dist worksteal -m "$(if $(SLOW),,not )slow" tests/cluster

test-browser: setup wheel ## the page of the gateway, in Chromium, and its OpenAPI; PICTURES=docs renews the pictures of docs/
	@PICTURES=$(PICTURES) $(PYTEST) tests/browser

dashboard: setup wheel ## docs/dashboard.png anew, from a run of a quarter of an hour; needs npm and Prometheus
	@$(VENV)/bin/python scripts/dashboard/dashboard.py

test-ray: TMPDIR := /tmp# where Ray then has its logs and sockets
test-ray: setup wheel ## Ray Serve, on a real Ray of one and several nodes
	@$(PYTEST) -n 0 tests/rayserve

# COVERAGE=1 with a command that runs tests: each process that they start writes down which lines it runs. COVERAGE=workers:
# only those of pytest itself do, which takes a fraction of the time. All processes load the plugin that measures
# templates, so the environment has a link to it before it has coverage.py.
$(VENV)/.coverage: $(VENV)/.ready
	@ln -sf $(CURDIR)/tests/helpers/jinja_coverage.py $(VENV)/lib/python3.*/site-packages/
	@touch $@

ifdef COVERAGE
export COVERAGE
export COVERAGE_PROCESS_START := $(CURDIR)/tests/coverage.toml
export COVERAGE_FILE := $(CURDIR)/build/coverage/data
$(VENV)/.dev: | $(VENV)/.coverage
endif

coverage: setup $(VENV)/.coverage ## print what `make test COVERAGE=1` measured, and the macros that no test calls
	@$(VENV)/bin/python scripts/coverage_table.py $(COVERAGE)

pages: setup ## write the pages, lists and the schema that scripts make of the code
	@for script in scripts.lists scripts.fields_page scripts.check_page scripts.gpu_page benchmarks.peers.report; do PYTHONPATH=src $(VENV)/bin/python -m $$script || exit; done

# Sphinx and what it needs, in an environment of its own: they need older versions of what other commands need.
$(VENV)-docs/.ready: locks/requirements-docs.lock | $(UV)
	@$(MAKE_VENV) && $(CHECK_PYTHON)
	@$(INSTALL_LOCK) $<
	@touch $@

docs: $(VENV)-docs/.ready ## the documentation as a site, in build/docs; a link that leads nowhere is an error
	@rm -rf $(SITE)
	@$(VENV)-docs/bin/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky --conf-dir docs . $(SITE)
	@echo "$(SITE)/index.html"

links: $(VENV)-docs/.ready ## what the documentation links to elsewhere; needs the internet, so no other command runs it
	@$(VENV)-docs/bin/python -m sphinx --quiet --fail-on-warning --keep-going --builder linkcheck --conf-dir docs $(DOCS) $(LINKS)

lint: setup ## ruff and mypy over the template, its tests and examples; zizmor over the workflows; words and commit subjects
	@$(VENV)/bin/python -m ruff check .
	@$(VENV)/bin/python -m ruff format --check .
	@$(VENV)/bin/python -m mypy src scripts tests examples benchmarks
	@$(VENV)/bin/zizmor --quiet --offline --persona=auditor .github
	@$(VENV)/bin/python scripts/words.py
	@$(VENV)/bin/python scripts/subjects.py

dist: wheel ## the wheel that projects have and its sources, in dist/, as a release has them
	@rm -rf dist
	@$(VENV)/bin/python -m hatchling build --target sdist --directory dist
	@cp template/vendor/*.whl dist

wheel: template/vendor/requirements.txt ## build the wheel that generated projects have, when its sources changed

template/vendor/requirements.txt: $(if $(CHANGED),FORCE) | $(VENV)/.ready
	@$(VENV)/bin/python scripts/wheel.py

.PHONY: FORCE
FORCE:

lock: setup ## renew the lock files of this repository and of generated projects
	@UV=$(abspath $(UV)) $(VENV)/bin/python scripts/lock.py
