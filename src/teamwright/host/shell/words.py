"""Words of a parsed command: quotes and escapes removed, parts known only at run time marked."""

import re
from collections.abc import Callable
from itertools import pairwise

from msgspec import Struct, structs
from tree_sitter import Node

from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell.ansi import ANSI_STRING, unescaped
from teamwright.host.shell.pieces import (
    EXPANDS,
    Unreadable,
    WordPiece,
    bare_piece,
    is_unsure_glob,
    quoted_piece,
    require_plain_pattern,
    unquoted,
)

_PLAIN_EXPANSION = re.compile(
    r"\$\{(?:"
    r"#?[A-Za-z_]\w*|#?[A-Za-z_]\w*\[[@*]\]|[A-Za-z_]\w*\[\d+\]|[\d@*#?]+"
    r"|[A-Za-z_]\w*:\d+(?::\d+)?"
    r"|[A-Za-z_]\w*(?::?[-+?]|##?|%%?|//?|\^\^?|,,?).*"
    r")\}",
    re.DOTALL,
)
_UNSURE_END = re.compile(r"[;&|<>(){}'\"\\`\n]")  # inside `${...}`: versions of bash disagree on where these end it
_QUOTED_VALUE = re.compile(r'\$\{\w+:?[+-]"\$\{\w+\}"\}')  # the value as one word, or no word at all
_NUMBERS_ONLY = re.compile(r"\$\(\(?[\s\d+*/%()<>=!&|^~?:-]*\)?\)")
_PLAIN = re.compile(r"[\w./@%+,-][\w./:@%+,-]*(?:=[\w./:@%+,-]*)?")
_BREAKS = re.compile(r"[\s*?\[]")  # characters at which bash splits or expands an unquoted value


class Word(Struct, frozen=True):
    """`text` has UNKNOWN for what is only known at run time.

    `glob`: the pattern, if only wildcards are unknown. `splits`: it may become any number of words; with `wild` these
    are file names that cannot be known beforehand.
    """

    text: str
    glob: str = ""
    splits: bool = False
    wild: bool = False
    choices: "WordChoices | None" = None


class WordChoices(Struct, frozen=True):
    """All possible values of a word. May only be used to decide whether a command is harmless.

    `source`: words with the same source take their values in step. `fleeting`: the values are names of existing files.
    `many`: there may be several such words.
    """

    values: tuple[str, ...]
    source: str
    fleeting: bool = False
    many: bool = False


class Loop(Struct, frozen=True):
    """A loop whose variable takes these values in turn, and that nothing else inside sets."""

    name: str
    values: tuple[str, ...]
    fleeting: bool


ANY_WORDS = Word(UNKNOWN, splits=True)
FOUND = UNKNOWN + "{}"  # the end of a path that only another command knows
FOUND_PATH = Word(FOUND)  # one path found by `find`


