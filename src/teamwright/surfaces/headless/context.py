"""How full the main agent's window is, for a program that drives us."""

from typing import Any

import msgspec

from teamwright.core.policies.compaction import SHARE, size
from teamwright.runtime.session import Session
from teamwright.surfaces.headless.lines import bare

CHARACTERS = 4  # of one token, roughly


async def context_usage(session: Session) -> dict[str, Any]:
    """Parts are estimated by their length; the whole is what the provider last counted, where it did."""
    main = session.main
    system = sum(map(len, main.prompt.system)) // CHARACTERS
    tools = {tool.name: len(msgspec.json.encode(tool)) // CHARACTERS for tool in main.prompt.tools}
    said = sum(size(message) for message in main.history.messages) // CHARACTERS
    counted = main.history.tokens
    messages = max(counted - system - sum(tools.values()), said) if counted else said
    served = {name: tokens for name, tokens in tools.items() if name.startswith("mcp__")}
    parts = {
        "System prompt": system,
        "System tools": sum(tools.values()) - sum(served.values()),
        "MCP tools": sum(served.values()),
        "Messages": messages,
    }
    window = await session.window() or 0
    total = sum(parts.values())
    return {
        "categories": [{"name": name, "tokens": tokens, "color": ""} for name, tokens in parts.items() if tokens],
        "totalTokens": total,
        "maxTokens": window,
        "rawMaxTokens": window,
        "percentage": round(100 * total / window, 1) if window else 0,
        "model": bare(main.model),
        "isAutoCompactEnabled": True,
        "autoCompactThreshold": int(window * SHARE),
        "memoryFiles": [],
        "mcpTools": [
            {"name": name, "serverName": name.split("__")[1], "tokens": tokens, "isLoaded": True}
            for name, tokens in served.items()
        ],
        "agents": [],
        "gridRows": [],
    }
