"""Strings such as `$'a\\n'`, in which every letter can be written as a number."""

import re

from teamwright.core.permissions.patterns import UNKNOWN

_ANSI = re.compile(r"\\(?:([abeEfnrtv\\'\"?])|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4}))")
ANSI_STRING = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_PLAIN = dict(zip("abeEfnrtv\\'\"?", "\a\b\033\033\f\n\r\t\v\\'\"?", strict=True))


def unescaped(text: str) -> str:
    """The content of the quotes as bash reads it; UNKNOWN if versions and locales differ."""

    def decoded(found: re.Match[str]) -> str:
        if found[1]:
            return _PLAIN[found[1]]
        return chr(int(found[2] or found[4], 16) if found[2] or found[4] else int(found[3], 8))

    if re.search(r"\\[^abeEfnrtv\\'\"?x0-7u]|\\x(?![0-9a-fA-F])|\\u(?![0-9a-fA-F])", text.replace("\\\\", "")):
        return UNKNOWN
    if any(decoded(found) > "\x7f" for found in _ANSI.finditer(text)):
        return UNKNOWN  # bytes that combine into a letter, or a letter that other locales encode differently
    return _ANSI.sub(decoded, text)
