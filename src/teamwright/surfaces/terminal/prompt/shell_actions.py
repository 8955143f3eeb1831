"""Actions of the app on other programs and files: shell lines, command tables, images, exports."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from teamwright.core.data.message import Content, Text
from teamwright.core.errors import ToolError
from teamwright.host.git.run import git
from teamwright.host.process.bash import describe_end, encode_script, run_script
from teamwright.host.process.capture import Capture, plain
from teamwright.host.process.environment import tool_environment
from teamwright.runtime.asking import read_picture
from teamwright.surfaces.view.letters import shell_text
from teamwright.surfaces.view.shapes import Item, Note, Spoken, Step, Thought

SHELL_SECONDS, GIT_SECONDS = 600.0, 5.0
_KINDS = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_MENTION = re.compile(r'(?:^|(?<=\s))@(?:"([^"]+)"|(\S+))')


async def run_shell_line(command: str, cwd: Path, env: Mapping[str, str], on_output: Callable[[str], None]) -> str:
    """Run a line that the person typed after `!`; returns the text about it for the model."""
    capture = Capture()

    def show_last() -> None:
        on_output(capture.last_line())

    try:
        ended, _ = await run_script(
            encode_script(command),
            cwd=cwd,
            env=tool_environment(env, {}),
            limit=SHELL_SECONDS,
            capture=capture,
            on_output=show_last,
        )
    except ToolError as error:
        return shell_text(command, 126, str(error))
    words, code = describe_end(ended, SHELL_SECONDS)
    output = capture.text(plain).rstrip("\n")
    if code is None:
        output = f"{output}\n{words}".strip()
    return shell_text(command, 1 if code is None else code, output)


async def branch_of(cwd: Path) -> str:
    try:
        ran = await git("symbolic-ref", "--short", "-q", "HEAD", cwd=cwd, limit=GIT_SECONDS)
        if ran.status == 0:
            return ran.out.strip()
        ran = await git("rev-parse", "--short", "HEAD", cwd=cwd, limit=GIT_SECONDS)
    except ToolError:  # git is missing, or hangs
        return ""
    return ran.out.strip() if ran.status == 0 else ""


def with_pictures(text: str, cwd: Path) -> tuple[Content, ...]:
    """The prompt, with the pictures that it names with `@`; the session attaches other files. Blocks."""
    found: list[Content] = [Text(text)]
    for mention in _MENTION.finditer(text):
        path = cwd / Path(mention[1] or mention[2]).expanduser()
        if path.suffix.lower() in _KINDS and os.path.isfile(path):  # noqa: PTH113  # Path's raises for some names
            found.append(read_picture(path))
    return tuple(found)


def as_markdown(items: Sequence[Item], title: str) -> str:
    """A conversation as a document."""
    parts = [f"# {title}"]
    for item in items:
        match item:
            case Spoken(role="person"):
                parts.append("\n".join(f"> {line}" for line in item.text.split("\n")))
            case Spoken():
                parts.append(item.text)
            case Thought():
                parts.append(f"*thought:* {item.text}")
            case Step():
                parts.append(f"**{item.tool}** {item.title} ({item.status})\n\n{_fenced(item.result)}")
            case Note():
                parts.append(f"*{item.who or item.kind}:* {item.text}")
    return "\n\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"
