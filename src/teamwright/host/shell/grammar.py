"""The part of bash's grammar that is trusted: how text is parsed, and which words and operators are known."""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from teamwright.host.shell.pieces import Unreadable

MOST_BYTES = 100_000
MOST_DEPTH = 60
MOST_WORDS = 2_000
MOST_NODES = 15_000
MOST_OPERATORS = 2_000  # for invalid input, the parser's time grows with the square of their number
_ODD = re.compile(r"[^\t\n\x20-\x7e]")
_OPERATORS = frozenset(bytes([c]) for c in b"&|;<>()\n \t")
_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*")
_DASH = re.compile(rb"[ \t]+-[ \t]+")
_ENDS_IN_COMMAND = frozenset({"list", "pipeline", "negated_command"})
_JOINED = re.compile(
    rb"(?:(?<![\s\\|&;()<>])(?:\\\\)*(?:\\\n)+(?![\s|&;()<>])|\$(?:\\\n)+)(?=.)", re.DOTALL
)  # a line continuation inside a word
_LITERAL = frozenset({"raw_string", "heredoc_body", "comment"})
_ENDS_PLAINLY = re.compile(rb"\$\{\w+\}$|[\s;]\}$")
_HOLDS_TEXT = frozenset(
    {"string", "heredoc_body", "expansion", "regex", "extglob_pattern"}
)  # read from the source itself
_HOLDS_COMMANDS = frozenset(
    """
    program list pipeline subshell compound_statement do_group if_statement elif_clause else_clause
    while_statement for_statement c_style_for_statement case_statement case_item function_definition
    redirected_statement negated_command test_command declaration_command unset_command command
    command_substitution process_substitution heredoc_redirect
    """.split()
)
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect"})
WRITING = frozenset({">", ">>", "&>", "&>>", ">|"})
JOINERS = frozenset(
    """
    ; ;; & | |& && || ( ) { } ! do done then fi if elif else while until for in case esac function ;& ;;& $( `
    <( >( time
    """.split()
) | {"\n"}
RESERVED = frozenset(
    [
        "{",
        "}",
        "!",
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "do",
        "done",
        "while",
        "until",
        "for",
        "case",
        "esac",
        "in",
        "function",
        "select",
        "coproc",
        "[[",
        "]]",
    ]
)
IN_BRACKETS = frozenset(["[", "]", "=", "==", "!=", "!"])
IN_TEST = IN_BRACKETS | frozenset(["[[", "]]", "&&", "||", "<", ">", "=~", "(", ")"])
CASTS_DOUBT = re.compile(r"\s(-v|-R|-eq|-ne|-lt|-le|-gt|-ge)\s")
NEVER_REDEFINED = frozenset({"cd", "command", "builtin", "exec", "eval", "test", "["})


_BEFORE_COMMENTS = frozenset({b" ", b"\t", b"\n", b";", b"&", b"|"})


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def parsed(text: str) -> Node:
    """The root of the syntax tree, if bash would read the text the same way."""
    if why := _why_not_read(text):
        raise Unreadable(why)
    root = Parser(_language()).parse(text.encode()).root_node
    if root.has_error:
        raise Unreadable("its syntax cannot be parsed")
    if root.descendant_count > MOST_NODES:
        raise Unreadable("it has more parts than are looked at")
    _require_coverage(root, text.encode())
    return root


def _require_coverage(root: Node, text: bytes) -> None:
    """Text that no node covers must be blank to bash too. The parser also skips an escaped blank, which is a word to
    bash: a `#` after it starts a comment only for the parser, and hides what follows."""
    _require_blank(text, 0, root.start_byte)
    _require_blank(text, root.end_byte, len(text))
    waiting, literal = [root], list[tuple[int, int]]()
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.type in _LITERAL:
            literal.append((node.start_byte, node.end_byte))
        _require_sign_of_something(node, text)
        if node.type.endswith("_redirect"):
            _require_no_name(text[max(0, node.start_byte - 400) : node.start_byte])
        if node.children and node.type not in _HOLDS_TEXT:
            _require_children_apart(node, text)
    _require_whole_words(text, literal)


