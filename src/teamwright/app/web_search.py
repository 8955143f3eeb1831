"""Web search of agents, by the engine or the provider that the person's settings name, or not at all."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from teamwright.app.models import model_for
from teamwright.app.workspace import Workspace
from teamwright.core.data.extensions.search import WebFound, WebQuery, kept
from teamwright.core.data.message import Delta, Request, user
from teamwright.core.errors import ModelError, ToolError
from teamwright.core.ids import AgentId
from teamwright.core.ports import Tool
from teamwright.models.catalog import packaged
from teamwright.runtime.agents.limits.meter import MeteredModel
from teamwright.store.settings.schema import WebSearch
from teamwright.tools.web_search import WebSearchTool

if TYPE_CHECKING:
    from teamwright.app.services import Services
    from teamwright.host.web.search import Engine

MOST_SECONDS = 60.0  # for a provider, which searches and reads


class WebSearching:
    """`tools` is empty without a usable setup; `problems` says what is wrong with it."""

    def __init__(self, workspace: Workspace) -> None:
        self.tools: dict[str, Tool] = {}
        self.problems: tuple[str, ...] = ()
        self._env = workspace.env
        wanted = workspace.own.web_search
        if wanted is None:
            return
        self._most = wanted.results
        try:
            self._engine = _engine(wanted, workspace)
            self._model = "" if self._engine else _model(wanted, workspace)
        except (ModelError, ValueError) as error:
            self.problems = (f"teamwright.webSearch: {error} WebSearch is not offered.",)
            return
        tool = WebSearchTool()
        self.tools = {tool.spec.name: tool}

    async def search(self, services: "Services", agent: AgentId, query: WebQuery) -> WebFound:
        """The agent that searches pays for it."""
        if self._engine is not None:
            from teamwright.host.web.search import search_engine  # noqa: PLC0415

            return await search_engine(self._engine, query, self._most, self._env)
        asking = services.supervisor.agent(agent)
        assert asking is not None
        models = services.models
        searcher = models.routed.searcher(self._model, query)
        model = MeteredModel(
            model=searcher,
            ledger=services.store.state,
            meter=asking.meter,
            session=services.store.session,
            agent=agent,
            turns=False,
        )
        try:
            with anyio.fail_after(MOST_SECONDS):
                await model.reply(Request(self._model, (), (), (user(query.text),)), _ignore)
        except TimeoutError:
            raise ToolError(f"The web search failed: no answer within {MOST_SECONDS:g} seconds.") from None
        except ModelError as error:
            raise ToolError(f"The web search failed: {error}") from None
        found = searcher.found
        return WebFound(kept(found.hits, query, self._most), found.answer)


def _ignore(_: Delta) -> None:
    pass


def _engine(wanted: WebSearch, workspace: Workspace) -> "Engine | None":
    """None: a provider of models searches. Raises ValueError with a sentence."""
    if wanted.provider not in ("searxng", "brave"):
        if wanted.url or wanted.key_env:
            raise ValueError(f"`url` and `keyEnv` are for engines; {wanted.provider} is reached as its models are.")
        return None
    from teamwright.host.web.search import BRAVE, Engine  # noqa: PLC0415

    kind = "brave" if wanted.provider == "brave" else "searxng"
    url = wanted.url or (BRAVE if kind == "brave" else "")
    if not _is_address(url):
        raise ValueError(f"`url` must be the http or https address of your {kind}.")
    name = wanted.key_name
    key = workspace.env.get(name, "").strip() if name else ""
    if name and not (key and key.isascii() and key.isprintable()):
        raise ValueError(f"there is no key in the variable {name}.")
    return Engine(kind, url, key)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _model(wanted: WebSearch, workspace: Workspace) -> str:
    """The full name of the model that searches. Raises ModelError if its provider cannot be reached at all."""
    models, name = model_for(workspace, wanted.model or packaged().searching[wanted.provider])
    own, provider = workspace.own, name.partition("/")[0]
    named = own.providers.get(provider)
    if (named.wire if named else provider) != wanted.provider:
        raise ValueError(f"`model` is {name}, which is not asked in the way of {wanted.provider}.")
    models.check(name)
    return name
