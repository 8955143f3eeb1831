"""The sandbox policy for one program: a map from paths to access, in which the longest matching path decides."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from posixpath import dirname
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from teamwright.core.sandbox.hosts import Hosts
from teamwright.core.sandbox.rules import SandboxRules

Access = Literal["none", "read", "write"]
Tier = Literal["bwrap", "landlock", "seatbelt", "none"]
MOST_NESTED = 24  # repositories below a root that are guarded name by name; if there are more, each as a whole


class Policy(Struct, frozen=True):
    """Paths are absolute and resolved; there is no order and there are no wildcards or exceptions."""

    access: tuple[tuple[str, Access], ...]  # sorted by path; "/" is always there
    roots: tuple[str, ...] = ()  # writable ones: searched for repositories that the program made
    absent: tuple[str, ...] = ()  # protected names that do not exist and must not appear
    told: tuple[str, ...] = ()  # the same for programs that live on: reported, and left to the person
    links: tuple[tuple[str, str], ...] = ()  # protected links and their targets as written: no mount holds them
    kept: tuple[str, ...] = ()  # protected names that exist, for a tier that can only put them back
    spared: tuple[str, ...] = ()  # parts of `kept` that others own and may change meanwhile
    walked: tuple[str, ...] = ()  # shared by worktrees: outside the roots, so a tier can list their parts
    watched: tuple[str, ...] = ()  # git directories: whatever must not appear there is moved away at once
    git: tuple[str, ...] = ()  # all git directories: no link that leads elsewhere may appear there
    masks: tuple[str, ...] = ()  # sockets of the machine
    sockets: tuple[str, ...] = ()  # sockets that may be used anyway
    tmp: str = ""
    cache: str = ""
    hosts: Hosts = Hosts()


class Name(Struct, frozen=True):
    """A protected name as found. `target`: a link's resolved target; `says`: the target as written."""

    path: str
    state: Literal["there", "missing", "link"]
    target: str = ""
    says: str = ""


class Repository(Struct, frozen=True):
    """A git directory that belongs to a root."""

    directory: str  # resolved
    names: tuple[Name, ...] = ()  # its protected names; in a linked worktree those of `common`
    common: str = ""  # in a linked worktree: what it shares with the main one
    nested: bool = False

    @property
    def shared(self) -> str:
        return self.common or self.directory


class Terrain(Struct, frozen=True):
    """What was found on the machine. All paths are resolved, except names that are links or missing."""

    project: str
    home: str
    state: str  # TEAMWRIGHT_HOME
    hidden: tuple[str, ...] = ()  # secrets that exist
    shared: tuple[str, ...] = ()  # /tmp, /var/tmp
    runtime: tuple[str, ...] = ()  # /run and the like, where sockets are
    shown: tuple[str, ...] = ()  # parts of hidden places that programs need
    names: tuple[Name, ...] = ()  # protected names in the roots
    repositories: tuple[Repository, ...] = ()
    unseen: tuple[str, ...] = ()  # directories in roots that were not searched
    busy: tuple[str, ...] = ()  # trees in which others are working, and their git directories
    sockets: tuple[str, ...] = ()  # sockets outside `runtime` and `shared`
    opened: tuple[str, ...] = ()  # sockets that settings allow
    allow_write: tuple[str, ...] = ()  # paths from the settings, wildcards expanded
    deny_write: tuple[Name, ...] = ()
    deny_read: tuple[str, ...] = ()
    allow_read: tuple[str, ...] = ()
    tmp: str = ""
    cache: str = ""


def access_of(policy: Policy, path: str) -> Access:
    """The access by the longest entry that contains the path."""
    return longest(dict(policy.access), path)


def holds(policy: Policy, tier: Tier) -> str:
    """Why this tier cannot enforce the policy; empty if it can."""
    if tier == "none":
        return "there is no sandbox on this machine"
    if tier == "landlock" and (unheld := _beyond_landlock(policy.access)):
        return f"landlock cannot hide {unheld[0]}, because the directory around it is writable"
    return ""


