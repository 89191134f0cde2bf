"""What schemathesis has to know of our server beside its description. Loaded by `judge.py`."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    """A stream that follows a session ends with the session, which nobody waits for here."""
    if case.operation.path.endswith("/events") and isinstance(case.query, dict):
        # What is no truth value is refused, and is left as it is.
        if str(case.query.get("follow", "true")).lower() == "true":
            case.query = {**case.query, "follow": "false"}
