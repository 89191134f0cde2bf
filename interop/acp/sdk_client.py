"""A client on the protocol's Python SDK: prompts an agent and prints what reached it, a line of JSON each.

    python sdk_client.py PERSON agent…

PERSON is who sits there: it allows (`allow`) or rejects (`reject`) what it is asked, cancels the prompt when it is asked
(`cancel-prompt`) or when a child speaks (`cancel-midway`), or allows and prompts once more (`again`).
"""

import asyncio
import json
import logging
import os
import sys

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse


def show(**line: object) -> None:
    print(json.dumps(line), flush=True)


def plain(model: object) -> dict:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Complaints(logging.Handler):
    """The SDK tells in its log of what it rejects, and nowhere else."""

    def emit(self, record: logging.LogRecord) -> None:
        show(complaint=self.format(record))


class Client:
    def __init__(self, person: str) -> None:
        self.person = person
        self.agent = None
        self.session = ""
        self.has_cancelled = False

    def on_connect(self, agent: object) -> None:
        self.agent = agent

    async def session_update(self, session_id: str, update: object, **_: object) -> None:
        update = plain(update)
        show(update={"sessionId": session_id, "update": update})
        is_card = update["sessionUpdate"] == "tool_call_update" and update["toolCallId"].startswith("spawn:")
        if self.person == "cancel-midway" and is_card and update.get("content"):
            await self.cancel()

    async def cancel(self) -> None:
        if not self.has_cancelled:
            self.has_cancelled = True
            await self.agent.cancel(session_id=self.session)

    async def request_permission(self, session_id: str, tool_call: object, options: list, **_: object) -> object:
        if self.person.startswith("cancel"):
            await self.cancel()
        answer = "cancelled" if self.has_cancelled else "reject" if self.person == "reject" else "allow"
        asked = {"sessionId": session_id, "toolCall": plain(tool_call), "options": [plain(option) for option in options]}
        show(question=asked, answer=answer)
        if self.has_cancelled:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=answer))


async def main(person: str, program: str, *args: str) -> None:
    client = Client(person)
    # Its own default environment leaves most of ours out.
    async with spawn_agent_process(client, program, *args, env=os.environ) as (agent, process):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        client.session = (await agent.new_session(cwd=os.getcwd(), mcp_servers=[])).session_id
        for _ in range(2 if person == "again" else 1):
            answer = await agent.prompt(session_id=client.session, prompt=[text_block("Compare.")])
            show(answer=plain(answer))
        process.stdin.close()
        code = await process.wait()
        if code:
            show(complaint=f"the agent ended with {code}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, handlers=[Complaints()])
    asyncio.run(main(*sys.argv[1:]))
