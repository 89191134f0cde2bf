// What a client of AG-UI makes of a stream.

import { HttpAgent as Current } from "@ag-ui/client";
import { HttpAgent as BeforeSubAgents } from "ag-ui-client-before-sub-agents";

const AGENTS = { "1.0.0": Current, "0.0.58": BeforeSubAgents };

/**
 * Runs a client over a stream of server-sent events, with all that it does to one: parsing, the schema of each event,
 * the order of events, the messages that come of them. Where runs come apart, each is the answer to a request of its own,
 * which answers what the one before asked.
 */
export async function atTheClient(version, stream, { apart } = { apart: false }) {
  const complaints = [];
  const children = new Map();
  const owners = new Map();
  let events = 0;
  let ended = false;
  const warn = console.warn;
  const error = console.error;
  console.warn = (...words) => complaints.push(`the client warns: ${words.join(" ")}`);
  console.error = (...words) => complaints.push(`the client says: ${words.join(" ")}`);
  try {
    const answers = apart ? runs(stream) : [stream];
    let answer = answers.shift();
    const agent = new AGENTS[version]({
      url: "http://localhost/",
      fetch: async () => new Response(answer, { headers: { "content-type": "text/event-stream" } }),
    });
    // Who was not announced has a name where it speaks, and the application's own where it does not.
    const meet = (child, event) => {
      if (child === undefined) return;
      if (!children.has(child)) children.set(child, { name: event.metadata?.node_id });
      if (event.name !== undefined) children.get(child).name = event.name;
    };
    const observe = ({ event }) => {
      events += 1;
      const child = event.subagentRunId;
      switch (event.type) {
        case "SUBAGENT_STARTED":
          children.set(child, { name: event.name, parent: event.parentSubagentRunId, call: event.parentToolCallId });
          break;
        case "SUBAGENT_FINISHED":
          children.get(child).end = event.outcome?.type ?? "success";
          break;
        case "SUBAGENT_ERROR":
          children.get(child).end = event.code;
          break;
        case "TEXT_MESSAGE_START":
          owners.set(event.messageId, child);
          meet(child, event);
          break;
        case "TOOL_CALL_START":
          owners.set(event.toolCallId, child);
          meet(child, event);
          break;
        case "RUN_FINISHED":
        case "RUN_ERROR":
          ended = true;
          break;
      }
    };
    for (; answer !== undefined; answer = answers.shift()) {
      ended = false;
      const resume = agent.pendingInterrupts.map(({ id }) => {
        return { interruptId: id, status: "resolved", payload: { approved: true } };
      });
      await agent.runAgent({ runId: "run", ...(resume.length > 0 ? { resume } : {}) }, { onEvent: observe });
      // The client takes a stream that stops for one that has succeeded.
      if (!ended) complaints.push("the stream has no end");
    }
    return { events, children, owners, messages: agent.messages, complaints };
  } catch (problem) {
    complaints.push(`the client stops: ${problem.message.split("\n")[0]}`);
    return { events, children, owners, messages: [], complaints };
  } finally {
    console.warn = warn;
    console.error = error;
  }
}

/** A stream's runs, each a stream. */
function runs(stream) {
  return stream.split(/(?=data: {"type":"RUN_STARTED")/).filter((run) => run !== "");
}
