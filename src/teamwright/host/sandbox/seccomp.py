"""The system call filter of every sandboxed program, as BPF for the kernel, without a library.

It blocks what neither mount namespaces nor Landlock cover: new namespaces, mounts, keyrings, io_uring, kernel tracing,
keystrokes into a terminal, and socket families.
"""

import platform
import struct
from collections.abc import Collection, Iterable

from msgspec import Struct

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
WITH_NETWORK = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)  # for programs in a separate network
WITHOUT_NETWORK = (AF_UNIX, AF_NETLINK)

_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST, _SECOND, _THIRD = (
    0,
    4,
    16,
    24,
    32,
)  # offsets in the kernel's description of a call; low halves of arguments
_X32 = 0x40000000
_ROUTE = 0  # the netlink protocol by which programs list addresses and interfaces
_CLONE_NEWUSER = 0x10000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_LIMIT_OF_LOCKS = 10  # RLIMIT_LOCKS, whose value identifies what a program started


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction; `then` and `otherwise` are numbers of instructions to skip."""
    return struct.pack("=HBBI", code, then, otherwise, value)


def _fail(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


_ALLOWED = _step(_RETURN, _ALLOW)
_FEW = 2  # numbers that are tried one by one


class _Calls(Struct, frozen=True):
    """System call numbers of one architecture."""

    arch: int
    clone: int
    unshare: int
    ioctl: int
    socket: int
    setrlimit: int
    prlimit: int
    refused: tuple[int, ...]
    unknown: tuple[int, ...] = (435, 425, 426, 427)  # clone3, io_uring_*: programs fall back on filterable calls


# The same on all architectures: open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr quotactl_fd
# open_tree_attr
_EVERYWHERE = (428, 429, 430, 431, 432, 433, 442, 443, 467)
# setns mount umount2 pivot_root open_by_handle_at, keyctl add_key request_key, bpf perf_event_open userfaultfd,
# kexec_load kexec_file_load init_module finit_module delete_module, reboot swapon swapoff acct settimeofday
# clock_settime quotactl; on x86 also iopl ioperm
_X86_64 = _Calls(
    0xC000003E, clone=56, unshare=272, ioctl=16, socket=41, setrlimit=160, prlimit=302,
    refused=(308, 165, 166, 155, 304, 250, 248, 249, 321, 298, 323, 246, 320, 175, 313, 176, 169, 167, 168, 163, 164,
             227, 179, 172, 173, *_EVERYWHERE),
)  # fmt: skip
_AARCH64 = _Calls(
    0xC00000B7, clone=220, unshare=97, ioctl=29, socket=198, setrlimit=164, prlimit=261,
    refused=(268, 40, 39, 41, 265, 219, 217, 218, 280, 241, 282, 104, 294, 105, 273, 106, 142, 224, 225, 89, 170,
             112, 60, *_EVERYWHERE),
)  # fmt: skip
_KNOWN = {"x86_64": _X86_64, "aarch64": _AARCH64}


def can_filter() -> bool:
    """Is this an architecture whose calls we know?"""
    return platform.machine() in _KNOWN


def seccomp_filter(families: Collection[int], machine: str = "", *, own_limits: bool = False) -> bytes:
    """The filter, for `bwrap --seccomp` or the kernel itself. `families` are the socket families allowed.

    `own_limits`: protect the limit that marks our programs. Namespaces need no such mark.
    """
    calls = _KNOWN[machine or platform.machine()]
    steps = [
        _step(_LOAD, _ARCH),
        _step(_EQUAL, calls.arch, 1, 0),
        _fail(_EPERM),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _X32, 0, 1),
        _fail(_EPERM),
    ]
    cases = {number: [_fail(_ENOSYS)] for number in calls.unknown}
    cases |= {number: [_fail(_EPERM)] for number in calls.refused}
    newuser = [_step(_LOAD, _FIRST), _step(_ANY_BIT, _CLONE_NEWUSER, 0, 1), _fail(_EPERM), _ALLOWED]
    cases |= {calls.clone: newuser, calls.unshare: newuser}
    cases[calls.ioctl] = [_step(_LOAD, _SECOND), *_refused_among((_TIOCSTI, _TIOCLINUX)), _ALLOWED]
    cases |= _keep_mark(calls) if own_limits else {}
    allowed = [step for family in families if family != AF_NETLINK for step in (_step(_EQUAL, family, 0, 1), _ALLOWED)]
    if AF_NETLINK in families:  # its protocols reach audit, firewalls, devices and others' sockets; lookups need one
        allowed += [_step(_EQUAL, AF_NETLINK, 0, 4), _step(_LOAD, _THIRD), _step(_EQUAL, _ROUTE, 0, 1), _ALLOWED]
        allowed += [_fail(_EAFNOSUPPORT)]
    cases[calls.socket] = [_step(_LOAD, _FIRST), *allowed, _fail(_EAFNOSUPPORT)]
    return b"".join([*steps, *_found(sorted(cases.items()))])


def _found(cases: list[tuple[int, list[bytes]]]) -> list[bytes]:
    """Searches by bisection: before a program starts, the kernel evaluates a new filter for every call number."""
    if len(cases) <= _FEW:
        tried = [step for number, body in cases for step in (_step(_EQUAL, number, 0, len(body)), *body)]
        return [*tried, _ALLOWED]
    half = len(cases) // 2
    low, high = _found(cases[:half]), _found(cases[half:])
    return [_step(_AT_LEAST, cases[half][0], len(low), 0), *low, *high]


def _refused_among(values: Iterable[int]) -> list[bytes]:
    return [step for value in values for step in (_step(_EQUAL, value, 0, 1), _fail(_EPERM))]


def _keep_mark(calls: _Calls) -> dict[int, list[bytes]]:
    """The mark may be read (no new value given) but not set. Setting limits of other processes is denied too, because
    it could end them."""
    old = [_step(_LOAD, _FIRST), *_refused_among((_LIMIT_OF_LOCKS,)), _ALLOWED]
    new = [
        _step(_LOAD, _THIRD),
        _step(_EQUAL, 0, 0, 3),
        _step(_LOAD, _THIRD + 4),
        _step(_EQUAL, 0, 0, 1),
        _ALLOWED,
        _step(_LOAD, _FIRST),
        _step(_EQUAL, 0, 0, 2),
        _step(_LOAD, _SECOND),
        _step(_EQUAL, _LIMIT_OF_LOCKS, 0, 1),
        _fail(_EPERM),
        _ALLOWED,
    ]
    return {calls.setrlimit: old, calls.prlimit: new}
