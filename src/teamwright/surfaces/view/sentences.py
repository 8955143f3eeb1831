"""Sentences that several surfaces share: a person's refusal, and the retry of a request."""

from teamwright.core.data.message import Retrying

SAID_NO, SAID_WHY = "The person said no.", " They say: "  # as the model reads it


def refusal(why: str = "") -> str:
    """A person's no, as the model reads it."""
    return f"{SAID_NO}{SAID_WHY}{why}" if why else SAID_NO


def to_person(text: str) -> str:
    """The same refusal for the person who gave it."""
    return text.replace(f"{SAID_NO}{SAID_WHY}", "You said no: ").replace(SAID_NO, "You said no.")


def retry_words(delta: Retrying) -> str:
    """What failed, without its advice, and when it is tried again."""
    end = "). " if "). " in delta.reason else ". "  # a server's own words stand in parentheses
    fault = f"{delta.reason.partition(end)[0]}{end.strip()}" if end in delta.reason else delta.reason
    wait = f" in {delta.wait:.0f} s" if delta.wait >= 1 else ""
    return f"{fault.rstrip('.')}. Retry {delta.attempt} of {delta.attempts}{wait}."
