"""Answer permission questions from code, where a person would be asked.

python examples/answer_questions.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from teamwright import Allow, Deny, Question, ScriptedModel, call, session


async def answer(question: Question) -> Allow | Deny:
    """Notes may be written; anything else is refused with a reason that the model reads."""
    print(f"asked: {question.tool} {question.args}\n  because {question.reason}")
    path = Path(str(question.args.get("file_path", "")))
    if question.tool == "Write" and path.suffix == ".md":
        # A yes may change what is done.
        return Allow({**question.args, "content": f"<!-- by an agent -->\n{question.args['content']}"})
    return Deny("Only notes (.md) may be written here. Say in words what you wanted to do.")


SCRIPT = [
    [call("Write", file_path="plan.md", content="1. Measure.\n"), call("Bash", command="touch built")],
    "The plan is written. I was not allowed to build.",
]


async def work(project: Path, home: Path) -> None:
    async with session(project, model=ScriptedModel(SCRIPT), home=home, answer=answer) as agent:
        print((await agent.ask("Plan the work and begin.")).text)


def main() -> None:
    with TemporaryDirectory() as place:
        project, home = Path(place, "project"), Path(place, "home")
        project.mkdir()
        anyio.run(work, project, home)
        for file in project.iterdir():
            print(f"{file.name}: {file.read_text()!r}")


if __name__ == "__main__":
    main()
