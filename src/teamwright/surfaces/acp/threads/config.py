"""Modes and options of a session as the editor's own controls."""

from typing import Any, get_args

from teamwright.core.data.message import Effort
from teamwright.core.data.op import SetEffort, SetMode, SetModel
from teamwright.core.errors import TeamwrightError
from teamwright.core.permissions.consent import MODES, Mode
from teamwright.runtime.port import SessionPort
from teamwright.surfaces.acp.protocol.wire import PARAMS, RpcError

EFFORTS: tuple[Effort, ...] = get_args(Effort)
USUAL = "default"  # of effort: the provider's default
MODE_NAMES: dict[Mode, tuple[str, str]] = {
    "default": ("Ask", "asks before commands and changes"),
    "acceptEdits": ("Accept edits", "changes files without asking, asks before commands"),
    "plan": ("Plan", "reads and searches only, until you approve a plan"),
    "dontAsk": ("Don't ask", "denies what no rule allows"),
    "bypassPermissions": ("Bypass permissions", "asks nothing"),
}
TURNS = {
    "settled": ("When everybody is done", "a prompt is answered when no agent works for it any more"),
    "answered": ("When it is answered", "a prompt is answered at once; what agents bring is told later"),
}


class Config:
    """`may_bypass`: the session was started with that permission."""

    def __init__(self, port: SessionPort, *, may_bypass: bool, effort: Effort | int | None) -> None:
        self._port, self._may_bypass = port, may_bypass or port.facts.mode == "bypassPermissions"
        self.effort = effort
        self.turns = "settled"

    @property
    def mode(self) -> str:
        return self._port.facts.mode

    @property
    def _modes(self) -> list[Mode]:
        return [mode for mode in MODE_NAMES if mode != "bypassPermissions" or self._may_bypass]

    def mode_state(self) -> dict[str, Any]:
        modes = [{"id": m, "name": MODE_NAMES[m][0], "description": MODE_NAMES[m][1]} for m in self._modes]
        return {"currentModeId": self.mode, "availableModes": modes}

    def options(self) -> list[dict[str, Any]]:
        model = self._port.facts.model
        models = [_choice(name, name) for name in dict.fromkeys((model, *self._port.model_names))]
        efforts = [_choice(USUAL, "Default"), *(_choice(level, level.capitalize()) for level in EFFORTS)]
        if (effort := str(self.effort or USUAL)) not in (USUAL, *EFFORTS):
            efforts.append(_choice(effort, f"{effort} tokens"))
        modes = [_choice(m, *MODE_NAMES[m]) for m in self._modes]
        turns = [_choice(id, *words) for id, words in TURNS.items()]
        return [
            _select("mode", "Permission mode", self.mode, modes) | {"category": "mode"},
            _select("model", "Model", model, models) | {"category": "model"},
            _select("effort", "Effort", effort, efforts) | {"category": "thought_level"},
            _select("turns", "End of a turn", self.turns, turns),
        ]

    async def set(self, id: str, value: str) -> None:
        """Raises RpcError for an option that does not exist, or a value that is not allowed."""
        known = {option["id"]: {one["value"] for one in option["options"]} for option in self.options()}
        if id not in known:
            raise RpcError(PARAMS, f"there is no option {id!r}; there are {', '.join(known)}")
        if value not in known[id] and id != "model":
            raise RpcError(PARAMS, f"{id} cannot be {value!r}; it is one of {', '.join(sorted(known[id]))}")
        try:
            await self._set(id, value)
        except TeamwrightError as error:
            raise RpcError(PARAMS, str(error)) from None

    async def _set(self, id: str, value: str) -> None:
        match id:
            case "mode":
                mode: Mode = next(known for known in MODES if known == value)
                await self._port.submit(SetMode(mode))
            case "model":
                await self._port.submit(SetModel(value))
            case "effort":
                effort: Effort | None = next((level for level in EFFORTS if level == value), None)
                await self._port.submit(SetEffort(effort))
                self.effort = effort
            case _:
                self.turns = value


def _choice(value: str, name: str, about: str = "") -> dict[str, str]:
    return {"value": value, "name": name} | ({"description": about} if about else {})


def _select(id: str, name: str, value: str, options: list[dict[str, str]]) -> dict[str, Any]:
    return {"type": "select", "id": id, "name": name, "currentValue": value, "options": options}