def held_part(policy: Policy, tier: Tier) -> Policy:
    """The part of the policy that the tier can enforce. For commands that were approved because it cannot enforce all
    of it."""
    if tier != "landlock" or not (unheld := _beyond_landlock(policy.access)):
        return policy
    return replace(policy, access=tuple(entry for entry in policy.access if entry[0] not in unheld))


@lru_cache(maxsize=32)
def _beyond_landlock(access: tuple[tuple[str, Access], ...]) -> tuple[str, ...]:
    """Landlock lists what is open, so a part of a writable place cannot be closed again."""
    known = dict(access)
    hidden = [path for path, may in access if may == "none" and path != "/"]
    return tuple(path for path in hidden if longest(known, dirname(path)) == "write")


def policy_for(
    rules: SandboxRules, roots: Iterable[str], mode: str, terrain: Terrain, *, lives_on: bool = False
) -> Policy:
    """The policy, built layer by layer. `lives_on`: a background command, monitor, server or hook."""
    return _policy_for(rules, tuple(roots), mode, terrain, lives_on)


@lru_cache(maxsize=32)
def _policy_for(
    rules: SandboxRules,
    roots: tuple[str, ...],
    mode: str,
    terrain: Terrain,
    lives_on: bool,  # noqa: FBT001 -- a key of the cache
) -> Policy:
    plan = mode == "plan"
    hosts = Hosts() if plan else replace(rules.hosts, ask=rules.hosts.ask and mode != "dontAsk")
    if rules.open_files:
        access: tuple[tuple[str, Access], ...] = (("/", "write"),)
        return Policy(access, tmp=terrain.tmp, cache=terrain.cache, hosts=hosts)
    layers = _Layers(terrain)
    layers.hide_and_show(rules)
    layers.open(roots, plan=plan)
    layers.open_git(lives_on=lives_on or plan)
    masks = () if rules.all_sockets else tuple(s for s in terrain.sockets if s not in terrain.opened)
    layers.protect(masks)
    missing = layers.missing
    in_git = tuple(sorted(path for path in missing if dirname(path) in layers.git))
    others = tuple(sorted(missing.difference(in_git)))
    return Policy(
        access=layers.simplified(),
        roots=() if plan else roots,
        absent=in_git if lives_on else tuple(sorted(missing)),
        told=others if lives_on else (),
        links=tuple(sorted(layers.links.items())),
        kept=tuple(sorted(layers.kept)),
        spared=terrain.busy,
        walked=tuple(sorted(found.common for found in terrain.repositories if found.common)),
        watched=tuple(sorted({dirname(path) for path in in_git})),
        git=tuple(sorted(layers.linkable)),
        masks=masks,
        sockets=terrain.opened,
        tmp=terrain.tmp,
        cache=terrain.cache,
        hosts=hosts,
    )


