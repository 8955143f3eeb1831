"""Identities with a key instead of a password: on the real server, by nkey and by JWT."""

import base64
import json
import os
import re
import secrets
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from engine_kit import Server
from program import Program
from teamwright.surfaces.commands.engine.rights import Role, rights

nkeys: Any = import_module("nkeys")  # it has no types
_ACCOUNT, _OPERATOR, _USER = nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_USER


class Key:
    """A key pair. Its seed must stay in its file."""

    def __init__(self, prefix: int = _USER) -> None:
        self.seed: str = nkeys.encode_seed(secrets.token_bytes(32), prefix).decode()
        self._pair = nkeys.from_seed(bytearray(self.seed.encode()))
        self.public: str = self._pair.public_key.decode().rstrip("=")

    def jwt(self, subject: "Key", name: str, kind: str, **more: object) -> str:
        """A signed statement about another key."""
        claims = {"jti": name, "iat": 1, "iss": self.public, "name": name, "sub": subject.public}
        about = {"type": kind, "version": 2} | more
        parts = ({"typ": "JWT", "alg": "ed25519-nkey"}, claims | {"nats": about})
        text = b".".join(_packed(json.dumps(part).encode()) for part in parts)
        return (text + b"." + _packed(self._pair.sign(text))).decode()


def _packed(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def keep(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    server.kill()
    yield server
    server.kill()


def configure(server: Server, more: str) -> None:
    conf = server.root / "server.conf"
    conf.write_text(f"{conf.read_text()}{more}\n")
    server.start()


def everything_written(*roots: Path) -> Iterator[tuple[Path, bytes]]:
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                if (path := Path(folder) / name).is_file():
                    yield path, path.read_bytes()


@pytest.mark.spec("Z2", "Z23", "Z24")
def test_an_nkey_in_place_of_a_password(program: Program, server: Server, tmp_path: Path):
    """By the variable and by the setting; the role's rights apply to it, and its seed is nowhere but in its file."""
    lead, worker = Key(), Key()
    people: tuple[tuple[Key, Role, str], ...] = ((lead, "lead", "ada"), (worker, "worker", "mill"))
    rows = [f"{{ nkey: {key.public}, permissions: {rights('main', role, name)} }}" for key, role, name in people]
    configure(server, f"authorization {{ users: [{', '.join(rows)}] }}")
    url = f"nats://ada@127.0.0.1:{server.port}/main"
    own = keep(tmp_path / "lead.nk", f"{lead.seed}\n")
    env = {"TEAMWRIGHT_ENGINE_CREDS": str(own)}

    ran = program.prompt(["hi"], "--engine", url, env=env)
    assert ran.rc == 0 and ran.result["result"] == "hi", ran.err
    session = ran.result["session_id"]
    status = program.run("engine", "status", "--engine", url, "--json", env=env)
    assert status.rc == 0 and not [word for word in json.loads(status.out)["unsafe"] if "no rights" in word], status.err
    ran = program.prompt(
        ["hi"], "--engine", url, "--settings", json.dumps({"teamwright": {"engine": {"creds": str(own)}}})
    )
    assert ran.rc == 0, ran.err
    listed = program.run("sessions", "--json", "--engine", url, env=env)
    assert listed.rc == 0 and session in {row["id"] for row in json.loads(listed.out)}

    as_worker = {"TEAMWRIGHT_ENGINE_CREDS": str(keep(tmp_path / "worker.nk", worker.seed))}
    ran = program.prompt(["hi"], "--engine", url.replace("ada@", "mill@"), env=as_worker)
    assert ran.rc == 1 and "no right" in ran.err and len(ran.err.splitlines()) == 1, ran.err

    server.kill()  # what it has is on its disk
    for path, data in everything_written(program.home, server.root):
        assert lead.seed.encode() not in data and worker.seed.encode() not in data, path


@pytest.mark.spec("Z23")
def test_a_key_that_cannot_be_used_is_one_sentence(program: Program, server: Server, tmp_path: Path):
    """The file's content does not appear in it."""
    lead, stranger, keys = Key(), Key(), tmp_path / "keys"
    configure(server, f"authorization {{ users: [{{ nkey: {lead.public} }}] }}")
    url = f"nats://ada@127.0.0.1:{server.port}/main"
    keys.mkdir()
    broken = lead.seed[:-1] + ("A" if lead.seed[-1] != "A" else "B")
    for file, words in (
        (keep(keys / "stranger", stranger.seed), "cannot be reached"),
        (keys / "missing", "No such file"),
        (keep(keys / "open", lead.seed, 0o644), "others can read it"),
        (keep(keys / "broken", broken), "damaged"),
        (keep(keys / "foreign", f"SUZ{lead.seed[3:]}"), "damaged"),
        (keep(keys / "other", "-----BEGIN NATS USER JWT-----\n" + lead.seed), "no credentials"),
        (keep(keys / "empty", ""), "no credentials"),
        (keys, "not a file"),
    ):
        ran = program.prompt(["hi"], "--engine", url, env={"TEAMWRIGHT_ENGINE_CREDS": str(file)})
        assert ran.rc == 1 and not ran.out and len(ran.err.splitlines()) == 1, (file, ran.err)
        assert re.search(words, ran.err), (file, ran.err)
        assert lead.seed not in ran.err and stranger.seed not in ran.err and broken not in ran.err
    ran = program.prompt(["hi"], "--engine", url)  # without it nobody may connect
    assert ran.rc == 1 and "cannot be reached" in ran.err


@pytest.mark.spec("Z2", "Z23")
def test_a_jwt_in_place_of_a_password(program: Program, server: Server, tmp_path: Path):
    """As an operator's tools write them: a JWT and the seed of its key, in one file."""
    operator, account, system, user = Key(_OPERATOR), Key(_ACCOUNT), Key(_ACCOUNT), Key()
    free = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1) | free
    told = {
        account: operator.jwt(account, "team", "account", limits=limits | {"wildcards": True}),
        system: operator.jwt(system, "system", "account", limits=limits | dict.fromkeys(free, 0)),
    }
    preload = ", ".join(f"{key.public}: {jwt}" for key, jwt in told.items())
    head = f"operator: {operator.jwt(operator, 'operator', 'operator', system_account=system.public)}\n"
    configure(server, f"{head}resolver: MEMORY\nresolver_preload {{ {preload} }}")
    jwt = account.jwt(user, "ada", "user", pub={}, sub={}, subs=-1, data=-1, payload=-1)
    both = f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
    both += f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    env = {"TEAMWRIGHT_ENGINE_CREDS": str(keep(tmp_path / "ada.creds", both))}
    url = f"nats://ada@127.0.0.1:{server.port}/main"

    ran = program.prompt(["hi"], "--engine", url, env=env)
    assert ran.rc == 0 and ran.result["result"] == "hi", ran.err
    ran = program.prompt(["hi"], "--engine", url)
    assert ran.rc == 1 and "cannot be reached" in ran.err
    for path, data in everything_written(program.home, server.root):
        assert user.seed.encode() not in data and jwt.encode() not in data, path


@pytest.mark.spec("Z23")
def test_a_project_names_no_credentials(program: Program, server: Server, tmp_path: Path):
    key = Key()
    configure(server, f"authorization {{ users: [{{ nkey: {key.public} }}] }}")
    own = str(keep(tmp_path / "lead.nk", key.seed))
    (program.project / ".teamwright").mkdir(exist_ok=True)
    said = {"env": {"TEAMWRIGHT_ENGINE_CREDS": own}, "teamwright": {"engine": {"creds": own}}}
    (program.project / ".teamwright" / "settings.json").write_text(json.dumps(said))
    ran = program.prompt(["hi"], "--engine", f"nats://ada@127.0.0.1:{server.port}/main", "--trust")
    assert ran.rc == 1 and "cannot be reached" in ran.err, ran.err
