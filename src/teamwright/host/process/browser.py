"""Opens a page in the person's browser, if there is one."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping

import anyio.to_thread

from teamwright.host.process.environment import holds_secret

_GRACE = 1.0  # seconds in which a failing start becomes apparent


async def open_browser(address: str, env: Mapping[str, str]) -> bool:
    """Uses `$BROWSER`, else the desktop's browser. Returns False if there is none or it could not be started."""
    argv = browser_argv(address, env)
    return argv is not None and await anyio.to_thread.run_sync(_start, argv, env)


def browser_argv(address: str, env: Mapping[str, str]) -> list[str] | None:
    """The command to start; `%s` in `$BROWSER` stands for the address. No shell is involved."""
    if not address.startswith(("http://", "https://")):
        return None
    if said := env.get("BROWSER", "").split(":")[0].strip():
        try:
            words = shlex.split(said)
        except ValueError:
            return None
        return [word.replace("%s", address) for word in words] if "%s" in said else [*words, address]
    if sys.platform == "darwin":
        return ["open", address]
    desktop = any(env.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"))
    names = ("wslview", "xdg-open") if desktop else ()  # without a desktop they would open a browser in the terminal
    return next(([name, address] for name in names if shutil.which(name, path=env.get("PATH"))), None)


def _start(argv: list[str], env: Mapping[str, str]) -> bool:
    """Starts it detached. One that ends at once with an error has not opened anything."""
    clean = {name: value for name, value in env.items() if not holds_secret(name)}
    quiet = subprocess.DEVNULL
    try:
        started = subprocess.Popen(
            argv, stdin=quiet, stdout=quiet, stderr=quiet, env=clean, start_new_session=True, close_fds=True
        )
        return started.wait(_GRACE) == 0
    except subprocess.TimeoutExpired:
        return True
    except OSError:
        return False
