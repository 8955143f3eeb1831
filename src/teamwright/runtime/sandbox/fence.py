"""The session's sandbox: makes a box for each program of an agent, hook or server, and tells what was refused to it."""

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.errors import ToolError
from teamwright.core.ids import AgentId, CallId
from teamwright.core.permissions.consent import Mode
from teamwright.core.ports import Desk
from teamwright.core.sandbox.fencing import Fencing
from teamwright.core.sandbox.hosts import Hosts, forwarded_ports, with_port
from teamwright.core.sandbox.policy import Policy, access_of, held_part, holds, policy_for
from teamwright.core.sandbox.rules import SandboxRules
from teamwright.host.sandbox.box import Box, Fence
from teamwright.host.sandbox.connections.netns import find_nsenter
from teamwright.host.sandbox.connections.network import PROXY_VARIABLES, NetworkRules, RootNetwork, Way
from teamwright.host.sandbox.connections.proxy import ProxyRules, RefusedHost
from teamwright.host.sandbox.ground.expand import is_inside
from teamwright.host.sandbox.ground.terrain import Ground, read_terrain
from teamwright.host.sandbox.guard.claims import Claims
from teamwright.host.sandbox.net import Net
from teamwright.host.sandbox.probe import find_python
from teamwright.osfiles.private import make_dir
from teamwright.runtime.permissions.call_facts import OwnTmp
from teamwright.runtime.sandbox.hosts import BoxedProgram, Caller, HostQuestions, Put
from teamwright.runtime.sandbox.refusals import Refusals, Refused, refused_paths
from teamwright.runtime.sandbox.scratch import Scratch

Where = Literal["project", "all", "none"]
MOST_KEPT = 50  # refusals shown by `/sandbox`
_CACHES = {
    "XDG_CACHE_HOME": "xdg",
    "npm_config_cache": "npm",
    "npm_config_store_dir": "pnpm",
    "YARN_CACHE_FOLDER": "yarn",
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "GOCACHE": "go",
    "GOMODCACHE": "go-mod",
    "PRE_COMMIT_HOME": "pre-commit",
    "COMPOSER_CACHE_DIR": "composer",
}


_ALONE = Way((), (), (), {}, "", "")


class SandboxPlan(Struct, frozen=True, kw_only=True):
    """What a session's sandbox is made of. Paths are absolute; an empty `cache` means none."""

    fence: Fence
    words: str  # of the probe
    project: str
    home: str
    state: str
    outputs: tuple[str, ...]
    cache: str
    env: Mapping[str, str]  # the person's
    shut: tuple[str, ...] = ()  # resolved roots that programs may not write
    rules: Callable[[AgentId], SandboxRules]
    auto_allow: bool
    may_leave: bool
    hidden_variables: tuple[str, ...] = ()
    http_proxy_port: int | None = None
    brought: tuple[str, ...] = ()  # directories whose hooks and servers count as the project's
    hooks: Where = "project"
    servers: Where = "project"


class FencedProgram(Struct, frozen=True):
    """An open box, and the environment for the program in it."""

    box: Box
    env: Mapping[str, str]
    notice: str = ""  # for the result


