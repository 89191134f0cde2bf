"""Descriptions that say what is not so. Each has to be found, or the judge would let our own lies pass."""

from collections.abc import Callable
from dataclasses import dataclass

Document = dict


@dataclass
class Alteration:
    """A lie: what is altered, the operation that it is about, and the code of the check that has to find it."""

    name: str
    operation: str
    check: str
    alter: Callable[[Document], None]


def operation(document: Document, name: str) -> dict:
    """The operation of this name."""
    for path in document["paths"].values():
        for described in path.values():
            if described["operationId"] == name:
                return described
    raise KeyError(name)


def schema(document: Document, name: str) -> dict:
    """The schema of this name."""
    return document["components"]["schemas"][name]


def _other_status(document: Document) -> None:
    responses = operation(document, "createSession")["responses"]
    responses["200"] = responses.pop("201")


def _undescribed_refusal(document: Document) -> None:
    del operation(document, "getSession")["responses"]["404"]


def _other_type(document: Document) -> None:
    schema(document, "Created")["properties"]["cursor"]["type"] = "integer"


def _missing_field(document: Document) -> None:
    schema(document, "List")["required"].append("total")


def _other_word(document: Document) -> None:
    schema(document, "Activity")["oneOf"] = [{"const": "asleep"}]


def _other_content(document: Document) -> None:
    ok = operation(document, "listSessions")["responses"]["200"]
    ok["content"] = {"text/plain": {"schema": {"type": "string"}}}


def _other_notice(document: Document) -> None:
    schema(document, "EndReason")["oneOf"] = [{"const": "tired"}]


def _other_id(document: Document) -> None:
    stream = operation(document, "readEvents")["responses"]["200"]["content"]["text/event-stream"]["schema"]
    for kind in stream["oneOf"]:
        kind["properties"]["id"] = {"type": "string", "pattern": "^[0-9]+$"}


def _too_wide(document: Document) -> None:
    for parameter in operation(document, "listSessions")["parameters"]:
        if parameter["name"] == "limit":
            parameter["schema"]["maximum"] = 100_000


def _too_narrow(document: Document) -> None:
    schema(document, "Create")["required"] = ["options"]


def _needless_token(document: Document) -> None:
    operation(document, "health")["security"] = [{"token": []}]


def _no_such_operation(document: Document) -> None:
    path = document["paths"]["/sessions/{id}"]
    path["put"] = {**path["get"], "operationId": "replaceSession"}


ALL = [
    Alteration("another status", "createSession", "ST103", _other_status),
    Alteration("a refusal that is not described", "getSession", "ST103", _undescribed_refusal),
    Alteration("another type", "createSession", "ST108", _other_type),
    Alteration("a field that is not there", "listSessions", "ST108", _missing_field),
    Alteration("another word", "getSession", "ST108", _other_word),
    Alteration("another type of content", "listSessions", "ST105", _other_content),
    Alteration("another reason for an end", "readEvents", "ST108", _other_notice),
    Alteration("another id of events", "readEvents", "ST108", _other_id),
    Alteration("more than is taken", "listSessions", "ST202", _too_wide),
    Alteration("less than is taken", "createSession", "ST201", _too_narrow),
    Alteration("a token that is not asked for", "health", "ST401", _needless_token),
    Alteration("an operation that is not there", "replaceSession", "ST103", _no_such_operation),
]
