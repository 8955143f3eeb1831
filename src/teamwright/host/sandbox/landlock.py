"""A box made with Landlock: a thread restricts itself, starts one program, which inherits the restriction, and ends.

Landlock, seccomp filters, capabilities and `no_new_privs` apply to a thread and what it starts; the rest of the process
is unaffected. Hence bare threads: a pooled worker would stay restricted. None outlives the start of its program. It is
in the program's domain, so the program could kill it, and with it us, or read our memory through it.
"""

import _thread
import ctypes
import functools
import gc
import os
import queue
import stat
import struct
import subprocess
import threading
import time
from collections.abc import Callable

from teamwright.core.errors import ToolError
from teamwright.core.sandbox.policy import Policy
from teamwright.host.sandbox.landlock_rules import (
    ON_FILES,
    SCOPES_ABI,
    Ruleset,
    attributes,
    handled_rights,
    is_current,
    ruleset_for,
)
from teamwright.host.sandbox.seccomp import AF_NETLINK, WITHOUT_NETWORK, seccomp_filter

MOST_KEPT, IDLE_SECONDS, START_SECONDS = 8, 60.0, 10.0

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same number on every architecture
_CAP_CHOWN, _CAP_DAC_OVERRIDE, _CAP_FOWNER, _LAST_CAP = 0, 1, 3, 63
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 23, 24, 38, 47
_SET_SECCOMP, _SECCOMP_FILTER = 22, 2
_CAPSET = {"x86_64": 126, "aarch64": 91}
_TGKILL = {"x86_64": 234, "aarch64": 131}
_TURNS, _PAUSE = 50, 0.0001

_Started = subprocess.Popen[bytes]


