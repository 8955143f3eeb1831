"""What a start costs: printing the version, and reaching the first request."""

import os
import subprocess
import sys

from rows import Row, ms
from session import PROGRAM, Rig

ROUNDS = 15


def cpu(argv: list[str], rig: Rig) -> float:
    """User and system seconds of one short command."""
    process = subprocess.Popen(argv, env=rig.env, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit status {process.returncode}: {argv}")
    return usage.ru_utime + usage.ru_stime


def measure(rig: Rig) -> list[Row]:
    version, nothing, first, bare = [], [], [], []
    commands = ((version, [str(PROGRAM), "--version"]), (nothing, [sys.executable, "-c", "pass"]))
    bare_import = [sys.executable, "-c", "import aiohttp"]
    for argv in (*(argv for _, argv in commands), bare_import):
        cpu(argv, rig)  # byte code
    for n in range(ROUNDS):
        for values, argv in commands[:: -1 if n % 2 else 1]:
            values.append(cpu(argv, rig))
        first.append(rig.run(0).cpu[0])
        bare.append(cpu(bare_import, rig))
    return [
        Row("--version : python -c pass", ms(version), ms(nothing), most_ratio=3),
        Row("start to first request : import aiohttp", ms(first), ms(bare), most=250),
    ]
