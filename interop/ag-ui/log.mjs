// What a thread's log says: the truth that clients of a live server are held to.

const session = (id, name, parent, call) => {
  return { id, name, parent, call, texts: new Map(), calls: new Map(), asks: [], answers: new Map(), ends: [] };
};

const append = (map, key, text) => map.set(key, (map.get(key) ?? "") + text);

/**
 * The runs of a thread's root, each with its sessions by their ids: what each said, called, asked, and how and when it ended.
 * A child belongs to the run that it was spawned in.
 */
export function inTheLog(lines) {
  const runs = [];
  // Whose run a child is in.
  const homes = new Map();
  let last = 0;
  for (const line of lines.split("\n").filter((line) => line !== "")) {
    const read = JSON.parse(line);
    // A reader that misses nothing has every number.
    if (read.seq !== last + 1) throw new Error(`the log goes from event ${last} to ${read.seq}`);
    last = read.seq;
    const isChild = read.type === "SUB_AGENT";
    const event = isChild ? read.event : read;
    if (!isChild && event.type === "USER_MESSAGE" && event.origin === "user") runs.push(begun());
    const run = isChild ? homes.get(read.child_session_id) : runs.at(-1);
    if (event.type === "SPAWN_SESSION_START") homes.set(event.child_session_id, run);
    tell(run, isChild ? read.child_session_id : "", event);
  }
  return runs;
}

function begun() {
  return { root: "", sessions: new Map([["", session("", "the root")]]), events: 0, late: 0 };
}

function tell(run, id, event) {
  run.events += 1;
  // Behind the root's end nothing is left to happen.
  if (run.sessions.get("").ends.length > 0) run.late += 1;
  const own = run.sessions.get(id);
  const call = (id) => own.calls.get(id);
  switch (event.type) {
    case "SPAWN_SESSION_START": {
      const { child_session_id: child, source_name: name, tool_call_id: spawnedBy } = event;
      run.sessions.set(child, session(child, name, id, spawnedBy));
      break;
    }
    case "TEXT_BLOCK_DELTA":
      append(own.texts, event.block_id, event.delta);
      break;
    case "TOOL_CALL_START":
      own.calls.set(event.tool_call_id, { tool: event.tool_call_name, input: "", output: "", state: undefined });
      break;
    case "TOOL_CALL_DELTA":
      call(event.tool_call_id).input += event.delta;
      break;
    case "TOOL_RESULT_TEXT_DELTA":
      call(event.tool_call_id).output += event.delta;
      break;
    case "TOOL_RESULT_END":
      call(event.tool_call_id).state = event.state;
      break;
    case "REQUIRE_USER_CONFIRM":
      own.asks.push(...event.tool_calls.map((asked) => asked.id));
      break;
    case "USER_CONFIRM_RESULT":
      event.confirm_results.forEach((result) => own.answers.set(result.tool_call.id, result.confirmed));
      break;
    case "STREAM_COMPLETE":
      own.ends.push({ outcome: event.outcome, at: Date.parse(event.created_at) });
      break;
  }
}

/** The children of a run. */
export function children(run) {
  return [...run.sessions.values()].filter(({ id }) => id !== "");
}
