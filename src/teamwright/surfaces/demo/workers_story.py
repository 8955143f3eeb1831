"""Replies of the scripted model in the demo with workers: in a file, because other processes play them."""

import json
from typing import Any

from teamwright.core.permissions.rules import AGENT, BASH, EDIT, READ
from teamwright.surfaces.demo.shop import LABELS, PRICES
from teamwright.tools.agents.messages import SendMessage
from teamwright.tools.agents.team import TeamCreate

PROMPT = "Fix the shop with two teammates, and merge their work."
COMMITS = ("A shop", "cheapest() of an empty list is None", "Prices with two digits")
_ADA, _BEN = "You look after prices.py.", "You look after labels.py."
_PAUSE = 4  # seconds in which ada thinks, and her worker is killed
_TESTS = "python3 -m unittest -q test_prices test_labels"
_READY = "git rev-parse -q --verify worktree-ada && git rev-parse -q --verify worktree-ben"
_WAIT = f"until {_READY}; do sleep 0.3; done"
_MERGE = "git merge -q --no-edit worktree-ada && git merge -q --no-edit worktree-ben"


def _use(name: str, /, **input: Any) -> dict[str, Any]:
    return {"tool": name, "input": input}


def _teammate(file: str, change: tuple[str, str], words: tuple[str, str, str], pause: float) -> list[Any]:
    """The teammate reads, edits, commits, and agrees to shut down."""
    first, second, commit = words
    agree = {"type": "shutdown_response", "request_id": "{{re:(shutdown-[0-9a-f]+)}}", "approve": True}
    tests = f"python3 -m unittest -q test_{file}"
    return [
        [first, _use(READ, file_path=f"{file}.py")],
        [_use(EDIT, file_path=f"{file}.py", old_string=change[0], new_string=change[1])],
        {"blocks": [second, _use(BASH, command=f"{tests} && git commit -qam '{commit}'")], "delay": pause},
        "It is done.",
        [_use(SendMessage.spec.name, to="team-lead", message=agree)],
    ]


def script_text() -> str:
    agents = [
        _use(AGENT, name=name, description=file, prompt=prompt)
        for name, prompt, file in (("ada", _ADA, "prices"), ("ben", _BEN, "labels"))
    ]
    leave = [_use(SendMessage.spec.name, to=name, message={"type": "shutdown_request"}) for name in ("ada", "ben")]
    main = [
        ["A team, first.", _use(TeamCreate.spec.name, team_name="shop", description="mends the shop")],
        ["Each fault gets a teammate, wherever there is room.", *agents],
        ["Their branches come to this repository by themselves.", _use(BASH, command=_WAIT)],
        ["I merge both and run their tests.", _use(BASH, command=f"{_MERGE} && {_TESTS}")],
        ["Nobody is needed any more.", *leave],
    ]
    ada = _teammate("prices", PRICES, ("min() of nothing raises.", "The edit is still here.", COMMITS[1]), _PAUSE)
    ben = _teammate("labels", LABELS, ("str() drops a zero.", "Now it has two digits.", COMMITS[2]), 0)
    scripts = {"main": main, "ada": {"when": _ADA, "steps": ada}, "ben": {"when": _BEN, "steps": ben}}
    return json.dumps(scripts)
