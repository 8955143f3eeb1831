"""Walks the statements of a shell command: finds every simple command, and where each would run."""

import re
from collections.abc import Callable, Sequence

from msgspec import structs
from tree_sitter import Node

from teamwright.core.permissions.facts import NOWHERE, Command, CommandView, Place
from teamwright.core.permissions.patterns import UNKNOWN
from teamwright.host.shell import grammar
from teamwright.host.shell.cwd import CwdTracker
from teamwright.host.shell.feeds import FedWords, feed_of
from teamwright.host.shell.harmless import Setting, listed
from teamwright.host.shell.loops import read_loop
from teamwright.host.shell.pieces import Unreadable
from teamwright.host.shell.programs.destructive import SAFE, SHIFTS
from teamwright.host.shell.programs.special import harmless_name
from teamwright.host.shell.redirections import behind_heredoc, check_heredoc, fed_command, names_file, redirection
from teamwright.host.shell.settling import settled
from teamwright.host.shell.simple_command import UNSEEN_CODE, simple_commands
from teamwright.host.shell.words import Reader, Word, require_gaps, require_one_line, source, test_words

_FOLLOWS = re.compile(r"-[A-Za-z]*[fF][A-Za-z]*|--(?:f|retry).*")
_GLOB_COST = 30  # expanding a wildcard takes as long as reading this many words


