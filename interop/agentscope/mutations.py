"""Streams altered on purpose: a judge that lets one pass is no judge."""

import copy
import json
from collections.abc import Callable

Events = list[dict]


def _first(events: Events, kind: str, at: int = 0) -> dict:
    return [event for event in events if event["type"] == kind][at]


def one_delta(events: Events) -> None:
    _first(events, "TEXT_BLOCK_DELTA", at=5)["delta"] += "!"


def one_delta_of_a_child(events: Events) -> None:
    deltas = [event for event in events if event["type"] == "TEXT_BLOCK_DELTA" and "subagent_id" in event["metadata"]]
    deltas[-1]["delta"] = deltas[-1]["delta"].upper() + "."


def one_argument(events: Events) -> None:
    _first(events, "TOOL_CALL_DELTA")["delta"] += " "


def one_state(events: Events) -> None:
    _first(events, "TOOL_RESULT_END")["state"] = "interrupted"


def one_result(events: Events) -> None:
    delta = _first(events, "TOOL_RESULT_TEXT_DELTA")
    delta["delta"] = delta["delta"][:-1]


def one_response(events: Events) -> None:
    ends = [event for event in events if "tool_response" in event["metadata"]]
    ends[0]["metadata"]["tool_response"]["outcome"] = "failed"


def one_reason(events: Events) -> None:
    _first(events, "REPLY_END")["finished_reason"] = "interrupted"


def one_line_gone(events: Events) -> None:
    events.remove(_first(events, "TOOL_RESULT_END"))


def one_field_unknown_to_agentscope(events: Events) -> None:
    _first(events, "TEXT_BLOCK_START")["colour"] = "red"


def two_children_swapped(events: Events) -> None:
    starts = [event for event in events if event["type"] == "REPLY_START"]
    first, second = [start["metadata"]["subagent_id"] for start in starts if "subagent_id" in start["metadata"]][:2]
    other = {first: second, second: first}
    for event in events:
        named = event["metadata"].get("subagent_id")
        if named in other:
            event["metadata"]["subagent_id"] = other[named]


def a_child_given_to_the_root(events: Events) -> None:
    for event in events:
        event["metadata"].pop("subagent_id", None)


def nothing_ran(events: Events) -> None:
    events.clear()


ALL: list[Callable[[Events], None]] = [
    one_delta,
    one_delta_of_a_child,
    one_argument,
    one_state,
    one_result,
    one_response,
    one_reason,
    one_line_gone,
    one_field_unknown_to_agentscope,
    two_children_swapped,
    a_child_given_to_the_root,
    nothing_ran,
]


def altered(lines: list[str], mutation: Callable[[Events], None]) -> list[str]:
    """The lines after the mutation, which has to have changed something."""
    before = [json.loads(line) for line in lines]
    after = copy.deepcopy(before)
    mutation(after)
    if after == before:
        raise AssertionError(f"{mutation.__name__} changes nothing")
    return [json.dumps(event, ensure_ascii=False) for event in after]
