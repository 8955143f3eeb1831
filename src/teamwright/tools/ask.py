"""AskUserQuestion where nobody is there to answer: the call is declined, and the model decides by itself."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from teamwright.core.errors import ToolError
from teamwright.core.ports import Outcome, ToolContext
from teamwright.tools.define import spec

DESCRIPTION = """\
Asks the user one to four questions with two to four options each, where a choice is really theirs to make. \
The user can always give another answer of their own."""

DECLINED = (
    "Nobody is there to answer: this session runs without a person. Decide yourself: take the choice that is easiest "
    "to undo and closest to what was asked for, go on, and say in your answer what you assumed and why."
)


class Option(Struct):
    label: Annotated[str, Meta(description="What the user sees and chooses; one to five words.")]
    description: Annotated[str, Meta(description="What choosing it means.")]


class AskedQuestion(Struct, rename="camel"):
    question: Annotated[str, Meta(description="The whole question, ending with a question mark.")]
    header: Annotated[str, Meta(description="A very short label, at most 12 characters.")]
    options: Annotated[list[Option], Meta(min_length=2, max_length=4)]
    multi_select: Annotated[bool, Meta(description="May several options be chosen?")] = False


class AskArgs(Struct):
    questions: Annotated[list[AskedQuestion], Meta(min_length=1, max_length=4)]


class AskTool:
    """The headless form. Arguments are not even checked: a corrected call would be declined as well."""

    spec = spec("AskUserQuestion", DESCRIPTION, AskArgs, parallel=True)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        raise ToolError(DECLINED)