class Reader:
    """Turns nodes into words. `enter` is called for every substitution, `vague` for valid parts that cannot be
    judged."""

    def __init__(
        self, enter: Callable[[Node], None], vague: Callable[[str], None], variable: Callable[[str], str | None]
    ) -> None:
        self._enter, self._vague, self._outer = enter, vague, variable
        self.loop: Loop | None = None  # the innermost loop around the word
        self._chosen: dict[str, str] = {}

    def _variable(self, name: str) -> str | None:
        return self._chosen[name] if name in self._chosen else self._outer(name)

    def word(self, node: Node) -> Word:
        word = self._word(node)
        return structs.replace(word, choices=self._choices(node)) if self.loop and UNKNOWN in word.text else word

    def _choices(self, node: Node) -> WordChoices | None:
        """The word's value in each round, if the loop's variable is its only unknown."""
        assert self.loop
        name = re.escape(self.loop.name)
        if "`" in source(node) or "$" in re.sub(rf"\$(?:{name}(?!\w)|\{{{name}\}})", "", source(node)):
            return None
        values = list[str]()
        for value in self.loop.values:
            self._chosen = {self.loop.name: value}
            word = self._word(node)
            self._chosen = {}
            if word.splits or word.glob or UNKNOWN in word.text:
                return None
            values.append(word.text)
        return WordChoices(tuple(values), "loop", self.loop.fleeting)

    def _word(self, node: Node) -> Word:
        parts = self._pieces(node)
        text, live = "".join(part.text for part in parts), any(part.live for part in parts)
        if any(part.splits for part in parts) or (live and is_unsure_glob(text, parts)):
            return Word(text if text.startswith(UNKNOWN) else text + UNKNOWN, splits=True, wild=live)
        return Word(re.sub(r"[*?]", UNKNOWN, text), text) if live else Word(text)

    def _pieces(self, node: Node) -> list[WordPiece]:
        if node.type != "concatenation":
            return [self._piece(node, first=True)]
        _require_adjacent(node)
        parts = [self._piece(child, first=n == 0) for n, child in enumerate(node.children)]
        return [*parts, WordPiece("", live=_brackets(node), splits=_multiplies(node) or _odd_tilde(node))]

    def _piece(self, node: Node, *, first: bool) -> WordPiece:
        text = source(node)
        match node.type:
            case "word" | "number" | "variable_name" | "special_variable_name" | "test_operator":
                return self._bare(text, first=first)
            case "{" | "}" if not node.is_named:
                return WordPiece(text)
            case "raw_string":
                return quoted_piece(text[1:-1])
            case "ansi_c_string":
                return quoted_piece(self.expansion(node))
            case "string":
                piece = quoted_piece(self._string(node, text))
                piece.splits = _is_many_words(node)
                return piece
            case "translated_string":
                return WordPiece(self.expansion(node), splits="@" in text)
            case "arithmetic_expansion" | "process_substitution":
                return WordPiece(self.expansion(node))
            case "command_substitution" if text == "$(pwd)":
                self.expansion(node)
                here = self._variable("PWD")  # one word that starts with a slash, whatever `pwd` prints then
                return WordPiece("/" + UNKNOWN, splits=_may_split(UNKNOWN if here is None else here))
            case _:
                known = self.expansion(node)
                return WordPiece(known, splits=_may_split(known))

    def _bare(self, text: str, *, first: bool) -> WordPiece:
        if _PLAIN.fullmatch(text):
            return WordPiece(text)
        piece = bare_piece(text)
        if first and text.startswith("~"):
            piece.text = self._at_home(piece.text, text)
        elif re.search(r"=~|:~", piece.text) and UNKNOWN not in piece.text:
            piece.text = piece.text.replace("~", UNKNOWN)  # only some shells expand it there
        return piece

    def _at_home(self, path: str, text: str) -> str:
        head, slash, rest = path.partition("/")
        plain = head == "~" and not text.startswith("~\\")  # an escaped `/` prevents the expansion
        home = self._variable("HOME") if plain else None
        return (UNKNOWN if home is None else home) + slash + rest

    def _string(self, node: Node, text: str) -> str:
        """Takes the literal parts between expansions from the source itself, because the tree omits some blanks."""
        if not (text.startswith('"') and text.endswith('"') and len(text) > 1):
            raise Unreadable("a quoted string in it is not what it seems")
        return self._between(node, 1, len(node.text or b"") - 1, closing='"')

    def document(self, node: Node) -> None:
        """Checks what the body of a here-document expands."""
        self._between(node, 0, len(node.text or b""), closing="")

    def _between(self, node: Node, start: int, end: int, closing: str) -> str:
        """The text of a string or here-document with its expansions."""
        raw, base, at, out = node.text or b"", node.start_byte, start, ""
        for child in node.named_children:
            if child.type in ("string_content", "heredoc_content"):
                continue
            out += unquoted(raw[at : child.start_byte - base].decode(), closing) + self.expansion(child)
            at = child.end_byte - base
        return out + unquoted(raw[at:end].decode(), closing)

    def expansion(self, node: Node) -> str:
        """The value of an expansion, if known; whatever it runs is checked in any case."""
        text = source(node)
        match node.type:
            case "simple_expansion":
                known = self._variable(text[1:])
                return UNKNOWN if known is None else known
            case "expansion":
                return self._parameter(node, text)
            case "process_substitution":
                self._enter(node)
                return "/dev/fd/63"
            case "ansi_c_string":
                if not ANSI_STRING.fullmatch(text):
                    raise Unreadable("a quoted string in it is not what it seems")
                return unescaped(text[2:-1])
            case _:
                self._look_at(node, text)
                return UNKNOWN

    def _look_at(self, node: Node, text: str) -> None:
        """Checks an expansion whose value is only known at run time."""
        match node.type:
            case "command_substitution":
                _require_no_escapes(text)
                self._enter(node)
            case "arithmetic_expansion":
                if not _NUMBERS_ONLY.fullmatch(text):
                    self._vague("arithmetic on variables can run code")
                self.inside(node)
            case "array":
                self._array(node, text)
            case "brace_expression":
                self.inside(node)
            case "extglob_pattern" | "regex":
                require_plain_pattern(text)
            case "translated_string":
                for child in node.named_children:
                    self._string(child, source(child))
            case _:
                raise Unreadable(f"it has a part of an unknown kind ({node.type})")

    def _array(self, node: Node, text: str) -> None:
        if "[" in text:
            self._vague("a subscript can run code")
        for child in node.named_children:
            self.word(child)

    def _parameter(self, node: Node, text: str) -> str:
        """The value of a `${...}`."""
        known = self._variable(text[2:-1])
        if known is not None:
            return known
        if not _PLAIN_EXPANSION.fullmatch(text) or "@P" in text:
            self._vague("a `${...}` of a kind that can run code")
        own = "" if _QUOTED_VALUE.fullmatch(text) else _own_text(node)
        if _UNSURE_END.search(own) or EXPANDS.search(own):
            raise Unreadable("a `${...}` in it is not what it seems, or may end elsewhere")
        self.inside(node)
        return UNKNOWN

    def inside(self, node: Node) -> None:
        """Checks every substitution below; the text itself does not matter."""
        text = source(node)
        if "`" in text or text.count("$(") != self._inside(node) + text.startswith("$("):
            raise Unreadable("a substitution in it is not what it seems")

    def _inside(self, node: Node) -> int:
        """The number of `$(` below, all of which were checked."""
        count = 0
        for child in node.named_children:
            if child.type in ("command_substitution", "process_substitution", "expansion", "arithmetic_expansion"):
                self.expansion(child)
                count += source(child).count("$(")
            elif child.type == "subscript":
                self._vague("a subscript can run code")
                count += self._inside(child)
            else:
                count += self._inside(child)
        return count


