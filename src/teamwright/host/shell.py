"""A shell command taken apart: every simple command in it, wherever it stands, and every file it is redirected to.

What the parser does not know, or where bash might read it otherwise, makes the whole command `broken`: it asks.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import tree_sitter_bash
from msgspec import Struct, structs
from tree_sitter import Language, Node, Parser

from teamwright.core.facts import NOWHERE, Command, Place, Runs, View
from teamwright.core.patterns import UNKNOWN
from teamwright.host.commands import harmless_name
from teamwright.host.ruin import ruin_in_text
from teamwright.host.simple import Setting, simple_commands
from teamwright.host.words import Reader, Unreadable, Word

MOST_BYTES = 100_000
MOST_DEPTH = 60
_ODD = re.compile(r"[^\t\n\x20-\x7e]")
_SAFE_FILES = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty")
_WRITING = frozenset({">", ">>", "&>", "&>>", ">|", "<>"})
_JOINERS = frozenset({
    ";", ";;", "&", "\n", "|", "|&", "&&", "||", "(", ")", "{", "}", "!", "do", "done", "then", "fi", "if", "elif", "else",
    "while", "until", "for", "in", "case", "esac", "function", ";&", ";;&", "$(", "`", "<(", ">(", "time",
})  # fmt: skip
_CASTS_DOUBT = re.compile(r"\s(-v|-R|-eq|-ne|-lt|-le|-gt|-ge)\s")
_NEVER_REDEFINED = frozenset({"cd", "command", "builtin", "exec", "eval", "test", "["})


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


class Surroundings(Struct, frozen=True):
    """Where the command would run. `resolve` follows links; both directories are absolute."""

    cwd: str
    home: str
    roots: tuple[str, ...]
    resolve: Callable[[str, Path], Path]


def read_command(text: str, tool: str, around: Surroundings) -> Runs:
    """The facts of a shell command. Touches the disk to resolve the paths that it names."""
    walk, broken = _Walk(around, 0), ""
    try:
        walk.read(text)
    except Unreadable as error:
        broken = str(error)
    runs = Runs(tool, text, tuple(walk.commands), tuple(walk.reads), tuple(walk.writes), broken, walk.ruin)
    unread = runs.broken or "xargs" in text or any(c.opaque for c in runs.commands)
    if runs.ruin or not unread:
        return runs
    return structs.replace(runs, ruin=ruin_in_text(text, around.home))


def _why_not_read(text: str) -> str:
    if len(text) > MOST_BYTES:
        return f"it is longer than {MOST_BYTES:,} characters"
    for found in _ODD.finditer(text):
        if not found[0].isprintable():  # bash and the parser disagree on what such characters separate
            return f"it contains the invisible character U+{ord(found[0]):04X}"
    return ""


class _Walk:
    """One pass over the tree. The working directory is followed as a set of possibilities; None: nobody knows."""

    def __init__(self, around: Surroundings, depth: int) -> None:
        self._around, self._depth = around, depth
        self.commands: list[Command] = []
        self.reads: list[Place] = []
        self.writes: list[Place] = []
        self.ruin = ""
        self.cwds: tuple[str, ...] | None = (around.cwd,)
        self._shaky = 0  # inside of a pipeline a `cd` may be for one part of it only
        self._repeated = 0  # inside of a loop or function it acts on what stands before it too
        self._reader = Reader(self.apart, self._vague, self._variable)

    def read(self, text: str) -> None:
        if why := _why_not_read(text):
            raise Unreadable(why)
        root = Parser(_language()).parse(text.encode()).root_node
        if root.has_error:
            raise Unreadable("its syntax cannot be parsed")
        self.statements(root)

    # --- statements

    def statements(self, node: Node) -> None:
        """One after another; any of them may fail, so that a `cd` may or may not have happened."""
        for child in node.children:
            before = self.cwds
            self.statement(child)
            self._either(before)

    def _either(self, before: tuple[str, ...] | None) -> None:
        if before != self.cwds:
            self.cwds = None if before is None or self.cwds is None else tuple(dict.fromkeys(before + self.cwds))

    def statement(self, node: Node) -> None:
        if not node.is_named:
            if node.type.strip(" \t") not in _JOINERS and node.type.strip():
                raise Unreadable(f"it has a part of an unknown kind ({node.type})")
            return
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise Unreadable("it is nested too deeply")
        handler = _HANDLERS.get(node.type)
        if handler is None:
            raise Unreadable(f"it has a part of an unknown kind ({node.type})")
        handler(self, node)
        self._depth -= 1

    def list(self, node: Node) -> None:
        left, operator, right = (node.children[0], node.children[1].type, node.children[2:])
        before = self.cwds
        self.statement(left)
        if operator != "&&":
            self._either(before)
        for child in right:
            self.statement(child)

    def apart(self, node: Node) -> None:
        """A subshell: what it does to the working directory ends with it."""
        before, shaky, repeated = self.cwds, self._shaky, self._repeated
        self._shaky = self._repeated = 0
        for child in node.children:
            if child.type == "file_redirect":  # $(< file)
                self.redirect(child)
                continue
            between = self.cwds
            self.statement(child)
            self._either(between)
        self.cwds, self._shaky, self._repeated = before, shaky, repeated

    def pipeline(self, node: Node) -> None:
        """The tree may hold more in a pipeline than bash would: `a | b && c` is one here."""
        self._shaky += 1
        self.statements(node)
        self._shaky -= 1

    def repeated(self, node: Node) -> None:
        self._repeated += 1
        self.statements(node)
        self._repeated -= 1

    def compound(self, node: Node) -> None:
        if node.children[0].type == "((":
            self._vague("arithmetic on variables can run code")
            self._reader.inside(node)
        else:
            self.statements(node)

    def loop(self, node: Node) -> None:
        if node.children[0].type == "select":
            self._vague("it waits for an answer")
        for child in node.named_children:
            if child.type == "variable_name":
                self._name(child)
            elif child.type == "do_group":
                self.repeated(child)
            else:
                self._reader.word(child)

    def case(self, node: Node) -> None:
        for child in node.named_children:
            if child.type != "case_item":
                self._reader.word(child)
                continue
            for n, part in enumerate(child.children):
                if child.field_name_for_child(n) == "value":
                    self._reader.word(part)
                else:
                    before = self.cwds
                    self.statement(part)
                    self._either(before)

    def function(self, node: Node) -> None:
        name = _text(node.child_by_field_name("name"))
        if name in _NEVER_REDEFINED or not harmless_name(name.replace("-", "_")):
            self._vague("it redefines a command")
        self.commands.append(Command((View((name,), None),), f"{name}()", opaque="it defines a function"))
        self._repeated += 1
        for child in node.named_children:
            if child.type == "file_redirect":
                self.redirect(child)
            elif child.type != "word":
                self.statement(child)
        self._repeated -= 1

    def redirected(self, node: Node) -> None:
        for child in node.named_children:
            if child.type.endswith("_redirect"):
                self.redirect(child)
            else:
                self.statement(child)

    def arithmetic_for(self, node: Node) -> None:
        self._vague("arithmetic on variables can run code")
        self._reader.inside(node)
        for child in node.named_children:
            if child.type == "do_group":
                self.repeated(child)

    def test(self, node: Node) -> None:
        text = _text(node)
        if text.startswith("[[") and _CASTS_DOUBT.search(text):
            self._vague("arithmetic on variables can run code")
        if text.startswith("(("):
            self._vague("arithmetic on variables can run code")
        words = [Word(node.children[0].type)]
        self._test_words(node, words)
        self._simple(words, text)

    def _test_words(self, node: Node, words: list[Word]) -> None:
        for child in node.named_children:
            if child.type in ("unary_expression", "binary_expression", "parenthesized_expression", "negated_command"):
                self._test_words(child, words)
            else:
                words.append(self._reader.word(child))

    # --- simple commands

    def command(self, node: Node) -> None:
        words, assigned = list[Word](), list[tuple[str, Word]]()
        end = node.start_byte
        for child in node.children:
            gap = (node.text or b"")[end - node.start_byte : child.start_byte - node.start_byte]
            if end != node.start_byte and not child.type.endswith("_redirect") and not gap.replace(b"\\\n", b""):
                raise Unreadable("a word in it is broken over lines")
            end = child.end_byte
            match child.type:
                case "command_name":
                    words.append(self._reader.word(child.children[0]))
                case "variable_assignment":
                    assigned.append(self._assignment(child))
                case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                    self.redirect(child)
                case _ if child.is_named:
                    words.append(self._reader.word(child))
                case "==" | "=~":
                    words.append(Word(child.type))
                case _:
                    raise Unreadable(f"it has a part of an unknown kind ({child.type})")
        self._simple(words, _text(node), assigned)

    def declaration(self, node: Node) -> None:
        words, risky = [Word(_text(node.children[0]))], False
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = self._assignment(child)
                risky = risky or not harmless_name(name)
                words.append(Word(f"{name}={value.text}"))
            else:
                word = self._reader.word(child)
                flag = word.text.startswith("-")
                risky = risky or (word.text not in ("-x", "-r", "-g", "-a") if flag else not harmless_name(word.text))
                words.append(word)
        self._plain(words, _text(node), harmless=not risky)

    def unset(self, node: Node) -> None:
        words = [Word("unset"), *(self._reader.word(child) for child in node.named_children)]
        self._plain(words, _text(node), harmless=all(harmless_name(w.text) for w in words[1:]))

    def assignments(self, node: Node) -> None:
        parts = [node] if node.type == "variable_assignment" else node.named_children
        for part in parts:
            name, value = self._assignment(part)
            self._plain([Word(f"{name}={value.text}")], _text(part), harmless=harmless_name(name))

    def _assignment(self, node: Node) -> tuple[str, Word]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            self._vague("a subscript can run code")
            self._reader.inside(node)
            return "", Word(UNKNOWN)
        return _text(name), Word("") if value is None else self._reader.word(value)

    def _name(self, node: Node) -> None:
        if not harmless_name(_text(node)):
            self._vague(f"it sets {_text(node)}")

    def _plain(self, words: Sequence[Word], shown: str, *, harmless: bool) -> None:
        view = View(tuple(w.text for w in words))
        self.commands.append(Command((view,), shown, harmless=harmless))

    def _vague(self, why: str) -> None:
        self.commands.append(Command((View((), None),), why, opaque=why))

    def _simple(self, words: Sequence[Word], shown: str, assigned: Sequence[tuple[str, Word]] = ()) -> None:
        if not words:
            return
        setting = Setting(self.cwds, self._around.home, self._around.roots, self._places)
        found = simple_commands(words, shown, assigned, setting)
        self.commands += found.commands
        self.writes += found.writes
        self.ruin = self.ruin or found.ruin
        for code in found.code:
            self._nested(code, shadow=found.shadows_code, same_shell=found.same_shell)
        if found.cd is not None:
            self._change_directory(found.cd)

    def _nested(self, code: str, *, shadow: bool, same_shell: bool) -> None:
        """Code that was carried as text, read like any other. What only restricting rules look at may be unreadable."""
        certain = self.cwds is not None and len(self.cwds) == 1
        around = structs.replace(self._around, cwd=self.cwds[0]) if certain and self.cwds else self._around
        inner = _Walk(around, self._depth + 5)
        inner.cwds = self.cwds
        try:
            inner.read(code)
        except Unreadable as error:
            if not shadow:
                raise
            inner.commands.append(Command((View((), None),), code, opaque=str(error)))
        self.commands += [structs.replace(c, shadow=True) if shadow else c for c in inner.commands]
        self.ruin = self.ruin or inner.ruin
        if not shadow:
            self.reads += inner.reads
            self.writes += inner.writes
        if same_shell:
            self.cwds = inner.cwds

    # --- redirections and substitutions

    def redirect(self, node: Node) -> None:
        if node.type == "herestring_redirect":
            for child in node.named_children:
                self._reader.word(child)
            return
        if node.type == "heredoc_redirect":
            self._heredoc(node)
            return
        operators = [c.type for c in node.children if not c.is_named]
        targets = [c for c in node.named_children if c.type != "file_descriptor"]
        if len(operators) != 1:
            raise Unreadable("a redirection in it cannot be read")
        operator = operators[0]
        for target in targets:
            word = self._reader.word(target)
            if operator in (">&", "<&", ">&-", "<&-") and re.fullmatch(r"\d*-?", word.text):
                continue
            places = [NOWHERE] if UNKNOWN in word.text else self._places(word.text)
            if operator in _WRITING or operator == ">&":
                self.writes += places
            elif operator == "<":
                self.reads += places
            elif operator not in (">&-", "<&-"):
                raise Unreadable("a redirection in it cannot be read")

    def _heredoc(self, node: Node) -> None:
        """Bash must end it where the parser did: at the first line that is the delimiter and nothing else."""
        start = next(_text(c) for c in node.children if c.type == "heredoc_start")
        delimiter = start.replace("'", "").replace('"', "")
        dash = any(c.type == "<<-" for c in node.children)
        if "\\" in start or not delimiter:
            raise Unreadable("a here-document in it has an unusual delimiter")
        for child in node.children:
            match child.type:
                case "heredoc_body":
                    lines = _text(child).split("\n")
                    if any((line.lstrip("\t") if dash else line) == delimiter for line in lines):
                        raise Unreadable("a here-document in it does not end where it seems to")
                    if start == delimiter:
                        self._reader.between(child, 0, len(child.text or b""))
                case "heredoc_end":
                    if _text(child).strip("\t" if dash else "") != delimiter:
                        raise Unreadable("a here-document in it does not end where it seems to")
                case "heredoc_start" | "<<" | "<<-" | "file_descriptor":
                    pass
                case "file_redirect" | "herestring_redirect":
                    self.redirect(child)
                case "&&" | "||":
                    pass
                case _:
                    before = self.cwds
                    self._shaky += 1
                    self.statement(child)
                    self._shaky -= 1
                    self._either(before)

    def _variable(self, name: str) -> str | None:
        if name == "HOME":
            return self._around.home
        return self.cwds[0] if name == "PWD" and self.cwds and len(self.cwds) == 1 else None

    # --- places

    def _places(self, path: str, deep: bool = False) -> list[Place]:  # noqa: FBT001, FBT002  # a callback
        """The path from every directory that the command may be in by then."""
        if path in _SAFE_FILES or path.startswith("/dev/fd/"):
            return []
        if path.startswith("/"):
            return [self._place(path, "/", deep=deep)]
        if self.cwds is None:
            return [NOWHERE]
        return [self._place(path, cwd, deep=deep) for cwd in self.cwds]

    def _place(self, path: str, cwd: str, *, deep: bool) -> Place:
        try:
            real = str(self._around.resolve(path if path.startswith("/") else "./" + path, Path(cwd)))
        except (OSError, ValueError):
            return NOWHERE
        return Place(_normal(cwd, path), real, deep)

    def _change_directory(self, target: str) -> None:
        if self._repeated:
            self._vague("it changes the directory while it repeats")
        if UNKNOWN in target or self.cwds is None:
            self.cwds = None
            return
        moved = tuple(dict.fromkeys(_normal(cwd, target) for cwd in self.cwds))
        self.cwds = None if self._shaky else moved


def _normal(cwd: str, path: str) -> str:
    """Absolute and without dots, as bash itself would name it."""
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{cwd}/{path}").split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _text(node: Node | None) -> str:
    return (node.text or b"").decode() if node else ""


def _nothing(walk: _Walk, node: Node) -> None:
    """A comment."""


_HANDLERS: dict[str, Callable[[_Walk, Node], None]] = {
    "program": _Walk.statements,
    "command": _Walk.command,
    "list": _Walk.list,
    "pipeline": _Walk.pipeline,
    "subshell": _Walk.apart,
    "compound_statement": _Walk.compound,
    "do_group": _Walk.statements,
    "if_statement": _Walk.statements,
    "elif_clause": _Walk.statements,
    "else_clause": _Walk.statements,
    "while_statement": _Walk.repeated,
    "for_statement": _Walk.loop,
    "c_style_for_statement": _Walk.arithmetic_for,
    "case_statement": _Walk.case,
    "function_definition": _Walk.function,
    "redirected_statement": _Walk.redirected,
    "negated_command": _Walk.statements,
    "test_command": _Walk.test,
    "declaration_command": _Walk.declaration,
    "unset_command": _Walk.unset,
    "variable_assignment": _Walk.assignments,
    "variable_assignments": _Walk.assignments,
    "comment": _nothing,
}
