"""Mutants of the judge: each undoes a fix in a copy, and a line of the corpus shows what the fix kept out."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import shell_cage
import shell_oracle

pytestmark = pytest.mark.skipif(bool(shell_cage.why_not()), reason=shell_cage.why_not() or "there is a cage")
# (file, original text, replacement, a line of the corpus that then passes)
MUTANTS = [
    # What cannot be parsed is not asked.
    ("core/permissions/shell_rules.py", "    if runs.broken:\n", "    if not runs.text:\n", "ls 3>&- .."),
    # With all questions off, what cannot be read passes any rule whose words do not stand in it.
    ("core/permissions/shell_rules.py", "firm=rule is not None)", "firm=False)", "ls \\ #; t${u}ouch PW"),
    # Code that only a pipe holds is nobody's.
    (
        "host/shell/simple_command.py",
        'CommandView((UNKNOWN,), None),), name, opaque="it',
        'CommandView((), None),), name, opaque="it',
        "printf 'to%s PW' uch | sh",
    ),
    (
        "host/shell/simple_command.py",
        "(UNKNOWN,) if words and _PIPED",
        "() if words and _PIPED",
        ". <(printf 'to%s PW' uch)",
    ),
    # A name of which a part is known is no shell.
    (
        "host/shell/simple_command.py",
        'layers.hide_command("the name of the program',
        'layers.hide("the name of the program',
        "echo WP hcuot | rev | s$(:)h /dev/stdin",
    ),
    # Redirections are not looked at.
    (
        "core/permissions/shell_rules.py",
        "    findings += [_judge_write(place, runs, scene, whole=whole) for place in runs.writes]\n",
        "",
        "echo x > /dev/fd/../cwd/PW",
    ),
    # What is read through a redirection is not looked at.
    (
        "core/permissions/shell_rules.py",
        "for place in runs.reads]\n",
        "for place in ()]\n",
        "find < /dev/fd/../fd/../cwd/../secret",
    ),
    # What a known command reads may lie anywhere.
    (
        "core/permissions/path_rules.py",
        "    if any(within(place.path, d) for d in (*scene.roots, *scene.readable)):\n",
        "    if place.path:\n",
        "ls */*/*",
    ),
    # A part that no node covers is passed over (an escaped blank before a number sign).
    ("host/shell/grammar.py", "    _require_coverage(root, text.encode())\n", "", "cat <<<$\nzz\n \n"),
    # Lines that are joined make no word of two.
    (
        "host/shell/grammar.py",
        "        if before not in _OPERATORS or after in _OPERATORS:\n",
        "        if False:\n",
        "x='a[$(./evil)]'; (\\\n(y=x))",
    ),
    # An escaped blank parts two words.
    (
        "host/shell/grammar.py",
        '    return b"" if slashes % 2 else',
        '    return b"" if slashes < 0 else',
        "ls a\\;\\\n#; touch PW",
    ),
    # A redirection sets no variable.
    (
        "host/shell/grammar.py",
        '    if before.endswith(b"}") and not',
        '    if before.endswith(b"/}") and not',
        ": {PATH}>&1; ls",
    ),
    # Bytes are letters.
    ("host/shell/ansi.py", 'decoded(found) > "\\x7f"', 'decoded(found) > "\\uffff"', "cat $'\\xc3\\xa9'"),
    # `env` takes nothing away.
    (
        "host/shell/layers.py",
        '    if wrapper == "env" and takes_away(given):',
        "    if False:",
        "env -i bash -c 'rg x'",
    ),
    # Whatever lies below /dev/fd is a descriptor.
    ("host/shell/cwd.py", "fd/\\d{1,2})", "fd/.*)", "cat /dev/fd/../cwd/.env"),
    # A wrapper or shell by any path is that of the system.
    (
        "host/shell/programs/wrappers.py",
        '    return name if folder in _SYSTEM or "/" not in word else ""\n',
        "    return name\n",
        "./env ls",
    ),
    # A word is one word.
    (
        "host/shell/harmless.py",
        "    if _may_gain_words(words):\n        return None  # an extra word may be a flag, or an unchecked path\n",
        "",
        "ls -I {a,-R,..} .",
    ),
    # Wildcards list nothing.
    (
        "host/shell/harmless.py",
        ", *listed(words, setting)),\n",
        "),\n",
        "printf %s ../*",
    ),
    # What git is configured to run is not looked at.
    (
        "host/shell/harmless.py",
        "    return setting.around.trusted or not any(programs(cwd) for cwd in setting.cwds)\n",
        "    return True\n",
        "git diff",
    ),
    # Every shell is bash.
    (
        "host/shell/programs/wrappers.py",
        "    return words[at], plain and alike\n",
        "    return words[at], plain\n",
        "sh -c \"echo \\$'\\\\'; touch PW #'\"",
    ),
    # find runs everything where it was started itself, and so does code that it carries.
    (
        "host/shell/simple_command.py",
        "where = _fed(setting, known) if here else anywhere\n",
        "where = _fed(setting, known)\n",
        "find chest -name key -execdir cat key \\;",
    ),
    (
        "host/shell/statements.py",
        "        inner = Walk(CwdTracker(self.where.around, cwds), self",
        "        inner = Walk(CwdTracker(self.where.around, self.where.cwds), self",
        "find chest -name key -execdir bash -c 'cat key' \\;",
    ),
    # What find runs makes no link.
    (
        "host/shell/simple_command.py",
        ", self.links or part.links\n",
        ", self.links\n",
        "find . -maxdepth 0 -exec ln -s ../../box sub/deep/q \\; && touch sub/deep/q/../../PW",
    ),
    # In an unknown directory, nothing that is moved is a home.
    (
        "host/shell/programs/destructive.py",
        'name in (".", "..", *home.split("/")) or',
        "",
        "find $PWD -maxdepth 0 -execdir mv ../home ../gone \\;",
    ),
    # find ends what it runs at any plus sign.
    (
        "host/shell/programs/wrappers.py",
        '(word == "+" and before == "{}"):\n',
        'word == "+":\n',
        "find . -maxdepth 0 -exec rg . + -user --pre=./evil -perm \\;",
    ),
    # Modules of jq, argument files.
    (
        "host/shell/programs/readonly.py",
        '_READS_MODULES = re.compile(r"\\b(?:import|include|modulemeta)\\b")',
        '_READS_MODULES = re.compile(r"^$")',
        'jq -n \'import "config" as $d {search:"~/.docker"}; $d\'',
    ),
    (
        "host/shell/programs/readonly.py",
        '    return not any(w.startswith("@") for w in words)\n',
        "    return True\n",
        "strings @args",
    ),
    # A closed descriptor takes the next word along.
    ("host/shell/redirections.py", '    if targets and operators[0].endswith("-"):\n', "    if False:\n", "ls 3>&- .."),
    # A line that writes expands wildcards all the same.
    ("host/shell/statements.py", "        if found.expands:\n", "        if False:\n", ": > -rf; rm *"),
    # Links come along with what is moved, and lead elsewhere from there.
    (
        "host/shell/programs/edits.py",
        "        if not links and _leads",
        "        if links and _leads",
        "mv chest new && touch new/key",
    ),
    # Nothing below a directory is protected.
    ("host/shell/programs/edits.py", " or names_protected(names):", ":", "mv app x"),
    # A file has one name.
    ("host/shell/programs/edits.py", "real, deep, is_linked(real))", "real, deep)", "cp README.md twin"),
    # What one command moves does not change where the next one goes.
    ("host/shell/settling.py", "return not links and all(", "return True or all(", "rm turn; mkdir turn; touch lead"),
    # Links among the paths that find gives lead nowhere.
    (
        "host/shell/feeds.py",
        "            if os.path.islink(path) and fnmatch",
        "            if not path and fnmatch",
        "find chest -exec cat {} +",
    ),
    # A value of `find` is a test.
    (
        "host/shell/feeds.py",
        "        at += 2 if valued else 1\n",
        "        at += 1\n",
        "cd chest && find . -newer -name -print0 | xargs -0 cat",
    ),
    # A comment begins wherever the parser says so.
    ("host/shell/grammar.py", "_BEFORE_COMMENTS:\n", "_BEFORE_COMMENTS and not text:\n", "a=(x)#; touch PW"),
    # A test behind what find runs narrows it.
    ("host/shell/feeds.py", "_values(words[at:end])", "_values(words[at:])", "find . -exec rg . {} + -type f"),
    # xargs and find hand over one path.
    ("host/shell/harmless.py", "_COPIES = (1, 2, 3)", "_COPIES = (1,)", "find box -type f -exec uniq {} +"),
    # The variable of a loop is set by nothing else.
    (
        "host/shell/loops.py",
        " or not _is_only_read(name, body):",
        ":",
        'for f in README.md; do f=../twin; rm "$f"; done',
    ),
    # Python's own modules are its own.
    (
        "host/shell/programs/reports.py",
        "            return not any(_is_module(entry)",
        "            return True or any(_is_module(entry)",
        "cd shadow && echo '{}' | python3 -m json.tool",
    ),
    # PYTHONPATH changes nothing.
    (
        "host/shell/simple_command.py",
        " and not layers.opaque and not layers.imports\n",
        " and not layers.opaque\n",
        "PYTHONPATH=shadow python3 -m json.tool data.json",
    ),
    # Environments of processes.
    ("host/shell/programs/reports.py", "(?:aux|auxww?|", "(?:aux|auxe|auxww?|", "ps auxe"),
    # Scripts that run or write: sed by a flag, awk by a function, by a redirection and through its own arguments.
    ("host/shell/programs/sed.py", '"[gpiIMm0-9]*"', '"[gpiIMme0-9]*"', "sed -i 's/.*/touch PW/e' README.md"),
    (
        "host/shell/programs/sed.py",
        '    elif letter in "aic":',
        '    elif letter in "aicrwW":',
        "sed -i 'w ../PW' README.md",
    ),
    (
        "host/shell/programs/awk.py",
        '_NEVER = frozenset({"system", ',
        "_NEVER = frozenset({",
        "awk 'BEGIN{system(\"touch PW\")}'",
    ),
    ("host/shell/programs/awk.py", '"ARGV", "ARGC", ', "", "awk 'BEGIN{ARGV[1]=\"../secret\"; ARGC=2} {print}'"),
    ("host/shell/programs/awk.py", '(self.prints and token == ">")', "False", "awk '{print > \"PW\"}' README.md"),
    # Every setting of git only shows.
    ("host/shell/programs/git.py", " or not all(map(_only_shows, settings))", "", "git -c diff.external=./evil diff"),
    # git mv and git rm set nothing off.
    (
        "host/shell/programs/edits.py",
        ' or (words[0].text == "git" and not git_runs_nothing(setting)):',
        ":",
        "git mv README.md x",
    ),
    # Beside a rule on reading: git shows what lies below where it stands, what is tracked, and no commit.
    (
        "host/shell/below.py",
        "if shown.whole or within(path, place.path)",
        "if within(path, place.path)",
        "cd src && git diff",
    ),
    ("host/shell/below.py", "((*_tracked(cwd), *_ever(shown, cwd)))", "(_ever(shown, cwd))", "git diff"),
    ("host/shell/below.py", '    if "history" not in shown.sources:', "    if shown.sources:", "git log -p"),
    (
        "host/shell/below.py",
        "for path in _named_from_top(shown, cwd) if",
        "for path in () if",
        "cd src && git show HEAD~3:.env",
    ),
    ("core/permissions/path_rules.py", "    if place.vast:\n", "    if not place.given:\n", "cd sub && git show :.env"),
    # A path leaves everything else out, whatever the command; so does a pattern.
    (
        "host/shell/programs/git_shows.py",
        "name in _WHOLE or named.is_whole",
        "named.is_whole",
        "git log -p -- src/a.py",
    ),
    ("host/shell/programs/git_shows.py", "return self.patterns or not (", "return not (", "git diff src '.e*'"),
    # A file of one revision is all that several revisions show.
    (
        "host/shell/programs/git_shows.py",
        " and len(self.revisions) == len(self.inside)\n",
        "\n",
        "git show HEAD~3 HEAD:src",
    ),
    (
        "host/shell/programs/git_shows.py",
        '    elif word.startswith(":"):\n        named.unsure = True\n',
        '    elif word.startswith(":"):\n        pass\n',
        "git diff -- src ':(top).env'",
    ),
    # status leaves out what it is told to.
    (
        "host/shell/programs/git_shows.py",
        '() if name == "status" else tuple(named.skipped)',
        "tuple(named.skipped)",
        "git status -v -- . ':(exclude).env'",
    ),
    # One side of every diff is the disk.
    ("host/shell/programs/git_shows.py", " or not _IN_COMMITS.isdisjoint(values):", ":", "git diff --cached"),
    # git searches what it tracks alone.
    (
        "host/shell/programs/git_shows.py",
        '    if name == "grep" and "--untracked" in values:',
        "    if False:",
        "git grep --untracked KEY",
    ),
    # A wildcard stands for the dot of a hidden name, in every program.
    ("host/shell/programs/searches.py", "    return not hidden and", "    return", "grep -rn --exclude='*env' x ."),
    # What is to be searched is not looked at, nor that hidden files are.
    (
        "host/shell/programs/searches.py",
        "    if _may_fit_any(names, skips.only):\n",
        "    if False:\n",
        "rg --iglob '.ENV' x",
    ),
    ("host/shell/programs/searches.py", "hidden=not only and _UNHIDES.isdisjoint(values))", "hidden=True)", "rg -. x"),
    ("host/shell/below.py", "        return not may_be_asked_for(path, home)\n", "        return True\n", "rg KEY"),
    # xargs hands over at least one path.
    (
        "host/shell/harmless.py",
        "    uses += _without_input(words, wrappers, setting)\n",
        "",
        "find . -name '*.zz' -print0 | xargs -0 grep -r KEY",
    ),
    # find gives no file that is denied.
    (
        "host/shell/feeds.py",
        "skips=Skips(only=(pattern,))",
        'skips=Skips(only=("x",))',
        "find . -name '.e*' -exec cat {} +",
    ),
    (
        "host/shell/feeds.py",
        "    return ON_DISK if any(",
        "    return ON_DISK if not any(",
        "find . -name . -exec grep -rh KEY {} \\;",
    ),
]


# Each takes more than a second: `make long` runs all of them, every other run only some.
PLAYED = MUTANTS if os.environ.get("TEAMWRIGHT_TEST_LONG") else MUTANTS[::4]


def _entries(line: str) -> list[dict[str, Any]]:
    return [entry for entry in shell_oracle.corpus() if entry["text"] == line]


@pytest.mark.spec("M7")
def test_the_lines_show_nothing_without_a_mutant() -> None:
    entries = [entry for *_, line in MUTANTS for entry in _entries(line)]
    assert not shell_cage.work([{"given": entries}]).differences


def test_every_mutant_still_changes_something() -> None:
    for file, old, new, _ in MUTANTS:
        text = (shell_cage.ROOT / "src" / "teamwright" / file).read_text()
        assert old != new and text.count(old) == 1, f"{file} has changed: choose another text for {old!r}"


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("file", "old", "new", "line"), PLAYED, ids=[f"{file}:{old.strip()[:40]}" for file, old, *_ in PLAYED]
)
def test_a_mutant_of_the_judge_is_found(tmp_path: Path, file: str, old: str, new: str, line: str) -> None:
    source = tmp_path / "src"
    shutil.copytree(shell_cage.ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "teamwright" / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file} has changed: choose another text for this mutant"
    path.write_text(text.replace(old, new))
    entries = _entries(line)
    assert entries, "the corpus has no such line"
    assert shell_cage.work([{"given": entries}], source).differences, "the line does not show the change"
