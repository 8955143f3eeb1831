"""HTML to text: readable, bounded, and fast even on pages made to be slow."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teamwright.host.web.html import html_to_text

BASE = "https://example.com/docs/"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("plain", "plain"),
        ("<h1>One</h1><p>two</p><h3>three</h3>four", "# One\n\ntwo\n\n### three\n\nfour"),
        ("<p>a   b\n c</p>\n\n<p>d</p>", "a b c\n\nd"),
        ("a <b>bold</b>, <i>x</i>y", "a bold, xy"),
        ("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "- a\n- b\n  - c\n- d"),
        ("<ol><li>a</li><li><p>b</p></li></ol>after", "1. a\n2. \nb\n\nafter"),
        ('see <a href="a.html">this page</a>.', "see this page (https://example.com/docs/a.html)."),
        ('<a href="#top">up</a> <a href="javascript:x()">run</a> <a href="">none</a> <a>no</a>', "up run none no"),
        ('<a href="https://x.org/">https://x.org/</a>', "https://x.org/"),
        ('<a href="/x"><img src="y" alt="Logo"></a>', "[image: Logo] (https://example.com/x)"),
        ("<p>use <code>x = 1</code> here</p>", "use `x = 1` here"),
        ("<pre>def f():\n    <b>return</b> 1\n</pre>x", "```\ndef f():\n    return 1\n```\n\nx"),
        ("<table><tr><th>A</th><th>B</th></tr><tr><td>1<td>2</table>", "A | B\n1 | 2"),
        ("a<br>b<br><br>c<hr>d", "a\nb\n\nc\n\n---\n\nd"),
        ("<title>A &amp; B</title><p>x", "Title: A & B\n\nx"),
        ("&lt;p&gt; &eacute;&#233;&#xe9; &nope; a&b", "<p> ééé &nope; a&b"),
        ("1 < 2 <3 a<", "1 < 2 <3 a<"),
    ],
)
def test_what_becomes_of_it(source: str, text: str) -> None:
    assert html_to_text(source, BASE) == text


@pytest.mark.parametrize(
    "source",
    [
        "<script>if (a < b) document.write('<p>NO</p>')</script>yes",
        "<SCRIPT>NO</ScRiPt >yes",
        "<style>NO</style>yes",
        "<!-- NO <p>NO</p> -->yes",
        "<template><p>NO</template>yes",
        "<svg><text>NO</text></svg>yes",
        "<div hidden>NO<div>NO</div>NO</div>yes",
        "<p hidden>NO<p>yes",
        "<span style='display : none'>NO</span>yes",
        '<i aria-hidden="true">NO</i>yes',
        "<textarea>NO</textarea>yes",
        "<?xml NO?><!DOCTYPE NO>yes",
        "yes<a href='NO",
        "yes<!-- NO",
        "yes<script>NO",
    ],
)
def test_what_nobody_sees_is_left_out(source: str) -> None:
    assert html_to_text(source, BASE) == "yes"


@pytest.mark.parametrize(
    "piece",
    [
        *("<!--", "<a ", '<a b="', "</", "<![CDATA[", "<ul><li>", "<p hidden>", "&#9", "<", "<script>", "<pre>"),
        *("<td>", "<a b='\"><", "<code>", '<a href="/y">t</a>', "<x/ ", "<div>", "&", "<title>"),
    ],
)
def test_time_grows_with_the_length_of_the_page_alone(piece: str) -> None:
    def cost(size: int) -> float:
        source = piece * (size // len(piece))
        began = time.thread_time()
        html_to_text(source, BASE)
        return time.thread_time() - began

    small = min(cost(20_000) for _ in range(3))
    assert cost(400_000) < 20 * small * 4 + 0.2  # twenty times the text; quadratic work would take 400 times as long


def test_a_number_too_long_to_be_a_character_is_none() -> None:
    assert html_to_text("&#" + "9" * 10_000 + ";&#x" + "f" * 10_000 + "; &#" + "0" * 9_000 + "65;") == "\ufffd\ufffd A"


def test_the_result_is_bounded() -> None:
    assert len(html_to_text("<ul>" * 1000 + "<li>x" * 100_000, most=5_000)) <= 5_000
    assert len(html_to_text("<title>" + "t" * 10_000 + "</title>" + "x" * 10_000, most=1_000)) == 1_000


_TAGS = "p ul ol li pre code table td tr h1 a title script div br"
_PIECES = st.sampled_from(
    [
        *(f"{mark}{name}{end}" for name in _TAGS.split(" ") for mark in ("<", "</") for end in (">", " hidden>", " ")),
        *("<", ">", "/", "=", '"', "'", "&", ";", "!", "--", "?", "x", "a", "<!--", "-->", "<a href='//['>", "&#x;"),
        *("&#99999999;", "<![CDATA[", "]]>", " ", "\n", "\0", "\x1b", "é", "\ud800", "<a href=/x>"),
    ]
)


@settings(deadline=None, max_examples=200, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_PIECES, max_size=30).map("".join))
def test_no_page_makes_it_fail(source: str) -> None:
    for most in (7, 100_000):
        assert len(html_to_text(source, BASE, most)) <= most
