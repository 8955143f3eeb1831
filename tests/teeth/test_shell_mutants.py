"""Mutants of the judge: every fix of it, undone in a copy, must make the shell's oracle see more than before."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import shell_cage
import shell_oracle

pytestmark = pytest.mark.skipif(bool(shell_cage.why_not()), reason=shell_cage.why_not() or "there is a cage")
WORKERS = 2
LINES = 1500  # of one seed, after the corpus
SEED = "mutants"

# (file, what is there, what stands there instead)
MUTANTS = [
    # What cannot be parsed is not asked.
    ("core/permissions/shell_rules.py", "    if runs.broken:\n", "    if not runs.text:\n"),
    # With all questions off, what cannot be read passes any rule whose words do not stand in it.
    ("core/permissions/shell_rules.py", "firm=rule is not None)", "firm=False)"),
    # Code that only a pipe holds is nobody's.
    (
        "host/shell/simple_command.py",
        'FileView((UNKNOWN,), None),), name, opaque="it',
        'FileView((), None),), name, opaque="it',
    ),
    ("host/shell/simple_command.py", "(UNKNOWN,) if words and _PIPED", "() if words and _PIPED"),
    # Redirections are not looked at.
    (
        "core/permissions/shell_rules.py",
        "    findings += [_judge_write(place, runs, scene, whole=whole) for place in runs.writes]\n",
        "",
    ),
    # What is read through a redirection is not looked at.
    ("core/permissions/shell_rules.py", "for place in runs.reads]\n", "for place in ()]\n"),
    # What a known command reads may lie anywhere.
    (
        "core/permissions/path_rules.py",
        "    if any(within(place.path, d) for d in (*scene.roots, *scene.readable)):\n",
        "    if place.path:\n",
    ),
    # A part that no node covers is passed over (an escaped blank before a number sign).
    ("host/shell/grammar.py", "    _require_coverage(root, text.encode())\n", ""),
    # Lines that are joined make no word of two.
    ("host/shell/grammar.py", "        if before not in _OPERATORS or after in _OPERATORS:\n", "        if False:\n"),
    # An escaped blank parts two words.
    ("host/shell/grammar.py", '    return b"" if slashes % 2 else', '    return b"" if slashes < 0 else'),
    # A redirection sets no variable.
    ("host/shell/grammar.py", '    if before.endswith(b"}") and not', '    if before.endswith(b"/}") and not'),
    # Bytes are letters.
    ("host/shell/ansi.py", 'decoded(found) > "\\x7f"', 'decoded(found) > "\\uffff"'),
    # `env` takes nothing away.
    ("host/shell/simple_command.py", '        risky = risky or (name == "env" and takes_away(given))\n', ""),
    # Whatever lies below /dev/fd is a descriptor.
    ("host/shell/cwd.py", "fd/\\d{1,2})", "fd/.*)"),
    # A wrapper or shell by any path is that of the system.
    (
        "host/shell/wrappers.py",
        '    return name if folder in _SYSTEM or "/" not in word else ""\n',
        "    return name\n",
    ),
    # A word is one word.
    (
        "host/shell/harmless.py",
        "    if any(w.splits for w in words) and not is_harmed_by_no_word(words):\n"
        "        return None  # a word more may be a flag, or a path that is not looked at\n",
        "",
    ),
    # Wildcards list nothing.
    (
        "host/shell/harmless.py",
        ", *listed(words, setting)),\n",
        "),\n",
    ),
    # What git is configured to run is not looked at.
    (
        "host/shell/harmless.py",
        "    return setting.around.trusted or not any(programs(cwd) for cwd in setting.cwds)\n",
        "    return True\n",
    ),
    # Every shell is bash.
    (
        "host/shell/wrappers.py",
        '    alike = name == "bash" or _SAME_IN_EVERY_SHELL.fullmatch(words[at]) is not None\n',
        "    alike = True\n",
    ),
    # find ends what it runs at any plus sign.
    (
        "host/shell/wrappers.py",
        ' and not (words[end] == "+" and words[end - 1] == "{}"):\n',
        ' and words[end] != "+":\n',
    ),
    # Modules of jq, argument files.
    (
        "host/shell/readonly.py",
        '_READS_MODULES = re.compile(r"\\b(?:import|include|modulemeta)\\b")',
        '_READS_MODULES = re.compile(r"^$")',
    ),
    ("host/shell/readonly.py", '    return not any(w.startswith("@") for w in words)\n', "    return True\n"),
    # A closed descriptor takes the next word along.
    ("host/shell/redirections.py", '    if targets and operators[0].endswith("-"):\n', "    if False:\n"),
    # A line that writes expands wildcards all the same.
    ("host/shell/statements.py", "        if found.expands:\n", "        if False:\n"),
    # Links come along with what is moved, and lead elsewhere from there.
    ("host/shell/edits.py", "        if not links and any(os.path", "        if links and any(os.path"),
    # Nothing below a directory is protected.
    ("host/shell/edits.py", " or names_protected(names):", ":"),
    # A file has one name.
    ("host/shell/edits.py", "real, deep, is_linked(real))", "real, deep)"),
    # What one command moves does not change where the next one goes.
    ("host/shell/settling.py", "return not links and all(", "return True or all("),
    # Links among the paths that find gives lead nowhere.
    ("host/shell/feeds.py", "            if os.path.islink(path) and fnmatch", "            if not path and fnmatch"),
    # A value of `find` is a test.
    ("host/shell/feeds.py", "        at += 2 if valued else 1\n", "        at += 1\n"),
    # xargs and find hand over one path.
    ("host/shell/harmless.py", "_COPIES = (1, 2, 3)", "_COPIES = (1,)"),
    # The variable of a loop is set by nothing else.
    ("host/shell/loops.py", " or not _is_only_read(name, body):", ":"),
    # Python's own modules are its own.
    (
        "host/shell/reports.py",
        "            return not any(_is_module(entry)",
        "            return True or any(_is_module(entry)",
    ),
    # PYTHONPATH changes nothing.
    ("host/shell/simple_command.py", " and not layers.opaque and not layers.imports\n", " and not layers.opaque\n"),
    # Environments of processes.
    ("host/shell/reports.py", "(?:aux|auxww?|", "(?:aux|auxe|auxww?|"),
    # Scripts that run or write: sed by a flag, awk by a function, by a redirection and through its own arguments.
    ("host/shell/sed.py", '"[gpiIMm0-9]*"', '"[gpiIMme0-9]*"'),
    ("host/shell/sed.py", '    elif letter in "aic":', '    elif letter in "aicrwW":'),
    ("host/shell/awk.py", '_NEVER = frozenset({"system", ', "_NEVER = frozenset({"),
    ("host/shell/awk.py", '"ARGV", "ARGC", ', ""),
    ("host/shell/awk.py", '(prints and token == ">")', "False"),
    # Every setting of git only shows.
    ("host/shell/git.py", " or not all(map(_only_shows, settings)):", ":"),
    # git mv and git rm set nothing off.
    ("host/shell/edits.py", ' or (words[0].text == "git" and not git_runs_nothing(setting)):', ":"),
]


def orders(known: list[str], **more: Any) -> list[dict[str, Any]]:
    """The corpus first, then lines of a seed."""
    given = shell_oracle.given(shell_oracle.corpus(), WORKERS)
    made = shell_oracle.made(SEED, LINES, WORKERS)
    return [order | {"known": known} | more for order in (*given, *made)]


@pytest.fixture(scope="module")
def known() -> list[str]:
    """What differs without any mutant: nothing, as long as the judge is right."""
    return [found["line"] for found in shell_cage.work(orders([])).differences]


@pytest.mark.spec("M7")
@pytest.mark.parametrize(("file", "old", "new"), MUTANTS, ids=[f"{m[0]}:{m[1].strip()[:40]}" for m in MUTANTS])
def test_a_mutant_of_the_judge_is_found(tmp_path: Path, known: list[str], file: str, old: str, new: str) -> None:
    source = tmp_path / "src"
    shutil.copytree(shell_cage.ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "teamwright" / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file} has changed: choose another text for this mutant"
    path.write_text(text.replace(old, new))
    report = shell_cage.work(orders(known, most=1), source)
    assert report.differences, "no line shows that the judge was changed"
