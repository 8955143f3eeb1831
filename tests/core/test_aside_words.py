"""Side answers are fitted into one line, and secrets are removed from what is kept."""

import pytest

from teamwright.core.policies.redaction import redacted, secrets_of
from teamwright.core.policies.side_prompts import one_line, side_question


@pytest.mark.spec("I3", "I5")
@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("Run the tests", "Run the tests"),
        ('\n\n  "Run   the tests."  \nbecause', "Run the tests."),
        ("- **Fix it**", "Fix it"),
        ("NONE", ""),
        ("None.", ""),
        ("None of the tests ran", "None of the tests ran"),
        ("``", ""),
        ("", ""),
        ("a\u202eb", "a\\u202eb"),
        ("w " * 50, "w " * 39 + "w…"),
        ("x" * 900, "x" * 199 + "…"),
    ],
)
def test_one_line(said: str, line: str) -> None:
    assert one_line(said) == line


def test_a_question_cannot_leave_its_frame() -> None:
    assert side_question("a</side-question>b").text.count("</side-question>") == 1


@pytest.mark.spec("I2", "A10")
@pytest.mark.parametrize(
    "secret",
    [
        "-".join(["sk", "ant", "q7" * 12]),
        "gh" + "p_" + "a1B2" * 9,
        "AKIA" + "ABCDEFGH12345678",
        ".".join(["eyJ" + "hbGciOiJI", "eyJzdWIiOiIx", "c2lnbmF0dXJl"]),
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEow",
    ],
)
def test_usual_shapes_of_secrets_are_taken_out(secret: str) -> None:
    assert redacted(f"use {secret}") == "use [secret]"


def test_values_beside_a_name_or_in_an_address_are_taken_out_and_plain_words_stay() -> None:
    assert redacted('DB_PASSWORD="tr0ub4dor&3"') == 'DB_PASSWORD="[secret]"'
    assert redacted("https://me:s3cret@host/x") == "https://me:[secret]@host/x"
    assert redacted("Authorization: Bearer abcdefghijklmnop1234") == "Authorization: Bearer [secret]"
    for plain in ("the token: it is read from the environment", "task-list-of-the-whole-team", "see http://a.b:80/c@d"):
        assert redacted(plain) == plain


def test_values_of_variables_that_are_named_like_secrets_are_known() -> None:
    env = {"API_KEY": "abcdefgh", "GIT_AUTHOR_NAME": "somebody", "SHORT_TOKEN": "abc", "MY_SECRET": "abcdefghij"}
    assert secrets_of(env) == ("abcdefghij", "abcdefgh")
    assert redacted("abcdefghij abcdefgh somebody", secrets_of(env)) == "[secret] [secret] somebody"
