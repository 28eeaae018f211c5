# Every target sets up what it needs: a machine with Python 3.11 or newer, pip and make is enough.
# Environments are folders beside this file and are made again only when pyproject.toml changes.

PYTHON ?= python3
JOBS ?= 2
OLDEST_JAXLIB := 0.8.3
NEWEST_JAXLIB := 0.12.0.1
# jaxlib 0.11 and later need Python 3.12, which the machine may have next to an older one.
NEWEST_PYTHON ?= $(firstword $(shell for p in python3.13 python3.12 \
	$(HOME)/.pyenv/versions/3.1[23].*/bin/python; do $$p -c "" 2>/dev/null && echo $$p; done))

# make OUTCOMES=FOLDER TARGET writes what became of each test (tests/outcomes.py).
RECORD = $(if $(OUTCOMES),-p tests.outcomes --outcomes $(OUTCOMES)/$@.json)

# Of long lists of cases, and of slow ones, the tests take a part a day (tests/rotation.py); make PART= TARGET takes all.
PART ?= -p tests.rotation --part today

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test unit fuzz sweep lint types format generate docs smoke benchmark \
	environments test-oldest test-newest test-jax test-torch clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

demo: .venv-demo/.demo ## three programs inside a byte limit, checked and measured (3 minutes)
	.venv-demo/bin/python examples/quickstart.py

test: .venv/.test ## all tests and doctests; of long lists of cases a quarter on each day (PART=: all)
	.venv/bin/python -m pytest -n $(JOBS) --dist worksteal $(PART) $(RECORD)

unit: .venv/.test ## the quick tests: nothing is compiled, no process is started (a minute)
	.venv/bin/python -m pytest -n $(JOBS) -m "not xla and not process and not gpu and not slow and not sweep" tests

SECONDS ?= 600
FUZZ ?=
fuzz: .venv/.test ## random programs, compiled in every way and compared (SECONDS=600, FUZZ="--seed 1")
	.venv/bin/python -m tests.fuzz --seconds $(SECONDS) $(FUZZ)

sweep: .venv/.test .venv-jax/.test ## what the CI takes a part of, whole: ops, pairs of ops, beside jax (hours)
	.venv/bin/python -m pytest -m "sweep and not peer"
	.venv-jax/bin/python -m pytest -m "sweep and peer" tests

# Of tests/ops only what is compiled or lowered: the rest is evaluated by NumPy, whatever the jaxlib.
# How our own code gives memory back to the system, minutes of processes, depends on no jaxlib, and
# what fresh processes do is tested on the newest jaxlib, not on the oldest too.
OF_OUR_HEAP := $(addprefix --ignore=tests/lowering/test_,large_blocks.py host_allocator.py)
test-oldest: .venv-oldest/.test ## the key tests on the oldest jaxlib that is supported
	.venv-oldest/bin/python -m pytest -n $(JOBS) -m "xla and not slow and not sweep" $(PART) \
		$(if $(OUTCOMES),-p tests.outcomes --outcomes $(OUTCOMES)/$@-ops.json) tests/ops
	.venv-oldest/bin/python -m pytest -n $(JOBS) -m "not slow and not sweep and not process" \
		$(PART) $(RECORD) tests/lowering tests/optimizer/legalize tests/end_to_end tests/ops/test_product_form.py \
		$(OF_OUR_HEAP)

ifeq ($(NEWEST_PYTHON),)
test-newest:
	@echo "skipped: jaxlib $(NEWEST_JAXLIB) needs Python 3.12 or newer (make NEWEST_PYTHON=/path/to/python $@)"
else
test-newest: .venv-newest/.test ## the key tests on the newest jaxlib that is known
	.venv-newest/bin/python -m pytest -n $(JOBS) -m "not slow and not sweep" $(PART) $(RECORD) \
		tests/lowering tests/optimizer/legalize tests/end_to_end $(OF_OUR_HEAP)
