"""Retries transient failures with growing pauses, and holds back all callers if a provider asks for it."""

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import anyio
from msgspec import Struct, field

from teamwright.core.data.message import Retrying
from teamwright.core.errors import ModelError
from teamwright.core.ports import OnDelta
from teamwright.models.faults import Failed

T = TypeVar("T")
FIRST = 0.5  # seconds before the first retry
LONGEST = 30.0  # seconds between attempts, unless the server asks for more
MOST_ASKED = 600.0  # seconds; a server that asks for a longer wait is not retried
FEW = 3  # retries if nobody answers at all: usually a wrong address or a stopped server


class Patience(Struct, frozen=True):
    """How often to retry, and the clock to use."""

    retries: int = 10
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random


class Brake(Struct):
    """Shared by all requests to a provider: none starts before `until`."""

    until: float = 0.0

    def press(self, until: float) -> None:
        self.until = max(self.until, until)


class Reach(Struct, frozen=True):
    """How to reach an endpoint. `headers` include the key; the two names are the variables that set key and address."""

    base: str
    headers: Mapping[str, str] = {}
    key_name: str = "the key"
    base_name: str = "the address"
    max_output: int | None = None
    patience: Patience = Patience()
    brake: Brake = field(default_factory=Brake)


async def persist(attempt: Callable[[], Awaitable[T]], patience: Patience, brake: Brake, on_delta: OnDelta) -> T:
    """Runs `attempt` until it succeeds, fails permanently, or retries are used up."""
    failures = 0
    while True:
        await _wait_for_brake(patience, brake)
        try:
            return await attempt()
        except Failed as failed:
            failures += 1
            wait = _pause(failed, failures, patience)
            if wait is None:
                raise _given_up(failed, failures) from failed
            if failed.after and failed.status in (429, 529):
                brake.press(patience.clock() + failed.after)
            most, status = _most(failed, patience), failed.status
            on_delta(Retrying(failures, most, wait, str(failed), failed.fault, status, failed.lost))
        await patience.sleep(wait)


def _most(failed: Failed, patience: Patience) -> int:
    """The number of retries that this kind of fault is worth."""
    return {"no": 0, "few": min(FEW, patience.retries), "many": patience.retries}[failed.tries]


def _pause(failed: Failed, failures: int, patience: Patience) -> float | None:
    """Seconds until the next attempt; None if there is none."""
    if failures > _most(failed, patience) or (failed.after or 0.0) > MOST_ASKED:
        return None
    # up to half of it is random, so that agents that failed together do not retry together
    pause = min(LONGEST, FIRST * 2.0 ** min(failures - 1, 16)) * (0.5 + patience.random() / 2)
    return pause if failed.after is None else max(pause, failed.after)


async def _wait_for_brake(patience: Patience, brake: Brake) -> None:
    while (left := brake.until - patience.clock()) > 0:
        await patience.sleep(left + patience.random() * min(1.0, left))


def _given_up(failed: Failed, failures: int) -> ModelError:
    text = str(failed)
    if failed.tries != "no" and (failed.after or 0.0) > MOST_ASKED:
        text += f" It asks for {round((failed.after or 0.0) / 60)} minutes of patience, which is too long to wait here."
    elif failures > 1:
        text += f" Gave up after {failures} attempts."
    error = ModelError(text, failed.fault, status=failed.status, said=failed.said)
    error.lost = failed.lost
    return error
