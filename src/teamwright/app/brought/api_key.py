"""`apiKeyHelper`: a command of the settings whose output is the provider's key, which is kept only in memory."""

import time

import anyio

from teamwright.app.workspace import Workspace, passed_names
from teamwright.core.errors import ModelError
from teamwright.core.text import shown, whole_number

LIMIT = 60.0  # seconds for one run
MINUTES_MS = 300_000
MOST_KEY = 10_000  # characters
TTL = "CLAUDE_CODE_API_KEY_HELPER_TTL_MS"


class KeyHelper:
    """Runs the command when a key is first needed, and again when it is too old or was refused."""

    def __init__(self, workspace: Workspace) -> None:
        self._command, self._workspace = workspace.settings.api_key_helper or "", workspace
        self._key, self._until = "", 0.0
        self._lock: anyio.Lock | None = None

    async def __call__(self, *, fresh: bool = False) -> str:
        """Raises ModelError. `fresh`: the last key was refused."""
        self._lock = self._lock or anyio.Lock()
        async with self._lock:
            if fresh or not self._key or time.monotonic() >= self._until:
                self._key = await self._run()
                self._until = time.monotonic() + _milliseconds(self._workspace.env.get(TTL, "")) / 1000
            return self._key

    async def _run(self) -> str:
        from teamwright.host.process.environment import tool_environment  # noqa: PLC0415  # only where one is set
        from teamwright.host.process.hook_process import run_hook  # noqa: PLC0415

        workspace = self._workspace
        place = {"CLAUDE_PROJECT_DIR": str(workspace.project)}
        env = tool_environment(workspace.env, place, passed_names(workspace))
        ended = await run_hook(self._command, b"", cwd=workspace.project, env=env, limit=LIMIT)
        if ended.status != 0:  # what it printed may contain half a key, so none of it is shown
            raise self._fault(ended.fault or f"it ended with exit status {ended.status}")
        key = ended.out.strip()
        if not key or len(key) > MOST_KEY or not (key.isascii() and key.isprintable()):
            raise self._fault(
                "it printed nothing" if not key else "what it printed is not one line that could be a key"
            )
        return key

    def _fault(self, why: str) -> ModelError:
        file = shown(self._workspace.settings.file_of("apiKeyHelper"), 300)
        return ModelError(
            f"The apiKeyHelper of {file} gave no key: {why}. Run its command yourself to see why.", "config"
        )


def _milliseconds(text: str) -> int:
    number = whole_number(text)
    return MINUTES_MS if number is None else number
