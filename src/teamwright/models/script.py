"""Scripts of the scripted model, read from a file or from code.

A script is a list of steps; each request is answered by one. A step, in Python or in a file, is
    "text"                                     a reply of text
    {"text": "..."}                            the same
    {"thinking": "..."}                        thinking("...") in Python
    {"tool": NAME, "input": {...}}             call(NAME, key=value) in Python; "id" may be given
    [block, block, ...]                        several of these in one reply
    {"blocks": [...], "stop": "max_tokens"}    likewise; `stop`: end_turn, tool_use, max_tokens, refusal or pause
    {"error": {"fault": "rate_limit", "message": "...", "status": 429}}              any exception in Python
A step that is an object may have "stop", "delay" (seconds before it begins) and "pace" (characters a second, for people
who watch). A script with options is {"steps": [...], "when": "...", "pace": 80}. A file holds one script, or an object
of scripts by name.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
from msgspec import Raw, Struct

from teamwright.core.data.message import Stop, Text, Thinking, ToolCall
from teamwright.core.errors import Fault, ModelError, SettingsError
from teamwright.core.ids import CallId

Part = Text | Thinking | ToolCall
Place = tuple[str | int, ...]  # path to a part of a script: keys and indexes

LONGEST_DELAY = 3600.0


class ScriptStep(Struct, frozen=True):
    """One reply or one failure."""

    parts: tuple[Part, ...] = ()
    stop: Stop | None = None  # None: derived from the parts
    delay: float = 0.0
    pace: float | None = None  # characters a second; 0 is at once, None as the script sets it
    error: Exception | None = None


class Script(Struct, frozen=True):
    steps: tuple[ScriptStep, ...]
    when: str = ""
    pace: float | None = None


def call(tool: str, /, **input: Any) -> ToolCall:
    """A tool call of a script. Its id is made when it is played."""
    return ToolCall(CallId(""), tool, Raw(msgspec.json.encode(input)))


def thinking(text: str) -> Thinking:
    return Thinking(text, signature="scripted")


class BadScript(SettingsError):
    """An invalid script; `at` is the path to the error, as keys and indexes."""

    def __init__(self, words: str, at: Place) -> None:
        super().__init__(words)
        self.at = at


def read_scripts(value: Any) -> Script | dict[str, Script]:
    """One script, or several by name."""
    if not isinstance(value, Mapping) or ("steps" in value and value.keys() <= {"steps", "when", "pace"}):
        return _read_script(value, ())
    scripts = cast("Mapping[str, Any]", value)
    return {key: _read_script(script, (key,)) for key, script in scripts.items()}


def _read_script(value: Any, at: Place) -> Script:
    if isinstance(value, Script):
        return value
    options = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {"steps": value}
    steps = options.pop("steps", None)
    if not isinstance(steps, list | tuple):
        raise BadScript('A script is a list of steps, or {"steps": [...], "when": "..."}.', at)
    here = (*at, "steps") if isinstance(value, Mapping) else at
    when, pace = options.pop("when", ""), _number(options, "pace", at)
    if options or not isinstance(when, str):
        raise BadScript("Besides `steps`, a script may have `when` (a text) and `pace`.", at)
    read = (read_step(step, (*here, n)) for n, step in enumerate(cast("Sequence[Any]", steps)))
    return Script(tuple(read), when, pace)


def read_step(value: Any, at: Place) -> ScriptStep:
    match value:
        case ScriptStep():
            return value
        case Exception():
            return ScriptStep(error=value)
        case list() | tuple():
            return ScriptStep(_read_parts(value, at))
        case Mapping():
            return _read_fields(dict(cast("Mapping[str, Any]", value)), at)
        case _:
            return ScriptStep((_read_part(value, at),))


def _read_fields(fields: dict[str, Any], at: Place) -> ScriptStep:
    stop, delay = fields.pop("stop", None), _number(fields, "delay", at) or 0.0
    pace = _number(fields, "pace", at)
    if stop is not None and stop not in get_args(Stop):
        raise BadScript(f"`stop` is one of {', '.join(get_args(Stop))}.", (*at, "stop"))
    if set(fields) == {"error"}:
        return ScriptStep(delay=delay, error=_read_error(fields["error"], (*at, "error")))
    parts = _read_parts(fields["blocks"], (*at, "blocks")) if set(fields) == {"blocks"} else (_read_part(fields, at),)
    return ScriptStep(parts, stop, delay, pace)


def _read_parts(value: Any, at: Place) -> tuple[Part, ...]:
    if not isinstance(value, list | tuple):
        raise BadScript("`blocks` is a list.", at)
    return tuple(_read_part(part, (*at, n)) for n, part in enumerate(cast("Sequence[Any]", value)))


def _read_part(value: Any, at: Place) -> Part:
    match value:
        case str():
            return Text(value)
        case Text() | Thinking() | ToolCall():
            return value
        case {"text": str(text), **more} if not more:
            return Text(text)
        case {"thinking": str(text), **more} if not more:
            return thinking(text)
        case {"tool": str(tool), **more} if set(more) <= {"input", "id"}:
            input, id = more.get("input", {}), more.get("id", "")
            if not isinstance(input, Mapping) or not isinstance(id, str):
                raise BadScript("A tool's `input` is an object and its `id` a text.", at)
            return ToolCall(CallId(id), tool, Raw(msgspec.json.encode(input)))
        case _:
            raise BadScript(
                'A step is a text, {"text": ...}, {"thinking": ...}, {"tool": ..., "input": {...}}, '
                'a list of these, {"blocks": [...]} or {"error": {...}}.',
                at,
            )


def _read_error(value: Any, at: Place) -> ModelError:
    match value:
        case {"fault": str(fault), **more} if fault in get_args(Fault) and set(more) <= {"message", "status"}:
            words, status = more.get("message", ""), more.get("status")
            if isinstance(words, str) and (status is None or isinstance(status, int)):
                return ModelError(words or f"The script says: {fault}.", cast("Fault", fault), status=status)
        case _:
            pass
    faults = ", ".join(get_args(Fault))
    raise BadScript(f"An error has `fault` (one of {faults}), and may have `message` and `status`.", at)


def _number(fields: dict[str, Any], key: str, at: Place) -> float | None:
    value = fields.pop(key, None)
    if value is None:
        return None
    most = LONGEST_DELAY if key == "delay" else float("inf")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise BadScript(f"`{key}` is a number" + (f" from 0 to {most:g}." if key == "delay" else ", 0 or more."), at)
    return float(value)


def read_file(file: Path) -> tuple[str, Any]:
    """The text of a script file and its parsed value."""
    try:
        if file.exists() and not file.is_file():
            raise SettingsError(f"The script {file} is not a file.")
        text = file.read_text("utf-8")
    except OSError as error:
        raise SettingsError(f"The script {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"The script {file} is not UTF-8 text.") from None
    value = _parse_yaml(file, text) if file.suffix.lower() in (".yaml", ".yml") else _parse_json(file, text)
    if not isinstance(value, list | dict):
        raise SettingsError(f"{file}, line 1: A script is a list of steps, or an object of named scripts.")
    try:
        msgspec.json.encode(value)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:  # half a surrogate pair, a cycle
        raise SettingsError(f"{file}: The script holds something that no model could say: {error}.") from None
    return text, cast("Any", value)


def _parse_json(file: Path, text: str) -> Any:
    import json  # noqa: PLC0415 - unlike msgspec it tells the line of a mistake

    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{file}, line {error.lineno}: not valid JSON: {error.msg}.") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file}: not valid JSON: {error}.") from None


def _parse_yaml(file: Path, text: str) -> Any:
    import yaml  # noqa: PLC0415

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SettingsError(f"{file}, line {line}: not valid YAML: {error.problem}.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{file}: not valid YAML: {error}.") from None


def line_of(text: str, at: Place) -> int:
    """The line on which a part of the parsed value is written. JSON is parsed as YAML, because only that reports
    positions."""
    import yaml  # noqa: PLC0415

    try:
        node = cast("Any", yaml.compose(text.replace("\t", " "), yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType]
    except yaml.YAMLError:
        return 1
    for key in at:
        if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
            node = node.value[key]
        elif isinstance(node, yaml.MappingNode):
            node = next((value for name, value in node.value if name.value == str(key)), node)
    return node.start_mark.line + 1
