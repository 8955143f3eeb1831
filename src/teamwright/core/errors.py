"""The one tree of errors that are raised on purpose. Anything else that escapes is a bug."""

from typing import Literal

Fault = Literal[
    "auth",  # 401, 403: the key is wrong or may not do this
    "bad_request",  # 400: the provider will never take this request
    "not_found",  # 404: no such model or endpoint
    "too_large",  # 413
    "context",  # the conversation does not fit the model's window
    "rate_limit",  # 429
    "overloaded",  # 529
    "server",  # 5xx
    "network",  # could not connect, reset, cut stream
    "silence",  # connected, but no bytes for too long
    "config",  # no key, no such provider: nothing was sent
]


class TeamwrightError(Exception):
    """Base of every error that we raise on purpose; its text is one clear sentence for a person."""


class ToolError(TeamwrightError):
    """Text for the model: what went wrong and what to do instead."""


class AgentLost(ToolError):
    """An agent that can never be resumed, whatever anybody does."""


class ModelError(TeamwrightError):
    """The provider gave up, or we gave up on it; retries have already happened."""

    def __init__(self, message: str, fault: Fault, *, status: int | None = None, said: str = "") -> None:
        super().__init__(message)
        self.fault: Fault = fault
        self.status = status
        self.said = said  # the provider's own words, if there were any
        self.lost = False  # the last attempt was sent and not refused: the provider may bill it


class UsageError(TeamwrightError):
    """The program was called incorrectly; exit status 2."""


class NoAnswer(TeamwrightError):
    """The one who was asked did not answer, in time or at all."""


class HookStop(TeamwrightError):
    """A hook ended the turn."""


class SettingsError(TeamwrightError):
    """A file that a person wrote cannot be read as it is."""


class StoreError(TeamwrightError):
    """Our own files are unusable: damaged, newer than this program, or unwritable."""


class NotAllowed(StoreError):
    """A change beyond the rights of the requesting process."""


class DiskError(StoreError):
    """Our own disk fails to store or return what it must; the caller must not continue."""


class Fenced(DiskError):
    """A change by a process that was silent too long: others may have taken over what it held."""


class SessionBusy(TeamwrightError):
    """Another process is running this session."""


class SessionMissing(TeamwrightError):
    """There is no such session."""


def only_one(error: Exception) -> Exception:
    """Unwraps the exception if it is the only one in its group, as when a session cannot be opened."""
    parts = getattr(error, "exceptions", ())
    return only_one(parts[0]) if len(parts) == 1 else error
