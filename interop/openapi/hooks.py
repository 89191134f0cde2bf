"""What schemathesis has to know of our server beside its description. Loaded by `schemathesis.toml`."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    """A stream that follows a session ends with the session, which nobody waits for here."""
    if case.operation.path.endswith("/events") and isinstance(case.query, dict) and case.query.get("follow") != "":
        follow = case.query.get("follow")
        if follow is None or str(follow).lower() == "true" or follow is True:
            case.query = {**case.query, "follow": "false"}
