"""No program in the sandbox can speak for the person: a session's door is closed to it."""

import anyio
import pytest
from sandbox_kit import TIERS, need, run, use

from conftest import Walker
from teamwright.app import open_session
from teamwright.store.files.paths import home_from
from teamwright.surfaces.headless.door import keep_door
from teamwright.surfaces.port.doors import address_file

pytestmark = [pytest.mark.anyio, pytest.mark.spec("V19")]

KNOCK = """import json, os, socket
own = open("door").read()
found = [line.split()[-1] for line in open("/proc/net/unix") if line.rstrip().endswith(os.path.basename(own))]
body = {"subtype": "set_permission_mode", "mode": "acceptEdits"}
wish = json.dumps({"type": "control_request", "request_id": "1", "request": body}).encode() + b"\\n"
for path in {*found, own}:
    for leaves in (False, True):  # the one who knocks has gone when it is looked at
        try:
            s = socket.socket(socket.AF_UNIX); s.settimeout(10)
            if not leaves: s.connect(path)
            elif (pid := os.fork()) == 0: s.connect(path); os._exit(0)
            else: os.waitpid(pid, 0)
            try: s.sendall(wish)
            except OSError as error: print("SHUT", error)  # what was said before can still be read
            while heard := s.recv(65536): print("HEARD", heard.decode())
        except OSError as error: print("SHUT", error)
"""


@pytest.fixture(params=[*TIERS, "off"])
def tier(request: pytest.FixtureRequest, walker: Walker) -> str:
    if request.param != "off":
        use(walker, need(request.param))
    return request.param


async def test_a_command_cannot_change_the_mode_of_its_session(walker: Walker, tier: str) -> None:
    (walker.project / "knock.py").write_text(KNOCK)
    home, script = home_from(walker.env), [run("timeout 20 python3 knock.py > heard"), "end"]
    options = walker.options(script, sandbox=tier != "off", allowed_tools=["Bash"])
    session = await open_session(options)
    async with session, anyio.create_task_group() as group:
        group.start_soon(keep_door, session, home, walker.env)
        with anyio.fail_after(20):
            while not (note := address_file(home, session.id)).exists():
                await anyio.sleep(0.01)
        (walker.project / "door").write_text(note.read_text())
        await session.ask("go")
        mode = session.services.mode
        group.cancel_scope.cancel()
    told = (walker.project / "heard").read_text()
    assert (mode == "acceptEdits") == (tier == "off"), told
    if tier == "landlock":
        assert "programs in a sandbox cannot attach" in told and told.count("SHUT") + told.count("HEARD") >= 2
