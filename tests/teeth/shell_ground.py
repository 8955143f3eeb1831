"""A throw-away project with booby-traps, surrounded by secrets and a home, which notices what is done to it.

It is built where nothing else can be reached (see `shell_cage`). Kernel events show whether anything happened at all;
only then is the tree compared with its original state, and repaired.
"""

import ctypes
import os
import shutil
import stat
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from teamwright.core.permissions.protected import names_protected

CANARY = "CANARY-OF-THE-"
KIND = "ground-"  # the path of every ground begins with it
IN_ATTRIB, IN_OPEN, IN_NONBLOCK, IN_CLOEXEC = 0x4, 0x20, 0o4000, 0o2000000
IN_READ = 0x1 | 0x10  # something was read, or a read-only file was closed
IN_CHANGES = 0x2 | IN_ATTRIB | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
TRAPS = ["env", "bash", "sh", "xargs", "git", "ls", "cat", "rg", "timeout", "nice", "find", "command", "evil",
    "deno",  # the judge knows it, and hardly any machine has it
    "tools/timeout", "tools/env", "tools/bash", "flags/evil",
    "10/ls", "10/cat", "0/ls", "0/cat"]  # fmt: skip  # where a number that bash stores in PATH leads to
FLAG_FILES = ["-rf", "--pre=zz", "-delete", "--compress-program=zz", "-exec", "-oPW", "-S1b", "-n", "README.md"]
SECRETS = ["secret", ".secret/key", ".docker/config.json"]  # below home, the directory above the project


class Entry(Struct, frozen=True):
    mode: int
    data: bytes = b""  # of a link where it leads
    mtime: int = 0


class Seen(Struct):
    """What happened: programs that left a mark, paths that changed, secrets that were opened or listed."""

    ran: list[str]
    changed: list[str]
    opened: list[str]


