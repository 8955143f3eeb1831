"""AskUserQuestion without a person: the model sees it, and its answer tells the model to go on."""

from pathlib import Path
from typing import Any

import pytest
from file_desk import session_context

from teamwright.core.errors import ToolError
from teamwright.tools.agents.ask import AskTool


def test_the_schema_is_the_one_that_models_know() -> None:
    question = AskTool.spec.schema["properties"]["questions"]["items"]
    assert set(question["properties"]) == {"question", "header", "options", "multiSelect"}
    assert set(question["properties"]["options"]["items"]["properties"]) == {"label", "description"}
    assert AskTool.spec.name == "AskUserQuestion" and AskTool.spec.schema["required"] == ["questions"]


@pytest.mark.parametrize("args", [{}, {"questions": [{"question": "Which?", "header": "h", "options": []}]}])
async def test_every_call_is_declined_and_tells_the_model_to_decide(args: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"Decide yourself.*say in your answer what you assumed"):
        await AskTool().call(args, session_context(tmp_path, person=None))
