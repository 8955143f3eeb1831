"""Ids of things. Each kind has its own type, so that one is never passed for another."""

import os
import uuid
from typing import NewType

SessionId = NewType("SessionId", str)
AgentId = NewType("AgentId", str)
LetterId = NewType("LetterId", str)
CallId = NewType("CallId", str)
QuestionId = NewType("QuestionId", str)
JobId = NewType("JobId", str)  # an agent's job has the agent's id


def new_session_id() -> SessionId:
    """A UUID, because programs that drive us expect one."""
    return SessionId(str(uuid.uuid4()))


def new_agent_id() -> AgentId:
    return AgentId("a" + os.urandom(8).hex())


def new_letter_id() -> LetterId:
    return LetterId("l" + os.urandom(8).hex())


def new_job_id() -> JobId:
    return JobId("b" + os.urandom(8).hex())


def line_uuid(agent: AgentId, line: int) -> str:
    """A stable UUID by which other programs identify a line of a transcript."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"teamwright:{agent}:{line}"))


def new_question_id() -> QuestionId:
    return QuestionId("q" + os.urandom(8).hex())