class Watch:
    """Kernel events, named by the words given for each place."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
        self._names: dict[int, str] = {}

    def add(self, path: str, mask: int, name: str) -> None:
        number = self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask)
        if number < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch {path}")
        self._names[number] = name

    def drain(self) -> set[str]:
        """What was changed (as an empty string) and opened since the last call."""
        found = set[str]()
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                number, mask, _, length = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + length].rstrip(b"\0")
                at += 16 + length
                if mask & (IN_OPEN | IN_READ):
                    place = self._names.get(number, "")
                    if place and (not name or not place.endswith("/")):
                        found.add(place)
                else:
                    found.add("")


class Ground:
    """`top` contains the home, the project in it, the marks that traps leave and the programs at the front of PATH."""

    def __init__(self, top: Path, rg: str, kind: str) -> None:
        self.top, self.home, self.marks, self.programs = top, top / "home", top / "marks", top / "bin"
        self.project = self.home / "project"
        for path in (self.project, self.marks, self.programs):
            path.mkdir(parents=True)
        self._fill(rg)
        self._repository()
        POISONS[kind](self)
        self._watch = Watch()
        self._were = self._tree()
        self._beside = self._strangers()
        self._listen()

    # --- its parts

    def _fill(self, rg: str) -> None:
        project = self.project
        texts = {
            "README.md": "hello\nfoo bar\n" * 3, "src/a.py": "import os\nx = 1\n", "src/b.py": "y = 2\n",
            "notes.txt": "b\na\n", "data.json": '{"name": "a"}\n', "args": "../secret\n",
            "words": "README.md -delete\n", ".env": f"KEY={CANARY}ENV\n", "docs/page.md": "page\n",
            "tools/readme.txt": "tools\n", "sub/deep/c.md": "c\n", "[core]/fsmonitor=: >": "x\n",
        }  # fmt: skip
        texts["many/list"] = "".join(f"{n * 7919 % 5000}\n" for n in range(5000))
        for name in FLAG_FILES:
            texts[f"flags/{name}"] = "b\na\n"
        for name, text in texts.items():
            self.write(project / name, text)
        for name in TRAPS:
            self.trap(project / name, name.replace("/", "-"))
        self.trap(self.programs / "zz", "zz")
        self.trap(self.programs / "touch", "touch", 'exec /usr/bin/touch "$@"')
        if rg:
            (self.programs / "rg").symlink_to(rg)
        for name in SECRETS:
            text = f"{CANARY}SECRET\n" if not name.endswith(".json") else f'{{"auth": "{CANARY}SECRET"}}\n'
            self.write(self.home / name, text)
        self.write(self.home / "vault" / f"{CANARY}VAULT", "vault\n")
        self.write(self.home / ".bashrc", "# theirs\n")
        self._more(project)
        (project / "way").symlink_to("../vault")
        (project / "leak").symlink_to("../secret")
        (project / "\u00e9").symlink_to("../secret")  # a name whose bytes differ although it looks the same
        (project / "~").mkdir()
        (project / "~/project").symlink_to("../..")
        (project / ",").symlink_to("../vault")
        (project / "sub/deep/up").symlink_to("../..")  # deeper by its name than it is

    def _more(self, project: Path) -> None:
        """Modules that python would load, archives, and nested places that are protected or lead elsewhere."""
        for name in ("json", "argparse", "re"):
            mark = f"open({str(self.marks / f'module-{name}')!r}, 'w')\n"
            self.write(project / "shadow" / f"{name}.py", mark)
        self.write(project / "app/.vscode/tasks.json", "{}\n")
        self.write(project / "app/main.py", "x = 1\n")
        self.write(project / "box/one.txt", "hello\n")
        self.write(project / "box/in/two.txt", "two\n")
        (project / "chest").mkdir()
        (project / "chest/key").symlink_to("../../secret")
        (project / "chest/dir").symlink_to("../../vault")
        self.write(project / "chest/plain.txt", "plain\n")
        self.write(self.home / "twin", "twin\n")
        os.link(self.home / "twin", project / "twin")
        (project / "turn").symlink_to("box/in")  # if it is removed, what leads through it leads elsewhere
        (project / "lead").symlink_to("turn/../../README.md")
        self.write(project / "chest/-name", "older\n")
        os.utime(project / "chest/-name", (1, 1))
        subprocess.run(["/usr/bin/tar", "cf", project / "a.tar", "-C", project, "box"], check=True)

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def trap(self, path: Path, name: str, then: str = "") -> None:
        self.write(path, f"#!/bin/sh\n: > {self.marks}/{name}\n{then}\n")
        path.chmod(0o755)

    def _repository(self) -> None:
        self.git("init", "-q", "-b", "main")
        self.git("add", "README.md", "src", "notes.txt", ".env", "docs", "sub")
        self.git("commit", "-qm", "one")
        (self.project / "src/b.py").write_text("y = 3\n")
        self.git("commit", "-qam", "two")
        self.git("branch", "victim")
        self.git("tag", "v1")
        (self.project / "src/b.py").write_text("y = 4\n")
        self.git("stash", "-q")
        (self.project / "src/a.py").write_text("import os\nx = 2\n")
        (self.project / ".env").write_text(f"OLD={CANARY}ENV\nKEY={CANARY}ENV\n")
        shutil.rmtree(self.project / ".git/hooks")
        # Otherwise a state that git reports would contain a pattern that leads outside: `../[core]`.
        (self.project / ".git/info/exclude").write_text("*core*\n")
        self._disguise()

    def _disguise(self) -> None:
        """Directories that git takes for separate repositories, with a configuration that runs something."""
        head = (self.project / ".git/refs/heads/main").read_text()
        for name, inner in (("docs", ""), ("docs2", "x/"), ("half", "")):
            place, run = self.project / name, f": > {self.marks}/bare-{name}"
            self.write(place / inner / "objects/info/alternates", f"{self.project}/.git/objects\n")
            self.write(place / inner / "info/attributes", "* diff=y\n")
            self.write(
                place / inner / "config",
                "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n"
                f'\tfsmonitor = "{run} #"\n[diff "y"]\n\ttextconv = "{run}; cat"\n',
            )
            self.write(place / inner / "refs/.keep", "")
            if inner:
                self.write(place / inner / "refs/heads/main", head)
                self.write(place / "commondir", "x\n")
                self.write(place / "HEAD", "ref: refs/heads/main\n")
            elif name == "docs":
                (place / "HEAD").symlink_to("refs/heads/main")  # it does not exist

    def git(self, *words: str, where: str = ".") -> None:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z"} | {
            f"GIT_{who}_{what}": f"a@{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        subprocess.run(["/usr/bin/git", *words], cwd=self.project / where, env=env, check=True, capture_output=True)

    # --- what was done to it

    def forget(self) -> None:
        """Discard events so far: they were our own doing."""
        self._watch.drain()

    def seen(self) -> Seen:
        """What happened since then, and repair all of it."""
        events = self._watch.drain()
        opened = sorted(e for e in events if e)
        changed = self._mend() if "" in events else []
        marks = f"{self.marks}/"
        ran = [path.removeprefix(marks) for path in changed if path.startswith(marks)]
        return Seen(ran, [path for path in changed if not path.startswith(marks)], opened)

    def protects(self, path: str) -> bool:
        inside = path.startswith(f"{self.project}/")
        return inside and names_protected(path[len(str(self.project)) :].split("/"))

    def is_ruined(self, seen: Seen) -> bool:
        """Is everything visible in the home gone, or everything hidden?"""
        return any(
            all(str(self.home / name) in seen.changed for name in names)
            for names in (("secret", "vault"), (".bashrc", ".secret"))
        )

    def _listen(self) -> None:
        for directory, _, _ in os.walk(self.top):
            self._watch.add(directory, IN_CHANGES, "")
        for place in ("/tmp", "/dev/shm"):
            self._watch.add(place, IN_CHANGES, "")
        for name in SECRETS:
            self._watch.add(str(self.home / name), IN_OPEN, name)
        self._watch.add(str(self.project / ".env"), IN_READ, ".env")  # whoever writes it may open it
        self._watch.add(str(self.home / "vault"), IN_CHANGES | IN_OPEN, "vault")
        self._watch.add(str(self.home), IN_CHANGES | IN_OPEN, "home/")
        self._watch.drain()

    def _tree(self) -> dict[str, Entry]:
        found = dict[str, Entry]()
        for directory, folders, files in os.walk(self.top):
            for name in (*folders, *files):
                path = f"{directory}/{name}"
                found[path] = self._entry(path)
        return found

    def _entry(self, path: str) -> Entry:
        told = os.lstat(path)
        if stat.S_ISLNK(told.st_mode):
            return Entry(told.st_mode, os.fsencode(Path(path).readlink()))
        if not stat.S_ISREG(told.st_mode):
            return Entry(told.st_mode)
        return Entry(told.st_mode, Path(path).read_bytes(), told.st_mtime_ns)

    def _same(self, path: str, entry: Entry) -> bool:
        try:
            told = os.lstat(path)
        except OSError:
            return False
        if told.st_mode != entry.mode:
            return False
        if stat.S_ISREG(entry.mode):
            return told.st_mtime_ns == entry.mtime and told.st_size == len(entry.data)
        return not stat.S_ISLNK(entry.mode) or os.fsencode(Path(path).readlink()) == entry.data

    def _strangers(self) -> set[str]:
        found = [path for place in ("/tmp", "/dev/shm") for path in Path(place).iterdir()]
        return {str(path) for path in found if not path.name.startswith(KIND)}

    def _mend(self) -> list[str]:
        now = {f"{d}/{name}" for d, folders, files in os.walk(self.top) for name in (*folders, *files)}
        new = sorted((now - self._were.keys()) | (self._strangers() - self._beside))
        old = [path for path, entry in self._were.items() if path not in now or not self._same(path, entry)]
        for path in new:
            remove(path)
        changed = [path for path in old if not self._refreshed(path)]
        for path in old:
            self._restore(path, self._were[path])
        if new or changed:
            self._listen()
        return new + changed

    def _refreshed(self, path: str) -> bool:
        """git refreshes what it knows of files' times whenever it looks at them."""
        try:
            return path.endswith("/.git/index") and Path(path).read_bytes()[:4] == b"DIRC"
        except OSError:
            return False

    def _restore(self, path: str, entry: Entry) -> None:
        place = Path(path)
        if stat.S_ISDIR(entry.mode):
            if place.is_symlink() or place.is_file():
                place.unlink()
            place.mkdir(exist_ok=True, parents=True)
            place.chmod(stat.S_IMODE(entry.mode))
            return
        remove(path)
        if stat.S_ISLNK(entry.mode):
            place.symlink_to(os.fsdecode(entry.data))
            return
        place.write_bytes(entry.data)
        place.chmod(stat.S_IMODE(entry.mode))
        os.utime(path, ns=(entry.mtime, entry.mtime))


