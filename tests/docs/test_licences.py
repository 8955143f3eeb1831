"""LICENCES.md names what the program is built on, and no foreign code is copied into it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCES = ROOT / "src" / "teamwright"


def test_the_page_is_what_the_packages_say_of_themselves() -> None:
    asked = [sys.executable, str(ROOT / "scripts" / "licences"), "--check"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_every_requirement_has_a_row() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["cluster"], *extras["otel"]]
    names = {re.split(r"[<>=\[; ]", requirement)[0] for requirement in wanted}
    assert names <= {*re.findall(r"^\| `([^`]+)` \|", (ROOT / "LICENCES.md").read_text(), re.MULTILINE)}


def test_nothing_of_others_is_in_the_package() -> None:
    files = [file for file in SOURCES.rglob("*") if file.is_file() and "docs" not in file.relative_to(SOURCES).parts]
    kinds = {file.suffix for file in files if file.suffix != ".pyc"}
    assert kinds <= {".py", ".js", ".css", ".html", ".json", ".typed"}, "a binary, a font or a picture needs a notice"
    for file in files:
        if file.suffix != ".pyc":
            text = file.read_text()
            marks = re.search(r"(?i)copyright (\(c\)|©|\d{4})|SPDX-License|@license|sourceMappingURL", text)
            assert marks is None, f"{file} carries a notice of somebody"
            assert max(map(len, text.splitlines()), default=0) < 2000 or file.suffix == ".json", f"{file} is minified"
