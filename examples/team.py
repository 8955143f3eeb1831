"""Lead a team from code: two teammates share a task list, talk to each other and to you, and are dismissed.

python examples/team.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from teamwright import ScriptedModel, call, session

# A model decides by itself what to do; these scripts stand in for one, one part for each teammate.
LEAVE = {"type": "shutdown_response", "request_id": "{{re:(shutdown-[0-9a-f]+)}}", "approve": True}
SCRIPTS = {
    "cook": [
        "Ready.",
        call("Write", file_path="soup.txt", content="Leek and potatoes.\n"),
        [
            call("TaskUpdate", taskId="1", status="completed"),
            call("SendMessage", to="clerk", summary="what there is", message="It is soup, with leek."),
        ],
        "The soup is done.",
        call("SendMessage", to="team-lead", message=LEAVE),
    ],
    "clerk": [
        "Ready.",  # it is idle now, and takes the next free task by itself
        call("Read", file_path="soup.txt"),
        call("Write", file_path="menu.txt", content="Today: soup\n"),
        call("TaskUpdate", taskId="2", status="completed"),
        "The menu is written.",
        "Soup.",
        call("SendMessage", to="team-lead", message=LEAVE),
    ],
}


async def work(project: Path, home: Path) -> None:
    async with session(project, model=ScriptedModel(SCRIPTS), home=home, permission_mode="acceptEdits") as agent:
        team = await agent.team("kitchen", "lunch")
        await team.spawn("cook", "You cook. SCRIPT:cook")
        await team.spawn("clerk", "You write. SCRIPT:clerk")
        await team.idle()

        soup = await team.add_task("Make soup", "Write to soup.txt what is in it.", owner="cook")
        await team.add_task("Write the menu", "One line, in menu.txt.", blocked_by=[soup.id])
        async for message in team.messages():  # until everybody is idle
            print(f"{message.sender}: {message.text}")
        print("The clerk answers:", await team.ask("clerk", "What is on the menu?"))
        for task in await team.tasks():
            print(f"#{task.id} {task.subject}: {task.status} by {task.owner}")

        for name in ("cook", "clerk"):
            print(f"{name} leaves:", bool(await team.shutdown(name, "it is three o'clock")))
        await team.delete()


def main() -> None:
    with TemporaryDirectory() as place:
        project, home = Path(place, "project"), Path(place, "home")
        project.mkdir()
        anyio.run(work, project, home)
        print("menu.txt:", (project / "menu.txt").read_text().strip())


if __name__ == "__main__":
    main()
