"""How a team is taken over: by nobody while it has a lead, and by a teammate that reads its mail first."""

import pytest

from place_kit import CREATE, FREE, mate, say
from program import Live, Program, bash


@pytest.mark.spec("T11")
def test_a_team_that_somebody_leads_is_a_clear_error(program: Program) -> None:
    live: Live = program.talk({"main": [CREATE, mate("ada"), "on"], "ada": ["ready"]}, FREE)
    live.say("go")
    live.wait_for(lambda line: line.get("subtype") == "team_event" and line["kind"] == "idle")
    ran = program.prompt({"main": ["on"]}, FREE, "--team", "crew")
    assert (ran.rc, ran.out) == (2, "")
    assert ran.err == "teamwright: Team crew has a lead whose process lives. End that one first.\n"
    live.end()


@pytest.mark.spec("X6", "T6", "E7")
def test_one_that_is_brought_back_in_mid_turn_reads_its_mail_before_it_goes_on(program: Program) -> None:
    script = {
        "main": [CREATE, mate("ada"), "on", say("ada", "SCRIPT:other"), "on", "on"],
        "ada": [bash("kill -9 $PPID"), bash("touch wrong"), "on"],
        "other": [bash("touch right"), "on"],
    }
    ran = program.prompt(script, FREE, "--teammate-mode", "local")
    assert ran.rc == 0 and (program.project / "right").exists(), ran.err
    assert not (program.project / "wrong").exists()
