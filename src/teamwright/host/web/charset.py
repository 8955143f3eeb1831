"""Decodes bytes by their declared charset. Only text encodings are accepted: some of Python's codecs are not text
encodings, and some take hours."""

import codecs
import re

# By Python's names. Excluded: escape formats, UTF-7, punycode, compressing codecs, platform-dependent ones.
_TEXT = re.compile(
    r"ascii|utf-8(-sig)?|utf-(16|32)(-[lb]e)?|iso8859-\d{1,2}|iso2022_(jp|kr)(_\w+)?|cp\d{3,4}|koi8-[rtu]|kz1048|ptcp154"
    r"|gb2312|gbk|gb18030|hz|big5(hkscs)?|euc_(jp|kr|jis_2004|jisx0213)|shift_jis(_2004|x0213)?|johab|tis-620"
    r"|hp-roman8|mac-(roman|cyrillic|greek|latin2|turkish|iceland|croatian|romanian|arabic|farsi)"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:.() -]{0,39}")


def text_codec(name: str | None) -> str | None:
    """Python's name for the text encoding; None if it is not one."""
    if not name or not _NAME.fullmatch(name.strip()):
        return None
    try:
        known = codecs.lookup(name.strip()).name
    except (LookupError, ValueError):
        return None
    return known if _TEXT.fullmatch(known) else None


def decode_text(data: bytes, *names: str | None) -> str:
    """Decodes with the first of these that is a text encoding, else as UTF-8; invalid bytes become U+FFFD."""
    if data.startswith(codecs.BOM_UTF8):
        return data.decode("utf-8-sig", "replace")
    codec = next(filter(None, map(text_codec, names)), "utf-8")
    return data.decode(codec, "replace")
