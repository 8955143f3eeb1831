"""Facts about a call: what it would do, as far as is known beforehand. The judge decides from these alone."""

from msgspec import Struct


class Place(Struct, frozen=True):
    """A path as named (absolute, normalised) and as resolved (links followed); empty if it cannot be known.

    `deep`: everything below is affected too. `linked`: the file has another hard link, which may be anywhere. `held`:
    for a deep place, the guarded paths that would be exposed with it; None if nobody looked. `vast`: those paths belong
    to the surrounding repository; if nobody looked, any of them may be affected. `spare`: how the command can leave out
    the first of `held`. `guess`: a word may turn out to name one of `held`.
    """

    given: str
    path: str
    deep: bool = False
    linked: bool = False
    held: tuple[str, ...] | None = None
    vast: bool = False
    spare: str = ""
    guess: bool = False


NOWHERE = Place("", "")  # a place that only the running command knows


class Reads(Struct, frozen=True):
    tool: str
    places: tuple[Place, ...]


class Edits(Struct, frozen=True):
    tool: str
    places: tuple[Place, ...]


class CommandView(Struct, frozen=True):
    """One reading of a command: with its wrappers or without.

    `need` is how many words an allow rule must spell out to match this reading; None: no allow rule may match.
    """

    words: tuple[str, ...]
    need: int | None = 1


class Command(Struct, frozen=True):
    """One simple command. Quotes are removed from words; UNKNOWN stands for text that is not known yet."""

    views: tuple[CommandView, ...]  # as written first
    shown: str
    harmless: bool = False  # it only reads, and only `reads`
    reads: tuple[Place, ...] = ()
    touches: tuple[Place, ...] = ()  # if not harmless: everything its words may name
    edits: tuple[Place, ...] = ()  # what it is known to change
    edits_only: bool = False  # it does nothing but change `edits` and read `reads`
    opaque: str = ""  # why it is impossible to tell what it runs
    shadow: bool = False  # only for restricting rules: the commands it carries are listed separately

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
    broken: str = ""  # why it could not be parsed completely
    ruin: str = ""  # the home or root directory that it would remove
    doubt: str = ""  # why it may or may not remove one


class Fetches(Struct, frozen=True):
    tool: str
    domain: str


class Uses(Struct, frozen=True):
    """Any other tool; `detail` is what its rules match, such as an agent's name.

    `own`: it touches only our own store, or starts agents. `weighty`: this use needs approval anyway.
    """

    tool: str
    detail: str = ""
    own: bool = False
    weighty: bool = False
    reading: bool = False


Facts = Reads | Edits | Runs | Fetches | Uses
