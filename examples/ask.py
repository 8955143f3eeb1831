"""Ask an agent one thing and watch it work.

python examples/ask.py                             a script plays the model; needs no key
python examples/ask.py "What is here?" sonnet      a real model, in the current directory
"""

import sys
from tempfile import TemporaryDirectory

import anyio

from teamwright import Denied, Replied, ScriptedModel, ToolEnded, call, session

SCRIPT = [["I look around first.", call("Bash", command="pwd && ls")], "This is where I am; I changed nothing."]


async def main(prompt: str, model: str | ScriptedModel) -> None:
    # Without `home` the session is kept in ~/.teamwright, and `resume=ID` can go on with it.
    with TemporaryDirectory() as home:
        async with session(model=model, home=home) as agent, anyio.create_task_group() as group:
            watch = agent.watch(deltas=False)

            async def show() -> None:
                async for record in watch:
                    match record.event:
                        case Replied(message=message):
                            for wanted in message.calls:
                                print(f"calls {wanted.name} {wanted.args}")
                        case ToolEnded(is_error=failed):
                            print("  failed" if failed else "  fine")
                        case Denied(reason=reason):
                            print(f"  {reason}")

            group.start_soon(show)
            end = await agent.ask(prompt)
            watch.close()
        print(end.text or end.error)


if __name__ == "__main__":
    question, name = [*sys.argv[1:], "", ""][:2]
    anyio.run(main, question or "Where are you?", name or ScriptedModel(SCRIPT))