def _require_sign_of_something(node: Node, text: bytes) -> None:
    """A dollar sign must expand something; a `#` must start a comment."""
    if node.type == "simple_expansion" and any(a.end_byte != b.start_byte for a, b in pairwise(node.children)):
        raise Unreadable("a dollar sign in it stands by itself")
    if node.type == "comment" and node.start_byte and _last(text, node.start_byte) not in _BEFORE_COMMENTS:
        raise Unreadable("a comment in it may be part of a word")  # `a=(x)#y` is a word


def _require_children_apart(node: Node, text: bytes) -> None:
    """Only blanks may be between children, and commands and their words must be separated."""
    end, dash = node.start_byte, dash_after(node, text)
    for child in node.children:
        if end != dash:
            _require_blank(text, end, child.start_byte)
        if end == child.start_byte > node.start_byte and node.type in _HOLDS_COMMANDS:
            _require_apart(_last(text, end), text[end : end + 1])
        end = child.end_byte
    _require_blank(text, end, node.end_byte)


def dash_after(node: Node, text: bytes) -> int | None:
    """The end of a command after which the parser has lost a last word `-`, as in `python - <<E`.

    It reads that word as blank if a redirection follows.
    """
    if node.type != "redirected_statement" or len(node.children) < 2:
        return None
    last, redirect = node.children[:2]
    while last.type in _ENDS_IN_COMMAND and last.children:
        last = last.children[-1]
    end = last.end_byte
    is_dash = _DASH.fullmatch(text, end, redirect.start_byte) is not None and _last(text, end + 1) != b""
    return end if is_dash and last.type == "command" and redirect.type in _REDIRECTS else None


def _require_whole_words(text: bytes, literal: Sequence[tuple[int, int]]) -> None:
    """Bash joins continued lines before it reads words, so it may see an expansion where the parser sees none.

    Nothing is joined inside the `literal` spans.
    """
    for found in _JOINED.finditer(text):
        if not any(start <= found.start() < end for start, end in literal):
            raise Unreadable("a word in it is broken over lines")


def _require_blank(text: bytes, start: int, end: int) -> None:
    gap = text[start:end]
    if gap and not _BLANK.fullmatch(gap):
        raise Unreadable("a part of it belongs to no command")
    if gap.startswith(b"\\\n") and not gap.replace(b"\\\n", b"") and start:
        # To bash the two sides are adjacent: they must not form one word or one operator.
        before, after = _last(text, start), text[end : end + 1]
        if before not in _OPERATORS or after in _OPERATORS:
            raise Unreadable("a word in it is broken over lines")


def _last(text: bytes, end: int) -> bytes:
    """The character before this point; empty if it is escaped and so belongs to a word."""
    slashes = 0
    while end - 2 - slashes >= 0 and text[end - 2 - slashes] == 0x5C:
        slashes += 1
    return b"" if slashes % 2 else text[end - 1 : end]


def _require_no_name(before: bytes) -> None:
    """`{NAME}>file` is not a word: bash stores a number in that variable, which may be PATH."""
    before = before.replace(b"\\\n", b"")
    if before.endswith(b"}") and not _ENDS_PLAINLY.search(before):
        raise Unreadable("a redirection in it may set a variable")


def _require_apart(before: bytes, after: bytes) -> None:
    """Adjacent parts are separate to bash only if there is an operator at the boundary."""
    if before not in _OPERATORS and after not in _OPERATORS and b"`" not in (before, after):
        raise Unreadable("two parts of it are one word to bash")


def _why_not_read(text: str) -> str:
    if len(text) > MOST_BYTES:
        return f"it is longer than {MOST_BYTES:,} characters"
    if sum(map(text.count, "|&<>()[]=;")) > MOST_OPERATORS:
        return "it has more operators than are looked at"
    for found in _ODD.finditer(text):
        if not found[0].isprintable():  # bash and the parser disagree on what such characters separate
            return f"it contains the invisible character U+{ord(found[0]):04X}"
    return ""
