"""Models that a session uses: their names, and the providers that serve them."""

from collections.abc import Mapping, Sequence
from importlib import import_module

from msgspec import Struct
from msgspec.structs import replace

from teamwright import __version__
from teamwright.app.options import Options
from teamwright.app.workspace import Workspace, check_numbers
from teamwright.core.data.message import Effort
from teamwright.core.errors import ModelError
from teamwright.core.policies.budget import Limits
from teamwright.core.ports import Model
from teamwright.core.text import shown, whole_number
from teamwright.models.catalog import PLANNED, Catalog, default_model, is_default
from teamwright.models.providers import KeySource, Providers, ProviderSettings
from teamwright.models.routed import RoutedModel
from teamwright.store.settings.schema import Settings

GIVEN = "script/given"  # stands for a model object made by the caller
RETRIES = 10
THINKING = "MAX_THINKING_TOKENS"
_FOR_CALLS = ("teamwright.app.permissions", "teamwright.runtime.agents.spawner")  # what the first calls need


class Models(Struct, frozen=True):
    """The models' opener, and the names that were asked for, as `provider/name`; None if nobody said."""

    routed: RoutedModel
    model: str | None
    default: str | None
    fallback: str | None
    catalog: Catalog
    named: tuple[str, ...]
    planned: tuple[str, str] | None = None  # for plan mode, for the work

    def resolve_pair(self, name: str) -> tuple[str, str]:
        """The models that a name stands for: in plan mode, and otherwise."""
        planning, working = PLANNED.get(name.strip().lower(), (name, name))
        return self.resolve(planning), self.resolve(working)

    def resolve(self, name: str) -> str:
        return self.catalog.resolve(name, named=self.named).full

    def checked(self, name: str) -> str:
        """Resolve a name. A missing key is an error here, not later in the agent that uses the model."""
        full = self.resolve(name)
        self.routed.check(full)
        return full

    def get_ready(self, *, by_opening: bool) -> None:
        """Fail before anything begins if a key or a provider is missing."""
        for name in filter(None, (self.model, self.default, self.fallback)):
            if by_opening:
                self.routed.open(name)
            else:
                self.routed.check(name)

    def letter_room(self, name: str) -> int:
        """Characters for letters that are read together."""
        return self.window(name) or 200_000

    def window(self, name: str) -> int | None:
        return self.catalog.resolve(name, named=self.named).window


def _expect_calls() -> None:
    """Import the gate while the server thinks: most answers ask for tools."""
    for name in _FOR_CALLS:
        import_module(name)


def _routed(
    workspace: Workspace,
    retries: int,
    given: Mapping[str, Model],
    *,
    think: bool = True,
    betas: Sequence[str] = (),
    display: str = "",
    usd: float | None = None,
) -> Models:
    own = workspace.own
    catalog = Catalog.load(own.windows)
    named = {name: ProviderSettings(p.base_url, p.key_env, p.wire) for name, p in own.providers.items()}
    source: KeySource | None = None
    if (workspace.settings.api_key_helper or "").strip():
        from teamwright.app.brought.api_key import KeyHelper  # noqa: PLC0415  # few settings name one

        source = KeyHelper(workspace)
    providers = Providers(
        workspace.env,
        silence=own.model_silence_seconds,
        retries=retries,
        named=named,
        version=__version__,
        betas=betas,
        thinking_display=display,
        key_source=source,
        meanwhile=_expect_calls,
    )
    routed = RoutedModel(catalog, providers, tuple(named), dict(given), think, usd)
    return Models(routed, None, None, None, catalog, tuple(named))


def model_for(workspace: Workspace, name: str | None) -> tuple[RoutedModel, str]:
    """The model that a session here would use, asked without retries; for `doctor`."""
    models = _routed(workspace, 0, {})
    return models.routed, models.resolve(name) if name else default_of(models, workspace)


def chosen_effort(workspace: Workspace) -> Effort | int | None:
    """The effort of the settings; if they say nothing, a variable that other programs read counts."""
    tokens = workspace.env.get(THINKING, "")
    said = whole_number(tokens) if tokens else None
    return workspace.settings.effort or said or None


def default_of(models: Models, workspace: Workspace) -> str:
    """The model if no option names one. An error says who named it."""
    return _located(models, _default_name(workspace), workspace)


def _default_name(workspace: Workspace) -> str:
    settings = workspace.settings
    return default_model(workspace.env, settings.model, keyed=bool(settings.api_key_helper))


def _located(models: Models, name: str, workspace: Workspace) -> str:
    try:
        return models.resolve(name)
    except ModelError as error:
        by_variable = workspace.env.get("TEAMWRIGHT_MODEL") == name
        where = "TEAMWRIGHT_MODEL" if by_variable else f"{shown(workspace.settings.file_of('model'), 500)}, `model`"
        raise ModelError(f"{where}: {error}", error.fault) from None


def build_limits(limits: Limits, settings: Settings) -> Limits:
    """The command line's limits, or else those of the settings."""
    budget = settings.own.budget
    usd = budget.usd if limits.usd is None else limits.usd
    return Limits(limits.turns, usd, limits.tokens or budget.tokens, limits.seconds or budget.seconds)


def open_models(options: Options, workspace: Workspace) -> Models:
    said = workspace.env.get("TEAMWRIGHT_MAX_RETRIES", "")
    given = {GIVEN: options.own_model} if options.own_model else {}
    retries = int(said) if said else RETRIES
    off = workspace.settings.always_thinking is False or workspace.env.get(THINKING) == "0"
    think = options.think and not off
    limits, own = build_limits(options.limits, workspace.settings), workspace.own
    usd = limits.usd if options.known_prices and not limits.tokens and own.unknown_prices == "refuse" else None
    display = options.thinking_display
    models = _routed(workspace, retries, given, think=think, betas=options.betas, display=display, usd=usd)
    named = options.model if options.model and not is_default(options.model) else None
    model = GIVEN if options.own_model else named and models.resolve(named)
    fallback = options.fallback_model and models.resolve(options.fallback_model)
    default = None
    if model is None and not (options.origin.resume or options.origin.last):
        default = default_of(models, workspace)
    wanted = (named or workspace.settings.model or "").strip()
    planned = models.resolve_pair(wanted) if wanted.lower() in PLANNED and model != GIVEN else None
    models = replace(models, model=model, default=default, fallback=fallback, planned=planned)
    models.get_ready(by_opening=not options.interactive)  # a person types first, so slow work can wait
    return models


def open_worker_models(workspace: Workspace) -> Models:
    """Models of a worker, which runs agents of many models with its own keys."""
    check_numbers(workspace.env)
    said = workspace.env.get("TEAMWRIGHT_MAX_RETRIES", "")
    return _routed(workspace, int(said) if said else RETRIES, {})