def source(node: Node | None) -> str:
    return (node.text or b"").decode() if node else ""


def _may_split(value: str) -> bool:
    return UNKNOWN in value or _BREAKS.search(value) is not None


def _is_many_words(node: Node) -> bool:
    """`"$@"` and `"${a[@]}"` become one word per value."""
    return any("@" in source(c) for c in node.named_children if c.type.endswith("expansion"))


def _require_no_escapes(text: str) -> None:
    if text.startswith("`") and "\\" in text:
        raise Unreadable("it has escapes inside of backticks")


def _own_text(node: Node) -> str:
    """The content of a `${...}` without nested expansions."""
    raw, base, at, out = node.text or b"", node.start_byte, 2, b""
    waiting = list(reversed(node.named_children))
    while waiting:
        child = waiting.pop()
        if child.type.endswith(("expansion", "substitution")):
            out += raw[at : child.start_byte - base]
            at = child.end_byte - base
        else:
            waiting += reversed(child.named_children)
    return (out + raw[at:-1]).decode()


def test_words(reader: Reader, node: Node, operators: frozenset[str]) -> list[Word]:
    """Inside `[`, an operator such as `|` or `>` belongs to the shell, whatever the parser makes of it."""
    words: list[Word] = []
    for child in node.children:
        if not child.is_named and child.type not in operators:
            raise Unreadable("a test in it is not what it seems")
        if not child.is_named:
            words += [] if child.type in ("[", "]", "[[", "]]") else [Word(child.type)]
        elif child.type in ("unary_expression", "binary_expression", "parenthesized_expression", "negated_command"):
            words += test_words(reader, child, operators)
        else:
            words.append(reader.word(child))
    return words


def require_one_line(node: Node) -> None:
    """There must be no newline between the words of a command: bash would start another command there."""
    raw, base = node.text or b"", node.start_byte
    for a, b in pairwise(node.children):
        if b"\n" in raw[a.end_byte - base : b.start_byte - base].replace(b"\\\n", b""):
            raise Unreadable("a line ends inside of a command in it")


def require_gaps(node: Node) -> None:
    """The words of a command must be separated for bash too."""
    raw, base = node.text or b"", node.start_byte
    for a, b in pairwise(node.children):
        gap = raw[a.end_byte - base : b.start_byte - base].replace(b"\\\n", b"")
        if not gap and not b.type.endswith("_redirect"):
            raise Unreadable("a word in it is broken over lines")


def _bare_text(node: Node) -> str:
    return "".join(source(c) for c in node.children if c.type in ("word", "number", "{", "}", "brace_expression"))


def _brackets(node: Node) -> bool:
    """Do the unquoted parts together contain a wildcard such as `[ab]`?"""
    bare = _bare_text(node)
    return "[" in bare and "]" in bare


def _multiplies(node: Node) -> bool:
    """Do braces or brackets in the unquoted parts stand for several words?"""
    bare, text = _bare_text(node), source(node)
    return _brackets(node) or ("{" in bare and "}" in bare and ("," in text or ".." in text))


def _odd_tilde(node: Node) -> bool:
    """A `~` followed by something quoted is not expanded."""
    start = source(node.children[0])
    return start.startswith("~") and "/" not in start


def _require_adjacent(node: Node) -> None:
    if any(a.end_byte != b.start_byte for a, b in pairwise(node.children)):
        raise Unreadable("a word in it is broken over lines")
