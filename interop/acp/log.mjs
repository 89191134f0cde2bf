// What a session's log says: the truth that clients are held to.

/** An empty session. */
export const session = (id, name, parent) => {
  const [texts, thoughts, calls, answers] = [new Map(), new Map(), new Map(), new Map()];
  return { id, name, parent, depth: 0, texts, thoughts, calls, asks: [], answers, ends: [] };
};

const append = (map, key, text) => map.set(key, (map.get(key) ?? "") + text);

/** The sessions of a log of native lines, and how many pieces of text there are. */
export function inTheLog(lines, root) {
  const sessions = new Map([[root, session(root, "the root", undefined)]]);
  let deltas = 0;
  let last = 0;
  for (const line of lines.split("\n").filter((line) => line !== "")) {
    const read = JSON.parse(line);
    // A reader that misses nothing has every number.
    if (read.seq !== last + 1) throw new Error(`the log goes from event ${last} to ${read.seq}`);
    last = read.seq;
    const isChild = read.type === "SUB_AGENT";
    const event = isChild ? read.event : read;
    const own = sessions.get(isChild ? read.child_session_id : root);
    const call = (id) => own.calls.get(id);
    switch (event.type) {
      case "SPAWN_SESSION_START": {
        const child = session(event.child_session_id, event.source_name, event.parent_session_id);
        sessions.set(child.id, { ...child, depth: event.depth, spawnedBy: event.tool_call_id });
        break;
      }
      case "TEXT_BLOCK_DELTA":
        deltas += 1;
        append(own.texts, `${event.reply_id}/${event.block_id}`, event.delta);
        break;
      case "THINKING_BLOCK_DELTA":
        append(own.thoughts, `${event.reply_id}/${event.block_id}`, event.delta);
        break;
      case "TOOL_CALL_START":
        own.calls.set(event.tool_call_id, { tool: event.tool_call_name, input: "", output: "", state: undefined });
        break;
      case "TOOL_CALL_DELTA":
        call(event.tool_call_id).input += event.delta;
        break;
      case "REQUIRE_USER_CONFIRM":
        own.asks.push(...event.tool_calls.map((asked) => asked.id));
        break;
      case "USER_CONFIRM_RESULT":
        event.confirm_results.forEach((result) => own.answers.set(result.tool_call.id, result.confirmed));
        break;
      case "TOOL_RESULT_TEXT_DELTA":
        call(event.tool_call_id).output += event.delta;
        break;
      case "TOOL_RESULT_END":
        call(event.tool_call_id).state = event.state;
        break;
      case "STREAM_COMPLETE":
        own.ends.push(event.outcome);
        break;
    }
  }
  return { root, sessions, deltas, events: last };
}