endif

environments: .venv-oldest/.test .venv-jax/.test .venv-torch/.test $(if $(NEWEST_PYTHON),.venv-newest/.test)

test-jax: .venv-jax/.test ## the tests that compare with jax, and work with einops and others
	.venv-jax/bin/python -m pytest -n $(JOBS) -m "peer and not sweep" $(PART) $(RECORD) tests

test-torch: .venv-torch/.test ## the tests that need PyTorch
	.venv-torch/bin/python -m pytest -n $(JOBS) -m "torch and not sweep" $(PART) $(RECORD) \
		tests/torch tests/numpy/test_third_party.py

lint: .venv/.dev ## ruff: rules and format
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

format: .venv/.dev ## ruff: mend what it can
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

EXPORTS := $(addprefix tracer/,ops/__init__.py numpy/__init__.py numpy/linalg/__init__.py \
	numpy/fft/__init__.py scipy/linalg/__init__.py scipy/special.py)
generate: .venv/.dev ## what is written from the code: exports, tables of docs/{numpy-surface,passes,settings}.md
	.venv/bin/python docs/generate_exports.py
	.venv/bin/ruff check --quiet --fix $(EXPORTS)
	.venv/bin/ruff format --quiet $(EXPORTS)
	.venv/bin/python docs/generate_surface.py
	.venv/bin/python docs/generate_passes.py
	.venv/bin/python docs/generate_settings.py

types: .venv/.dev ## mypy --strict
	.venv/bin/mypy

docs: .venv-docs/.docs ## the site, from docs/ and the docstrings, into build/site; warnings are errors
	.venv-docs/bin/python -m sphinx -W --keep-going -q -c docs/site -b html . build/site
	@echo "build/site/docs/site/index.html"

smoke: .venv/.test ## the benchmarks at small size, without peers
	.venv/bin/python benchmarks/smoke.py
	.venv/bin/python -m benchmarks --size small
	.venv/bin/python -m benchmarks.experiments --size small --seconds 2 --systems tracer \
		kernel neighbours sgpr transformer scaling

benchmark: .venv-benchmark/.benchmark ## the published experiments beside their peers (installs jax)
	.venv-benchmark/bin/python -m benchmarks

clean: ## remove the environments and caches
	rm -rf .venv .venv-demo .venv-oldest .venv-newest .venv-jax .venv-torch .venv-benchmark .venv-docs build .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/.test: EXTRAS := test
.venv-demo/.demo: EXTRAS := demo
.venv-docs/.docs: EXTRAS := docs
.venv/.dev: EXTRAS := dev
.venv-oldest/.test: EXTRAS := test
.venv-oldest/.test: PINS := jaxlib==$(OLDEST_JAXLIB)
.venv-jax/.test: EXTRAS := peers-test,test
.venv-torch/.test: EXTRAS := torch,test
.venv-newest/.test: EXTRAS := test
.venv-newest/.test: BEYOND := jaxlib==$(NEWEST_JAXLIB)
.venv-newest/.test: PYTHON := $(NEWEST_PYTHON)
.venv-benchmark/.benchmark: EXTRAS := benchmark,test

# The machine's pip installs into the environment, so that ensurepip is not needed.
.venv/.test .venv/.dev .venv-demo/.demo .venv-oldest/.test .venv-newest/.test .venv-jax/.test \
.venv-torch/.test .venv-benchmark/.benchmark .venv-docs/.docs: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "tracer needs Python 3.11 or newer: make PYTHON=/path/to/python $@"; exit 1; }
	$(PYTHON) -m venv --without-pip $(@D)
	$(PYTHON) -m pip --python $(@D)/bin/python install --quiet --editable '.[$(EXTRAS)]' $(PINS)
	$(if $(BEYOND),$(PYTHON) -m pip --python $(@D)/bin/python install --quiet --no-deps $(BEYOND))
	@touch $@
