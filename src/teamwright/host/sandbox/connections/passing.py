"""Joins two connections: passes each one's data to the other until both have finished."""

from collections.abc import Sequence

import anyio
import anyio.lowlevel

from teamwright.host.sandbox.connections.relay import Flow, Relay
from teamwright.host.sandbox.connections.wire import Silence, Stream

_TURNS = 8  # pieces moved without waiting before other tasks get a turn


async def join(one: Stream, other: Stream, relay: Relay, most_silence: float) -> None:
    """Passes data both ways until both sides have finished, one is gone, or neither sent anything for `most_silence`
    seconds."""
    await pass_on([Flow(one, other), Flow(other, one)], relay, Silence(most_silence))


async def pass_on(flows: Sequence[Flow], relay: Relay, silence: Silence) -> None:
    """Runs until every source has finished, a sink is gone, or there was silence for too long."""
    if await relay.carry(flows, silence):
        return
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_copy_all, flows, silence, group.cancel_scope)
            while silence.left > 0:  # noqa: ASYNC110
                await anyio.sleep(silence.left)
            group.cancel_scope.cancel()
    except* BrokenPipeError:
        pass  # the receiver is gone


async def _copy_all(flows: Sequence[Flow], silence: Silence, watch: anyio.CancelScope) -> None:
    async with anyio.create_task_group() as group:
        for flow in flows:
            group.start_soon(_copy, flow.source, flow.sink, silence)
    watch.cancel()


async def _copy(source: Stream, sink: Stream, silence: Silence) -> None:
    """Copies on the event loop if there is no relay. Raises BrokenPipeError if the sink is gone."""
    turns = 0
    while piece := await source.receive():
        await sink.send(piece)
        silence.broken()
        turns += 1
        if turns % _TURNS == 0:
            await anyio.lowlevel.checkpoint()
    sink.finish()
