"""Which program opens a page; the sign-in tests prove that one really is opened."""

import pytest

from teamwright.host.process.browser import browser_argv

PAGE = "https://login.example/authorize?state=1"


@pytest.mark.spec("D8")
def test_the_persons_choice_comes_first_and_no_shell_reads_the_address() -> None:
    assert browser_argv(PAGE, {"BROWSER": "my browser --new"}) == ["my", "browser", "--new", PAGE]
    assert browser_argv(PAGE, {"BROWSER": "show --url=%s:lynx"}) == ["show", f"--url={PAGE}"]
    assert browser_argv("https://x/;rm -rf ~", {"BROWSER": "show"}) == ["show", "https://x/;rm -rf ~"]


@pytest.mark.spec("D8")
def test_what_is_no_page_is_not_opened_and_without_a_desktop_nothing_is() -> None:
    assert browser_argv("file:///etc/passwd", {"BROWSER": "show"}) is None
    assert browser_argv("--help", {"BROWSER": "show"}) is None
    assert browser_argv(PAGE, {"PATH": "/nowhere", "DISPLAY": ":0"}) is None
    assert browser_argv(PAGE, {"BROWSER": 'broken "quote'}) is None
