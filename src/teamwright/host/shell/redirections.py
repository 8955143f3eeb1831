"""Parses redirections and here-documents as bash does."""

import re
from collections.abc import Sequence

from tree_sitter import Node

from teamwright.host.shell.pieces import Unreadable
from teamwright.host.shell.words import require_one_line, source

_QUIET = re.compile(r"2>>?\s*/dev/null")
_QUOTING = re.compile(r"[\\'\"]")
_DELIMITER = re.compile(r"(['\"]?)[\w.+@%^,:/-]+\1")


def check_heredoc(node: Node, whole: bytes) -> bool:
    """Does it expand anything? Refuses it unless bash would end it where the parser did: at the first delimiter
    line."""
    start = next(source(c) for c in node.children if c.type == "heredoc_start")
    delimiter = start.strip("'\"")
    indent = "\t" if any(c.type == "<<-" for c in node.children) else ""
    if not _DELIMITER.fullmatch(start):
        raise Unreadable("a here-document in it has an unusual delimiter")
    expands = start == delimiter
    for child in node.children:
        wrong = False
        if child.type == "heredoc_body":
            wrong = _ends_early(source(child), delimiter, expands=expands, indent=indent)
        elif child.type == "heredoc_end":
            after = whole[child.end_byte : child.end_byte + 1]
            wrong = source(child).strip(indent) != delimiter or after not in (b"", b"\n")
        if wrong:
            raise Unreadable("a here-document in it does not end where it seems to")
    return expands


def _ends_early(body: str, delimiter: str, *, expands: bool, indent: str) -> bool:
    """Could it end earlier, inside the body? The last line is what precedes the end that was found."""
    *lines, last = body.split("\n")
    if expands and "\\\n" in body:
        return True  # bash joins continued lines first
    return last.strip(indent) != "" or any(line.lstrip(indent) == delimiter for line in lines)


def behind_heredoc(node: Node) -> list[Node]:
    """The statements on the rest of the line that announces a here-document."""
    none = ("file_redirect", "herestring_redirect", "file_descriptor")
    found = node.named_children if node.type == "heredoc_redirect" else []
    return [child for child in found if not child.type.startswith("heredoc_") and child.type not in none]


def names_file(operator: str, target: Node, text: str) -> bool:
    """False for a descriptor, as in `2>&1`."""
    if operator not in (">&", "<&", ">&-", "<&-"):
        return True
    if re.fullmatch(r"\d*-?", text):
        return False
    if _QUOTING.search(source(target)):  # bash removes quotes twice here
        raise Unreadable("a redirection in it cannot be read")
    return True


def redirection(node: Node) -> tuple[str, list[Node]]:
    """The operator and its target."""
    operators = [c.type for c in node.children if not c.is_named]
    targets = [c for c in node.named_children if c.type != "file_descriptor"]
    require_one_line(node)
    if len(operators) != 1 or len(targets) > 1:
        raise Unreadable("a redirection in it cannot be read")
    if targets and operators[0].endswith("-"):
        raise Unreadable("a word in it stands behind a redirection that has no target")
    return operators[0], targets


def fed_command(pipeline: Sequence[Node]) -> Node | None:
    """The last part of a pipeline, if it is one command that reads only the previous command's output."""
    if len(pipeline) < 3 or pipeline[-2].type != "|":
        return None
    before, command = _bare_command(pipeline[-3]), _bare_command(pipeline[-1])
    return command if before is not None else None


def _bare_command(node: Node) -> Node | None:
    """A simple command without redirections, except that its error messages may be discarded."""
    if node.type == "redirected_statement":
        command, *redirects = node.named_children
        quiet = all(_QUIET.fullmatch(source(one)) for one in redirects)
        return _bare_command(command) if quiet and command.type == "command" else None
    redirected = any(child.type.endswith("_redirect") for child in node.children)
    return node if node.type == "command" and not redirected else None
