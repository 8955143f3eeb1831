"""Glob and Grep find what is there, and nothing that is ignored, denied or elsewhere."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from file_desk import context, refused, text, use

from teamwright.core.ports import ToolContext
from teamwright.tools.files.globs import matcher
from teamwright.tools.files.search import GLOB, GREP


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    root = Path(os.path.realpath(tmp_path)) / "project"
    files = {
        ".gitignore": "*.log\nbuild/\n",
        "a.py": "needle = 1\nother\nneedle()\n",
        "pkg/b.py": "no\nthe Needle\n",
        "pkg/deep/c.ts": "needle\r\n",
        "pkg/deep/d.tsx": "",
        "noise.log": "needle\n",
        "build/e.py": "needle\n",
        ".git/f.py": "needle\n",
        ".hidden/g.py": "needle\n",
        "-dash.txt": "-needle\n",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode())
    return context(root)


def found(tool: object, ctx: ToolContext, **args: object) -> list[str]:
    return text(tool, ctx, **args).split("\n")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("**/*.py", {"a.py", "pkg/b.py", ".hidden/g.py"}),
        ("*.py", {"a.py", "pkg/b.py", ".hidden/g.py"}),
        ("./*.py", {"a.py"}),
        ("pkg/**", {"pkg/b.py", "pkg/deep/c.ts", "pkg/deep/d.tsx"}),
        ("pkg/**/*.{ts,tsx}", {"pkg/deep/c.ts", "pkg/deep/d.tsx"}),
        ("**/deep/*.ts", {"pkg/deep/c.ts"}),
        ("[ab].p?", {"a.py", "pkg/b.py"}),
        ("*.log", {"No files found"}),
        ("build/**", {"No files found"}),
    ],
)
def test_glob(ctx: ToolContext, pattern: str, names: set[str]) -> None:
    assert set(found(GLOB, ctx, pattern=pattern)) == names


def test_glob_shows_the_newest_first_and_says_what_is_left_out(ctx: ToolContext) -> None:
    for n in range(150):
        (ctx.desk.cwd / f"n{n}.md").touch()
        os.utime(ctx.desk.cwd / f"n{n}.md", (n, n))
    lines = found(GLOB, ctx, pattern="*.md")
    assert lines[:2] == ["n149.md", "n148.md"]
    assert lines[100:] == ["[50 more are not shown. Narrow the search to see them.]"]


def test_glob_stays_below_its_directory(ctx: ToolContext) -> None:
    assert found(GLOB, ctx, pattern=f"{ctx.desk.cwd}/pkg/*.py") == ["pkg/b.py"]
    assert found(GLOB, ctx, pattern="*.py", path="pkg") == ["pkg/b.py"]
    assert "leads out" in refused(GLOB, ctx, pattern="/etc/*")
    assert "`..`" in refused(GLOB, ctx, pattern="../*")
    assert "does not exist" in refused(GLOB, ctx, pattern="*", path="none")
    assert "is a file" in refused(GLOB, ctx, pattern="*", path="a.py")
    (ctx.desk.cwd / "out").symlink_to("/etc")
    assert found(GLOB, ctx, pattern="out/**") == ["No files found"]
    elsewhere = context(ctx.desk.cwd / "pkg")
    assert found(GLOB, elsewhere, pattern="a.py", path="..") == [str(ctx.desk.cwd / "a.py")]


@pytest.mark.spec("M3")
def test_denied_files_are_never_found(ctx: ToolContext) -> None:
    (ctx.desk.cwd / "odd\nname.py").write_text("needle\n")
    secret = str(ctx.desk.cwd / "a.py"), str(ctx.desk.cwd / "odd\nname.py")
    ctx.desk.hidden = lambda path: path in secret
    assert "a.py" not in found(GLOB, ctx, pattern="*.py")
    for mode in ("content", "files_with_matches", "count"):
        shown = text(GREP, ctx, pattern="needle", output_mode=mode)
        assert "a.py" not in shown
        assert "name.py" not in shown
        assert ".hidden/g.py" in shown


def test_grep_names_files_newest_first(ctx: ToolContext) -> None:
    os.utime(ctx.desk.cwd / "a.py", (1, 1))
    os.utime(ctx.desk.cwd / ".hidden/g.py", (3, 3))
    os.utime(ctx.desk.cwd / "pkg/deep/c.ts", (2, 2))
    os.utime(ctx.desk.cwd / "-dash.txt", (0, 0))
    assert found(GREP, ctx, pattern="needle") == [".hidden/g.py", "pkg/deep/c.ts", "a.py", "-dash.txt"]
    assert found(GREP, ctx, pattern="needle", head_limit=1)[0] == ".hidden/g.py"
    assert found(GREP, ctx, pattern="nowhere") == ["No matches found"]
    assert found(GREP, ctx, pattern="-needle") == ["-dash.txt"]


def test_grep_content_and_counts(ctx: ToolContext) -> None:
    assert found(GREP, ctx, pattern="needle", output_mode="content", glob="*.py", **{"-i": True}) == [
        ".hidden/g.py:1:needle", "", "a.py", "1:needle = 1", "3:needle()", "", "pkg/b.py:2:the Needle",
    ]  # fmt: skip
    assert found(GREP, ctx, pattern="needle", output_mode="count", type="py") == [".hidden/g.py:1", "a.py:2"]
    assert found(GREP, ctx, pattern="other", output_mode="content", path="a.py", **{"-C": 1}) == [
        "1-needle = 1", "2:other", "3-needle()",
    ]  # fmt: skip
    assert found(GREP, ctx, pattern="other", output_mode="content", path="a.py", **{"-n": False}) == ["other"]
    assert found(GREP, ctx, pattern="needle", path="noise.log") == ["noise.log"]
    assert found(GREP, ctx, pattern="needle", path="a.py", output_mode="count") == ["a.py:2"]
    assert found(GREP, ctx, pattern="1.other", output_mode="content", multiline=True) == [
        "a.py",
        "1:needle = 1",
        "2:other",
    ]
    assert found(GREP, ctx, pattern="needle", glob="!*.py") != found(GREP, ctx, pattern="needle")
    assert found(GREP, ctx, pattern="needle", glob="pkg/**") == ["pkg/deep/c.ts"]
    assert found(GREP, ctx, pattern="needle", glob="**/*.{log,ts}") == ["pkg/deep/c.ts"]  # still ignored: noise.log


def test_grep_shows_a_path_once_above_several_lines(ctx: ToolContext) -> None:
    (ctx.desk.cwd / "pkg/b.py").write_text("".join(f"needle {n}\n" if n in (1, 2, 9) else "x\n" for n in range(1, 10)))
    args = {"pattern": "needle", "output_mode": "content", "glob": "*.{py,ts}"}
    assert found(GREP, ctx, **args, **{"-A": 1}) == [
        ".hidden/g.py:1:needle", "", "a.py", "1:needle = 1", "2-other", "3:needle()", "",
        "pkg/b.py", "1:needle 1", "2:needle 2", "3-x", "--", "9:needle 9", "", "pkg/deep/c.ts:1:needle",
    ]  # fmt: skip
    assert found(GREP, ctx, **args, **{"-n": False})[2:7] == ["a.py", "needle = 1", "needle()", "", "pkg/b.py"]


def test_grep_counts_the_rest_and_goes_on_at_an_offset(ctx: ToolContext) -> None:
    for n in range(4):
        (ctx.desk.cwd / f"n{n}.md").write_text("".join(f"hit {line}\n" for line in range(100)))
    lines = found(GREP, ctx, pattern="hit", output_mode="content")
    assert lines[-1] == "[150 more lines in 2 files; see them with offset=250, or narrow the search]"
    assert lines[-2] == "50:hit 49" and sum(":hit" in line for line in lines) == 250
    rest = found(GREP, ctx, pattern="hit", output_mode="content", offset=250)
    assert rest[:2] == ["n2.md", "51:hit 50"] and rest[-1] == "100:hit 99"
    limited = use(GREP, ctx, pattern="hit", output_mode="content", head_limit=1, offset=3)
    assert limited.data["numFiles"] == 4 and limited.data["numMatches"] == 400 and limited.data["truncated"]
    assert limited.content[0].text == (
        "n0.md:4:hit 3\n[396 more lines in 4 files; see them with offset=4, or narrow the search]"
    )
    assert "only 400" in text(GREP, ctx, pattern="hit", output_mode="content", offset=400)
    names = found(GREP, ctx, pattern="hit", head_limit=1, offset=1)
    assert len(names) == 2 and names[1] == "[2 more files; see them with offset=2, or narrow the search]"
    assert found(GREP, ctx, pattern="hit", output_mode="count", head_limit=3, offset=1)[-1] == "n3.md:100"


def test_grep_says_what_is_wrong(ctx: ToolContext) -> None:
    assert "unclosed group" in refused(GREP, ctx, pattern="(")
    assert "unrecognized file type" in refused(GREP, ctx, pattern="x", type="nonsense")
    assert "pattern" in refused(GREP, ctx, pattern="a\0b")
    assert "without its }" in refused(GREP, ctx, pattern="x", glob="*.{py")
    assert "output_mode" in refused(GREP, ctx, pattern="x", output_mode="lines")
    os.mkfifo(ctx.desk.cwd / "fifo")
    assert "FIFO" in refused(GREP, ctx, pattern="x", path="fifo")


@pytest.mark.spec("A5", "A12")
def test_grep_is_bounded_and_visible(ctx: ToolContext) -> None:
    (ctx.desk.cwd / "many").write_text("hit\n" * 2_000_000)
    (ctx.desk.cwd / "wide").write_text("\x1b[2Jwide" + "x" * 2_000_000)
    shown = text(GREP, ctx, pattern="hit", output_mode="content")
    assert len(shown) < 31_000
    assert shown.endswith("[over 100,000 more lines in 1 file; see them with offset=250, or narrow the search]")
    assert len(text(GREP, ctx, pattern="hit", output_mode="content", head_limit=0)) < 31_000
    shown = text(GREP, ctx, pattern="wide", output_mode="content")
    assert shown.startswith("wide:1:\\x1b[2Jwide")
    assert len(shown) < 700
    lines = found(GREP, ctx, pattern="hit", output_mode="content", path="many", head_limit=2)
    assert lines[:2] == ["1:hit", "2:hit"]
    assert len(lines) == 3


@pytest.mark.spec("A5")
def test_a_directory_that_became_a_link_is_not_searched(ctx: ToolContext) -> None:
    (ctx.desk.cwd / "swapped").symlink_to("pkg")
    ctx.paths = {"swapped": str(ctx.desk.cwd / "swapped")}
    assert "link" in refused(GREP, ctx, pattern="needle", path="swapped")
    assert "link" in refused(GLOB, ctx, pattern="*", path="swapped")


def test_a_persons_ripgrep_settings_do_not_interfere(ctx: ToolContext) -> None:
    settings = ctx.desk.cwd.parent / "ripgreprc"
    settings.write_text("--heading\n--invert-match\n")
    os.environ["RIPGREP_CONFIG_PATH"] = str(settings)
    try:
        assert found(GREP, ctx, pattern="other", output_mode="content") == ["a.py:2:other"]
    finally:
        del os.environ["RIPGREP_CONFIG_PATH"]


def test_no_pattern_is_slow() -> None:
    began = time.process_time()
    assert not matcher("*a" * 40 + "/" + "**/x/" * 20 + "z")("a" * 250 + "/" + "x/" * 100 + "y")
    assert time.process_time() - began < 2


def test_too_many_choices_are_refused(ctx: ToolContext) -> None:
    assert "combinations" in refused(GLOB, ctx, pattern="{a,b}" * 10)
    assert use(GLOB, ctx, pattern="{a,{pkg/b,x}}.py").data["filenames"] in (["a.py", "pkg/b.py"], ["pkg/b.py", "a.py"])


@pytest.mark.spec("A5")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child's memory cannot be bounded from outside")
def test_a_line_that_does_not_fit_into_memory_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # older ones map such a file
    (tmp_path / "a.txt").write_text("needle\n")
    with (tmp_path / "big.txt").open("wb") as file:
        for _ in range(400):
            file.write(b"x" * 1_000_000)
    ctx = context(tmp_path)
    for mode in ("content", "files_with_matches"):
        shown = text(GREP, ctx, pattern="needle", output_mode=mode)
        assert shown.startswith("a.txt") and "more than 16 MiB were left out" in shown
    assert "too long to be searched" in refused(GREP, ctx, pattern="needle", path="big.txt")


@pytest.mark.spec("A5")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child's memory cannot be bounded from outside")
def test_a_search_takes_no_more_memory_than_it_is_given(tmp_path: Path) -> None:
    with (tmp_path / "big.txt").open("wb") as file:
        for _ in range(700):
            file.write(b"x" * 1_000_000)
    script = (  # in a process of its own, because the system only reports the largest child that ever ran
        "import resource, sys; from pathlib import Path\n"
        "from file_desk import context, refused; from teamwright.tools.files.search import GREP\n"
        "refused(GREP, context(Path(sys.argv[1])), pattern='needle', path='big.txt')\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    argv = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 600  # MiB
