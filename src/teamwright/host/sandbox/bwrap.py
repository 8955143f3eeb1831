"""A box made of namespaces by bubblewrap: turns a policy into its arguments.

The arguments are passed in open files, so that no path shows in `ps` or is too long. bubblewrap itself runs outside the
sandbox, so it gets none of the program's environment (LD_LIBRARY_PATH could inject code): that is among the arguments.
"""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from teamwright.core.errors import ToolError
from teamwright.core.sandbox.policy import Access, Policy, access_of
from teamwright.core.text import shown
from teamwright.host.sandbox.launch import Launch
from teamwright.host.sandbox.net import Net
from teamwright.host.sandbox.seccomp import WITH_NETWORK, seccomp_filter

_BASE = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
_FOR_OTHERS_FILES = ("CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_CHOWN")
# These make a shell or the system's loader run code from places that programs may write, before the shell has checked
# anything, so they are passed under another name. Dropped are the shell's own variables, and functions that would
# replace its commands.
_HELD = re.compile(r"(LD|MALLOC)_\w+|BASH_ENV|ENV|GCONV_PATH|GLIBC_TUNABLES|LOCPATH|NLSPATH|POSIXLY_CORRECT", re.ASCII)
_DROPPED = re.compile(r"BASH_(FUNC_|XTRACEFD$|COMPAT$|VERSION$|LOADABLES_PATH$)|BASHOPTS$|SHELLOPTS$|PS4$")
_LATER = "_box_"
_MOST_ARGUMENTS = 8_900  # bubblewrap accepts 9,000
_SCRATCH = ("/run", "/var/tmp", "/tmp")  # empty in the box, and writable
MACHINE_TMP = "/tmp"


def has_own_tmp(policy: Policy) -> bool:
    """Does the box have its own /tmp instead of the machine's?"""
    return bool(policy.tmp) and access_of(policy, os.path.realpath(MACHINE_TMP)) == "none"


def start(bwrap: str, policy: Policy, launch: Launch, net: Net | None) -> subprocess.Popen[bytes]:
    """Raises ToolError if the box cannot be described, OSError if bubblewrap cannot be started."""
    words = [*arguments(policy, launch.cwd, alone=net is None), *_variables(launch.env), *(net.bwrap if net else ())]
    if len(words) > _MOST_ARGUMENTS:
        advice = _FEWER_SOCKETS.format(len(policy.masks)) if 6 * len(policy.masks) > len(words) else _FEWER
        raise ToolError(f"The sandbox needs {len(words)} arguments, which is more than bubblewrap takes. {advice}")
    data = b"".join(os.fsencode(word) + b"\0" for word in words)
    with ExitStack() as stack:
        order = _sealed(stack, "teamwright-box", data)
        calls = _sealed(stack, "teamwright-calls", seccomp_filter(WITH_NETWORK))
        prefix, fds = (net.prefix, net.fds) if net else ((), ())
        program = _trusted(launch.argv[0], launch.env.get("PATH", ""), policy)
        argv = (*prefix, bwrap, "--args", str(order), "--seccomp", str(calls), "--", program, *launch.argv[1:])
        return launch.popen(argv, cwd="/", env=launch.mark, more_fds=(order, calls, *fds))


_FEWER_SOCKETS = (
    "It hides {} sockets of other programs: end those that hold most of them, or allow programs every socket with "
    "sandbox.network.allowAllUnixSockets."
)
_FEWER = "Name fewer paths in sandbox.filesystem, or add a directory with fewer repositories."


def _trusted(name: str, path: str, policy: Policy) -> str:
    """The shell from a trusted place: its first words check the box, so programs must not be able to replace it."""
    if "/" in name:
        return name
    folders = [*path.split(":"), *os.defpath.split(":")]
    for place in (os.path.join(folder, name) for folder in folders if folder.startswith("/")):
        if access_of(policy, place) == access_of(policy, os.path.realpath(place)) == "read" and shutil.which(place):
            return place
    return name  # somebody opened the system's own directories for writing, and accepted this