class SessionFence:
    """One per session or teammate's process; `main` is its own agent."""

    def __init__(
        self, plan: SandboxPlan, main: AgentId, put: Callable[[], Put | None], log: Callable[[str], None]
    ) -> None:
        self.plan, self._main, self._log = plan, main, log
        self.refusals: list[Refused] = []
        self._scratch = Scratch()
        self._put, self._hosts = put, HostQuestions(put, self._common_hosts)
        self._group: TaskGroup | None = None
        self._networks: dict[str, RootNetwork] = {}
        self._nsenter = find_nsenter() if plan.fence.tier == "bwrap" else None
        log(f"the sandbox holds by {plan.fence.tier}: {plan.words}")

    def open(self, group: TaskGroup) -> None:
        self._group = group

    def close(self) -> None:
        for network in self._networks.values():
            network.close()
        if self.plan.fence.tier == "landlock":
            from teamwright.host.sandbox.landlock import close_all  # noqa: PLC0415

            close_all()
        self._scratch.close()

    @property
    def status(self) -> dict[str, str | bool]:
        return {"enabled": True, "tier": self.plan.fence.tier, "autoAllow": self.plan.auto_allow}

    # --- for the gate

    def fencing(self, agent: AgentId, desk: Desk, mode: Mode) -> Fencing:
        plan = self.plan
        rules = plan.rules(agent)
        unheld = "" if plan.fence.tier == "bwrap" else holds(self._policy(rules, desk, mode), plan.fence.tier)
        return Fencing(rules, auto_allow=plan.auto_allow, may_leave=plan.may_leave, unheld=unheld)

    def tmp_of(self, desk: Desk) -> OwnTmp | None:
        """What /tmp is for this desk's commands, if it is not the machine's."""
        if self.plan.fence.tier != "bwrap":
            return None
        plan = self.plan
        return OwnTmp(
            self._scratch.of(str(desk.roots[0])), (*map(str, desk.roots), plan.project, plan.home, plan.state)
        )

    def scratch_of(self, desk: Desk) -> str:
        return self._scratch.of(str(desk.roots[0]))

    def guarded(self, agent: AgentId, desk: Desk, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the paths that a command's guard would put back or move away. Blocks."""
        policy = self._policy(self.plan.rules(agent), desk, "default")
        names = (*policy.kept, *policy.absent, *(path for path, _ in policy.links))
        return tuple(path for path in paths if any(is_inside(os.path.realpath(path), name) for name in names))

    @property
    def _leaves(self) -> bool:
        """May a command ask to leave, and is there somebody to answer?"""
        return self.plan.may_leave and self._put() is not None

    # --- for those who start programs

    @asynccontextmanager
    async def box(
        self,
        caller: Caller,
        desk: Desk,
        mode: Mode,
        env: Mapping[str, str],
        *,
        lives_on: bool = False,
        programs: tuple[str, ...] = (),
    ) -> AsyncGenerator[FencedProgram]:
        """A box for one program. Call `refused` before it closes. `programs`: what a server's command names."""
        rules = self.plan.rules(caller.agent)
        look = partial(self._policy_of, rules, desk, mode, lives_on, programs)
        policy = await anyio.to_thread.run_sync(look)
        way = _ALONE if mode == "plan" else await self._enter(policy, desk, caller.call)
        net = Net(way.argv, way.env, way.fds, way.bwrap) if way.token else None
        box = Box(self.plan.fence, policy, net, again=look)
        self._hosts.runs[caller.call] = BoxedProgram(caller, policy.hosts)
        try:
            yield FencedProgram(box, self._environment(env, policy), way.notice)
        finally:
            self._hosts.runs.pop(caller.call, None)
            if way.token:
                self._networks[str(desk.roots[0])].leave(way)

    def refused(self, fenced: FencedProgram, call: CallId, printed: str, cwd: str) -> Refusals:
        """What the program was refused. Call it when the program has ended and the box is still open."""
        run, undone = self._hosts.runs.get(call), fenced.box.end()
        hosts = [Refused("network", host=host, port=port) for host, port in (run.refused if run else ())]
        said = self.complaints(fenced, printed, cwd)
        found = replace(
            said,
            denied=tuple(dict.fromkeys((*hosts, *said.denied))),
            undone=undone.undone,
            changed=undone.changed,
            appeared=undone.appeared,
        )
        for name in (*found.undone, *found.changed, *found.appeared):
            self._log(f"the sandbox undid a change of {name}" if name in found.undone else f"changed: {name}")
        self.refusals = [*self.refusals, *found.denied][-MOST_KEPT:]
        return found

    def complaints(self, fenced: FencedProgram, printed: str, cwd: str) -> Refusals:
        """What the program says it was refused; it may still run."""
        paths = refused_paths(printed, fenced.box.policy, cwd, self.plan.home)
        return Refusals(self.plan.fence.tier, paths, leaves=self._leaves)

    def note_outside(self, call: CallId, why: str) -> None:
        self._log(f"call {call} ran outside of the sandbox: {why}")

    # --- what a box is made of

    def _policy_of(
        self,
        rules: SandboxRules,
        desk: Desk,
        mode: Mode,
        lives_on: bool,  # noqa: FBT001
        programs: tuple[str, ...],
    ) -> Policy:
        """The part of the policy that the tier can hold; the gate asks about the rest."""
        found = self._policy(rules, desk, mode, lives_on=lives_on, programs=programs)
        return held_part(found, self.plan.fence.tier)

    def _policy(
        self, rules: SandboxRules, desk: Desk, mode: Mode, *, lives_on: bool = False, programs: tuple[str, ...] = ()
    ) -> Policy:
        plan = self.plan
        roots = tuple(str(root) for root in desk.roots if not plan.shut or str(root.resolve()) not in plan.shut)
        if plan.cache:
            make_dir(Path(plan.cache))
        ground = Ground(
            roots=roots,
            project=plan.project,
            home=plan.home,
            state=plan.state,
            tmp=self._scratch.of(roots[0]),
            cache=plan.cache,
            path=plan.env.get("PATH", ""),
            runtime=plan.env.get("XDG_RUNTIME_DIR", ""),
            outputs=plan.outputs,
            programs=programs,
            busy=Claims(plan.fence.made).since(),
            masked=plan.fence.tier == "bwrap",
        )
        return policy_for(rules, roots, mode, read_terrain(ground, rules), lives_on=lives_on)

    def _environment(self, env: Mapping[str, str], policy: Policy) -> dict[str, str]:
        hidden = {*PROXY_VARIABLES, *self.plan.hidden_variables}
        found = {name: value for name, value in env.items() if name not in hidden}
        for name, folder in _CACHES.items() if policy.cache else ():
            if not (name in found and access_of(policy, os.path.realpath(found[name])) == "write"):
                found[name] = f"{policy.cache}/{folder}"
        return found

    # --- the network

    async def _enter(self, policy: Policy, desk: Desk, call: CallId) -> Way:
        """A program without a way into a network runs without one: that is stricter, and it is told."""
        if self._group is None or self._nsenter is None:
            return _ALONE
        root = str(desk.roots[0])
        if root not in self._networks:
            proxy = ProxyRules(self._hosts.decide, self._note_refusal, self.plan.env)
            port = self.plan.http_proxy_port
            rules = NetworkRules(self.plan.fence.bwrap, self._nsenter, proxy, port, find_python())
            self._networks[root] = RootNetwork(self._group, rules)
        try:
            return await self._networks[root].enter(call, forwarded_ports(policy.hosts))
        except ToolError as error:
            self._log(f"no network for {root}: {error}")
            return replace(_ALONE, notice=f"{error} It ran without any network.")

    def _common_hosts(self) -> Hosts:
        return self.plan.rules(self._main).hosts

    def _note_refusal(self, refusal: RefusedHost) -> None:
        self._log(f"the sandbox refused a connection to {with_port(refusal.host, refusal.port)}")
        if (run := self._hosts.runs.get(refusal.call)) is not None:
            run.refused.append((refusal.host, refusal.port))
