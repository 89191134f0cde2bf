// What the log of a run says, and what differs at a client.
//
// The log and the client's stream are of two runs of the demo, which differ in ids and times. So children are compared by
// their names and what they did, in no order.

/** What each session said and did, from native lines. */
export function inTheLog(lines) {
  const sessions = new Map();
  const session = (id, name) => {
    if (!sessions.has(id)) sessions.set(id, { name, texts: new Map(), calls: new Map(), end: undefined });
    return sessions.get(id);
  };
  for (const line of lines.trim().split("\n")) {
    const read = JSON.parse(line);
    const event = read.event ?? read;
    const own = session(read.child_session_id !== undefined && read.event ? read.child_session_id : "", read.source_name);
    const call = () => own.calls.get(event.tool_call_id);
    switch (event.type) {
      case "TEXT_BLOCK_DELTA":
        own.texts.set(event.block_id, (own.texts.get(event.block_id) ?? "") + event.delta);
        break;
      case "TOOL_CALL_START":
        own.calls.set(event.tool_call_id, { tool: event.tool_call_name, input: "", output: "" });
        break;
      case "TOOL_CALL_DELTA":
        call().input += event.delta;
        break;
      case "TOOL_RESULT_TEXT_DELTA":
        call().output += event.delta;
        break;
      case "STREAM_COMPLETE":
        own.end = event.outcome === "completed" ? "success" : "error";
        break;
    }
  }
  return [...sessions].map(([id, own]) => ({
    name: id === "" ? "the root" : own.name,
    texts: [...own.texts.values()],
    calls: [...own.calls.values()],
    end: id === "" ? undefined : own.end,
  }));
}

/** The same of what a client has in the end: its messages, and what it heard of children. */
function shown(seen) {
  const sessions = new Map([[undefined, { name: "the root", texts: [], calls: [], end: undefined }]]);
  for (const [id, child] of seen.children) {
    sessions.set(id, { name: child.name, texts: [], calls: [], end: child.ends.join() });
  }
  const outputs = new Map();
  for (const message of seen.messages.filter((message) => message.role === "tool")) {
    outputs.set(message.toolCallId, (outputs.get(message.toolCallId) ?? "") + message.content);
  }
  for (const message of seen.messages.filter((message) => message.role === "assistant")) {
    if (message.content) sessions.get(seen.owners.get(message.id)).texts.push(message.content);
    for (const call of message.toolCalls ?? []) {
      const { name: tool, arguments: input } = call.function;
      sessions.get(seen.owners.get(call.id)).calls.push({ tool, input, output: outputs.get(call.id) });
    }
  }
  return [...sessions.values()];
}

/** What differs, where the client knows this much. */
export function differences(log, seen, knows) {
  const [expected, actual] = [log, shown(seen)].map((sessions) => facts(sessions, knows));
  const found = [];
  for (const fact of new Set([...expected.keys(), ...actual.keys()])) {
    const [wanted, got] = [expected.get(fact) ?? 0, actual.get(fact) ?? 0];
    if (wanted !== got) found.push(`${wanted} in the log, ${got} at the client: ${fact.slice(0, 160)}`);
  }
  if (expected.size === 0) found.push("the log is empty");
  if (knows.ends) {
    for (const child of seen.children.values()) {
      if (!seen.owners.has(child.call)) found.push(`${child.name} was spawned by no call that the client knows`);
    }
  }
  return found;
}

/** What was said and done, each with how often. */
function facts(sessions, knows) {
  const facts = new Map();
  const note = (session, ...fact) => {
    const who = knows.children ? session.name : "somebody";
    const key = JSON.stringify([who, ...fact]);
    facts.set(key, (facts.get(key) ?? 0) + 1);
  };
  for (const session of sessions) {
    session.texts.filter((text) => text !== "").forEach((text) => note(session, "says", text));
    session.calls.forEach((call) => note(session, "calls", call.tool, call.input, call.output));
    if (knows.ends && session.end) note(session, "ends", session.end);
  }
  return facts;
}
