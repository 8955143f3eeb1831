"""Posts a hook's input to a URL from the settings. Imported only if such a hook exists."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import aiohttp
import anyio
from msgspec import Struct
from yarl import URL

from teamwright.core.data.extensions.hook import HttpHook
from teamwright.host.web.one_request import one_request

if TYPE_CHECKING:
    from aiohttp import ClientResponse

MOST_ANSWER = 1 << 20  # bytes
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class HookResponse(Struct, frozen=True):
    """`status` None: there was no answer; `fault` says why."""

    status: int | None
    text: str = ""
    fault: str = ""


async def post_hook(hook: HttpHook, data: bytes, *, env: Mapping[str, str], limit: float) -> HookResponse:
    """Posts JSON once. Redirects are not followed, because the agent's activity must not reach others."""
    try:
        with anyio.fail_after(limit):
            return await _post(hook, data, env)
    except TimeoutError:
        return HookResponse(None, fault=f"did not answer within {limit:g} s")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return HookResponse(None, fault=f"could not be reached: {_told(error, hook, env)}")


def _told(error: BaseException, hook: HttpHook, env: Mapping[str, str]) -> str:
    """What went wrong, without the values of the hook's headers and address."""
    from teamwright.core.policies.redaction import redacted, withheld  # noqa: PLC0415  # only when something has gone wrong

    headers = {name: fill(text, hook, env) for name, text in hook.headers}
    return redacted(str(error) or type(error).__name__, withheld({"headers": headers}))


async def _post(hook: HttpHook, data: bytes, env: Mapping[str, str]) -> HookResponse:
    headers = {"User-Agent": "teamwright"} | {name: fill(text, hook, env) for name, text in hook.headers}
    headers |= {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    async with one_request("POST", URL(hook.url), headers, env, data) as response:
        return HookResponse(response.status, await _read(response))


def fill(text: str, hook: HttpHook, env: Mapping[str, str]) -> str:
    """Fills in header variables: only those the hook names are sent; others stay empty."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return env.get(name, "") if name in hook.passed else ""

    return _VARIABLE.sub(value, text)


async def _read(response: "ClientResponse") -> str:
    body = bytearray()
    async for piece in response.content.iter_chunked(65_536):
        body += piece
        if len(body) > MOST_ANSWER:
            raise ValueError(f"its answer is longer than {MOST_ANSWER:,} bytes")
    return body.decode(errors="replace")
