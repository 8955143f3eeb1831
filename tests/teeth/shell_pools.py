"""What command lines are made of: commands with their flags, words that do harm, ways to say the same thing."""

from functools import cache
from pathlib import Path
from random import Random

from msgspec import Struct, structs

PLAIN = ["README.md", "src", "src/a.py", ".", "a", "foo", "1", "2", "x", "notes.txt", "docs", "tools", "data.json", "sub",
    "*.md", "'*.py'", "*", "./*", "src/*", "-", "HEAD", "main", "5"]  # fmt: skip
HARM = ["../secret", "../.secret/key", "PW", "./evil", "-oPW", "--output=PW", "-delete", "..", "@args", "~/.bashrc",
    "../vault", ".git/config", ".env", "leak", "way", "../PW", "/dev/fd/../cwd/PW", "/dev/fd/../cwd/../secret", "evil",
    "flock", "touch", "rm", "{}", "+", ";", "--", "-exec", "{a,PW}", "{1,-oPW}", "$HOME/secret", "way/*"]  # fmt: skip
# Words that make a program do what it must not; the first of all is what they hide behind.
HARM_OF: dict[str, list[str]] = {
    "find": ["-delete", "-exec ./evil {} +", "-exec touch PW {} +", "-fprint PW", "-fls PW", "-execdir ./evil {} +",
        "-files0-from args", "-newer ../secret", "-fprintf PW x"],
    "sort": ["-oPW", "--output=PW", "-o PW", "--compress-program=./evil -S1b", "--outp=PW", "--files0-from=args",
        "-T ../vault", "../secret", "--random-source=../secret -R"],
    "rg": ["--pre=./evil", "--pre ./evil", "-f ../secret", "--ignore-file=../secret", "--hostname-bin=./evil",
        "../secret", "--pre-glob=* --pre=./evil", "-L .", "--follow"],
    "grep": ["-f ../secret", "--file=../secret", "-r . ..", "-d recurse C ..", "--directories=recurse C ..", "../secret",
        "-R C .", "--exclude-from=../secret", "-rf ../secret"],
    "git": ["--output=PW", "--output PW", "--ext-diff", "--textconv", "-O./evil", "--open-files-in-pager=./evil", "-D victim",
        "-d v1", "-m new", "--no-index ../secret README.md", "--output=../.bashrc", "--exec=./evil", "--outp=PW",
        "--contents=../secret", "--ignore-revs-file=../secret", "--file=../secret"],
    "date": ["-s 1", "-f ../secret", "--file=../secret", "-r ../secret", "--reference=../secret"],
    "du": ["--files0-from=../secret", "-X ../secret", "..", "-L .", "--time ..", "--exclude-from=../secret"],
    "wc": ["--files0-from=../secret", "../secret"],
    "uniq": ["PW", "README.md PW"],
    "xxd": ["README.md PW", "../secret PW", "-r", "../secret"],
    "file": ["-f ../secret", "-m ../secret", "-C", "../secret", "-z"],
    "diff": ["../secret", "--to-file=../secret", "-X ../secret", "--from-file=../secret", "-r . .."],
    "jq": ["-f ../secret", "--slurpfile a ../secret", "--rawfile a ../secret", "../secret", "-L ../.docker"],
    "tee": ["PW", "-a PW", "../PW"],
    "sed": ["-i s/h/j/", "wPW", "1e./evil", "../secret"],
    "md5sum": ["-c args", "--check args", "../secret"],
    "strings": ["@args", "../secret"],
    "tail": ["../secret", "--pid=1"],
    "od": ["../secret", "--strings ../secret", "-w ../secret", "-S 3 ../secret"],
    "column": ["../secret"],
    "ls": ["..", "../vault", "~", "-R .."],
    "stat": ["../secret"],
    "xargs": ["./evil", "touch PW", "-a args cat", "--arg-file=args cat"],
    "env": ["./evil", "-S ./evil", "-C .. cat secret", "PATH=. ls"],
    "timeout": ["1 ./evil"],
    "hexdump": ["-f ../secret", "../secret"],
    "cksum": ["--check args", "../secret"],
}  # fmt: skip
JQ = ["'.'", ".name", "'import \"config\" as $d {search:\"~/.docker\"}; $d'", "'import \"config\" as $d {search:\"../.docker\"}; $d'",
    "'include \"a\"; .'", "'env'", "'$ENV.HOME'", "'input'", "'import \"../.docker/config\" as $d; $d'", "'input_filename'",
    "'keys'", "'. | length'", "'\"import\"'", "'modulemeta'", "'get_search_list'", "'$__prog_args'"]  # fmt: skip
