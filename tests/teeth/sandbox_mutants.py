"""Faults in the sandbox, and the test that must notice each. They need both tiers, and root."""

_BOX = "host/sandbox/test_box_processes.py"
_NAMES = "host/sandbox/test_box_protected.py"
_DOORS = f"{_BOX}::test_the_doors_of_the_kernel_are_shut"

# (file, original text, replacement, the test that must notice)
SANDBOX_MUTANTS = [
    (
        "host/sandbox/bwrap.py",
        '"--new-session", ',
        "",
        f"{_BOX}::test_a_program_has_a_session_of_its_own[bwrap]",
    ),
    ("host/sandbox/bwrap.py", ', "--cap-drop", "ALL"', "", f"{_DOORS}[bwrap-me]"),
    ("host/sandbox/bwrap.py", 'words += ["--remount-ro", "/proc"] if root else []', "pass", f"{_DOORS}[bwrap-me]"),
    ("host/sandbox/bwrap.py", '"--seccomp", str(calls), ', "", f"{_DOORS}[bwrap-me]"),
    ("host/sandbox/landlock.py", "        _drop_capabilities(self._keep)\n", "", f"{_DOORS}[landlock-me]"),
    (
        "host/sandbox/landlock.py",
        "        _checked(libc.prctl(_SET_SECCOMP, _SECCOMP_FILTER, order, 0, 0))\n",
        "",
        f"{_DOORS}[landlock-me]",
    ),
    (
        "host/sandbox/landlock.py",
        "                gc.disable()\n",
        "",
        "host/sandbox/test_landlock_versions.py::test_the_collector_runs_no_finalizer_in_a_restricted_thread",
    ),
    (
        "host/sandbox/landlock.py",
        "        if order is None:\n            return\n        with _quiet:\n            try:\n",
        "        if order is None:\n            return\n        with _quiet:\n            try:\n"
        '                self.__dict__["_tid"] = -1\n                self._orders.put(order)\n'
        "                self._answer.put(order())\n                time.sleep(5)\n",
        f"{_BOX}::test_no_thread_of_ours_is_in_reach_of_a_program[landlock-me]",
    ),
    (
        "host/sandbox/ground/terrain.py",
        "(*AT_HOME, *_dotted(home))",
        "AT_HOME",
        "host/sandbox/test_box_attacks.py::test_a_home_that_is_worked_in_keeps_what_runs_by_itself[bwrap-me]",
    ),
    (
        "core/permissions/protected.py",
        '".mcp.json", ".vscode"',
        '".vscode"',
        f"{_NAMES}::test_protected_names_stay_as_they_are[bwrap-append]",
    ),
    (
        "core/sandbox/policy.py",
        'pinned = path in self.pinned and access == "write"',
        "pinned = False",
        f"{_NAMES}::test_protected_names_stay_as_they_are[bwrap-moved and linked]",
    ),
    (
        "host/sandbox/guard/planted.py",
        "            self._undo(in_git)\n",
        "",
        f"{_NAMES}::test_in_a_git_directory_it_is_gone_before_the_command_ends[bwrap-me]",
    ),
    (
        "host/sandbox/guard/planted.py",
        "            self._undo_linked()\n",
        "",
        "host/sandbox/test_box_made.py::test_where_an_index_leads_it_is_gone_before_the_command_ends[bwrap-me]",
    ),
    (
        "host/sandbox/guard/planted.py",
        "now = self._obeyed(deep=self._deep)\n",
        "now = self._before\n",
        "host/sandbox/test_box_made.py::test_what_becomes_a_repository_in_two_commands[landlock-me]",
    ),
    (
        "host/sandbox/connections/upstream.py",
        "if not all(allowed(address) for address in found):",
        "if not found:",
        "host/sandbox/test_net_proxy.py::test_a_name_that_leads_inward_is_refused[addresses3]",
    ),
]
