"""Loops over known words: the values of their variable in each round."""

import re
from collections.abc import Sequence

from tree_sitter import Node

from teamwright.host.shell.harmless import Setting, expanded
from teamwright.host.shell.words import Loop, Word, source

_MOST_ROUNDS = 64


def read_loop(name: str, words: Sequence[Word], body: Node, setting: Setting) -> Loop | None:
    """None if a round may see another value."""
    values = _values(words, setting) if name.isidentifier() else None
    if not values or len(values) > _MOST_ROUNDS or not _is_only_read(name, body):
        return None
    return Loop(name, tuple(values), any(word.glob for word in words))


def _values(words: Sequence[Word], setting: Setting) -> list[str] | None:
    """The values of all rounds in order; None if unknown."""
    if any(word.splits or word.choices or (not word.glob and "\0" in word.text) for word in words):
        return None
    return expanded(words, setting)


def _is_only_read(name: str, body: Node) -> bool:
    """Does the name occur only after a dollar sign? To set the variable by name, code would have to spell it."""
    spelt = re.compile(rf"(?<![\w$-]){re.escape(name)}(?!\w)")
    waiting = [body]
    while waiting:
        node = waiting.pop()
        if node.type == "ansi_c_string":
            return False
        if node.type in ("simple_expansion", "expansion"):
            if source(node) in (f"${name}", f"${{{name}}}"):
                continue
        elif not node.named_children and spelt.search(source(node)):
            return False
        waiting += node.children
    return True
