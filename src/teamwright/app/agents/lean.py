"""Decides whether a session is lean: a short prompt and six tools, for a model whose window the rest would fill."""

from teamwright.app.setup import Setup
from teamwright.core.errors import UsageError
from teamwright.runtime.agents.resume import Opened
from teamwright.store.files import prompts
from teamwright.tools.lean import LEAN, is_lean

BELOW = 16_384  # tokens of a window; the usual prompt and tools take about 6,000


async def choose_lean(setup: Setup, opened: Opened) -> bool:
    """By the option, else as the session was before, else by the settings, else by the model's window, with a note."""
    options, features, own = setup.options, setup.registry.features, setup.workspace.own
    if options.lean and (features.coordinator or options.team):
        raise UsageError("--lean leaves out the tools that --coordinator and --team need; use one or the other")
    if options.lean is not None:
        return options.lean
    if (rendered := opened.history.rendered) is not None:
        return is_lean(prompts.get(opened.files.prompts, rendered.prompt)[1])
    if own.lean is not None:
        return own.lean and not (features.coordinator or options.team)
    return await _fits_badly(setup)


async def _fits_badly(setup: Setup) -> bool:
    models = setup.models
    name = models.model or models.default
    if name is None:
        return False
    window, providers = models.window(name), models.routed.providers
    if window is None and providers.is_own(name.partition("/")[0]) and not _is_set_up(setup):
        window = await models.routed.window(name)
    if window is None or window >= BELOW or _is_set_up(setup):
        return False
    setup.notes.append(
        f"{name} has a window of {window:,} tokens: the session is lean, with a short prompt and the tools "
        f"{', '.join(LEAN)}. Use --no-lean for all tools, or give the model a larger window."
    )
    return True


def _is_set_up(setup: Setup) -> bool:
    """Whether the person chose tools, a role or agents: then nothing is left out unasked."""
    options = setup.options
    chosen = (options.tools, options.agent, options.agents, options.team, options.system_prompt)
    if options.driven or options.definitions or any(given is not None for given in chosen):
        return True
    return setup.registry.features.coordinator or options.assistant or options.proactive
