"""Redirections and here-documents, read as bash reads them."""

import re

from tree_sitter import Node

from teamwright.host.shell.words import Unreadable, require_one_line, source

_DELIMITER = re.compile(r"(['\"]?)[\w.+@%^,:/-]+\1")


def check_heredoc(node: Node, whole: bytes) -> bool:
    """Does it expand anything? Bash must end it where the parser did: at the first line that is the delimiter."""
    start = next(source(c) for c in node.children if c.type == "heredoc_start")
    delimiter = start.strip("'\"")
    dash = any(c.type == "<<-" for c in node.children)
    if not _DELIMITER.fullmatch(start):
        raise Unreadable("a here-document in it has an unusual delimiter")
    for child in node.children:
        text = source(child)
        if child.type == "heredoc_body":
            lines = text.split("\n")[:-1]  # the last one is what stands before the end
            wrong = any((line.lstrip("\t") if dash else line) == delimiter for line in lines)
            wrong = wrong or (start == delimiter and "\\\n" in text)  # there bash joins lines first
            wrong = wrong or text.rpartition("\n")[2].strip("\t" if dash else "") != ""
        elif child.type == "heredoc_end":
            after = whole[child.end_byte : child.end_byte + 1]
            wrong = text.strip("\t" if dash else "") != delimiter or after not in (b"", b"\n")
        else:
            wrong = False
        if wrong:
            raise Unreadable("a here-document in it does not end where it seems to")
    return start == delimiter


def behind_heredoc(node: Node) -> list[Node]:
    """The statements on the rest of the line on which a here-document was announced."""
    none = ("file_redirect", "herestring_redirect", "file_descriptor")
    found = node.named_children if node.type == "heredoc_redirect" else []
    return [child for child in found if not child.type.startswith("heredoc_") and child.type not in none]


def redirection(node: Node) -> tuple[str, list[Node]]:
    """The operator, and what it names."""
    operators = [c.type for c in node.children if not c.is_named]
    targets = [c for c in node.named_children if c.type != "file_descriptor"]
    require_one_line(node)
    if len(operators) != 1 or len(targets) > 1:
        raise Unreadable("a redirection in it cannot be read")
    if targets and operators[0].endswith("-"):
        raise Unreadable("a word in it stands behind a redirection that has no target")
    return operators[0], targets
