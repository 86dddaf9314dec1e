# Each target does all of its own set-up: a machine with Python 3.11 to 3.13 and nothing else is enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_HOME := $(CURDIR)/.demo
DEMO := env -u TURNMARK_DATA -u TURNMARK_GENERATOR TURNMARK_HOME=$(DEMO_HOME) $(BIN)/turnmark

.PHONY: demo test reader test-reader test-data lint dist drill drill-quick conversations audit catalogs clean help

help:
	@echo "make demo       build an index, hold a conversation, run all four benchmarks on small splits"
	@echo "make test       run the test suite"
	@echo "make reader     fetch the small language model that tests marked reader need (1.1 GB)"
	@echo "make test-reader  run these tests: whole turns with a real model, minutes"
	@echo "make test-data  run the slow tests and those on the large real corpora (../shared/data or TURNMARK_DATA)"
	@echo "make lint       run ruff, mypy and deptry"
	@echo "make dist       build wheel and sdist, install the wheel in a clean environment, and run the main tasks there"
	@echo "make drill      cause faults on purpose and check the results: hours (drill-quick: minutes)"
	@echo "make conversations  score questions over documents by others, without a model and with one"
	@echo "make audit      list known vulnerabilities of the pinned packages, with pip-audit"

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	  { echo "Turnmark needs Python 3.11 to 3.13; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Python compiles each module when it is first imported. Compiling all packages takes a third of the installation.
$(VENV)/.main: $(VENV)/.made pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.main

demo: $(VENV)/.main
	@echo "== turnmark index build turnmark/corpora/demo/documents --name demo"
	@$(DEMO) index build turnmark/corpora/demo/documents --name demo
	@echo; echo "== turnmark chat --index demo"
	@$(DEMO) chat --index demo < turnmark/corpora/demo/questions.txt
	@echo; echo "== turnmark index build turnmark/corpora/demo/files --name demo-files   (a PDF and a workbook)"
	@$(DEMO) index build turnmark/corpora/demo/files --name demo-files
	@echo; $(DEMO) ask "What does a night in the inner basin cost?" --index demo-files
	@echo; $(DEMO) ask "What is the fare of the last ferry on a Sunday?" --index demo-files
	@rm -rf $(DEMO_HOME)/runs
	@echo; echo "== turnmark eval mtrag --task retrieval; turnmark eval all   (a minute or two; all they print: .demo/eval.txt)"
	@{ $(DEMO) eval mtrag --task retrieval --out $(DEMO_HOME)/runs/mtrag-retrieval && \
	  $(DEMO) eval all --out $(DEMO_HOME)/runs/all; } > $(DEMO_HOME)/eval.txt 2>&1 || { tail -20 $(DEMO_HOME)/eval.txt; exit 1; }
	@$(BIN)/python -m tests.demo .demo/runs

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

reader: $(VENV)/.dev
	$(BIN)/turnmark model get qwen2.5-coder-1.5b

test-reader: reader
	$(BIN)/python -m pytest -m reader --timeout 1800

test-data: $(VENV)/.dev
	$(BIN)/python -m pytest -m 'data or slow' --timeout 3600

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/deptry turnmark
	$(BIN)/deptry tests docs --exclude '^$$' --ignore DEP002,DEP004

dist: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build
	$(BIN)/python -m tests.release

drill: $(VENV)/.dev
	$(BIN)/python -m tests.drills $(DRILL)

drill-quick: $(VENV)/.dev
	$(BIN)/python -m tests.drills --quick $(DRILL)

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	@touch $@

# For example CONVERSATIONS="--fetch files --half all --show wrong"; tests/conversations/collections.py lists the packages that it needs.
conversations: $(VENV)/.bench
	$(BIN)/python -m tests.conversations --fetch hatch $(CONVERSATIONS)

audit: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	@$(BIN)/python -m pip_audit --requirement constraints.txt --no-deps --disable-pip


clean:
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache build dist

# Compiles the translations of what the assistant writes, after a change of a .po file.
catalogs:
	for po in turnmark/assistant/wording/locale/*/LC_MESSAGES/turnmark.po; do msgfmt -o $${po%.po}.mo $$po; done
