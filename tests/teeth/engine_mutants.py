"""Faults in the foundations of teams over an engine, and the test that must notice each."""

_CLOCK = "__import__('time').time_ns() // 10**6"
_LINES = "store/test_engine_lines.py"

# (file, original text, replacement, the test that must notice)
ENGINE_MUTANTS = [
    # No sync before effects.
    (
        "store/engine/shared_transcripts.py",
        "        self.started = self.sync  # the next",
        "        pass  # the next",
        f"{_LINES}::test_that_a_call_has_begun_is_in_the_engine_before_its_effects",
    ),
    (
        "core/loop.py",
        "                await seat.started()\n",
        "                pass\n",
        "core/test_loop.py::test_where_lines_are_elsewhere_a_call_waits_until_its_begin_is_there",
    ),
    # A worker's header or record takes what others have stored.
    (
        "store/engine/wire/objects.py",
        '"allow_rollup_hdrs": self._leads',
        '"allow_rollup_hdrs": True',
        "surfaces/test_engine_rights.py::test_what_is_stored_no_worker_replaces_or_removes",
    ),
    (
        "store/engine/wire/objects.py",
        '{"last_by_subj": wanted} if self._leads else first',
        '{"last_by_subj": wanted}',
        "surfaces/test_engine_rights.py::test_what_is_stored_no_worker_replaces_or_removes",
    ),
    # Append without the expected sequence.
    (
        "store/engine/wire/lines.py",
        "data, headers | expected)",
        "data, headers)",
        f"{_LINES}::test_of_two_that_continue_a_transcript_one_has_lost",
    ),
    # A process is declared dead by a host's clock.
    (
        "store/acts/hosts.py",
        "(ctx.now, self.process, ctx.now)).rowcount == 0",
        f"(ctx.now, self.process, {_CLOCK})).rowcount == 0",
        "store/test_engine_leases.py::test_whoever_is_silent_for_its_lease_loses_what_it_held",
    ),
    # The tree is saved after the result.
    (
        "runtime/workers/rooms.py",
        "            self.emit(TreeSaved(saved))\n",
        "            __import__('asyncio').get_running_loop().call_later(0.2, self.emit, TreeSaved(saved))\n",
        "walks/test_remote_agents.py::test_an_agent_runs_on_a_worker_and_its_work_comes_back_as_a_branch",
    ),
    # A clock inside an act.
    (
        "store/acts/mail.py",
        "post(db, mail, self.limits, ctx.now)",
        f"post(db, mail, self.limits, {_CLOCK})",
        "store/test_acts.py::test_each_act_has_the_same_outcome_in_an_empty_store",
    ),
    (
        "store/tables/rows/agents.py",
        "_encoder.encode(letter), at))",
        "_encoder.encode(letter), __import__('time').time_ns()))",
        "store/test_acts.py::test_each_act_has_the_same_outcome_in_an_empty_store",
    ),
    (
        "store/engine/entry.py",
        "ctx = Context(now, ",
        "ctx = Context(__import__('time').time_ns(), ",
        "store/test_engine.py::test_of_many_machines_one_gets_each_task",
    ),
    (
        "store/engine/entry.py",
        "if before is not None and body.k <= before[0]:",
        "if False:",
        "store/test_engine.py::test_an_entry_that_is_published_again_is_skipped_for_ever",
    ),
    # A loss that is not the agent's fault.
    (
        "store/tables/rows/remotes.py",
        "lost and _is_claimed(db, remote) and not",
        "lost and not",
        "store/test_worker_acts.py::test_a_worker_that_ends_before_it_claims_an_agent_counts_for_nothing",
    ),
]
