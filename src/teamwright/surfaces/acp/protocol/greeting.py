"""The answer to `initialize`: who we are and what we can do. It imports nothing else."""

from typing import Any

from teamwright import __version__

VERSION = 1  # newest version of the protocol that we speak
HOW_TO_GET_A_MODEL = (
    "No model is set up: set ANTHROPIC_API_KEY or OPENAI_API_KEY where the editor is started, or set OPENAI_BASE_URL "
    "for a server of your own, or name a model after --model or in the settings."
)


def greeting() -> dict[str, Any]:
    sessions = ("list", "resume", "close", "delete", "fork", "additionalDirectories")
    return {
        "protocolVersion": VERSION,
        "agentInfo": {"name": "teamwright", "title": "Teamwright", "version": __version__},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {name: {} for name in sessions},
            "_meta": {"claudeCode": {"promptQueueing": True}},
        },
        "authMethods": [{"id": "model", "name": "Set up a model", "description": HOW_TO_GET_A_MODEL}],
        "_meta": {"steering": {"supported": True}},
    }
