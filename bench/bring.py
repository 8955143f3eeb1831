"""What a large setup costs at the start: 200 agents and 200 skills, against none. `python bench/run.py bring`."""

import shutil
from pathlib import Path

from rows import Row, ms
from session import Rig

from teamwright.library.trust.decision import trust
from teamwright.library.trust.snapshot import agree, look

MANY, ROUNDS = 200, 15
MOST_RATIO = 1.3
BODY = "You look after one part of the shop and report what you find.\n" * 20


def furnish(folder: Path) -> None:
    for n in range(MANY):
        agent, skill = folder / "agents" / f"a{n}.md", folder / "skills" / f"s{n}" / "SKILL.md"
        for file, head in ((agent, "tools: Read, Grep"), (skill, "allowed-tools: Read")):
            file.parent.mkdir(parents=True, exist_ok=True)
            name = file.stem if file is agent else file.parent.name
            file.write_text(f"---\nname: {name}\ndescription: looks after part {n} of the shop\n{head}\n---\n{BODY}")


def believe(rig: Rig) -> None:
    """Trust the directory, as if the person had been asked."""
    state = Path(rig.env["TEAMWRIGHT_HOME"])
    agree(rig.project, look(rig.project, rig.project), state=state)
    trust(rig.project, state=state)


def measure(rig: Rig) -> list[Row]:
    own, project = rig.home / ".claude", rig.project / ".claude"
    furnish(own)
    furnish(project)
    believe(rig)
    empty, mine, ours = [], [], []
    places = {"empty": (empty, None), "mine": (mine, own), "ours": (ours, project)}
    hidden = {folder: folder.with_name(".unused") for folder in (own, project)}
    for folder, aside in hidden.items():
        folder.rename(aside)
    try:
        for n in range(ROUNDS + 1):
            for values, folder in places.values():
                if folder is not None:
                    hidden[folder].rename(folder)
                seen = rig.run(0).cpu[0]
                if folder is not None:
                    folder.rename(hidden[folder])
                if n:  # the first round fills the caches
                    values.append(seen)
    finally:
        for aside in hidden.values():
            shutil.rmtree(aside, ignore_errors=True)
    return [
        Row(
            f"start with {MANY} agents, {MANY} skills of the person : none", ms(mine), ms(empty), most_ratio=MOST_RATIO
        ),
        Row("  of a project that is trusted : none", ms(ours), ms(empty), most_ratio=MOST_RATIO),
    ]
