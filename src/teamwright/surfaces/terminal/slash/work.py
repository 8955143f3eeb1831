"""Commands about the work itself: instructions for a project, changes, the last answer, more directories."""

from pathlib import Path

from anyio import to_thread

from teamwright.core.data.message import Text
from teamwright.core.data.op import AddDirectories, Say
from teamwright.core.errors import ToolError, UsageError
from teamwright.core.text import plural
from teamwright.host import clipboard
from teamwright.host.git.run import git
from teamwright.surfaces.terminal.slash.command import CommandContext
from teamwright.surfaces.view.shapes import Spoken

GIT_SECONDS = 20.0
MOST_DIFF = 2_000_000  # characters
INIT = """\
Write AGENTS.md at the root of this project: what a coding agent needs that starts here without knowing anything.

First look around: the README, the build and package files, how tests and linters run (CI configuration says it best), \
the layout of the source, and instruction files of other tools (CLAUDE.md, .cursorrules, copilot-instructions.md).

Then write, in at most 100 lines:
1. One or two sentences on what the project is.
2. The commands to set up, build, lint and test, including how to run one single test. Try those that change nothing.
3. The structure that one does not see from a single file: the main parts, how they depend on each other, where a \
typical change goes.
4. Conventions that the code follows and that are not the language's default.

Write only what you found. Leave out generic advice, lists of all files, and what a linter enforces anyway. If \
AGENTS.md exists already, improve it: keep what is right, correct what is not, and say what you changed."""


async def init(stage: CommandContext, words: str) -> str:
    prompt = f"{INIT}\n\nAlso: {words}" if words else INIT
    typed = f"/init {words}".strip()
    await stage.session.say(Say((Text(prompt, typed),), typed=typed))
    return ""


async def copy(stage: CommandContext, words: str) -> str:
    """Copy through the terminal, which may silently refuse, and through a program that is there."""
    items = await stage.everything()
    answers = [item.text for item in items if isinstance(item, Spoken) and item.role == "agent" and item.text.strip()]
    if not answers:
        raise UsageError("there is no answer to copy yet")
    stage.copy_to_clipboard(answers[-1])
    done = await clipboard.write_text(answers[-1], stage.options.env)
    sent = f"The last answer was copied ({plural(len(answers[-1]), 'character')})"
    return f"{sent}." if done else f"{sent} if your terminal allows it (OSC 52)."


async def diff(stage: CommandContext, words: str) -> str:
    from teamwright.surfaces.terminal.dialogs.diff_screen import DiffScreen, diff_rows  # noqa: PLC0415

    facts = stage.session.facts
    try:
        changed, new = await _changes(Path(facts.cwd))
    except ToolError as error:
        raise UsageError(str(error)) from None
    if not changed.strip() and not new:
        return "Nothing has changed since the last commit."
    text = changed[:MOST_DIFF] + "".join(f"diff --git a/x b/{name} (new, not in git yet)\n" for name in new)
    cut = " · cut: it is too long" if len(changed) > MOST_DIFF else ""
    stage.push_screen(DiffScreen(diff_rows(text.rstrip("\n")), f"changes since the last commit{cut}"))
    return ""


async def _changes(cwd: Path) -> tuple[str, list[str]]:
    """git's diff of the files that it knows, and the names of those that it does not."""
    inside = await git("rev-parse", "--is-inside-work-tree", cwd=cwd, limit=GIT_SECONDS)
    if inside.status:
        raise UsageError(f"git cannot say what changed here: {inside.complaint}")
    known = await git("rev-parse", "--verify", "-q", "HEAD", cwd=cwd, limit=GIT_SECONDS)
    base = "HEAD" if known.status == 0 else "--cached"
    changed = await git("diff", "--no-color", "--no-ext-diff", "--no-textconv", base, "--", cwd=cwd, limit=GIT_SECONDS)
    if changed.status:
        raise UsageError(f"git cannot say what changed here: {changed.err.strip() or 'no repository?'}")
    others = await git("ls-files", "--others", "--exclude-standard", cwd=cwd, limit=GIT_SECONDS)
    return changed.out, [line for line in others.out.split("\n") if line]


def _directory(cwd: Path, words: str) -> Path:
    path = (cwd / Path(words).expanduser()).resolve()
    if not path.is_dir():
        raise UsageError(f"{path} is not a directory")
    return path


async def add_directory(stage: CommandContext, words: str) -> str:
    if not words:
        raise UsageError("/add-dir needs a directory")
    facts = stage.session.facts
    path = await to_thread.run_sync(_directory, Path(facts.cwd), words)
    await stage.session.submit(AddDirectories((str(path),)))
    return f"Agents of this session may also work in {path}."
