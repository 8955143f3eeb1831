# `make demo` and `make test` set everything up themselves, in .venv beside this file.
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

# At least 2,000 kills. `make torture KILLS=200 SEED=7` makes fewer, or repeats a seed's kills. With `STORE=engine` the
# team is spread over workers, and leads, workers and the engine's server are killed.
torture: setup
	@.venv/bin/python tests/teeth/torture.py $(if $(filter engine,$(STORE)),--engine) $(KILLS) $(SEED)

# Tests that are too slow for every change. Every 40th disk call of a session fails (`make long EVERY=1`: each of them).
# 2,000 random lives cross teams, plans, compactions, forks, jobs, worktrees and kills.
# Half a million command lines are judged, and those that are allowed run in a cage. Twenty agents write for ten minutes
# while a page watches. 10,000 agents run over 10 workers, some of which are killed. The wheel is tried on every Python
# that is installed. Faults between machines are played, and tests of store, runtime and teams run on an engine's
# replica.
ON_ENGINE := $(addprefix tests/walks/test_,$(addsuffix .py,absent_teammates background foreground messages teams \
	$(addprefix team_,handshakes limits losses mail openings recovery reminders rounds signals tasks waking))) \
	$(addprefix tests/runtime/test_,$(addsuffix .py,led_team led_team_mail person_talks))
long: setup
	@.venv/bin/python tests/teeth/disk_faults.py $(EVERY)
	@.venv/bin/python tests/teeth/crossing.py
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

# Versions and hashes only, for every supported Python, without the address of an index. `requirements.lock` has what is
# needed at run time, `requirements-dev.lock` adds the tools. One package that tests talk to is built from source,
# because its wheels contain a whole program that we do not use.
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url \
	--no-emit-find-links
lock:
	@uv pip compile $(LOCK) pyproject.toml -o requirements.lock
	@uv pip compile $(LOCK) --no-binary claude-agent-sdk --emit-build-options --constraint requirements.lock \
		--group dev pyproject.toml -o requirements-dev.lock