SED = ["1p", "'1,2p'", "'$p'", "'1wPW'", "'1w PW'", "'1e./evil'", "'1r../secret'", "'s/h/j/w PW'", "'1,+1p'", "1,2{p}",
    "'e ./evil'", "'1p;1e./evil'"]  # fmt: skip
FORMATS = ["'%s\\n'", "%s", "-v x %s", "-v 'a[$(./evil)]' %s", "'%(%F)T'", "--", "'%n'", "%d"]
WRAPPERS = [
    "env",
    "timeout",
    "nice",
    "nohup",
    "setsid",
    "stdbuf",
    "ionice",
    "time",
    "command",
    "builtin",
    "exec",
    "xargs",
]
NEEDS = {"timeout": ["5", "1s", "0.5", "./evil"]}
PREFIXES = ["./", "tools/", "/usr/bin/", "/bin/", "../project/", "$PWD/", "~/project/", "./tools/", "/usr/bin/../bin/",
    "/tmp/", "./../project/", "src/../", "{.,a}/", "\\./"]  # fmt: skip
SUBS = ["status", "log", "show", "diff", "branch", "tag", "stash list", "stash show", "rev-parse", "rev-list", "ls-files",
    "ls-tree HEAD", "blame README.md", "grep foo", "cat-file -p HEAD", "describe", "shortlog HEAD", "reflog", "remote -v",
    "config --get x", "config --list", "for-each-ref", "show-ref", "whatchanged", "diff-tree HEAD", "worktree list",
    "submodule status", "check-ignore x", "check-attr -a README.md", "name-rev HEAD", "merge-base HEAD main", "notes list",
    "bisect log", "sparse-checkout list", "var GIT_EDITOR", "count-objects", "remote", "st", "reflog show", "diff-files",
    "archive HEAD", "bundle", "help", "version", "ls-remote .", "fsck", "cherry", "range-diff", "last-modified"]  # fmt: skip
READERS = ["cat", "head", "tail", "wc", "nl", "tac", "grep foo", "sort", "od -c", "strings", "md5sum", "ls", "stat", "cut -c1-40",
    "rg foo", "sed -n 1p", "diff README.md", "cmp README.md", "file", "xxd", "rev", "fold", "paste", "comm README.md",
    "jq .", "column -t", "uniq", "du", "find", "realpath", "readlink -f", "test -f", "[ -f"]  # fmt: skip


class Flag(Struct, frozen=True):
    """`takes`: nothing, a value ("="), or one that may be left out ("[=")."""

    name: str
    takes: str = ""


@cache
def real_flags() -> dict[str, list[Flag]]:
    """What the programs themselves know, from their own help."""
    found = dict[str, list[Flag]]()
    for line in Path(__file__).with_name("shell_flags.txt").read_text().splitlines():
        name, _, rest = line.partition(": ")
        found[name] = [Flag(word.rstrip("[="), word[len(word.rstrip("[=")) :]) for word in rest.split()]
    for name in ("log", "show", "whatchanged", "stash show", "stash list", "reflog"):
        found[f"git {name}"] = [*found.get(f"git {name}", []), *found["git diff"]]
    return found


@cache
def known_flags() -> dict[str, list[Flag]]:
    """What the judge knows, read out of its tables whatever they look like inside."""
    from teamwright.host import commands, git_commands

    found = dict[str, list[Flag]]()
    for prefix, table in (("", commands.KNOWN), ("git ", git_commands.GIT)):
        for name, flags in table.items():
            told = structs.asdict(flags)
            words = [w for v in told.values() if isinstance(v, str) for w in v.split() if w.startswith("--")]
            short = [c for key in ("short", "valued") for c in str(told.get(key, "")) if c.isalnum()]
            valued = str(told.get("valued", "")), str(told.get("long_valued", "")).split()
            listed = [Flag(f"-{c}", "=" if c in valued[0] else "") for c in short]
            found[prefix + name] = listed + [Flag(w, "=" if w in valued[1] else "") for w in words]
    return found


def commands() -> list[str]:
    return sorted(
        {*(n for n in real_flags() if " " not in n), *(n for n in known_flags() if " " not in n)} - set(WRAPPERS)
    )


class Dice(Random):
    """A seed's own luck."""

    def chance(self, share: float) -> bool:
        return self.random() < share

    def word(self, name: str, harm: float = 0.35) -> str:
        if not self.chance(harm):
            return self.choice(PLAIN)
        own = HARM_OF.get(name)
        return self.choice(own if own and self.chance(0.6) else HARM)
