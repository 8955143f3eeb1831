"""Describes a session to a driving program: the init line, and the answer to `initialize`."""

import os
from typing import Any

from teamwright import __version__
from teamwright.runtime.driven_session import DrivenSession
from teamwright.runtime.port import Named
from teamwright.runtime.slash_commands import COMMANDS

PROTOCOL_LEVEL = "2.1.325"  # version of the line protocol that driving programs expect
KEYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY")


def init_of(session: DrivenSession) -> dict[str, Any]:
    """`system/init`, except what is specific to the main agent."""
    return {
        "tools": session.tools,
        "agents": list(session.kinds),
        "skills": session.offered_skills,
        "slash_commands": [command.name for command in _commands(session)],
        "mcp_servers": [{"name": s["name"], "status": s["status"]} for s in servers_of(session)],
        "version": __version__,
        "claude_code_version": PROTOCOL_LEVEL,
        "sandbox": dict(session.sandbox),
        "output_style": "default",
        "apiKeySource": next((name for name in KEYS if os.environ.get(name)), "none"),
    } | ({"engine": dict(session.engine)} if session.engine else {})


def _commands(session: DrivenSession) -> list[Named]:
    """Everything that can be called as `/name`."""
    return [*(Named(name, words) for name, words in COMMANDS.items()), *session.commands]


def greeting_of(session: DrivenSession) -> dict[str, Any]:
    """The answer to `initialize`."""
    return {
        "commands": [
            {"name": command.name, "description": command.description, "argumentHint": command.hint}
            for command in _commands(session)
        ],
        "agents": [{"name": d.name, "description": d.description} for d in session.kinds.values()],
        "models": [{"value": name, "displayName": name, "description": ""} for name in session.model_names],
        "output_style": "default",
        "available_output_styles": ["default"],
        "account": {},
        "pid": os.getpid(),
        "hook_on_failure_supported": True,
    }


def servers_of(session: DrivenSession) -> list[dict[str, Any]]:
    """MCP servers as they are now, with their own names for their tools."""
    return [
        {"name": s.name, "status": s.status, "tools": [{"name": name.split("__", 2)[-1]} for name in s.tools]}
        | ({"error": s.error} if s.error else {})
        for s in session.servers()
    ]
