"""Resolves a model's name to what is known about it: window, longest reply, kind of thinking.

The facts are in `catalog.json`. A model that is not listed works too, with unknown limits.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NoReturn

import msgspec
from msgspec import Struct

from teamwright.core.errors import ModelError
from teamwright.core.text import closest

Thinking = Literal["adaptive", "budget", "none"]

CLAUDE_WINDOW = 200_000
LONG_WINDOW = 1_000_000
LONG = "[1m]"  # suffix of a Claude model's name that selects its long window
PLANNED = {"opusplan": ("opus", "sonnet")}  # (model in plan mode, model for the work)
BUILT_IN = ("anthropic", "openai", "script")
_OPENAI_NAME = re.compile(r"gpt|o[134](?:$|-)")
_BOUNDARY = frozenset("-:@[")  # may follow a known name: a date, a tag, a suffix

NO_MODEL = (
    "No model is set up, and nothing was sent. Set ANTHROPIC_API_KEY or OPENAI_API_KEY; "
    "or use a local server: set OPENAI_BASE_URL and choose `--model openai/NAME`; "
    "or run `teamwright demo`, which needs neither."
)


class ModelInfo(Struct, frozen=True):
    """What is known about a model; None means unknown."""

    provider: str
    name: str
    full: str  # `provider/name`
    window: int | None = None
    max_output: int | None = None
    thinking: Thinking = "none"


class ModelFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file. Claude models have no window there: it follows from the name."""

    window: int | None = None
    max_output: int | None = None
    thinking: Thinking = "none"


class Packaged(Struct, frozen=True, forbid_unknown_fields=True):
    """The file. `models` are full names, `families` beginnings of names; both match by prefix."""

    aliases: dict[str, str]
    defaults: dict[str, str]
    searching: dict[str, str]  # provider -> model that searches the web if the settings name none
    models: dict[str, dict[str, ModelFacts]]
    families: dict[str, dict[str, ModelFacts]]


@cache
def packaged() -> Packaged:
    return msgspec.json.decode(Path(__file__).with_name("catalog.json").read_bytes(), type=Packaged)


class Catalog(Struct, frozen=True, eq=False):
    """Maps names to models. Windows from the settings override those in the file."""

    aliases: dict[str, str]
    models: dict[str, dict[str, ModelFacts]]
    known: dict[str, dict[str, ModelFacts]]  # `models` plus `families`
    windows: dict[str, int]

    @classmethod
    def load(cls, settings_windows: Mapping[str, int] | None = None) -> "Catalog":
        data = packaged()
        known = {provider: data.models[provider] | data.families.get(provider, {}) for provider in data.models}
        windows = {data.aliases.get(name.lower(), name): window for name, window in (settings_windows or {}).items()}
        return cls(data.aliases, data.models, known, windows)

    def names(self) -> list[str]:
        """All aliases, then every model in the file as `provider/name`."""
        full = [f"{provider}/{name}" for provider, models in self.models.items() for name in models]
        return [*self.aliases, *full]

    def resolve(self, name: str, *, named: Collection[str] = ()) -> ModelInfo:
        """The model named by a person, a definition or a call. `named` are the providers from the settings."""
        said = name.strip()
        provider, model = self._split(PLANNED[said.lower()][1] if said.lower() in PLANNED else said, named)
        facts = self._facts(provider, model)
        window = self._window(provider, model, facts)
        return ModelInfo(provider, model, f"{provider}/{model}", window, facts.max_output, facts.thinking)

    def _split(self, name: str, named: Collection[str]) -> tuple[str, str]:
        provider, slash, model = self._unalias(name).partition("/")
        if not slash:
            provider, model = _provider_of(name), name
        elif provider == "anthropic":
            model = self._unalias(model).removeprefix("anthropic/")
        if not model or provider not in (*BUILT_IN, *named):
            self._refuse(name, named)
        return provider, model

    def _unalias(self, name: str) -> str:
        short = name.lower().removesuffix(LONG)
        return self.aliases[short] + name[len(short) :].lower() if short in self.aliases else name

    def _refuse(self, name: str, named: Collection[str]) -> NoReturn:
        aliases = ", ".join(f"`{alias}`" for alias in self.aliases)
        forms = [f"`{provider}/NAME`" for provider in ("anthropic", "openai", *sorted(set(named) - set(BUILT_IN)))]
        what = f"The model `{name}` is not known" if name else "The name of a model is empty"
        meant = closest(name, [*self.names(), *(model for models in self.models.values() for model in models)])
        end = f": did you mean `{meant}`?" if meant else "."
        server, slash, _ = name.partition("/")
        local = (
            f"for a server of your own called {server}, put its address under `teamwright.providers` in your settings."
            if slash and server
            else "a model of a local server is `openai/NAME` with OPENAI_BASE_URL set."
        )
        raise ModelError(f"{what}{end} Use {aliases}, {', '.join(forms)} or `script/FILE`; {local}", "config")

    def _facts(self, provider: str, model: str) -> ModelFacts:
        """The entry with the longest matching prefix, so that dated names are found too."""
        known, low = self.known.get(provider, {}), model.lower()
        fits = [key for key in known if low.startswith(key) and (low == key or low[len(key)] in _BOUNDARY)]
        return known[max(fits, key=len)] if fits else ModelFacts()

    def _window(self, provider: str, model: str, facts: ModelFacts) -> int | None:
        for key in (f"{provider}/{model}", model, f"{provider}/{model.removesuffix(LONG)}", model.removesuffix(LONG)):
            if key in self.windows:
                return self.windows[key]
        if provider != "script" and model.lower().startswith("claude"):
            return LONG_WINDOW if model.endswith(LONG) else CLAUDE_WINDOW
        return facts.window


def _provider_of(name: str) -> str:
    """The provider of a bare name; empty if the name does not tell."""
    low = name.lower()
    if low.startswith("claude"):
        return "anthropic"
    return "openai" if _OPENAI_NAME.match(low) else ""


def is_default(name: str) -> bool:
    """Does the name ask for the default model?"""
    return name.strip().lower() == "default"


def default_model(env: Mapping[str, str], setting: str | None, *, keyed: bool = False) -> str:
    """The model to use if nobody named one. An empty variable counts as unset.

    `keyed`: Anthropic's key comes from another source.
    """
    chosen = env.get("TEAMWRIGHT_MODEL") or setting
    if chosen and not is_default(chosen):
        return chosen
    if keyed or env.get("ANTHROPIC_API_KEY") or env.get("ANTHROPIC_AUTH_TOKEN"):
        return packaged().defaults["anthropic"]
    if env.get("OPENAI_API_KEY") or env.get("OPENAI_BASE_URL"):
        # not OpenAI's newest: from gpt-5.6 on, chat completions reject tools combined with reasoning
        return packaged().defaults["openai"]
    raise ModelError(NO_MODEL, "config")