@functools.cache
def landlock_abi() -> int:
    """The kernel's Landlock version; 0 if there is none."""
    return max(0, _libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


# --- how a thread restricts itself


class _Restriction:
    """A policy in the kernel's form. Creating it takes a hundred calls, so it is kept while it is current."""

    _spare: "_Starter | None"

    def __init__(self, policy: Policy, abi: int) -> None:
        self.ruleset: Ruleset = ruleset_for(policy)
        self._handle = _checked(_call(_CREATE, attributes(abi), ctypes.c_size_t(len(attributes(abi))), 0))
        self._keep = _needed(policy)
        self._handing, self._spare = threading.Lock(), None
        # Without scopes, abstract names would give access to the machine's sockets, so no Unix sockets may be created
        # at all.
        program = seccomp_filter(WITHOUT_NETWORK if abi >= SCOPES_ABI else (AF_NETLINK,), own_limits=True)
        self._filter = ctypes.create_string_buffer(program, len(program))
        try:
            for path, rights in self.ruleset.rules:
                _add_rule(self._handle, path, rights & handled_rights(abi))
        except OSError:
            self.close()
            raise

    def apply(self) -> None:
        """Restricts this thread permanently. Raises OSError if the kernel refuses."""
        libc = _libc()
        _drop_capabilities(self._keep)
        _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(_call(_RESTRICT, ctypes.c_int(self._handle), 0))
        order = struct.pack("@HP", len(self._filter) // 8, ctypes.addressof(self._filter))
        _checked(libc.prctl(_SET_SECCOMP, _SECCOMP_FILTER, order, 0, 0))

    def take(self) -> "_Starter":
        """A thread that is restricted by it, for one program."""
        with self._handing:
            spare, self._spare = self._spare, None
        return spare or _Starter(self)

    def prepare(self) -> None:
        """Prepares the next thread while the current program runs."""
        self._spare = _Starter(self)

    def forget(self, starter: "_Starter") -> bool:
        """Gives up an unused thread; returns False if somebody has just taken it."""
        with self._handing:
            idle = self._spare is starter
            self._spare = None if idle else self._spare
            return idle

    def close(self) -> None:
        with self._handing:
            spare, self._spare = self._spare, None
        if spare:
            spare.dismiss()
        os.close(self._handle)


def _call(number: int, *arguments: object) -> int:
    return _libc().syscall(number, *arguments)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _add_rule(handle: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # gone, or inaccessible to us: nothing is allowed there
    try:
        mode = os.fstat(place).st_mode
        if not stat.S_ISDIR(mode):
            rights &= ON_FILES
        if rights and not stat.S_ISLNK(mode):
            _checked(_call(_ADD, ctypes.c_int(handle), 1, struct.pack("=Qi", rights, place), 0))
    finally:
        os.close(place)


def _drop_capabilities(keep: frozenset[int]) -> None:
    """Drops capabilities, because root with CAP_PERFMON can read environments. Where permitted also the bounding set;
    `no_new_privs` additionally keeps a uid 0 program from regaining them."""
    libc, root = _libc(), os.geteuid() == 0
    for number in _bounding_set() if root else ():
        if number not in keep:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    libc.prctl(_PR_CAP_AMBIENT, 4, 0, 0, 0)
    low = sum(1 << number for number in keep) if root else 0
    header, data = struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", low, low, 0, 0, 0, 0)
    _checked(_call(_CAPSET[os.uname().machine], header, data))


@functools.cache
def _bounding_set() -> tuple[int, ...]:
    return tuple(n for n in range(_LAST_CAP + 1) if _libc().prctl(_PR_CAPBSET_READ, n, 0, 0, 0) == 1)


def _needed(policy: Policy) -> frozenset[int]:
    """Without capabilities, uid 0 cannot write other users' files, which a root directory may contain."""
    paths = (path for path, access in policy.access if access == "write" and path not in (policy.tmp, policy.cache))
    others = any(os.path.exists(path) and os.stat(path).st_uid != 0 for path in paths)
    return frozenset({_CAP_CHOWN, _CAP_DAC_OVERRIDE, _CAP_FOWNER}) if others and os.geteuid() == 0 else frozenset()


# --- starting a program


class _Quiet:
    """Suspends garbage collection while a restricted thread works: the collector would run other objects' finalizers
    there, where they cannot write."""

    def __init__(self) -> None:
        self._lock, self._users, self._was_on = threading.Lock(), 0, False

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._was_on = gc.isenabled()
                gc.disable()
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._was_on:
                gc.enable()


_quiet = _Quiet()


class _Starter:
    """A thread that restricts itself at once, waits for one order, and ends. Each has its own domain, so a waiting one
    is out of reach of programs started by others."""

    def __init__(self, restriction: _Restriction) -> None:
        self._restriction = restriction
        self._orders: queue.SimpleQueue[Callable[[], _Started] | None] = queue.SimpleQueue()
        self._answer: queue.SimpleQueue[_Started | BaseException] = queue.SimpleQueue()
        self._tid = 0
        _thread.start_new_thread(self._live, ())

    def start(self, order: Callable[[], _Started]) -> _Started:
        """Returns when the thread has ended."""
        self._orders.put(order)
        try:
            found = self._answer.get(timeout=START_SECONDS)
        except queue.Empty:
            raise ToolError(f"The sandbox (landlock) did not start a program within {START_SECONDS:g} s.") from None
        if isinstance(found, BaseException):
            raise found
        _await_end(self._tid, found)
        return found

    def dismiss(self) -> None:
        self._orders.put(None)

    def _live(self) -> None:
        self._tid = threading.get_native_id()
        with _quiet:
            try:
                self._restriction.apply()
            except OSError as fault:
                words = f"The sandbox (landlock) could not be made: {fault.strerror}. Nothing was run."
                self._answer.put(ToolError(words))
                return
        try:
            order = self._orders.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            if self._restriction.forget(self):
                return
            order = self._orders.get(timeout=START_SECONDS)  # somebody has just taken this thread
        if order is None:
            return
        with _quiet:
            try:
                self._answer.put(order())
            except BaseException as fault:  # noqa: BLE001  # it is raised where the thread was asked for
                self._answer.put(fault)


def _await_end(tid: int, started: _Started) -> None:
    until, turns = time.monotonic() + START_SECONDS, 0
    while _call(_TGKILL[os.uname().machine], os.getpid(), tid, 0) == 0:
        if time.monotonic() > until:
            started.kill()
            started.wait()
            raise ToolError("The sandbox (landlock) has a thread that does not end. Nothing was run.")
        if (turns := turns + 1) <= _TURNS:
            os.sched_yield()  # usually yielding once is enough
        else:
            time.sleep(_PAUSE)


_restrictions: dict[tuple[Policy, int], _Restriction] = {}  # most recently used last
_lock = threading.Lock()


def start(policy: Policy, order: Callable[[], _Started], abi: int | None = None) -> _Started:
    """Runs `order`, a call of Popen, under this policy. Raises ToolError if the kernel does not enforce it.

    The program must wait for our signal before doing anything of its own. `abi`: behave as with an older kernel.
    """
    with _lock:
        try:
            restriction = _restriction(policy, landlock_abi() if abi is None else abi)
        except OSError as error:
            raise ToolError(f"The sandbox (landlock) could not be made: {error.strerror}. Nothing was run.") from None
        try:
            return restriction.take().start(order)
        finally:
            restriction.prepare()


def _restriction(policy: Policy, abi: int) -> _Restriction:
    known = _restrictions.pop((policy, abi), None)
    if known is None or not is_current(known.ruleset):
        if known is not None:
            known.close()
        known = _Restriction(policy, abi)
    _restrictions[policy, abi] = known
    while len(_restrictions) > MOST_KEPT:
        _restrictions.pop(next(iter(_restrictions))).close()
    return known


def close_all() -> None:
    """Releases everything at the end of a session."""
    with _lock:
        while _restrictions:
            _restrictions.popitem()[1].close()
