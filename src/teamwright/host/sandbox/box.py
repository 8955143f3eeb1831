"""The box of one program: starts it in the sandbox in place of `subprocess.Popen`, and repairs things afterwards.

If a box cannot be made, that is an error; nothing ever runs without it.
"""

import os
import subprocess
from collections.abc import Callable, Mapping

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.errors import ToolError
from teamwright.core.sandbox.policy import Policy, Tier, holds
from teamwright.core.text import shown
from teamwright.host.sandbox.guard.planted import Guard, Undone
from teamwright.host.sandbox.launch import Launch
from teamwright.host.sandbox.net import Net

# First words of the shell in a box. Limits set on bubblewrap from outside would come too late, after it has forked.
# dash uses another option for the number of processes.
LIMITS = "{ ulimit -u 8192 || ulimit -p 8192; } 2>/dev/null; ulimit -c 0; "
_MOST_TRIES = 12  # attempts to make one box, about ten milliseconds each


class Fence(Struct, frozen=True):
    """What all boxes of a session share."""

    tier: Tier
    quarantine: str  # where undone names go
    made: str = ""  # names that we ourselves made (`Claims`)
    bwrap: str = ""  # the bubblewrap program, for that tier


class Box:
    """One per started program. `ended` is set when it has ended.

    `again` reads the machine's state anew; it blocks.
    """

    def __init__(
        self,
        fence: Fence,
        policy: Policy,
        net: Net | None = None,
        *,
        proxy_port: int = 0,
        again: Callable[[], Policy] | None = None,
    ) -> None:
        self.fence, self.policy = fence, policy
        self.ended: Undone | None = None
        self._net, self._proxy_port = net, proxy_port
        self._guard: Guard | None = None
        self._again, self._tries, self._earlier = again, 1, Undone()

    @property
    def prelude(self) -> str:
        """The first words of the shell started in the box. Raises ToolError."""
        if self.fence.tier != "bwrap":
            return LIMITS
        from teamwright.host.sandbox.bwrap_check import check_text  # noqa: PLC0415

        with open("/proc/self/mountinfo", errors="surrogateescape") as mounts:
            return check_text(self.policy, mounts.read()) + LIMITS

    def restoring(self, env: Mapping[str, str], *, bash: bool) -> str:
        """Words for that shell after its gate: restores variables withheld until then."""
        if self.fence.tier != "bwrap":
            return ""
        from teamwright.host.sandbox.bwrap import restore_text  # noqa: PLC0415

        return restore_text(env, bash=bash)

    @property
    def namespaced(self) -> bool:
        """Does the kernel end all of it together with the program that we started?"""
        return self.fence.tier == "bwrap"

    @property
    def env(self) -> dict[str, str]:
        """Variables the program needs: its temporary directory and its network."""
        from teamwright.host.sandbox.bwrap import MACHINE_TMP, has_own_tmp  # noqa: PLC0415

        own = self.fence.tier == "bwrap" and has_own_tmp(self.policy)
        tmp = MACHINE_TMP if own else self.policy.tmp
        told = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), tmp) if tmp else {}
        return told | dict(self._net.env if self._net else {})

    def start(self, launch: Launch) -> subprocess.Popen[bytes]:
        """Like Popen, in a new session. Raises OSError or ToolError; then nothing was started."""
        if why := holds(self.policy, self.fence.tier):
            raise ToolError(f"The sandbox cannot run this: {why}. Nothing was run.")
        # Landlock identifies places by inode, so it needs no check.
        if self.fence.tier != "landlock" and (gone := _missing(self.policy)):
            raise ToolError(f"{shown(gone)} was removed while the sandbox was made. Nothing was run; try again.")
        inside = replace(launch, env=dict(launch.env) | self.env | dict(launch.mark))
        fence = self.fence
        self._guard = Guard(self.policy, fence.quarantine, fence.made, copies=fence.tier == "landlock")
        try:
            return self._start(inside)
        except BaseException:
            self.end()
            raise

    def _start(self, launch: Launch) -> subprocess.Popen[bytes]:
        match self.fence.tier:
            case "bwrap":
                from teamwright.host.sandbox import bwrap  # noqa: PLC0415

                return bwrap.start(self.fence.bwrap, self.policy, launch, self._net)
            case "landlock":
                from teamwright.host.sandbox import landlock  # noqa: PLC0415

                return landlock.start(self.policy, launch.popen)
            case _:
                from teamwright.host.sandbox import seatbelt  # noqa: PLC0415

                return seatbelt.start(self.policy, launch, self._proxy_port)

    async def watch(self) -> None:
        """Guards the box while it runs, until cancelled."""
        if self._guard:
            await self._guard.watch()

    def end(self) -> Undone:
        """Call when nothing in it is alive any more; repeated calls return the same."""
        if self.ended is None:
            self.ended = self._earlier.joined(self._guard.end()) if self._guard else self._earlier
        return self.ended

    async def renew(self) -> bool:
        """Prepares a retry if the program has not begun, because a place of the map may have vanished.

        Returns False if no retry is possible. Raises ToolError if the machine's state cannot be read.
        """
        if self.fence.tier != "bwrap" or self._again is None or self._tries >= _MOST_TRIES:
            return False
        self._tries += 1
        self._earlier = await anyio.to_thread.run_sync(self.end)
        self.policy = await anyio.to_thread.run_sync(self._again)
        self.ended, self._guard = None, None
        return True


def _missing(policy: Policy) -> str:
    """The first path of the map that no longer exists; empty if all do."""
    lstat, path = os.lstat, ""  # called before every command
    try:
        for path, access in policy.access:
            if access != "none":
                lstat(path)
    except OSError:
        return path
    return ""
