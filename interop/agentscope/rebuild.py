"""What agentscope makes of a stream: validated events, and a message for each reply of each session."""

import json
from dataclasses import dataclass, field

from agentscope.event import AgentEvent, EventType
from agentscope.message import Msg
from pydantic import TypeAdapter, ValidationError

UNION = TypeAdapter(AgentEvent)

# A field that agentscope does not have and drops; `anabranch_proto::flat` says what it is for.
NOTE = "anabranch"


class Refused(Exception):
    """A line that agentscope does not take as it is."""


@dataclass
class Rebuilt:
    """What a stream came to."""

    events: int = 0
    kinds: set[str] = field(default_factory=set)
    # By `subagent_id` (`None` for the root), then by reply.
    sessions: dict[str | None, dict[str, Msg]] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        return sum(len(replies) for replies in self.sessions.values())


def validated(line: str, number: int):
    """The event of a line. Nothing in the line may be lost in agentscope's hands."""
    try:
        event = UNION.validate_json(line)
    except ValidationError as error:
        raise Refused(f"line {number}: {_reason(line, error)}") from error
    written = {key: value for key, value in json.loads(line).items() if key != NOTE}
    kept = event.model_dump(mode="json")
    if written != kept:
        lost = {key for key in written.keys() | kept.keys() if written.get(key) != kept.get(key)}
        raise Refused(f"line {number}: agentscope reads {sorted(lost)} differently")
    return event


def _reason(line: str, error: ValidationError) -> str:
    """What is wrong with the line, and not why it is none of the other kinds of the union."""
    name = json.loads(line).get("type", "")
    own = [problem for problem in error.errors() if str(problem["loc"][0]).startswith(_class_of(name))]
    problems = (f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in own)
    return "; ".join(problems) or f"no kind of the union is `{name}`"


def _class_of(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_")) + "Event"


def rebuild(lines: list[str]) -> Rebuilt:
    """Validates each line and builds the messages as a client does that routes by `subagent_id`."""
    return fold(validated(line, number) for number, line in enumerate(lines, start=1))


def fold(events) -> Rebuilt:
    """Builds the messages of events."""
    rebuilt = Rebuilt()
    for event in events:
        rebuilt.events += 1
        rebuilt.kinds.add(str(event.type))
        session = event.metadata.get("subagent_id")
        replies = rebuilt.sessions.setdefault(session, {})
        if event.type == EventType.CUSTOM:
            rebuilt.kinds.add(f"CUSTOM {event.name}")
            continue
        if event.type == EventType.REPLY_START:
            replies[event.reply_id] = Msg(
                id=event.reply_id, name=event.name, role=event.role, content=[]
            )
        if event.reply_id not in replies:
            raise Refused(f"{event.type} of the reply {event.reply_id}, which {session} has not begun")
        replies[event.reply_id].append_event(event)
    return rebuilt
