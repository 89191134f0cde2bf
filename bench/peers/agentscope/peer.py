"""agentscope 2.0.11, asked by the bench: a question a line, an answer a line of JSON.

`spawn 64 10`, `pass 4 1000` and `stream 1000` are what `../asked/src/lib.rs` says they are.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace

from agentscope.agent import Agent
from agentscope.credential import CredentialBase
from agentscope.event import EventType
from agentscope.message import TextBlock, ToolCallBlock, UserMsg
from agentscope.model import ChatModelBase, ChatResponse, ChatUsage
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import FunctionTool, Toolkit, ToolChunk

PIECE = "a few words "


class ScriptedModel(ChatModelBase):
    """Calls a tool so often in its first turn, and otherwise says so many pieces."""

    # It reads no media, so that nothing has to be formatted for it.
    formatter = SimpleNamespace(supported_input_media_types=[])

    def __init__(self, tool: str = "", calls: int = 0, pieces: int = 1) -> None:
        super().__init__(CredentialBase(type="scripted"), "scripted", self.Parameters())
        self.tool, self.calls, self.pieces = tool, calls, pieces

    async def _call_api(self, model_name, messages, tools=None, tool_choice=None, **kwargs):
        calls, self.calls = self.calls, 0
        return self._call(calls) if calls else self._say()

    async def _call(self, calls: int) -> AsyncGenerator[ChatResponse, None]:
        blocks = [ToolCallBlock(id=f"call_{number}", name=self.tool, input="{}") for number in range(calls)]
        usage = ChatUsage(input_tokens=10, output_tokens=5, time=0)
        yield ChatResponse(content=blocks, is_last=True, usage=usage)

    async def _say(self) -> AsyncGenerator[ChatResponse, None]:
        block = TextBlock(text=PIECE)
        for _ in range(self.pieces):
            yield ChatResponse(content=[block], is_last=False)
        usage = ChatUsage(input_tokens=10, output_tokens=5, time=0)
        yield ChatResponse(content=[TextBlock(text=PIECE * self.pieces)], is_last=True, usage=usage)


def tool(function) -> FunctionTool:
    allowed = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="scripted")
    # Calls of one turn run side by side.
    return FunctionTool(function, permission=allowed, is_concurrency_safe=True)


def agent(name: str, model: ScriptedModel, tools: list | None = None) -> Agent:
    return Agent(name=name, system_prompt="Do as told.", model=model, toolkit=Toolkit(tools=tools or []))


async def count(agent: Agent, kind: EventType) -> int:
    """Reads a reply to its end; how many of its events are of that kind."""
    events = agent.reply_stream(UserMsg(name="user", content="go"))
    return sum([event.type == kind async for event in events])


async def spawn(children: int, times: int) -> None:
    async def worker() -> ToolChunk:
        """Does a task."""
        child = agent("worker", ScriptedModel())
        said = await count(child, EventType.TEXT_BLOCK_DELTA)
        return ToolChunk(content=[TextBlock(text=f"{said}")])

    for _ in range(times):
        master = agent("master", ScriptedModel("worker", children), [tool(worker)])
        results = await count(master, EventType.TOOL_RESULT_END)
        assert results == children, f"{results} of {children} children had a result"


async def pass_items(tools: int, each: int) -> None:
    async def talk() -> AsyncGenerator[ToolChunk, None]:
        """Says a few words."""
        for _ in range(each):
            yield ToolChunk(content=[TextBlock(text=PIECE)], is_last=False)
        yield ToolChunk(content=[TextBlock(text="done")])

    master = agent("master", ScriptedModel("talk", tools), [tool(talk)])
    passed = await count(master, EventType.TOOL_RESULT_TEXT_DELTA)
    assert passed >= tools * each, f"{passed} of {tools * each} items arrived"


async def stream(pieces: int) -> None:
    read = await count(agent("talker", ScriptedModel(pieces=pieces)), EventType.TEXT_BLOCK_DELTA)
    assert read >= pieces, f"{read} of {pieces} pieces were read"


QUESTIONS: dict[str, tuple[Callable, Callable]] = {
    "spawn": (spawn, lambda children, times: children * times),
    "pass": (pass_items, lambda tools, each: tools * each),
    "stream": (stream, lambda pieces: pieces),
}


def answer(line: str) -> dict:
    """What a question's items cost each."""
    name, *numbers = line.split()
    if name not in QUESTIONS:
        return {"none": f"`{line.strip()}` is no question"}
    work, items = QUESTIONS[name]
    numbers = [int(number) for number in numbers]
    before = time.process_time_ns()
    asyncio.run(work(*numbers))
    return {"nanos": (time.process_time_ns() - before) / items(*numbers)}


def main() -> None:
    for line in sys.stdin:
        try:
            said = answer(line)
        except Exception as error:  # Whatever it is, the bench is told and goes on.
            said = {"none": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
