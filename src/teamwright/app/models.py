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


class Names(Struct, frozen=True):
    """Model names as asked for, as `provider/name`; None where nobody said."""

    model: str | None
    default: str | None
    fallback: str | None
    catalog: Catalog
    named: tuple[str, ...]

    def resolve(self, name: str) -> str:
        return self.catalog.resolve(name, named=self.named).full

    def window(self, name: str) -> int | None:
        return self.catalog.resolve(name, named=self.named).window


def _routed(
    ground: Workspace,
    retries: int,
    given: Mapping[str, Model],
    *,
    think: bool = True,
    betas: Sequence[str] = (),
    display: str = "",
) -> tuple[RoutedModel, Names]:
    own = ground.settings.own
    catalog = Catalog.load(own.windows)
    named = {name: ProviderSettings(p.base_url, p.key_env, p.wire) for name, p in own.providers.items()}
    providers = Providers(
        ground.env,
        silence=own.model_silence_seconds,
        retries=retries,
        named=named,
        version=__version__,
        betas=betas,
        thinking_display=display,
    )
    return RoutedModel(catalog, providers, tuple(named), given, think=think), Names(
        None, None, None, catalog, tuple(named)
    )


def model_for(ground: Workspace, name: str | None) -> tuple[RoutedModel, str]:
    """The model that a session here would use, asked without retries; for `doctor`."""
    models, names = _routed(ground, 0, {})
    return models, names.resolve(name or default_model(ground.env, ground.settings.model))


def open_models(options: Options, ground: Workspace) -> tuple[RoutedModel, Names]:
    said = ground.env.get("TEAMWRIGHT_MAX_RETRIES", "")
    given = {GIVEN: options.own_model} if options.own_model else {}
    retries = int(said) if said.isdigit() else RETRIES
    models, names = _routed(
        ground, retries, given, think=options.think, betas=options.betas, display=options.thinking_display
    )
    model = GIVEN if options.own_model else options.model and names.resolve(options.model)
    fallback = options.fallback_model and names.resolve(options.fallback_model)
    default = None
    if model is None and not (options.origin.resume or options.origin.last):
        default = names.resolve(default_model(ground.env, ground.settings.model))
    get_ready = models.check if options.interactive else models.open  # a person types first: what is slow can wait
    for name in (model, default, fallback):
        if name is not None:
            get_ready(name)  # no key, no such provider: said before anything begins
    return models, replace(names, model=model, default=default, fallback=fallback)
