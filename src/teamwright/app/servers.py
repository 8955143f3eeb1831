"""Which MCP servers a session has: what settings, the project and the command line say together."""

from collections.abc import Sequence

from teamwright.app.ground import Ground
from teamwright.library.mcp_config import Servers, Written, find_servers


def configured(ground: Ground, flags: Sequence[str] = (), *, strict: bool = False) -> Servers:
    """`flags` are those of `--mcp-config`; `strict` is `--strict-mcp-config`."""
    settings = [Written(x.source, x.file, x.values["mcp"]) for x in ground.settings.layers if x.values.get("mcp")]
    return find_servers(
        ground.project, trusted=ground.trusted, env=ground.env, settings=settings, flags=flags, strict=strict,
        cwd=ground.cwd,
    )  # fmt: skip