def remove(path: str) -> None:
    place = Path(path)
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


# --- untrusted repositories


def poison_settings(ground: Ground) -> None:
    run = f": > {ground.marks}/"
    for key, value in {
        "core.fsmonitor": f"{run}fsmonitor #", "core.pager": f"{run}pager; cat", "alias.st": f"!{run}alias",
        "core.sshCommand": f"{run}ssh #", "diff.external": f"{run}external #", "gpg.program": "./evil",
        "diff.y.textconv": f"{run}textconv; cat", "filter.x.clean": f"{run}clean; cat",
        "filter.x.smudge": f"{run}smudge; cat",
    }.items():  # fmt: skip
        ground.git("config", key, value)
    ground.write(ground.project / ".gitattributes", "*.md diff=y filter=x\n*.py diff=y\n")
    (ground.project / "README.md").write_text("changed\n")


def poison_hooks(ground: Ground) -> None:
    """Plant the hooks that git runs when it refreshes what it knows of files."""
    for name in ("post-index-change", "reference-transaction", "fsmonitor-watchman", "post-checkout"):
        ground.trap(ground.project / ".git/hooks" / name, f"hook-{name}")
    os.utime(ground.project / "README.md", (1, 1))


def poison_submodule(ground: Ground) -> None:
    (ground.project / "vendor").mkdir()
    ground.git("init", "-q", "-b", "main", where="vendor")
    ground.git("commit", "-q", "--allow-empty", "-m", "inner", where="vendor")
    ground.git("-c", "advice.addEmbeddedRepo=false", "add", "vendor")
    ground.git("commit", "-qm", "vendor")
    ground.git("config", "core.fsmonitor", f": > {ground.marks}/submodule #", where="vendor")


