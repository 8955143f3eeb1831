"""JSON that people wrote: a duplicate key is never silently dropped."""

import pytest

from teamwright.core.errors import SettingsError
from teamwright.core.jsontext import decode_object, repeated_keys

TWICE = b'{"permissions": {"deny": ["Bash"]}, "x": 1, "permissions": {}}'


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (TWICE.decode(), ["permissions"]),
        (r'{"permissions": 1, "permi\u0073sions": 2}', ["permissions"]),
        ('{"a": {"b": [{"c": 1, "c": 2}]}}', ["a.b.c"]),
        ('{"a": 1, "a": 2, "a": 3}', ["a"]),
        ('{"a": "a", "b": ["a", "a"], "c": {"a": 1}, "d": "{\\"a\\": 1, \\"a\\": 2}"}', []),
        ('[{"a": 1}, {"a": 2}]', []),
        ("{}", []),
    ],
)
def test_keys_that_stand_twice_in_one_object(text: str, keys: list[str]) -> None:
    assert repeated_keys(text.encode()) == keys


@pytest.mark.spec("M3")
def test_it_is_told_or_refused() -> None:
    problems: list[str] = []
    assert decode_object(TWICE, "a.json", problems) == {"permissions": {}, "x": 1}
    assert len(problems) == 1 and "a.json: `permissions` stands there twice" in problems[0]
    with pytest.raises(SettingsError, match=r"a\.json: `permissions` stands there twice"):
        decode_object(TWICE, "a.json")
