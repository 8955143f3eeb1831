"""Facts about a call: what it would do, as far as that is known beforehand. The judge decides from these alone."""

from msgspec import Struct


class Place(Struct, frozen=True):
    """A path as it was named (absolute, normalised) and as it is (links followed); empty where nobody can know it.

    `deep`: everything below is touched as well. `linked`: a file with another name besides, which may lie anywhere.
    `held`: of a deep place, the paths that rules guard and that would be shown with it; None where nobody looked.
    `vast`: they are those of the repository around it, any of them where nobody looked. `spare`: how the command can
    leave the first of `held` out.
    """

    given: str
    path: str
    deep: bool = False
    linked: bool = False
    held: tuple[str, ...] | None = None
    vast: bool = False
    spare: str = ""


NOWHERE = Place("", "")  # somewhere that only the running command knows


class Reads(Struct, frozen=True):
    tool: str
    places: tuple[Place, ...]


class Edits(Struct, frozen=True):
    tool: str
    places: tuple[Place, ...]


class FileView(Struct, frozen=True):
    """One way to see a command: with its wrappers or without.

    `need` is how many words an allow rule must name one by one to match this view; None: no allow rule may.
    """

    words: tuple[str, ...]
    need: int | None = 1


class Command(Struct, frozen=True):
    """One simple command, by itself. Words have their quotes removed; UNKNOWN stands for what is not known yet."""

    views: tuple[FileView, ...]  # as written first
    shown: str
    harmless: bool = False  # it only reads, and only `reads`
    reads: tuple[Place, ...] = ()
    touches: tuple[Place, ...] = ()  # of a command that is not harmless: whatever its words may name
    edits: tuple[Place, ...] = ()  # what it is known to change
    edits_only: bool = False  # it changes `edits` and reads `reads`, and does nothing else
    opaque: str = ""  # why nobody can tell what it runs
    shadow: bool = False  # seen only by rules that restrict: what it carries is listed by itself

    @property
    def is_git(self) -> bool:
        return any(word.rpartition("/")[2] == "git" for view in self.views for word in view.words[:1])


class Runs(Struct, frozen=True):
    """A shell command, taken apart."""

    tool: str
    text: str
    commands: tuple[Command, ...] = ()
    reads: tuple[Place, ...] = ()  # redirections
    writes: tuple[Place, ...] = ()
    broken: str = ""  # why it could not be parsed as a whole
    ruin: str = ""  # the home or root directory that it would remove
    doubt: str = ""  # why nobody can tell whether it would remove one


class Fetches(Struct, frozen=True):
    tool: str
    domain: str


class Uses(Struct, frozen=True):
    """Any other tool; `detail` is what its rules speak of, such as an agent's name.

    `own`: it touches only our own store, or starts agents. `weighty`: this use of it needs approval all the same.
    """

    tool: str
    detail: str = ""
    own: bool = False
    weighty: bool = False
    reading: bool = False


Facts = Reads | Edits | Runs | Fetches | Uses
