"""Two connections joined: what one says goes to the other, until both have said all."""

from collections.abc import Sequence

import anyio
import anyio.lowlevel

from teamwright.host.sandbox.connections.relay import Flow, Relay
from teamwright.host.sandbox.connections.wire import Silence, Stream

_TURNS = 8  # pieces that never had to wait, before others on the loop get their turn


async def join(one: Stream, other: Stream, relay: Relay, most_silence: float) -> None:
    """Both ways until both have said all, one has gone, or nothing was said for so many seconds."""
    await pass_on([Flow(one, other), Flow(other, one)], relay, Silence(most_silence))


async def pass_on(flows: Sequence[Flow], relay: Relay, silence: Silence) -> None:
    """Until every source has said all, a sink has gone, or nobody said anything for too long."""
    if await relay.carry(flows, silence):
        return
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_copy_all, flows, silence, group.cancel_scope)
            while silence.left > 0:  # noqa: ASYNC110
                await anyio.sleep(silence.left)
            group.cancel_scope.cancel()
    except* BrokenPipeError:
        pass  # there is nobody left to say it to


async def _copy_all(flows: Sequence[Flow], silence: Silence, watch: anyio.CancelScope) -> None:
    async with anyio.create_task_group() as group:
        for flow in flows:
            group.start_soon(_copy, flow.source, flow.sink, silence)
    watch.cancel()


async def _copy(source: Stream, sink: Stream, silence: Silence) -> None:
    """On the loop, where there is no relay. Raises BrokenPipeError where the sink has gone."""
    turns = 0
    while piece := await source.receive():
        await sink.send(piece)
        silence.broken()
        turns += 1
        if turns % _TURNS == 0:
            await anyio.lowlevel.checkpoint()
    sink.finish()
