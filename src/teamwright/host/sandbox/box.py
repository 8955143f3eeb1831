"""The box of one program: starts it behind the fence in the place of `subprocess.Popen`, and puts things right after.

A box that cannot be made is an error; nothing ever runs without it.
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

# The first words of the shell that a box starts. A limit that we set on bubblewrap would come after it has forked;
# dash names the number of processes otherwise.
LIMITS = "{ ulimit -u 8192 || ulimit -p 8192; } 2>/dev/null; ulimit -c 0; "
_MOST_TRIES = 12  # to make one box, some ten milliseconds each


class Fence(Struct, frozen=True):
    """What all boxes of a session share."""

    tier: Tier
    quarantine: str  # where undone names go
    made: str = ""  # names that we ourselves made (`Claims`)
    bwrap: str = ""  # the program of that tier


class Box:
    """One for each program that starts. `ended` is set when it has ended.

    `again` looks at the machine anew, and blocks.
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
        """The first words of the shell that is started in it. Raises ToolError."""
        if self.fence.tier != "bwrap":
            return LIMITS
        from teamwright.host.sandbox.bwrap_check import check_text  # noqa: PLC0415

        with open("/proc/self/mountinfo", errors="surrogateescape") as mounts:
            return check_text(self.policy, mounts.read()) + LIMITS

    def restoring(self, env: Mapping[str, str], *, bash: bool) -> str:
        """Words for that shell when it has passed its gate: variables that it did not get before."""
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
        """What the program must be told: its tmp and its network."""
        from teamwright.host.sandbox.bwrap import MACHINE_TMP, has_own_tmp  # noqa: PLC0415

        own = self.fence.tier == "bwrap" and has_own_tmp(self.policy)
        tmp = MACHINE_TMP if own else self.policy.tmp
        told = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), tmp) if tmp else {}
        return told | dict(self._net.env if self._net else {})

    def start(self, launch: Launch) -> subprocess.Popen[bytes]:
        """As Popen, in a session of its own. Raises OSError or ToolError; then nothing was started."""
        if why := holds(self.policy, self.fence.tier):
            raise ToolError(f"The sandbox cannot run this: {why}. Nothing was run.")
        # Landlock itself knows places by their inodes.
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
        """While it runs, until it is cancelled."""
        if self._guard:
            await self._guard.watch()

    def end(self) -> Undone:
        """When nothing of it is alive any more; a second call tells the same."""
        if self.ended is None:
            self.ended = self._earlier.joined(self._guard.end()) if self._guard else self._earlier
        return self.ended

    async def renew(self) -> bool:
        """For another try, when its program has not begun: some place of the map may have gone meanwhile.

        False where there is none. Raises ToolError where the machine cannot be looked at.
        """
        if self.fence.tier != "bwrap" or self._again is None or self._tries >= _MOST_TRIES:
            return False
        self._tries += 1
        self._earlier = await anyio.to_thread.run_sync(self.end)
        self.policy = await anyio.to_thread.run_sync(self._again)
        self.ended, self._guard = None, None
        return True


def _missing(policy: Policy) -> str:
    """The first path of the map that is no longer there; empty if all are."""
    lstat, path = os.lstat, ""  # it is asked before every command
    try:
        for path, access in policy.access:
            if access != "none":
                lstat(path)
    except OSError:
        return path
    return ""
