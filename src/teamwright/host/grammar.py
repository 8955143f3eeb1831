"""The grammar of bash as far as it is trusted: how text is parsed, and which words and operators are known."""

import re
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from teamwright.host.words import Unreadable

MOST_BYTES = 100_000
MOST_DEPTH = 60
_ODD = re.compile(r"[^\t\n\x20-\x7e]")
WRITING = frozenset({">", ">>", "&>", "&>>", ">|", "<>"})
JOINERS = frozenset({
    ";", ";;", "&", "\n", "|", "|&", "&&", "||", "(", ")", "{", "}", "!", "do", "done", "then", "fi", "if", "elif",
        "else",
    "while", "until", "for", "in", "case", "esac", "function", ";&", ";;&", "$(", "`", "<(", ">(", "time",
})  # fmt: skip
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


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def parsed(text: str) -> Node:
    """The root of the tree, if bash would see the same in the text."""
    if why := _why_not_read(text):
        raise Unreadable(why)
    root = Parser(_language()).parse(text.encode()).root_node
    if root.has_error:
        raise Unreadable("its syntax cannot be parsed")
    return root


def _why_not_read(text: str) -> str:
    if len(text) > MOST_BYTES:
        return f"it is longer than {MOST_BYTES:,} characters"
    for found in _ODD.finditer(text):
        if not found[0].isprintable():  # bash and the parser disagree on what such characters separate
            return f"it contains the invisible character U+{ord(found[0]):04X}"
    return ""
