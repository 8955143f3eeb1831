"""A box made by macOS's `sandbox-exec`: turns a policy into its profile. It is used only if its probe passes."""

import os
import stat
import subprocess
import tempfile

from teamwright.core.sandbox.policy import Access, Policy
from teamwright.host.sandbox.launch import Launch

PROGRAM = "/usr/bin/sandbox-exec"
_BOTH = ("/tmp", "/var", "/etc")  # links into /private; rules see the path as it was named
_HEAD = """(version 1)
(allow default)
(deny file-write*)
(deny network*)
(deny signal)
(allow signal (target same-sandbox))
(deny process-exec* (with no-sandbox))
(allow mach-lookup (global-name "com.apple.trustd.agent"))
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (subpath "/dev/fd"))
(allow file-ioctl (regex #"^/dev/ttys[0-9]+$"))
"""
_RULES: dict[Access, tuple[str, ...]] = {
    "none": ("(deny file-read* file-write* {})",),
    "read": ("(allow file-read* {})", "(deny file-write* {})"),
    "write": ("(allow file-read* {})", "(allow file-write* {})"),
}


def profile(policy: Policy, proxy_port: int = 0) -> tuple[str, list[str]]:
    """The profile, with its paths as parameters P0, P1, …, because a path may contain any character."""
    lines, paths, named = [_HEAD], list[str](), dict[str, str]()

    def place(path: str) -> str:
        if path not in named:
            kind = "subpath" if _is_directory(path) else "literal"
            spellings = _spellings(path)
            numbers = range(len(paths), len(paths) + len(spellings))
            paths.extend(spellings)
            named[path] = " ".join(f'({kind} (param "P{number}"))' for number in numbers)
        return named[path]

    for path, access in policy.access:  # later rules win, and longer paths come later
        lines += [rule.format(place(path)) for rule in _RULES[access] if path != "/" or access == "write"]
    for path in (*policy.absent, *policy.told):
        lines.append(f"(deny file-write* {place(path)})")
    for path, _ in policy.links:
        lines.append(f"(deny file-write* {place(path)})")
    sockets = [path for path in (policy.tmp, *policy.sockets) if path]
    lines += [
        f"(allow network* (remote unix-socket {place(path)}) (local unix-socket {place(path)}))" for path in sockets
    ]
    if proxy_port:
        lines.append(f'(allow network-outbound (remote ip "localhost:{proxy_port}"))')
    return "\n".join(lines) + "\n", paths


def _spellings(path: str) -> list[str]:
    private = "/private"
    if path.startswith(private + "/"):
        return [path, path.removeprefix(private)]
    return [path, private + path] if path.startswith(_BOTH) else [path]


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return True  # a missing name must not appear, nor anything below it


def start(policy: Policy, launch: Launch, proxy_port: int) -> subprocess.Popen[bytes]:
    text, paths = profile(policy, proxy_port)
    named = [word for number, path in enumerate(paths) for word in ("-D", f"P{number}={path}")]
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        handle = file.fileno()
        return launch.popen((PROGRAM, "-f", f"/dev/fd/{handle}", *named, *launch.argv), more_fds=(handle,))
