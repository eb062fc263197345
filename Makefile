# `make` lists the targets. PYTHON chooses the interpreter that .venv is made with, TORCH_INDEX the torch build,
# e.g. TORCH_INDEX=https://download.pytorch.org/whl/cpu; WORKERS the number of test processes; OUT the demo's folder.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
TORCH_INDEX ?=
OUT ?=
export TORCH_INDEX

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
NEEDED := pyproject.toml constraints.txt
PEER := .venv-peer
OLDEST := .venv-oldest
DOCS := .venv-docs
FEAST := .venv-feast
# What the site shows; the folders stay as they are, so that a link works in the repository and on the site.
PAGES := *.md LICENSE CITATION.cff docs 'experiments/*.md' 'experiments/*.svg' benchmarks/README.md

# A full installation serves the demo too; it is made only once.
DEMO := $(if $(wildcard $(VENV)/.dev),$(VENV)/.dev,$(VENV)/.demo)

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint wheel check slow debian oldest docs peer featurepeers clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1|/' | awk -F'|' '{printf "make %-6s %s\n", $$1, $$2}'

venv: $(VENV)/.dev  ## make .venv with everything that development needs

demo: $(DEMO)  ## learn, embed and evaluate on the flights inside the package; results go to OUT (./demo-run)
	$(BIN)/eventvec demo $(if $(OUT),--out $(OUT))

# Bytecode is kept whatever the environment says: the processes that tests start would compile the package each time.
# Each process begins with a half of the files, so that what the tests of a file share is made once.
test: $(VENV)/.dev  ## run the tests and the examples in docstrings and documents
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: $(VENV)/.dev  ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: $(VENV)/.dev  ## build and check both archives, and run the wheel and the README's Python in an empty environment
	$(BIN)/python scripts/check_wheel.py

# Lint and wheel run side by side; a failing lint waits for the wheel. The tests follow, because they write into the folder
# that the archives are made from.
check: $(VENV)/.dev  ## what the continuous integration runs: lint, wheel and test
	$(MAKE) -j 2 lint wheel
	$(MAKE) test

slow: $(VENV)/.slow $(FEAST)/.done  ## run the tests that take minutes; those of pages and databases need `make debian`
	$(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest -m 'hypothesis and not slow' --hypothesis-profile many
	$(BIN)/python scripts/check_wheel.py demo

debian:  ## as root on Debian: install the browser, the databases and the Java that `make slow` starts
	apt-get install --yes --quiet chromium chromium-driver postgresql redis-server openjdk-17-jre-headless

oldest: $(OLDEST)/.done  ## run the tests on the oldest versions that pyproject.toml admits, in .venv-oldest
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n $(WORKERS) --dist worksteal -p no:cacheprovider

# Notebooks become pages with the outputs that they carry; each name of the reference gets a page of its own.
docs: $(DOCS)/.done  ## build the documentation into site/; a link that leads nowhere is an error
	rm -rf build/pages build/site site
	mkdir -p build/pages
	git ls-files --cached --others --exclude-standard -- $(PAGES) | tar -cf - -T - | tar -xf - -C build/pages
	find build/pages -name '*.ipynb' -exec $(DOCS)/bin/jupyter-nbconvert --log-level WARN --to markdown {} +
	$(DOCS)/bin/python scripts/reference_pages.py build
	$(DOCS)/bin/zensical build --clean --strict --config-file build/zensical.toml
	mv build/site site

peer: $(PEER)/.done  ## make .venv-peer with pytorch-lifestream, for python -m benchmarks.peer

featurepeers:  ## make .venv-tsfresh and .venv-featuretools, for python -m benchmarks.feature_tables
	-$(PYTHON) -m venv .venv-tsfresh && .venv-tsfresh/bin/python -m pip install --quiet tsfresh==0.21.2 pyarrow
	-$(PYTHON) -m venv .venv-featuretools && .venv-featuretools/bin/python -m pip install --quiet featuretools==1.31.0 'pandas<3' pyarrow

clean:  ## remove what building, testing and the demo left behind; .venv stays
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-run
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch comes first and alone, so that TORCH_INDEX applies to nothing else.
$(VENV)/.torch: constraints.txt | $(BIN)/python
	@echo "installing torch into $(VENV), some minutes where it has to be downloaded"
	$(INSTALL) torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@touch $@

$(VENV)/.dev: $(NEEDED) $(VENV)/.torch
	$(INSTALL) -e '.[dev]'
	@touch $@

$(VENV)/.slow: $(VENV)/.dev
	$(INSTALL) -e '.[dev,slow]'
	@touch $@

$(VENV)/.demo: $(NEEDED) $(VENV)/.torch
	$(INSTALL) -e '.[demo]'
	@touch $@

# Only the generator and what it calls, from the extra `docs`: the reference is read from the sources, nothing is imported.
$(DOCS)/.done: $(NEEDED)
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'], sep='\n')" > $(DOCS)/requirements.txt
	$(subst $(BIN),$(DOCS)/bin,$(INSTALL)) -r $(DOCS)/requirements.txt
	@touch $@

# The source archive, without its declared dependencies; benchmarks/peer/requirements.txt gives the reason.
$(PEER)/.done: constraints.txt benchmarks/peer/requirements.txt
	$(PYTHON) -m venv $(PEER)
	@echo "installing torch and pytorch-lifestream into $(PEER), some minutes where they have to be downloaded"
	$(subst $(BIN),$(PEER)/bin,$(INSTALL)) torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(subst $(BIN),$(PEER)/bin,$(INSTALL)) -r benchmarks/peer/requirements.txt
	$(subst $(BIN),$(PEER)/bin,$(INSTALL)) --no-deps --no-binary pytorch-lifestream pytorch-lifestream==0.7.0
	@touch $@

# It needs pandas 2; where it cannot be installed, its test is skipped.
$(FEAST)/.done:
	@echo "installing Feast into $(FEAST), some minutes where it has to be downloaded"
	-$(PYTHON) -m venv $(FEAST) && $(FEAST)/bin/python -m pip install --quiet feast==0.67.0 && touch $@

# torch first, as above; the tools for tests have the versions of development.
$(OLDEST)/.done: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	@echo "installing the oldest versions into $(OLDEST), some minutes where torch has to be downloaded"
	$(subst -c constraints.txt,-c constraints-oldest.txt,$(subst $(BIN),$(OLDEST)/bin,$(INSTALL))) torch $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	$(subst -c constraints.txt,-c constraints-oldest.txt,$(subst $(BIN),$(OLDEST)/bin,$(INSTALL))) -e '.[demo,text,test]'
	@touch $@
