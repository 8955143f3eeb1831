"""The answer to `get_context_usage`: how full the main agent's window is."""

from typing import Any

from teamwright.core.data.api_json import bare
from teamwright.core.policies.compaction import SHARE
from teamwright.runtime.driven_session import DrivenSession


async def context_usage(session: DrivenSession) -> dict[str, Any]:
    used = await session.measure_context()
    served = {name: tokens for name, tokens in used.tools.items() if name.startswith("mcp__")}
    parts = {
        "System prompt": used.system,
        "System tools": sum(used.tools.values()) - sum(served.values()),
        "MCP tools": sum(served.values()),
        "Messages": used.messages,
    }
    total, window = sum(parts.values()), used.window
    return {
        "categories": [{"name": name, "tokens": tokens, "color": ""} for name, tokens in parts.items() if tokens],
        "totalTokens": total,
        "maxTokens": window,
        "rawMaxTokens": window,
        "percentage": round(100 * total / window, 1) if window else 0,
        "model": bare(used.model),
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
