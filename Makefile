# One word each: demo, test, check, bench, e2e. Each works alone on a machine with Python >= 3.11 and make.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
MANIFESTS := constraints.txt pyproject.toml core/pyproject.toml simulator/pyproject.toml $(wildcard plugins/*/pyproject.toml)

.PHONY: axe setup demo test test-slow test-all e2e control-plane soak leaders interruptions bench bench-failover bench-scale-down bench-mutants bench-refresh bench-beside-ca check dist docs figures figures-older format generate licences lock pictures sbom clean

setup: .venv/.dev

demo: .venv/.runtime
	$(BIN)/nodewright demo

# The quick tier: every module and each kind of test, some ten minutes on two cores.
test: .venv/.dev
	E2E=off $(BIN)/pytest -n auto --dist worksteal -m "not slow"

# What takes long and needs no control plane: a thousand schedules of faults, production traces, installs, browsers.
test-slow: .venv/.dev
	E2E=off $(BIN)/pytest -n auto --dist worksteal -m slow

# Everything, as in CI: both tiers, and the end-to-end tests on a control plane.
test-all: test test-slow e2e

# Needs Go; the first build of the control plane takes some ten minutes, then it is kept.
control-plane: .venv/.dev
	$(BIN)/python -m tests.e2e.provide

e2e: control-plane
	E2E=require $(BIN)/pytest tests/e2e

# An hour of random faults on the control plane; tests/e2e/test_soak.py is a minute of it.
soak: control-plane
	$(BIN)/python -m tests.e2e.soak 60

# A thousand random schedules of replicas that crash, freeze and wake; the suite runs some of them.
leaders: .venv/.dev
	LEADER_SCHEDULES=1000 $(BIN)/pytest -n auto -m "not slow" core/tests/leaders/test_leaders.py

# Ten thousand random schedules of notices, with engines that are killed; the suite runs some of them.
interruptions: .venv/.dev
	INTERRUPTION_SCHEDULES=10000 $(BIN)/pytest -n auto tests/scenario/test_interruptions_random.py

# Looks at the reports and at the daemon's page with axe-core (accessibility; MPL-2.0), which npm downloads into out/. Needs npm and Chromium.
axe: .venv/.dev
	npm install --prefix out/axe --ignore-scripts --no-audit --no-fund --no-save axe-core@4.14.1
	AXE=require $(BIN)/pytest simulator/tests/test_browser.py core/tests/cli/console/test_in_browser.py -k axe

bench: .venv/.dev
	$(BIN)/python bench/run.py
	$(BIN)/python bench/scale_down.py

bench-failover: .venv/.dev
	$(BIN)/python bench/failover.py

bench-scale-down: .venv/.dev
	$(BIN)/python bench/scale_down.py --page

bench-mutants: .venv/.dev
	$(BIN)/python bench/mutants.py

bench-refresh: .venv/.dev
	$(BIN)/python bench/refresh.py
	$(BIN)/python bench/refresh.py --provider azure
	$(BIN)/python bench/refresh.py --provider gce

# Beside the Go cluster-autoscaler that CA_BINARY names; two runs take some 115 minutes.
bench-beside-ca: control-plane
	mkdir -p out
	$(BIN)/python bench/beside_ca.py --runs 2 --json out/beside-ca.json

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Every wheel and source distribution, into dist/, with metadata and contents checked; then each is installed and run.
dist: .venv/.dev
	rm -rf dist
	for folder in core simulator $(dir $(wildcard plugins/*/pyproject.toml)); do \
		$(BIN)/python -m build --no-isolation --outdir dist $$folder || exit 1; done
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/pytest tests/packaging/test_wheels.py tests/packaging/test_install.py

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Pages and schemas that are made from the sources; a test says which are stale.
generate: .venv/.dev
	$(BIN)/python docs/generate.py

# Versions with hashes for the image, into deploy/locked. With the Python of the image: make lock LOCK_PYTHON=python3.13
LOCK_PYTHON ?= $(PYTHON)
lock:
	$(LOCK_PYTHON) -m venv .venv/lock
	.venv/lock/bin/pip install --quiet --constraint constraints.txt pip-tools
	.venv/lock/bin/python deploy/lock.py

licences: .venv/.dev
	$(BIN)/python deploy/licences.py

# What the image contains, as CycloneDX, into out/sbom.json.
sbom:
	$(LOCK_PYTHON) -m venv .venv/sbom
	.venv/sbom/bin/pip install --quiet --require-hashes $(foreach file,$(filter-out %/build.txt,$(wildcard deploy/locked/*.txt)),-r $(file))
	$(LOCK_PYTHON) -m venv .venv/lock
	.venv/lock/bin/pip install --quiet cyclonedx-bom
	mkdir -p out
	.venv/lock/bin/cyclonedx-py environment --output-reproducible --output-file out/sbom.json .venv/sbom

# The documentation site, into out/site: fails on a broken link or a page that is not in the nav of mkdocs.yml.
docs: .venv/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "out/site/index.html"

# Runs again what made the figures of the pages, into out/figures; all of them take a day. One: make figures FIGURE=failover
figures: .venv/.dev
	$(BIN)/python docs/figures.py $(FIGURE)

# Which figures are older than the code that they measure.
figures-older: .venv/.dev
	$(BIN)/python docs/figures.py --older

# Pictures of the README and of docs/cost.md. The figures of docs/cost.md must be those of the same run: out/cost-*.json.
pictures: .venv/.dev
	mkdir -p out
	$(BIN)/python docs/images/draw.py
	for expander in least-cost price; do \
		$(BIN)/python bench/cost.py --expander $$expander --output json > out/cost-$$expander.json || exit 1; done
	$(BIN)/python bench/cost_chart.py least-cost=out/cost-least-cost.json price=out/cost-price.json

clean:
	rm -rf .venv out

.venv/.runtime: $(MANIFESTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nodewright needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.11 $(MAKECMDGOALS)" % sys.version_info[:2])'
	@echo "Installing nodewright into .venv: a minute or two, once"
	$(PYTHON) -m venv .venv
	$(PIP) pip
	$(PIP) --editable 'core[fake]' --editable plugins/fake --editable simulator
	touch $@

.venv/.dev: .venv/.runtime
	@echo "Installing the plugins of the clouds and the tools of developers into .venv: some minutes, once"
	$(PIP) --editable plugins/aws --editable plugins/azure --editable plugins/externalgrpc --editable plugins/gce --group dev
	touch $@
