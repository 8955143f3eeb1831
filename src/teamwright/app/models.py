"""Which models a session uses, by which names, and what opens them."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from teamwright import __version__
from teamwright.app.options import Options
from teamwright.app.workspace import Workspace
from teamwright.core.ports import Model
from teamwright.models.catalog import Catalog, default_model
from teamwright.models.providers import Providers, ProviderSettings
from teamwright.models.routed import RoutedModel

GIVEN = "script/given"  # the name of a model that the caller made itself
RETRIES = 10


class Models(Struct, frozen=True):
    """What opens them, and the names that were asked for, as `provider/name`; None where nobody said."""

    routed: RoutedModel
    model: str | None
    default: str | None
    fallback: str | None
    catalog: Catalog
    named: tuple[str, ...]

    def resolve(self, name: str) -> str:
        return self.catalog.resolve(name, named=self.named).full

    def checked(self, name: str) -> str:
        """A provider without a key is an error now, not in the agent that is to use it."""
        full = self.resolve(name)
        self.routed.check(full)
        return full

    def get_ready(self, *, by_opening: bool) -> None:
        """No key, no such provider: said before anything begins."""
        for name in filter(None, (self.model, self.default, self.fallback)):
            if by_opening:
                self.routed.open(name)
            else:
                self.routed.check(name)

    def letter_room(self, name: str) -> int:
        """Characters for letters that wait together."""
        return self.window(name) or 200_000

    def window(self, name: str) -> int | None:
        return self.catalog.resolve(name, named=self.named).window


def _routed(
    workspace: Workspace,
    retries: int,
    given: Mapping[str, Model],
    *,
    think: bool = True,
    betas: Sequence[str] = (),
    display: str = "",
) -> Models:
    own = workspace.settings.own
    catalog = Catalog.load(own.windows)
    named = {name: ProviderSettings(p.base_url, p.key_env, p.wire) for name, p in own.providers.items()}
    providers = Providers(
        workspace.env,
        silence=own.model_silence_seconds,
        retries=retries,
        named=named,
        version=__version__,
        betas=betas,
        thinking_display=display,
    )
    routed = RoutedModel(catalog, providers, tuple(named), given, think=think)
    return Models(routed, None, None, None, catalog, tuple(named))


def model_for(workspace: Workspace, name: str | None) -> tuple[RoutedModel, str]:
    """The model that a session here would use, asked without retries; for `doctor`."""
    models = _routed(workspace, 0, {})
    return models.routed, models.resolve(name or default_model(workspace.env, workspace.settings.model))


def open_models(options: Options, workspace: Workspace) -> Models:
    said = workspace.env.get("TEAMWRIGHT_MAX_RETRIES", "")
    given = {GIVEN: options.own_model} if options.own_model else {}
    retries = int(said) if said.isdigit() else RETRIES
    models = _routed(
        workspace, retries, given, think=options.think, betas=options.betas, display=options.thinking_display
    )
    model = GIVEN if options.own_model else options.model and models.resolve(options.model)
    fallback = options.fallback_model and models.resolve(options.fallback_model)
    default = None
    if model is None and not (options.origin.resume or options.origin.last):
        default = models.resolve(default_model(workspace.env, workspace.settings.model))
    models = replace(models, model=model, default=default, fallback=fallback)
    models.get_ready(by_opening=not options.interactive)  # a person types first: what is slow can wait
    return models
