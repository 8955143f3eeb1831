"""Mutants: small faults in a copy of the program, each of which must turn a test red."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_mutants import ENGINE_MUTANTS
from sandbox_mutants import SANDBOX_MUTANTS

ROOT = Path(__file__).resolve().parents[2]
RED, GREEN = 1, 0

# (file, original text, replacement, the test that must notice)
MUTANTS = [
    (
        "core/loop.py",
        "    await seat.sync()  # finished tool results must be durable before the next request leaves\n",
        "",
        "core/test_loop.py::test_a_result_is_synced_before_the_next_request",
    ),
    (
        "core/loop.py",
        "        await seat.sync()  # else a power cut",
        "        pass  # else a power cut",
        "core/test_loop.py::test_a_call_is_synced_before_its_effects_are_stored",
    ),
    (
        "core/data/conversation/history.py",
        "tuple(self.results[id] for id in self.calls)",
        "tuple(self.results.values())",
        "core/test_history.py::test_results_stand_in_the_order_of_the_calls_whichever_ended_first",
    ),
    (
        "core/data/conversation/history.py",
        "unknown if id in self.begun else not_run",
        "not_run",
        "core/test_history.py::test_what_was_in_flight_is_told_from_what_never_began",
    ),
    # For calls that a resumed teammate begins by itself.
    (
        "runtime/agents/factory.py",
        "started=transcript.sync if spec.team else transcript.started",
        "started=transcript.started",
        "teeth/test_disk_faults.py::test_what_a_failed_sync_takes_from_a_transcript_does_not_run_again_by_itself[4]",
    ),
    (
        "runtime/agents/factory.py",
        'goes_on = history.replied_where == where != ""',
        'goes_on = where != ""',
        "walks/test_team_questions.py::test_after_a_power_cut_no_call_begins_by_itself[4]",
    ),
    (
        "core/data/conversation/history.py",
        "return not (refused or lost or ",
        "return not (refused or ",
        "walks/test_team_questions.py::test_no_call_is_begun_after_one_whose_outcome_is_unknown[4]",
    ),
    (
        "runtime/teams/remote/permission_relay.py",
        "            if not self._is_left(question):\n",
        "            if True:\n",
        "walks/test_team_questions.py::test_an_answer_to_a_teammate_whose_process_is_gone_lets_its_call_run_once[15]",
    ),
    (
        "core/policies/normalize.py",
        "while unique in used or unique in mine:",
        "while unique in mine:",
        "core/test_arrival.py::test_ids_are_kept_and_become_unique",
    ),
    (
        "core/data/letter.py",
        'return at_rest or not (letter.priority == "later"',
        "return True or (letter.priority",
        "core/test_letter.py::test_later_letters_come_only_at_rest",
    ),
    (
        "core/policies/budget.py",
        "used >= most",
        "used > most",
        "core/test_budget.py::test_the_first_limit_that_is_reached",
    ),
    (
        "runtime/agents/inbox.py",
        "self._held = [x for x in stored if x.id not in gone and x.id not in self._delivered]",
        "self._held = [x for x in stored if x.id not in gone]",
        "runtime/test_inbox.py::test_a_letter_that_the_transcript_knows_is_marked_and_not_given",
    ),
    (
        "runtime/bus.py",
        "            self._behind = True\n",
        "",
        "runtime/test_bus.py::test_a_slow_watcher_catches_up_without_loss_or_repetition",
    ),
    (
        "runtime/permissions/questions.py",
        "if slot is None or slot.decision is not None:",
        "if slot is None:",
        "runtime/test_questions.py::test_an_answer_reaches_who_asked_and_counts_once",
    ),
    (
        "runtime/agents/limits/meter.py",
        'self.ledger.settle_soon(row, spoilt.usage, usd, 0, "failed")',
        "pass",
        "runtime/test_ledger.py::test_a_call_that_failed_is_settled_and_costs_nothing",
    ),
    (
        "runtime/agents/agent.py",
        "await self.close_calls()  # owed since",
        "pass  # owed since",
        "runtime/test_boundary.py::test_a_full_disk_ends_the_turn_once_and_it_goes_on_when_there_is_room",
    ),
    (
        "surfaces/headless/lines.py",
        "    data = _escaped(_encode(line))\n    most",
        "    data = _encode(line)\n    most",
        "surfaces/test_formats.py::test_any_input_fits_its_line",
    ),
    (
        "surfaces/headless/printer.py",
        "visible(text).encode()",
        "text.encode()",
        "surfaces/test_formats.py::test_control_and_invisible_characters_never_come_out_raw[text]",
    ),
    # For teams that are killed: nothing synced, letters marked before they are recorded, claims that anybody takes
    # over.
    (
        "store/files/transcripts.py",
        "        _sync_data(self._fd)\n        if self._unnamed",
        "        if self._unnamed",
        "teeth/test_kill_teams.py::test_power_cuts_lose_only_what_nobody_was_told_of",
    ),
    (
        "runtime/agents/inbox.py",
        "        self._handed.update(letter.id for letter in now)\n",
        "        self._handed.update(letter.id for letter in now)\n"
        "        await self._store.delivered([letter.id for letter in now])\n",
        "teeth/test_kill_teams.py::test_killed_around_the_delivery_of_letters",
    ),
    (
        "core/data/tasks.py",
        "    if not own and (task.agent is not None or _refuse_others(task, by, None)):\n"
        "        return _taken(task, by)\n    if task.blocked_by",
        "    if task.blocked_by",
        "teeth/test_kill_teams.py::test_killed_at_its_birth_a_teammate_begins_anew",
    ),
    (
        "core/data/tasks.py",
        ' and (held in (None, task.epoch) or task.status == "pending")',
        "",
        "store/test_claims_machine.py::"
        "test_a_late_process_completes_nothing_for_an_agent_that_has_claimed_again_elsewhere",
    ),
    (
        "store/acts/act.py",
        "            return lease.process == process\n",
        "            return True\n",
        "store/test_authority.py::test_whoever_has_lost_the_lease_has_lost_the_right",
    ),
    (
        "store/acts/processes.py",
        "lease.process is not None and ctx.alive(lease.process)",
        "lease.process is not None",
        "store/test_processes.py::test_a_killed_process_is_gone_at_once_and_what_it_held_is_free",
    ),
    (
        "store/db/disk_policy.py",
        "        with anyio.CancelScope(shield=True):\n            return await",
        "        if True:\n            return await",
        "store/test_group_commit.py::test_a_cancelled_runner_still_runs_what_the_others_wait_for",
    ),
    (
        "core/permissions/path_rules.py",
        ' or (place.endswith("/.") and folded(path).startswith(folded(place)))',
        "",
        "core/test_permission.py::test_in_a_home_that_is_worked_in_every_name_with_a_dot_is_protected",
    ),
    (
        "runtime/teams/remote/permission_relay.py",
        "        guarded = self._protected(desk)\n",
        "        guarded = ()\n",
        "walks/test_team_places.py::test_what_runs_later_in_a_home_is_asked_wherever_the_teammate_runs[local]",
    ),
    (
        "host/shell/layers.py",
        "    unruled = risky or gives_orders(given, inner[0].text)\n",
        "    unruled = risky\n",
        "host/test_shell.py::test_a_rule_covers_no_variable_that_a_program_may_take_for_code",
    ),
    (
        "host/shell/settling.py",
        "[_unruled(c, given) for c in",
        "[c for c in",
        "host/test_shell.py::test_a_rule_covers_no_variable_that_a_program_may_take_for_code",
    ),
    (
        "core/sandbox/rules.py",
        " or command.views[0].need is None",
        "",
        "core/sandbox/test_excluded.py::test_anything_else_keeps_the_whole_line_inside",
    ),
    (
        "host/shell/harmless.py",
        "*_by_git(texts, moved), ",
        "",
        "host/test_git_config.py::test_settings_of_a_person_are_read_where_they_are",
    ),
    (
        "host/git/config.py",
        "*_links_in(real), *_links_in(common), ",
        "",
        "host/test_git_config.py::test_what_git_would_show_from_elsewhere_is_read_there",
    ),
    (
        "runtime/permissions/rulebook.py",
        "        return is_linked(path) and ",
        "        return False and ",
        "walks/test_hard_links.py::test_a_search_leaves_out_a_hard_link_of_a_file_that_may_not_be_read",
    ),
    (
        "core/permissions/shell_rules.py",
        "    if reads_code(words):\n        return ()\n",
        "",
        "host/test_shell.py::test_no_rule_is_offered_for_what_runs_its_input",
    ),
    (
        "host/shell/programs/destructive.py",
        "    if found := _removal_in_code(name, words[1:], home):\n        return found\n",
        "",
        "host/test_shell.py::test_removing_a_home_or_the_root_is_refused_in_every_mode",
    ),
    (
        "host/shell/analysis.py",
        "c.opaque or any(reads_code(view.words) for view in c.views) for c",
        "c.opaque for c",
        "host/test_shell.py::test_removing_a_home_or_the_root_is_refused_in_every_mode",
    ),
    (
        "host/shell/statements.py",
        "        later = self.where.around.later or self._waits\n",
        "        later = self.where.around.later\n",
        "host/test_shell.py::test_what_was_judged_by_files_that_exist_is_not_judged_so_later",
    ),
    (
        "runtime/permissions/call_facts.py",
        "tool != BASH or bool(args.get(_BACKGROUND))",
        "False",
        "walks/test_background_commands.py::test_a_command_that_runs_on_is_not_judged_by_the_files_of_now",
    ),
    *ENGINE_MUTANTS,
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("mutants") / "src"
    shutil.copytree(ROOT / "src", place, ignore=shutil.ignore_patterns("__pycache__"))
    yield place
    shutil.rmtree(place)


IN_BOXES = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="root's capabilities are dropped")


def run(copy: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-m", "pytest", "-q", "-x", *(f"tests/{test}" for test in tests)]
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_the_copy_itself_is_green(copy: Path) -> None:
    done = run(copy, *dict.fromkeys(mutant[3] for mutant in MUTANTS))
    assert done.returncode == GREEN, done.stdout[-3000:]


@pytest.mark.parametrize(
    ("file", "old", "new", "test"), MUTANTS, ids=[f"{file}:{test.partition('::')[2]}" for file, _, _, test in MUTANTS]
)
def test_a_mutant_is_found(copy: Path, file: str, old: str, new: str, test: str) -> None:
    path = copy / "teamwright" / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file} has changed: choose another text for this mutant"
    path.write_text(text.replace(old, new))
    try:
        done = run(copy, test)
    finally:
        path.write_text(text)
    assert done.returncode == RED, done.stdout[-3000:] + done.stderr[-1000:]


@IN_BOXES
def test_the_sandbox_itself_is_green(copy: Path) -> None:
    done = run(copy, *dict.fromkeys(mutant[3] for mutant in SANDBOX_MUTANTS))
    assert done.returncode == GREEN and "skipped" not in done.stdout, done.stdout[-3000:]


@IN_BOXES
@pytest.mark.parametrize(("file", "old", "new", "test"), SANDBOX_MUTANTS, ids=[m[3][-60:] for m in SANDBOX_MUTANTS])
def test_a_mutant_of_the_sandbox_is_found(copy: Path, file: str, old: str, new: str, test: str) -> None:
    test_a_mutant_is_found(copy, file, old, new, test)
