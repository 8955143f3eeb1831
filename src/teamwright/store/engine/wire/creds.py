"""Credentials of a process at an engine, in place of a password: a file with an nkey's seed, or a JWT and its seed."""

import os
import re
import stat
from importlib import import_module
from typing import Any

from nats.aio.client import RawCredentials

from teamwright.core.errors import UsageError
from teamwright.store.engine.port import EngineError

_MOST = 64 * 1024  # bytes
_SEED = re.compile(r"SU[A-Z2-7]{56}")
_JWT = re.compile(r"-----BEGIN NATS USER JWT-----\n[\w.-]+\n")
_NKEY = re.compile(r"-----BEGIN USER NKEY SEED-----\n(SU[A-Z2-7]{56})\n")


def read_creds(path: str) -> dict[str, Any]:
    """The client's options. Raises EngineError in one sentence, which says nothing of what is in the file."""
    text = _read(path).replace("\r\n", "\n")
    if _SEED.fullmatch(text.strip()):
        _check_seed(text.strip(), path)
        return {"nkeys_seed_str": text.strip()}
    if _JWT.search(text) and (found := _NKEY.search(text)):
        _check_seed(found[1], path)
        return {"user_credentials": RawCredentials(text)}
    raise EngineError(
        f"{path} holds no credentials of an engine: that is the seed of a user's nkey, or a JWT with its seed."
    )


def _read(path: str) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise EngineError(f"The engine's credentials cannot be read from {path}: {error.strerror}.") from None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise EngineError(f"The engine's credentials cannot be read from {path}: it is not a file.")
        if found.st_mode & 0o077:
            raise EngineError(f"{path} holds credentials of an engine, and others can read it. Run `chmod 600 {path}`.")
        return os.read(file, _MOST).decode("ascii", "replace")
    finally:
        os.close(file)


def _check_seed(seed: str, path: str) -> None:
    """Check it here: the client would only fail later, in words of its own."""
    try:
        nkeys: Any = import_module("nkeys")  # has no types; seldom needed
    except ModuleNotFoundError:
        raise UsageError(
            "Credentials of an engine need a package that is missing: `pip install 'teamwright[cluster]'` adds it."
        ) from None
    try:
        prefix, raw = nkeys.decode_seed(bytearray(seed.encode()))
        whole = nkeys.encode_seed(bytes(raw), prefix).decode() == seed
    except nkeys.NkeysError:
        whole = False
    if not whole:
        raise EngineError(f"The seed of an nkey in {path} is damaged.")
