"""Agents of agentscope's own: a scripted model, tools that answer and fail, a child whose events pass through."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace

from agentscope.agent import Agent
from agentscope.credential import CredentialBase
from agentscope.message import Base64Source, DataBlock, TextBlock, ThinkingBlock, ToolCallBlock, UserMsg
from agentscope.model import ChatModelBase, ChatResponse, ChatUsage
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import FunctionTool, Toolkit, ToolChunk

# A png of one pixel's worth of nothing; only its bytes matter.
PICTURE = "iVBORw0KGgo="


class ScriptedModel(ChatModelBase):
    """Says what it was given, a turn per call, in small pieces."""

    # It reads no media, so that nothing has to be formatted for it.
    formatter = SimpleNamespace(supported_input_media_types=[])

    def __init__(self, turns: list[list]) -> None:
        super().__init__(CredentialBase(type="scripted"), "scripted", self.Parameters())
        self.turns = iter(turns)

    async def _call_api(self, model_name, messages, tools=None, tool_choice=None, **kwargs):
        return self._stream(next(self.turns))

    async def _stream(self, blocks: list) -> AsyncGenerator[ChatResponse, None]:
        for block in blocks:
            for piece in _pieces(block):
                yield ChatResponse(content=[piece], is_last=False)
        usage = ChatUsage(input_tokens=10, output_tokens=5, time=0)
        yield ChatResponse(content=blocks, is_last=True, usage=usage)


def _pieces(block):
    """A block in pieces of three characters, as a provider streams it."""
    field = {"text": "text", "thinking": "thinking", "tool_call": "input"}[block.type]
    whole = getattr(block, field)
    for start in range(0, len(whole), 3):
        yield block.model_copy(update={field: whole[start : start + 3]})


async def look(city: str) -> AsyncGenerator[ToolChunk, None]:
    """Answers in pieces, the last of them data."""
    for word in ("it is ", "fine in ", city):
        yield ToolChunk(content=[TextBlock(text=word)], is_last=False)
        await asyncio.sleep(0)
    source = Base64Source(data=PICTURE, media_type="image/png")
    yield ToolChunk(content=[DataBlock(source=source)], metadata={"exit_code": 0})


async def fail(reason: str) -> ToolChunk:
    """Fails."""
    raise RuntimeError(reason)


def _tool(function) -> FunctionTool:
    allowed = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="scripted")
    return FunctionTool(function, permission=allowed)


def _agent(name: str, turns: list[list]) -> Agent:
    toolkit = Toolkit(tools=[_tool(look), _tool(fail)])
    return Agent(name=name, system_prompt="Do as scripted.", model=ScriptedModel(turns), toolkit=toolkit)


def _master() -> Agent:
    return _agent(
        "master",
        [
            [
                ThinkingBlock(thinking="I have to look – schön \U0001f680."),
                TextBlock(text="Two calls, side by side."),
                ToolCallBlock(id="c1", name="look", input='{"city": "Zürich"}'),
                ToolCallBlock(id="c2", name="fail", input='{"reason": "no luck"}'),
                ToolCallBlock(id="c3", name="nobody", input="{}"),
            ],
            [TextBlock(text="That is all.")],
        ],
    )


def _child(city: str) -> Agent:
    call = ToolCallBlock(id="c1", name="look", input=f'{{"city": "{city}"}}')
    return _agent(city, [[call], [TextBlock(text=f"{city} is fine.")]])


async def _events() -> list:
    """A master and two children whose events a host has marked with `subagent_id`, in one stream."""
    events: list = []

    async def run(agent: Agent, subagent_id: str | None) -> None:
        async for event in agent.reply_stream(UserMsg(name="user", content="Go.")):
            if subagent_id is not None:
                event.metadata = {"subagent_id": subagent_id, "node_id": agent.name, **event.metadata}
            events.append(event)
            await asyncio.sleep(0)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for agent, subagent_id in [(_master(), None), (_child("Oslo"), "sa_1"), (_child("Bern"), "sa_2")]:
            group.create_task(run(agent, subagent_id))
    return events


def events() -> list:
    """The events of a run of agentscope's own, as its own classes."""
    return asyncio.run(_events())