def _sealed(stack: ExitStack, name: str, data: bytes) -> int:
    handle = os.memfd_create(name)
    stack.callback(os.close, handle)
    os.write(handle, data)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _variables(env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        if name and "=" not in name and "\0" not in name + value and not _DROPPED.match(name):
            yield from ("--setenv", f"{_LATER}{name}" if _HELD.fullmatch(name) else name, value)


def restore_text(env: Mapping[str, str], *, bash: bool) -> str:
    """Words for the shell of a box after its check: restores variables that would have affected its own start."""
    names = [name for name in env if _HELD.fullmatch(name)]
    words = "".join(f'export {name}="${_LATER}{name}"; unset {_LATER}{name}; ' for name in names)
    begin = '[ ! -r "$BASH_ENV" ] || . "$BASH_ENV"; ' if bash and "/" in env.get("BASH_ENV", "") else ""
    return words + begin


def arguments(policy: Policy, cwd: str, *, alone: bool) -> list[str]:
    """`alone`: no network except a private loopback."""
    root = os.geteuid() == 0
    words = [*_BASE]
    words += _capabilities(policy) if root else ["--unshare-user"]
    words += ["--unshare-net"] if alone else []
    words += ["--bind" if dict(policy.access)["/"] == "write" else "--ro-bind", "/", "/"]
    words += ["--dev", "/dev", "--proc", "/proc"]
    # For uid 0, /proc/sys stays writable without any capability, and `kernel.core_pattern` names a program.
    words += ["--remount-ro", "/proc"] if root else []
    words += _mounts(policy)
    return [*words, "--chdir", os.path.realpath(cwd)]


def _capabilities(policy: Policy) -> list[str]:
    """Without capabilities, uid 0 cannot write other users' files, which a root directory may contain."""
    for path, access in policy.access:
        if access == "write" and path not in ("/", policy.tmp, policy.cache) and _owner(path) != 0:
            return [word for name in _FOR_OTHERS_FILES for word in ("--cap-add", name)]
    return []


def _owner(path: str) -> int:
    try:
        return os.stat(path).st_uid
    except OSError:
        return 0


def _mounts(policy: Policy) -> list[str]:
    """In path order, so that parent directories come first."""
    own_tmp = os.path.realpath(MACHINE_TMP) if has_own_tmp(policy) else ""
    entries: dict[str, Access] = {path: access for path, access in policy.access if path != "/"}
    entries.update((path, "none") for path in policy.masks)
    entries.update((path, "write") for path in policy.sockets)
    words: list[str] = []
    closed: list[str] = []
    for path, access in sorted(entries.items()):
        if path == own_tmp:
            _make_places(policy.tmp, path, [inner for inner, kind in entries.items() if kind != "none"])
            words += ["--bind", policy.tmp, path]
        elif path == policy.tmp and own_tmp:
            continue
        elif access == "none":
            words += _hidden(path, closed)
        else:
            words += ["--bind" if access == "write" else "--ro-bind", path, path]
    for path in closed:
        words += ["--remount-ro", path]
    return words


def _hidden(path: str, closed: list[str]) -> list[str]:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ToolError(
            f"The sandbox cannot hide {shown(path)}: {error.strerror}. Nothing was run; leave it out of "
            "sandbox.filesystem.denyRead, or make the directory above it accessible."
        ) from None
    if not stat.S_ISDIR(mode):
        return ["--ro-bind", "/dev/null", path]
    if path not in _SCRATCH and not path.startswith("/run/"):
        closed.append(path)  # writing there must fail, rather than vanish with the box
    return ["--tmpfs", path]


def _make_places(tmp: str, above: str, paths: Sequence[str]) -> None:
    """Creates mount points below /tmp in its replacement. Follows no links, because a program may have put some
    there."""
    for path in paths:
        if not path.startswith(above + "/") or path == tmp:
            continue
        *folders, last = path.removeprefix(above + "/").split("/")
        handle = os.open(tmp, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for name in (*folders, *([last] if os.path.isdir(path) else [])):
                inner = _enter(handle, name)
                os.close(handle)
                handle = inner
        except OSError as error:
            raise ToolError(f"The sandbox's /tmp cannot be prepared for {shown(path)}: {error.strerror}.") from None
        finally:
            os.close(handle)


def _enter(above: int, name: str) -> int:
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=above)
    except FileNotFoundError:
        pass
    except OSError:  # a file or link: move it away instead of following it
        os.rename(name, f"{name}.{os.urandom(4).hex()}", src_dir_fd=above, dst_dir_fd=above)
    os.mkdir(name, 0o700, dir_fd=above)
    return os.open(name, flags, dir_fd=above)
