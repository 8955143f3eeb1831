"""The library: open a session, ask, watch, answer questions from code.

>>> import anyio, tempfile
>>> from teamwright import ScriptedModel, session
>>> async def main():
...     with tempfile.TemporaryDirectory() as home:
...         async with session(home, model=ScriptedModel(["Hello."]), home=home) as agent:
...             return (await agent.ask("Say hello")).text
>>> anyio.run(main)
'Hello.'

Or lead a team from code:

>>> model = ScriptedModel({"ada": {"when": "Greet", "steps": ["Ready.", "Hello, lead."]}})
>>> async def lead():
...     with tempfile.TemporaryDirectory() as home:
...         async with session(home, model=model, home=home) as agent:
...             team = await agent.team("crew", "to say hello")
...             await team.spawn("ada", "Greet whoever writes to you.")
...             await team.idle()
...             return (await team.ask("ada", "Hello, ada.")).text
>>> anyio.run(lead)
'Hello, lead.'
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from teamwright.app import Options, open_session
from teamwright.app.options import OwnHook
from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.message import Effort
from teamwright.core.permissions.consent import Decision, Mode, Question
from teamwright.core.policies.budget import Limits
from teamwright.core.ports import Model, Tool
from teamwright.runtime.agents.resume import Origin
from teamwright.runtime.session import Session
from teamwright.tools.function import FunctionTool


class session:
    """A session in `cwd`, for the time of an `async with`. Its agents may start others; `agents` are further kinds.

    `model` is a name as on the command line, or a model object such as a `ScriptedModel`. `answer` is asked where a
    person would be; without it what needs a yes is denied. `hooks` are functions by event, each taking what a command
    would read and giving what it would print; `("Bash", function)` has a matcher. `resume` continues with a session by
    its id. `home` takes the place of TEAMWRIGHT_HOME. Project settings count only with `trust=True`.
    """

    def __init__(
        self,
        cwd: str | Path = ".",
        *,
        model: str | Model | None = None,
        tools: Sequence[Tool] = (),
        agents: Sequence[AgentDefinition] = (),
        hooks: Mapping[str, Sequence[OwnHook]] | None = None,
        mcp_servers: Mapping[str, Mapping[str, Any]] | None = None,
        answer: Callable[[Question], Awaitable[Decision]] | None = None,
        permission_mode: Mode | None = None,
        allowed_tools: Sequence[str] = (),
        disallowed_tools: Sequence[str] = (),
        system_prompt: str | None = None,
        append_system_prompt: str = "",
        fallback_model: str | None = None,
        effort: Effort | int | None = None,
        max_turns: int | None = None,
        max_budget_usd: float | None = None,
        resume: str | None = None,
        session_id: str | None = None,
        home: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        trust: bool = False,
    ) -> None:
        environment = dict(os.environ if env is None else env)
        if home is not None:
            environment["TEAMWRIGHT_HOME"] = str(home)
        asked = {t.spec.name for t in tools if isinstance(t, FunctionTool) and t.ask}
        self._options = Options(
            cwd=Path(cwd),
            env=environment,
            origin=Origin(resume, id=session_id),
            model=model if isinstance(model, str) else None,
            own_model=None if isinstance(model, str) else model,
            fallback_model=fallback_model,
            effort=effort,
            limits=Limits(turns=max_turns, usd=max_budget_usd),
            system_prompt=system_prompt,
            append_system_prompt=append_system_prompt,
            mode=permission_mode,
            may_bypass=permission_mode == "bypassPermissions",
            allowed_tools=[*allowed_tools, *(t.spec.name for t in tools if t.spec.name not in asked)],
            disallowed_tools=disallowed_tools,
            own_tools=tools,
            definitions=agents,
            hooks=hooks or {},
            mcp_config=[msgspec.json.encode({"mcpServers": mcp_servers}).decode()] if mcp_servers else [],
            trust=trust,
            answer=answer,
            code_leads=True,
        )
        self._session: Session | None = None

    async def __aenter__(self) -> Session:
        self._session = await open_session(self._options)
        return await self._session.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.__aexit__(kind, error, trace)
