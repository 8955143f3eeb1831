# `make demo` and `make test` do all their own set-up, in .venv beside this file.
.PHONY: setup demo test check format torture long bench lock

setup:
	@sh scripts/setup

demo:
	@sh scripts/setup run
	@.venv/bin/teamwright demo

test: setup
	@.venv/bin/python -m pytest -n 3

check: setup
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/basedpyright
	@.venv/bin/lint-imports --no-cache
	@scripts/sizes
	@scripts/spec-coverage
	@$(MAKE) --no-print-directory test

format: setup
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .

# At least 2,000 kills: `make torture KILLS=200 SEED=7` for fewer, or for those of a seed again. With `STORE=engine` the
# team is spread over workers, and leads, workers and the engine's server are killed.
torture: setup
	@.venv/bin/python tests/teeth/torture.py $(if $(filter engine,$(STORE)),--engine) $(KILLS) $(SEED)

# What is too long for each change. Every 40th call of a session fails; `make long EVERY=1` lets each of them fail.
# Then half a million command lines are judged, and those that are allowed run in a cage; twenty agents write for ten
# minutes while a page looks on; 10,000 agents play over 10 workers, of which some are killed; and the wheel is tried on
# every Python that is here. What can fail between machines is played, and tests of store, runtime and teams run on a
# replica of an engine.
ON_ENGINE := $(addprefix tests/walks/test_,$(addsuffix .py,absent_teammates background foreground messages teams \
	$(addprefix team_,handshakes limits losses mail openings recovery reminders rounds signals tasks waking))) \
	$(addprefix tests/runtime/test_,$(addsuffix .py,led_team led_team_mail person_talks))
long: setup
	@.venv/bin/python tests/teeth/disk_faults.py $(EVERY)
	@.venv/bin/python tests/teeth/shell_oracle.py --lines 500000
	@TEAMWRIGHT_TEST_LONG=1 .venv/bin/python -m pytest -n 2 tests/teeth/test_shell_mutants.py
	@TEAMWRIGHT_TEST_LONG=1 .venv/bin/python -m pytest tests/teeth/test_kill_engine.py tests/store/test_engine_disks.py \
		tests/walks/test_remote_faults.py tests/walks/test_remote_ways.py
	@.venv/bin/python -m pytest -n 2 --store=engine tests/store $(ON_ENGINE)
	@.venv/bin/python tests/teeth/remote_simulation.py
	@.venv/bin/python tests/teeth/web_load.py
	@scripts/pythons

bench: setup
	@.venv/bin/python bench/run.py

# Versions and hashes only, for every supported Python: no address of where they came from. `requirements.lock` has what
# running needs, `requirements-dev.lock` all of it and the tools. One package, which tests talk to, is built from its
# source: its wheels hold a whole program that we do not use.
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url \
	--no-emit-find-links
lock:
	@uv pip compile $(LOCK) pyproject.toml -o requirements.lock
	@uv pip compile $(LOCK) --no-binary claude-agent-sdk --emit-build-options --constraint requirements.lock \
		--group dev pyproject.toml -o requirements-dev.lock