class Walk:
    """One pass over the tree."""

    def __init__(self, where: CwdTracker, depth: int, words_left: list[int]) -> None:
        self.where, self._depth, self._words_left = where, depth, words_left
        self.commands: list[Command] = []
        self.reads: list[Place] = []
        self.writes: list[Place] = []
        self.removal = SAFE
        self._globbed: list[int] = []  # commands that are harmless only because of existing files
        self._links = False  # something in it makes a link
        self._fed: Node | None = None  # the command that reads the output of `_last`
        self._last: FedWords | None = None
        self._text = b""
        self._shaky = 0  # inside a pipeline, a `cd` may affect only one part
        self._waits = False  # something in it can take until other calls have changed files
        self._later = False  # code was defined that runs in whatever directory the shell is in then
        self._repeated = 0  # inside a loop or function, it also affects what precedes it
        self._given = list[tuple[str, str]]()  # variables for programs that another command starts
        self._assigned = list[tuple[str, str]]()
        self._exported = set[str]()
        self._dashes = set[int | None]()  # ends of commands that have one more word, `-`
        self._reader = Reader(self.apart, self._vague, where.variable)

    def read(self, text: str) -> None:
        root = grammar.parsed(text)
        self._text = text.encode()
        self.statements(root)

    def settled(self) -> tuple[Command, ...]:
        found = [pair for pair in self._assigned if pair[0] in self._exported or re.fullmatch(r"[A-Z_]{2,}", pair[0])]
        given = [*self._given, *found]  # programs may have one with a long name already
        later = self.where.around.later or self._waits
        return settled(self.commands, self.reads, self.writes, self._globbed, given, links=self._links, later=later)

    # --- statements

    def statements(self, node: Node) -> None:
        """Walks statements in order; each may fail, so its `cd` may or may not have happened."""
        for child in node.children:
            before = self.where.cwds
            self.statement(child)
            self.where.either(before)

    def statement(self, node: Node) -> None:
        if not node.is_named:
            if node.type.strip(" \t") not in grammar.JOINERS and node.type.strip():
                raise Unreadable(f"it has a part of an unknown kind ({node.type})")
            return
        self._depth += 1
        if self._depth > grammar.MOST_DEPTH:
            raise Unreadable("it is nested too deeply")
        handler = _HANDLERS.get(node.type)
        if handler is None:
            raise Unreadable(f"it has a part of an unknown kind ({node.type})")
        handler(self, node)
        self._depth -= 1

    def chain(self, node: Node, redirects: Sequence[Node] = ()) -> None:
        """`redirects` belong to its last command, whatever the tree says."""
        left, operator, right = (node.children[0], node.children[1].type, node.children[2:])
        before = self.where.cwds
        self.statement(left)
        if operator != "&&":
            self.where.either(before)
        for child in right[:-1]:
            self.statement(child)
        self._redirected(right[-1], redirects)

    def apart(self, node: Node) -> None:
        """A subshell: its changes of directory end with it."""
        before, shaky, repeated = self.where.cwds, self._shaky, self._repeated
        self._shaky = self._repeated = 0
        for child in node.children:
            if child.type == "file_redirect":  # $(< file)
                self.redirect(child)
                continue
            between = self.where.cwds
            self.statement(child)
            self.where.either(between)
        self.where.cwds, self._shaky, self._repeated = before, shaky, repeated

    def pipeline(self, node: Node) -> None:
        """The tree may hold more in a pipeline than bash would: `a | b && c` is one here."""
        self._shaky += 1
        for n, child in enumerate(node.children):
            before, self._fed = self.where.cwds, fed_command(node.children[: n + 1])
            self._last = self._last if self._fed or not child.is_named else None
            self.statement(child)
            self.where.either(before)
        self._shaky -= 1

    def repeated(self, node: Node) -> None:
        self._repeated += 1
        self._waits = self._waits or (node.type == "while_statement" and "read" not in source(node))
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
        words, outer = list[Word](), self._reader.loop
        for child in node.named_children:
            if child.type == "variable_name":
                self._name(child)
            elif child.type == "do_group":
                name = source(node.child_by_field_name("variable"))
                self._reader.loop = read_loop(name, words, child, self._setting())
                self.repeated(child)
                self._reader.loop = outer
            else:
                words.append(self._reader.word(child))
                self.reads += listed(words[-1:], self._setting())

    def case(self, node: Node) -> None:
        for child in node.named_children:
            if child.type != "case_item":
                self._reader.word(child)
                continue
            for n, part in enumerate(child.children):
                if child.field_name_for_child(n) == "value":
                    self._reader.word(part)
                else:
                    before = self.where.cwds
                    self.statement(part)
                    self.where.either(before)

    def function(self, node: Node) -> None:
        name = source(node.child_by_field_name("name"))
        if name in grammar.NEVER_REDEFINED or not harmless_name(name.replace("-", "_")):
            self._vague("it redefines a command")
        self.commands.append(Command((CommandView((name,), None),), f"{name}()", opaque="it defines a function"))
        self._repeated += 1
        self._later = True
        for child in node.named_children:
            if child.type == "file_redirect":
                self.redirect(child)
            elif child.type != "word":
                self.statement(child)
        self._repeated -= 1

    def redirected(self, node: Node) -> None:
        require_one_line(node)
        redirects = [child for child in node.named_children if child.type.endswith("_redirect")]
        bodies = [child for child in node.named_children if not child.type.endswith("_redirect")]
        if len(bodies) > 1:
            raise Unreadable("a redirection in it cannot be read")
        self._dashes.add(grammar.dash_after(node, self._text))
        self._redirected(bodies[0] if bodies else None, redirects)
        for child in redirects:
            self._behind_heredoc(child)

    def _redirected(self, body: Node | None, redirects: Sequence[Node]) -> None:
        """Redirections come first: their paths are relative to the directory before the command."""
        if body is not None and body.type == "list":
            self.chain(body, redirects)
            return
        for child in redirects:
            self.redirect(child)
        if body is not None:
            self.statement(body)

    def arithmetic_for(self, node: Node) -> None:
        self._vague("arithmetic on variables can run code")
        self._reader.inside(node)
        for child in node.named_children:
            if child.type == "do_group":
                self.repeated(child)

    def test(self, node: Node) -> None:
        text = source(node)
        if text.startswith("((") or (text.startswith("[[") and grammar.CASTS_DOUBT.search(text)):
            self._vague("arithmetic on variables can run code")
        opening = node.children[0].type
        if ("\n" in text and opening == "[") or not text[len(opening) :][:1].isspace():
            raise Unreadable("a test in it is not what it seems")
        words = [Word(opening)]
        words += test_words(self._reader, node, grammar.IN_TEST if text.startswith("[[") else grammar.IN_BRACKETS)
        self._simple(words, text)

    # --- simple commands

    def command(self, node: Node) -> None:
        require_one_line(node)
        require_gaps(node)
        feed, self._last = (self._last if node == self._fed else None), None
        words, assigned = list[Word](), list[tuple[str, Word]]()
        for child in node.children:
            self._part(child, words, assigned)
        dashes = ["-"] if node.end_byte in self._dashes else []
        self._simple([*words, *map(Word, dashes)], " ".join([source(node), *dashes]), assigned, feed)
        for child in node.children:
            self._behind_heredoc(child)

    def _part(self, child: Node, words: list[Word], assigned: list[tuple[str, Word]]) -> None:
        match child.type:
            case "command_name":
                if source(child) in grammar.RESERVED:
                    raise Unreadable("a word of the shell's grammar stands where it seems to be a command")
                words.append(self._reader.word(child.children[0]))
            case "variable_assignment":
                assigned.append(self._assignment(child))
            case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                self.redirect(child)
            case _ if child.is_named and child.type not in ("regex", "extglob_pattern"):
                words.append(self._reader.word(child))
            case "==":
                words.append(Word(child.type))
            case _:
                raise Unreadable(f"it has a part of an unknown kind ({child.type})")

    def declaration(self, node: Node) -> None:
        require_one_line(node)
        words, risky, exported = [Word(source(node.children[0]))], False, set[str]()
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = self._assignment(child)
                exported.add(name)
                self._assigned.append((name, value.text))
                # bash reads an array's value as code: anything that looks like `(...)`, or may come to look like it
                array = words[0].text not in ("export", "readonly") and value.text[:1] in ("(", UNKNOWN)
                risky = risky or not harmless_name(name, value.text) or array
                words.append(Word(f"{name}={value.text}"))
            else:
                word = self._reader.word(child)
                flag = word.text.startswith("-")
                exported.add(word.text)
                risky = risky or (word.text not in ("-x", "-r", "-g") if flag else not harmless_name(word.text))
                words.append(word)
        if words[0].text == "export" or any("x" in word.text for word in words[1:] if word.text.startswith("-")):
            self._exported |= exported
        self._plain(words, source(node), harmless=not risky)
        if risky:
            self.commands.append(UNSEEN_CODE)

    def unset(self, node: Node) -> None:
        require_one_line(node)
        words = [Word("unset"), *(self._reader.word(child) for child in node.named_children)]
        risky = not all(harmless_name(w.text) for w in words[1:])
        self._plain(words, source(node), harmless=not risky)
        self.commands += (UNSEEN_CODE,) if risky else ()

    def assignments(self, node: Node) -> None:
        require_one_line(node)
        parts = [node] if node.type == "variable_assignment" else node.named_children
        for part in parts:
            name, value = self._assignment(part)
            self._assigned.append((name, value.text))
            harmless = harmless_name(name, value.text)
            self._plain([Word(f"{name}={value.text}")], source(part), harmless=harmless)
            self.commands += () if harmless else (UNSEEN_CODE,)

    def _assignment(self, node: Node) -> tuple[str, Word]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            self._vague("a subscript can run code")
            self._reader.inside(node)
            return "", Word(UNKNOWN)
        if value is not None and value.type == "array":
            self.reads += listed([self._reader.word(child) for child in value.named_children], self._setting())
        return source(name), Word("") if value is None else self._reader.word(value)

    def _setting(self) -> Setting:
        return Setting(self.where.cwds, self.where.around, self.where.places)

    def _name(self, node: Node) -> None:
        self._assigned.append((source(node), UNKNOWN))
        if not harmless_name(source(node)):
            self._vague(f"it sets {source(node)}")

    def _plain(self, words: Sequence[Word], shown: str, *, harmless: bool) -> None:
        self.commands.append(Command((CommandView(tuple(w.text for w in words)),), shown, harmless=harmless))

    def _vague(self, why: str) -> None:
        self.commands.append(Command((CommandView((), None),), why, opaque=why))

    def _simple(
        self, words: Sequence[Word], shown: str, assigned: Sequence[tuple[str, Word]] = (), feed: FedWords | None = None
    ) -> None:
        if not words:
            return
        self._spend(words)
        found = simple_commands(words, shown, assigned, self._setting(), feed=feed)
        self._later = self._later or words[0].text == "trap"
        self._waits = self._waits or _can_wait([word.text for word in words])
        if found.expands:
            self._globbed += range(len(self.commands), len(self.commands) + len(found.commands))
        self._links = self._links or found.links
        if found.code or sum(not command.shadow for command in found.commands) > 1:
            self._given += found.given
        self._assigned += [(word.text, UNKNOWN) for word in words if words[0].text == "read"]
        self._last = feed_of(words, self._setting()) if found.commands[0].harmless and not assigned else None
        self.commands += found.commands
        self.writes += found.writes
        self.removal = self.removal.or_else(found.removal)
        for code, cwds in found.code:
            self._nested(code, cwds, shadow=found.shadows_code, same_shell=found.same_shell)
        if found.cd is not None:
            self._move(found.cd)

    def _spend(self, words: Sequence[Word]) -> None:
        self._words_left[0] -= sum(_GLOB_COST if word.glob else 1 for word in words)
        if self._words_left[0] < 0:
            raise Unreadable("it has more words than are looked at")

    def _move(self, directory: str) -> None:
        if self._repeated:
            self._vague("it changes the directory while it repeats")
        if self._repeated or self._later:
            self.removal = self.removal.or_else(SHIFTS)
        self.where.change(directory, certain=not self._shaky)

    def _nested(self, code: str, cwds: tuple[str, ...] | None, *, shadow: bool, same_shell: bool) -> None:
        """Parses code carried as text. If only restricting rules look at it, it may be unreadable."""
        inner = Walk(CwdTracker(self.where.around, cwds), self._depth + 5, self._words_left)
        if same_shell:
            inner._shaky, inner._repeated, inner._later = self._shaky, self._repeated, self._later
        try:
            inner.read(code)
        except Unreadable as error:
            if not shadow:
                raise
            inner.commands.append(Command((CommandView((UNKNOWN,), None),), code, opaque=str(error)))
        self._globbed += [len(self.commands) + n for n in inner._globbed]
        self._links, self._waits = self._links or inner._links, self._waits or inner._waits
        self._given, self._assigned = self._given + inner._given, self._assigned + inner._assigned
        self._exported |= inner._exported
        self.commands += [structs.replace(c, shadow=True) if shadow else c for c in inner.commands]
        self.removal = self.removal.or_else(inner.removal)
        if not shadow:
            self.reads += inner.reads
            self.writes += inner.writes
        if same_shell:
            self.where.cwds = inner.where.cwds

    # --- redirections and substitutions

    def redirect(self, node: Node) -> None:
        if node.type == "herestring_redirect":
            require_one_line(node)
            for child in node.named_children:
                self._reader.word(child)
        elif node.type == "heredoc_redirect":
            self._heredoc(node)
        else:
            operator, targets = redirection(node)
            for target in targets:
                self._redirect_to(target, operator)

    def _redirect_to(self, target: Node, operator: str) -> None:
        text = self._reader.word(target).text
        if not names_file(operator, target, text):
            return
        places = [NOWHERE] if UNKNOWN in text else self.where.places(text)
        if operator in grammar.WRITING or operator == ">&":
            self.writes += places
        elif operator == "<":
            self.reads += places
        elif operator not in (">&-", "<&-"):
            raise Unreadable("a redirection in it cannot be read")

    def _heredoc(self, node: Node) -> None:
        expands = check_heredoc(node, self._text)
        for child in node.children:
            if child.type == "heredoc_body" and expands:
                self._reader.document(child)
            elif child.type in ("file_redirect", "herestring_redirect"):
                self.redirect(child)  # the rest of the line comes after the command itself

    def _behind_heredoc(self, node: Node) -> None:
        """The rest of the line that announces a here-document."""
        for child in behind_heredoc(node):
            before = self.where.cwds
            self._shaky += 1
            self.statement(child)
            self._shaky -= 1
            self.where.either(before)


def _can_wait(words: Sequence[str]) -> bool:
    """Can it take until other calls have changed files?"""
    if "tail" in words and any(map(_FOLLOWS.fullmatch, words)):
        return True
    return not {"sleep", "wait"}.isdisjoint(words)


_HANDLERS: dict[str, Callable[[Walk, Node], None]] = {
    "program": Walk.statements, "command": Walk.command, "list": Walk.chain, "pipeline": Walk.pipeline,
    "subshell": Walk.apart, "compound_statement": Walk.compound, "do_group": Walk.statements,
    "if_statement": Walk.statements, "elif_clause": Walk.statements, "else_clause": Walk.statements,
    "while_statement": Walk.repeated, "for_statement": Walk.loop, "c_style_for_statement": Walk.arithmetic_for,
    "case_statement": Walk.case, "function_definition": Walk.function, "redirected_statement": Walk.redirected,
    "negated_command": Walk.statements, "test_command": Walk.test, "declaration_command": Walk.declaration,
    "unset_command": Walk.unset, "variable_assignment": Walk.assignments, "variable_assignments": Walk.assignments,
    "comment": lambda _walk, _node: None,
}  # fmt: skip
