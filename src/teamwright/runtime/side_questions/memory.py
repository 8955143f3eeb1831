"""Notes for later sessions: asked of the main agent in a side question, and stored by us."""

from collections.abc import Callable

from anyio import to_thread
from msgspec import Struct

from teamwright.core.policies import notes
from teamwright.runtime.agents.agent import Agent
from teamwright.runtime.side_questions.fork import run_forked
from teamwright.store.files.memories import Notebook

WORTH_IT = 2_000  # characters: shorter notes need no shortening


class Memory(Struct, frozen=True):
    """`clean` removes secrets from what is kept."""

    book: Notebook
    clean: Callable[[str], str]
    today: Callable[[], str]


async def take_notes(agent: Agent, memory: Memory) -> int:
    """Ask for notes, in one request, and store them: the agent has no tool for that. Returns how many are new."""
    known = await to_thread.run_sync(memory.book.read)
    done = await run_forked(agent, [notes.ask_for_notes(known)])
    return await to_thread.run_sync(memory.book.add, memory.clean(done.text), memory.today())


async def consolidate(agent: Agent, memory: Memory) -> bool:
    """Ask for shorter notes, in one request on the agent's prompt, without its conversation, which is not needed."""
    known = await to_thread.run_sync(memory.book.read)
    if len(known) < WORTH_IT or await to_thread.run_sync(memory.book.is_fresh):
        return False
    done = await run_forked(agent, [notes.ask_for_shorter(known)], base=())
    return await to_thread.run_sync(memory.book.rewrite, memory.clean(done.text), known, memory.today())
