"""Language servers of a session. Those that a project's settings name run in the sandbox, like its other servers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from teamwright.runtime.extensions.languages import LanguageGround, Languages
from teamwright.runtime.sandbox.use import brought_place

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from teamwright.app.services import Services
    from teamwright.runtime.sandbox.use import Program


def open_languages(services: "Services") -> Languages:
    workspace = services.workspace
    layers = workspace.settings.layers
    files = {name: layer.file for layer in layers for name in layer.values.get("lsp", {})}  # the last layer wins

    def place(name: str, env: Mapping[str, str], argv: tuple[str, ...]) -> "AbstractAsyncContextManager[Program]":
        return brought_place(services, workspace.project, files.get(name, ""), env, argv, server=True)

    ground = LanguageGround(workspace.project, workspace.env, services.log, place)
    return Languages(workspace.settings.lsp, ground, services.supervisor.launch)
