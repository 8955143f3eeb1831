"""Which worker gets an agent, and what is said if none does."""

import pytest

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.team import ProcessId
from teamwright.core.policies.placing import Needs, Offer, cannot_travel, choose_worker, left_behind, shortage

pytestmark = pytest.mark.spec("Z7", "Z6")
KEY = Needs("anthropic")


def offer(name: str, slots: int = 2, used: int = 0, **more: object) -> Offer:
    rest = {"labels": (), "providers": ("anthropic",), "bypass": False} | more
    return Offer(ProcessId(name), name, slots, used=used, **rest)  # pyright: ignore[reportArgumentType] -- by name


def chosen(needs: Needs, *offers: Offer, works: bool = True) -> str | None:
    found = choose_worker(needs, offers, works=works)
    return found.name if found else None


def test_most_free_slots_then_first_come() -> None:
    assert chosen(KEY, offer("a", 4, 3), offer("b", 2, 0)) == "b"
    assert chosen(KEY, offer("a"), offer("b")) == "a"


def test_one_that_works_needs_a_slot_and_one_that_waits_does_not() -> None:
    full = offer("a", 1, 1)
    assert chosen(KEY, full) is None
    assert chosen(KEY, full, works=False) == "a"


def test_key_labels_and_bypass() -> None:
    gpu = Needs("anthropic", (("gpu", "yes"),))
    both = (("gpu", "yes"), ("zone", "b"))
    assert chosen(gpu, offer("a"), offer("b", labels=both)) == "b"
    assert chosen(Needs("openai"), offer("a")) is None
    assert chosen(Needs("anthropic", bypass=True), offer("a"), offer("b", bypass=True)) == "b"


@pytest.mark.parametrize(
    ("needs", "offers", "words"),
    [
        (KEY, [], "a worker: none is there"),
        (KEY, [offer("a", 4, 4), offer("b", 4, 4)], "a worker: 2 are there, all 8 slots are taken"),
        (Needs("openai"), [offer("a")], "a worker with a key for openai"),
        (Needs("anthropic", (("gpu", "yes"),)), [offer("a")], "a worker with gpu=yes"),
        (Needs("anthropic", bypass=True), [offer("a")], "a worker with --allow-bypass"),
    ],
)
def test_what_is_missing_is_said(needs: Needs, offers: list[Offer], words: str) -> None:
    assert shortage(needs, offers) == words


@pytest.mark.spec("Z15")
def test_what_would_be_left_out_in_silence_cannot_travel() -> None:
    """A hook may refuse calls, so an agent with one does not run where the hook would not be asked."""
    assert "hooks of their own" in cannot_travel(
        AgentDefinition(name="guarded", description="x", hooks={"PreToolUse": []})
    )
    assert "git-server" in cannot_travel(
        AgentDefinition(name="served", description="x", required_mcp_servers=("git-server",))
    )
    plain = AgentDefinition(name="plain", description="x", mcp_servers=("a",), memory="user")
    assert cannot_travel(plain) == "" and left_behind(plain) == "not available on a worker: MCP servers, memory"
    assert left_behind(AgentDefinition(name="bare", description="x")) == ""
