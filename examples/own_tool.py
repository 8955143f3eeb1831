"""Give the agent tools of your own: plain functions with types. The model reads their docstrings.

python examples/own_tool.py
"""

from tempfile import TemporaryDirectory
from typing import Annotated

import anyio
from msgspec import Meta

from teamwright import ScriptedModel, ToolContext, ToolError, ToolResult, call, session, tool

STOCK = {"bolt": 120, "nut": 0}


@tool(parallel=True)  # it has no effects, so several calls may run at once
def stock(part: Annotated[str, Meta(description="Name of the part, in the singular")]) -> int:
    """How many of a part are in stock."""
    if part not in STOCK:
        raise ToolError(f"There is no part {part!r}. There are: {', '.join(STOCK)}.")
    return STOCK[part]


@tool
async def order(part: str, count: int, ctx: ToolContext) -> dict[str, object]:
    """Order more of a part."""
    STOCK[part] += count
    return {"part": part, "now": STOCK[part], "ordered_by": ctx.agent[:8]}


# A model decides by itself what to call; this script stands in for one.
SCRIPT = [
    [call("stock", part="bolt"), call("stock", part="nut"), call("stock", part="gear")],
    call("order", part="nut", count=50),
    "There were no nuts, so I ordered 50.",
]


async def main() -> None:
    model = ScriptedModel(SCRIPT)
    with TemporaryDirectory() as home:
        async with session(home, model=model, home=home, tools=[stock, order]) as agent:
            print((await agent.ask("See to it that no part is missing.")).text)
    print(STOCK)
    for message in model.requests[-1].messages:  # the results that the model read
        for result in message.blocks:
            if isinstance(result, ToolResult):
                print("failed" if result.is_error else "fine", *(part.text for part in result.content))


if __name__ == "__main__":
    anyio.run(main)
