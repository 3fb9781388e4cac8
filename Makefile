# `make run` and `make test` do all set-up themselves, without root: a virtual environment in .venv.
VENV := .venv
BIN := $(VENV)/bin
MARKS ?= not slow
REPORTS ?= reports

.PHONY: help run test test-all lint mutants bench soak-clean clean

help:
	@echo "make run       set up, then run scenarios/quick: real faults into a real NVRx job, verdicts, a report"
	@echo "make test      set up, then lint and all tests but the slow ones"
	@echo "make test-all  the slow tests too (controller killed 20 times, every planted defect, ...)"
	@echo "make lint      ruff and mypy"
	@echo "make mutants   judges every broken job and history, runs four of the jobs anew"
	@echo "make bench     recovery times, overhead of the agent, start of the command line, what judging costs"
	@echo "make soak-clean  a hundred runs: no false alarm in 80 good ones, no pass in 20 bad ones (about 40 minutes)"

run: $(VENV)/.run
	$(BIN)/nvrx-chaos run scenarios/quick --out $(REPORTS)

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -m "$(MARKS)"

test-all: $(VENV)/.dev lint
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy chaos

mutants: $(VENV)/.dev
	$(BIN)/python -m pytest tests/mutants tests/real/test_broken_jobs.py -m "$(MARKS)"

bench: $(VENV)/.dev
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/recovery.py
	$(BIN)/python bench/overhead.py
	$(BIN)/python bench/judge.py

soak-clean: $(VENV)/.dev
	$(BIN)/python bench/soak_clean.py

$(VENV)/bin/python:
	sh .ci/venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints-dev.txt -e .
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints-dev.txt -e '.[dev]'
	touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
