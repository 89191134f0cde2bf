"""What differs between the messages that agentscope has rebuilt and ours."""

import json

from agentscope.types import ErrorType
from rebuild import Rebuilt

def differences(theirs: Rebuilt, ours: list[dict]) -> list[str]:
    """A line for each difference; none where both have the same messages."""
    found = []
    if not theirs.events:
        found.append("there are no events")
    if not theirs.messages:
        found.append("there are no messages")
    our_sessions = {session["subagent_id"]: session["messages"] for session in ours}
    if set(our_sessions) != set(theirs.sessions):
        found.append(f"sessions: theirs {sorted(map(str, theirs.sessions))}, ours {sorted(map(str, our_sessions))}")
    for session, replies in theirs.sessions.items():
        our_replies = [message for message in our_sessions.get(session, []) if message["role"] != "user"]
        where = "the root" if session is None else session
        if [message["id"] for message in our_replies] != list(replies):
            found.append(f"{where}: other replies")
            continue
        for message in our_replies:
            found += _message(f"{where}, {message['id']}", replies[message["id"]], message)
    return found


def _message(where: str, theirs, ours: dict) -> list[str]:
    their = theirs.model_dump(mode="json")
    pairs = {
        name: (their[name], ours.get(name))
        for name in ("name", "role", "finished_at", "finished_reason", "usage")
    }
    pairs["error"] = (their["error"], _error(ours.get("error")))
    # agentscope puts results where they came, we put them behind their calls: they are compared by call.
    pairs["blocks"] = tuple(
        [_block(block) for block in message["content"] if block["type"] != "tool_result"]
        for message in (their, ours)
    )
    pairs["results"] = (
        # In agentscope it is the event's metadata, in which ours is one key.
        _results(their, lambda block: block["metadata"].get("tool_response", {})),
        _results(ours, lambda block: block["metadata"]),
    )
    return [
        f"{where}: {name}: theirs {_short(a)}, ours {_short(b)}" for name, (a, b) in pairs.items() if a != b
    ]


def _error(error: dict | None) -> dict | None:
    # A kind of error that agentscope does not have is unknown to it.
    if error is None or error["type"] in set(ErrorType):
        return error
    return error | {"type": ErrorType.UNKNOWN.value}


def _block(block: dict) -> dict:
    # agentscope takes the time at which a block begins from its own clock; a hint begins and ends at once.
    made_up = {"created_at", "finished_at"} if block["type"] == "hint" else {"created_at"}
    return {key: value for key, value in block.items() if key not in made_up}


def _results(message: dict, response) -> dict[str, dict]:
    blocks = (block for block in message["content"] if block["type"] == "tool_result")
    return {block["id"]: _result(block) | {"response": response(block)} for block in blocks}


def _result(block: dict) -> dict:
    output = block["output"]
    parts = [{"type": "text", "text": output}] if isinstance(output, str) else output
    return {
        "name": block["name"],
        "state": block["state"],
        "text": "".join(part["text"] for part in parts if part["type"] == "text"),
        "data": [(part["id"], part["source"]) for part in parts if part["type"] == "data"],
        "finished_at": block["finished_at"],
    }


def _short(value) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
