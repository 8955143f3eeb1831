"""Hints about the next key to press in the demo, until each has been tried."""

from teamwright.surfaces.view.newcomer import Newcomer

_READ = "Tab and Enter open a step · Shift+Up/Down: another agent · Esc: back to the lead"


def advice(seen: Newcomer, *, over: bool = False) -> str:
    """The next thing to do; `over`: the story has ended."""
    if seen.asked:
        return f"{seen.asked} waits for your answer: {'Esc, then ' if seen.page else ''}Enter opens the question"
    if seen.elsewhere:
        return f"{seen.elsewhere}, in a tree of its own. {_READ}"
    if not seen.team:
        return "a script plays the model; files, git, mail and tasks are real. The lead makes a team: watch"
    if seen.page == "agents" and not seen.tried_reading:
        return "Down and Enter open a teammate's conversation · F2: tasks, then mail · Esc closes"
    if seen.page:
        return "F2: agents, tasks, mail, one after the other · Enter shows all of one · Esc closes"
    if not seen.tried_side:
        return "F2 shows the team: who does what, its tasks, its mail"
    if not seen.tried_reading:
        return "Shift+Down opens ada's conversation, once more ben's; Esc comes back"
    if over:
        return "the story is over. Look around as long as you like; Ctrl+C twice leaves"
    return "Ctrl+O opens all steps · F2 shows the team · Ctrl+C twice leaves"
