"""Describes what an agent may do without approval; ends every refusal."""

from teamwright.core.permissions.consent import Mode
from teamwright.core.permissions.rules import SHELL, Rules, names_tool
from teamwright.core.text import shown

_MOST_RULES = 10
_LONGEST = 60  # characters in a pattern
_EDITS = "mkdir, touch, mv, cp, rm, rmdir, ln, git mv, git rm and sed -i in the working directories"


def allowed_words(tool: str, mode: Mode, rules: Rules) -> str:
    """For example `Allowed: commands that only read; git add *.` Empty if there is nothing to name."""
    named = [r.pattern for r in rules.allow if r.pattern is not None and names_tool(r, tool)]
    patterns = ", ".join(shown(p, _LONGEST) for p in dict.fromkeys(named[:_MOST_RULES])) if mode != "plan" else ""
    parts = ["commands that only read"] if tool in SHELL else []
    parts += [_EDITS] if tool in SHELL and mode == "acceptEdits" else []
    parts += [patterns] if patterns else []
    return f"Allowed: {'; '.join(parts)}." if parts else ""