class _Layers:
    """The map under construction."""

    def __init__(self, terrain: Terrain) -> None:
        self.terrain = terrain
        self.map: dict[str, Access] = {"/": "read"}
        self.pinned: set[str] = set()  # mount points that only keep a name from being moved aside
        self.git: set[str] = set()
        self.linkable: set[str] = set()  # git directories that are guarded name by name
        self.missing: set[str] = set()
        self.links: dict[str, str] = {}
        self.kept: set[str] = set()
        self.guarded: list[str] = []  # paths with an entry of their own
        self.many = sum(found.nested for found in terrain.repositories) > MOST_NESTED

    def lay(self, paths: Iterable[str], access: Access) -> None:
        self.map.update(dict.fromkeys(filter(None, paths), access))

    def cap(self, path: str) -> None:
        """At most `read`. Hidden places stay hidden."""
        if longest(self.map, path) == "write":
            self.map[path] = "read"

    def hide_and_show(self, rules: SandboxRules) -> None:
        t = self.terrain
        self.lay((*t.hidden, t.state, *t.shared, *t.deny_read), "none")
        if not rules.all_sockets:
            self.lay(t.runtime, "none")
        for path in (t.home, t.project):
            if path not in t.deny_read and longest(self.map, path) == "none":
                self.map[path] = "read"
        self.lay((*t.shown, *t.allow_read), "read")

    def open(self, roots: tuple[str, ...], *, plan: bool) -> None:
        opened: Access = "read" if plan else "write"
        self.lay((*self.terrain.allow_write, *roots), opened)
        self.lay((self.terrain.tmp, self.terrain.cache), "write")

    def open_git(self, *, lives_on: bool) -> None:
        for found in self.terrain.repositories:
            if found.nested and longest(self.map, found.directory) != "write":
                continue
            for directory in (found.shared, found.directory):
                nearest = _nearest(self.map, directory)
                if self.map[nearest] == "none" and nearest in self.terrain.deny_read:
                    continue
                self.map[directory] = "read" if lives_on else "write"
                self.pinned.add(directory)
                self.git.add(directory)
                if not (found.nested and self.many):
                    self.guarded.append(directory)
                    self.linkable.add(directory)

    def protect(self, masks: tuple[str, ...]) -> None:
        repositories = self.terrain.repositories
        own = [found.directory for found in repositories if found.common]
        writable = [path for path in own if longest(self.map, path) == "write"]
        for found in repositories:
            self._protect_names(found.names, keep=not found.common, each=not (found.nested and self.many))
            if found.nested and self.many:
                self.cap(found.directory)
        self._protect_names((*self.terrain.names, *self.terrain.deny_write))
        for path in self.terrain.unseen:
            self.cap(path)
        self.lay(writable, "write")
        pointers = (Name(f"{path}/{name}", "there") for path in writable for name in ("commondir", "gitdir"))
        self._protect_names(pointers)
        hidden = [path for path, access in self.map.items() if access == "none"]
        for path in (*self.guarded, *hidden, *masks):  # last, because a directory above may itself be closed
            self._pin_above(path)

    def _protect_names(self, names: Iterable[Name], *, keep: bool = True, each: bool = True) -> None:
        """`keep`: a tier may restore it afterwards. `each`: it gets an entry of its own."""
        for name in names:
            path = name.target if name.state == "link" else name.path
            if name.state == "link":
                self.links[name.path] = name.says
            if name.state == "missing":
                self.missing.add(name.path)
                continue
            if not path or longest(self.map, path) == "none":
                continue
            if keep and self._in_reach(path):
                self.kept.add(path)
            if each and longest(self.map, path) == "write":
                self.map[path] = "read"
                self.guarded.append(path)

    def _in_reach(self, path: str) -> bool:
        """Could a program write here under a tier that can only hold roots as a whole?"""
        while (path := dirname(path)) != "/":
            if self.map.get(path) == "write":
                return True
        return self.map["/"] == "write"

    def _pin_above(self, path: str) -> None:
        """Pins the directories above. If one could be renamed, another could take its place, and the hidden content
        would be reachable under the renamed path."""
        above = dirname(path)
        while longest(self.map, above) == "write" and (above not in self.map or above in self.pinned):
            self.map[above] = "write"
            self.pinned.add(above)
            above = dirname(above)

    def simplified(self) -> tuple[tuple[str, Access], ...]:
        """Drops entries that repeat the next shorter one: each entry costs a mount."""
        kept: dict[str, Access] = {}
        for path in sorted(self.map):
            access = self.map[path]
            pinned = path in self.pinned and access == "write"
            if path == "/" or pinned or longest(kept, dirname(path)) != access:
                kept[path] = access
        return tuple(kept.items())


def _nearest(known: Mapping[str, Access], path: str) -> str:
    while path not in known:
        path = dirname(path)
    return path


def longest(known: Mapping[str, Access], path: str) -> Access:
    return known[_nearest(known, path)]
