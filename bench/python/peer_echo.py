# SPDX-License-Identifier: Apache-2.0
"""Peer of the served agents: the route of the agent in echo_project as it is usually built, with FastAPI.

Started by uvicorn with one worker. The agent runs in the server's own process and loop: no limits, no restart, no queue.
"""

from typing import Literal, Union

from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Question(BaseModel):
    """What a served agent takes."""

    query: str
    session_id: str = "default"
    stream: Union[Literal[False], Literal["text"], Literal["events"]] = False


class Reply(BaseModel):
    """What it answers."""

    response: str
    session_id: str


@app.get("/health")
async def health() -> dict[str, str]:
    """Says that it runs."""
    return {"status": "healthy"}


async def echo(query: str) -> str:
    """The agent."""
    return query


@app.post("/agents/echo/", response_model=Reply)
async def ask(question: Question) -> Reply:
    """Hands the question to the agent."""
    return Reply(response=await echo(question.query), session_id=question.session_id)
