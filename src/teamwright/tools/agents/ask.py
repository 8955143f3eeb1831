"""AskUserQuestion: asks the person questions with options. If nobody is attached, the model decides by itself."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from teamwright.core.errors import ToolError
from teamwright.core.ids import new_question_id
from teamwright.core.permissions.consent import Deny, Question
from teamwright.core.ports import Outcome, ToolContext, said
from teamwright.runtime.services import services_of
from teamwright.runtime.tool_traits import Args, ToolTraits, first_text
from teamwright.tools.define import read_args, spec

DESCRIPTION = """\
Asks the person where the choice is really theirs. They can always give another answer than the options."""

DECLINED = (
    "Nobody is there to answer: this session runs without a person. Decide yourself: take the choice that is easiest "
    "to undo and closest to what was asked for, go on, and say in your answer what you assumed and why."
)
UNANSWERED = "The person did not answer. Decide yourself, go on, and say in your answer what you assumed and why."


class Option(Struct):
    label: Annotated[str, Meta(description="What they choose; one to five words.")]
    description: Annotated[str, Meta(description="What choosing it means")]


class AskedQuestion(Struct, rename="camel"):
    question: Annotated[str, Meta(description="The whole question")]
    header: Annotated[str, Meta(description="A label of at most 12 characters")]
    options: Annotated[list[Option], Meta(min_length=2, max_length=4)]
    multi_select: Annotated[bool, Meta(description="May several options be chosen?")] = False


class AskArgs(Struct):
    questions: Annotated[list[AskedQuestion], Meta(min_length=1, max_length=4)]


def _subject(args: Args) -> str:
    questions = args.get("questions")
    if not isinstance(questions, list):
        return first_text(args)
    asked = (cast("dict[str, Any]", one) for one in cast("list[Any]", questions) if isinstance(one, dict))
    return " · ".join(str(one.get("question", "")) for one in asked)


class AskTool:
    """If nobody can be asked, arguments are not even checked: a corrected call would be declined too."""

    spec = spec("AskUserQuestion", DESCRIPTION, AskArgs, parallel=True)
    traits = ToolTraits(name=spec.name, effects="none", audience="person", own=True, asks="questions", subject=_subject)

    async def call(self, args: Mapping[str, Any], ctx: ToolContext) -> Outcome:
        services = services_of(ctx)
        put = services.person
        if put is None:
            raise ToolError(DECLINED)
        asked = read_args(AskArgs, args)
        agent = services.supervisor.agent(ctx.agent)
        assert agent is not None
        question = Question(
            new_question_id(),
            agent.id,
            agent.name,
            ctx.call_id,
            self.spec.name,
            dict(args),
            "The agent asks you to choose.",
            kind="ask",
        )
        async with agent.slot.waiting():
            decision = await put(question)
        if isinstance(decision, Deny):
            return replace(said(decision.reason, is_error=True), words=decision.words, consent=decision.consent)
        answers = _answers(decision.args or {})
        if not answers:
            raise ToolError(UNANSWERED)
        lines = [f"{one.question} {answers[one.question]}" for one in asked.questions if one.question in answers]
        words = "\n".join(lines)
        told = said(f"The user answered:\n{words}", {"questions": args["questions"], "answers": answers})
        return replace(told, words=words, consent=decision.consent)


def _answers(args: Mapping[str, Any]) -> dict[str, str]:
    """Answers by question text, as the surface stored them beside the questions."""
    found = args.get("answers")
    if not isinstance(found, dict):
        return {}
    return {str(key): str(value) for key, value in cast("dict[Any, Any]", found).items()}
