"""NotebookEdit changes one cell and leaves the notebook's form alone."""

import json
import os
from pathlib import Path

import pytest
from file_desk import context, refused, use

from teamwright.core.ports import ToolContext
from teamwright.tools.files.notebook import NOTEBOOK_EDIT
from teamwright.tools.files.read import READ

PRINTED = {"output_type": "stream", "name": "stdout", "text": ["4"]}
CELLS = [
    {"cell_type": "markdown", "id": "intro", "metadata": {"z": 1, "a": 2}, "source": ["# Żółw\n", "two"]},
    {"cell_type": "code", "execution_count": 3, "id": "sum", "metadata": {}, "outputs": [PRINTED], "source": ["2 + 2"]},
]  # fmt: skip
NOTEBOOK = {"metadata": {"kernel": 1.5}, "nbformat": 4, "nbformat_minor": 5, "cells": CELLS}

INDENTS = [{"indent": 1}, {"indent": 4}, {"indent": "\t"}]
FORMS = [*INDENTS, {}, {"separators": (",", ":")}, {"indent": 1, "ensure_ascii": True}]


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    return context(Path(os.path.realpath(tmp_path)))


def known(ctx: ToolContext, content: str) -> Path:
    path = ctx.desk.cwd / "n.ipynb"
    path.write_text(content)
    use(READ, ctx, file_path="n.ipynb")
    return path


@pytest.mark.spec("A4")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("end", ["", "\n"])
def test_only_the_cell_changes(ctx: ToolContext, form: dict[str, object], end: str) -> None:
    form = {"ensure_ascii": False} | form
    path = known(ctx, json.dumps(NOTEBOOK, **form) + end)
    use(NOTEBOOK_EDIT, ctx, notebook_path="n.ipynb", cell_id="sum", new_source="x = 1\nx")
    changed = CELLS[1] | {"execution_count": None, "outputs": [], "source": ["x = 1\n", "x"]}
    assert path.read_text() == json.dumps(NOTEBOOK | {"cells": [CELLS[0], changed]}, **form) + end


def test_insert_and_delete(ctx: ToolContext) -> None:
    path = known(ctx, json.dumps(NOTEBOOK, indent=1))
    call = {"notebook_path": "n.ipynb", "new_source": "print()", "edit_mode": "insert"}
    assert "cell_type" in refused(NOTEBOOK_EDIT, ctx, **call)
    use(NOTEBOOK_EDIT, ctx, **call, cell_type="code", cell_id="intro")
    use(NOTEBOOK_EDIT, ctx, **call, cell_type="markdown")
    cells = json.loads(path.read_text())["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "markdown", "code", "code"]
    assert list(cells[2].items()) == [
        ("cell_type", "code"), ("execution_count", None), ("id", cells[2]["id"]), ("metadata", {}), ("outputs", []),
        ("source", ["print()"]),
    ]  # fmt: skip
    assert len({cell["id"] for cell in cells}) == 4
    use(NOTEBOOK_EDIT, ctx, notebook_path="n.ipynb", new_source="", edit_mode="delete", cell_id="intro")
    assert [cell["source"] for cell in json.loads(path.read_text())["cells"]] == [["print()"], ["print()"], ["2 + 2"]]


def test_a_cell_can_change_its_kind(ctx: ToolContext) -> None:
    path = known(ctx, json.dumps(NOTEBOOK, indent=1))
    use(NOTEBOOK_EDIT, ctx, notebook_path="n.ipynb", cell_id="sum", new_source="words", cell_type="markdown")
    cell = json.loads(path.read_text())["cells"][1]
    assert cell == {"cell_type": "markdown", "id": "sum", "metadata": {}, "source": ["words"]}


def test_cells_without_ids_go_by_their_place(ctx: ToolContext) -> None:
    cells = [{"cell_type": "code", "source": f"{n}", "metadata": {}, "outputs": []} for n in range(3)]
    path = known(ctx, json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 2}))
    use(NOTEBOOK_EDIT, ctx, notebook_path="n.ipynb", cell_id="cell-1", new_source="new")
    call = {"notebook_path": "n.ipynb", "new_source": "end", "edit_mode": "insert", "cell_type": "code"}
    use(NOTEBOOK_EDIT, ctx, **call, cell_id="cell-2")
    found = json.loads(path.read_text())["cells"]
    assert [cell["source"] for cell in found] == ["0", "new", "2", "end"]
    assert "id" not in found[3]


@pytest.mark.spec("A4")
def test_refusals(ctx: ToolContext) -> None:
    path = known(ctx, json.dumps(NOTEBOOK))
    call = {"notebook_path": "n.ipynb", "new_source": "x"}
    assert "intro, sum" in refused(NOTEBOOK_EDIT, ctx, **call, cell_id="none")
    assert "which" in refused(NOTEBOOK_EDIT, ctx, **call)
    assert "Use Edit" in refused(NOTEBOOK_EDIT, ctx, notebook_path="n.py", new_source="x")
    path.write_text(json.dumps(NOTEBOOK) + "\n\n")
    assert "changed since" in refused(NOTEBOOK_EDIT, ctx, **call, cell_id="sum")
    known(ctx, '{"worksheets": []}')
    assert "format 4" in refused(NOTEBOOK_EDIT, ctx, **call, cell_id="sum")