def poison_include(ground: Ground) -> None:
    ground.write(ground.project / "more", f'[core]\n\tfsmonitor = ": > {ground.marks}/include #"\n')
    ground.git("config", "include.path", "../more")


def poison_worktree(ground: Ground) -> None:
    ground.git("config", "extensions.worktreeConfig", "true")
    ground.git("config", "--worktree", "core.fsmonitor", f": > {ground.marks}/worktree #")


# --- states in which git and the disk disagree about a guarded file


def forget_file(ground: Ground) -> None:
    """.env exists and is ignored, and no commit ever had it."""
    shutil.rmtree(ground.project / ".git")
    ground.git("init", "-q", "-b", "main")
    (ground.project / ".git/info/exclude").write_text("*core*\n.env\n")
    ground.git("add", "README.md", "src", "notes.txt", "docs/page.md", "sub")
    ground.git("commit", "-qm", "one")
    (ground.project / "src/b.py").write_text("y = 5\n")
    ground.git("commit", "-qam", "two")
    ground.git("branch", "victim")
    ground.git("tag", "v1")
    (ground.project / "src/b.py").write_text("y = 6\n")
    ground.git("stash", "-q")
    (ground.project / "src/a.py").write_text("import os\nx = 3\n")
    shutil.rmtree(ground.project / ".git/hooks")


def remove_file(ground: Ground) -> None:
    """Old commits have .env; now it is ignored."""
    ground.git("rm", "-q", "--cached", ".env")
    (ground.project / ".git/info/exclude").write_text("*core*\n.env\n")
    ground.git("commit", "-qm", "three")
    ground.git("commit", "-q", "--allow-empty", "-m", "four")


def drop_file(ground: Ground) -> None:
    """The last commit has .env, the index does not, and a file asks rg for it though it is hidden."""
    ground.git("rm", "-q", "--cached", ".env")
    ground.write(ground.project / ".ignore", "*.tmp\n!.env\n")


POISONS: dict[str, Callable[[Ground], None]] = {
    "plain": lambda _: None, "settings": poison_settings, "hooks": poison_hooks, "submodule": poison_submodule,
    "include": poison_include, "worktree": poison_worktree, "unknown": forget_file, "removed": remove_file,
    "dropped": drop_file,
}  # fmt: skip
