"""Decides which worker runs a remote agent, from what the agent needs and what each worker offers."""

from collections.abc import Sequence

from msgspec import Struct

from teamwright.core.data.definition import AgentDefinition
from teamwright.core.data.team import ProcessId

MOST_LOSSES = 3  # workers lost at the same point of the work before an agent is given up


class Needs(Struct, frozen=True):
    """What a worker must have to run an agent."""

    provider: str = ""  # provider of its model
    labels: tuple[tuple[str, str], ...] = ()
    bypass: bool = False  # it runs in bypassPermissions


class Offer(Struct):
    """A worker that can take agents. `used` counts the agents at work; a waiting one needs no slot."""

    process: ProcessId
    name: str
    slots: int
    labels: tuple[tuple[str, str], ...] = ()
    providers: tuple[str, ...] = ()
    bypass: bool = False
    used: int = 0

    @property
    def free(self) -> int:
        return self.slots - self.used


def choose_worker(needs: Needs, offers: Sequence[Offer], *, works: bool = True) -> Offer | None:
    """Of the workers that fit, the one with the most free slots, else the first. `works`: the agent takes a slot."""
    fit = [offer for offer in offers if fits(needs, offer) and (offer.free > 0 or not works)]
    return max(fit, key=lambda offer: offer.free, default=None)


def fits(needs: Needs, offer: Offer) -> bool:
    has_key = not needs.provider or needs.provider in offer.providers
    has_labels = not needs.labels or set(needs.labels) <= set(offer.labels)
    return has_key and has_labels and (offer.bypass or not needs.bypass)


def shortage(needs: Needs, offers: Sequence[Offer]) -> str:
    """Describes what an agent is waiting for when no worker could be found."""
    if not offers:
        return "a worker: none is there"
    left, asked = list(offers), list[str]()
    if needs.provider:
        left = [offer for offer in left if needs.provider in offer.providers]
        asked.append(f"with a key for {needs.provider}")
    if left and needs.labels:
        left = [offer for offer in left if set(needs.labels) <= set(offer.labels)]
        asked = [f"with {', '.join(f'{key}={value}' for key, value in needs.labels)}"]
    if left and needs.bypass:
        left = [offer for offer in left if offer.bypass]
        asked = ["with --allow-bypass"]
    if not left:
        return f"a worker {asked[-1]}"
    slots = sum(offer.slots for offer in left)
    there = f"{len(left)} is there" if len(left) == 1 else f"{len(left)} are there"
    return f"a worker: {there}, all {slots} slots are taken"


def cannot_travel(definition: AgentDefinition) -> str:
    """Why agents of this kind cannot run on a worker; empty if they can. Hooks may refuse calls, so none may be left
    out."""
    if definition.hooks:
        return (
            f"Agents of kind {definition.name} have hooks of their own, which cannot run on a worker. Run it here, or "
            "put the hooks into the settings: those are asked for agents on workers too."
        )
    if definition.required_mcp_servers:
        named = ", ".join(definition.required_mcp_servers)
        return f"Agents of kind {definition.name} need MCP servers ({named}), and workers have none. Run it here."
    return ""


def left_behind(definition: AgentDefinition) -> str:
    """Describes what the definition asks for and a worker does not have; empty if nothing is missing."""
    lists = {
        "MCP servers": definition.mcp_servers,
        "memory": definition.memory,
        "skills of the person": definition.skills,
    }
    missing = [name for name, asked in lists.items() if asked]
    return f"not available on a worker: {', '.join(missing)}" if missing else ""
