// What a client of AG-UI makes of a stream.

import { HttpAgent as Current } from "@ag-ui/client";
import { HttpAgent as BeforeSubAgents } from "ag-ui-client-before-sub-agents";

import { Seen, complaintsOfClients } from "./seen.mjs";

/** The clients by their versions. */
export const AGENTS = { "1.0.0": Current, "0.0.58": BeforeSubAgents };

/**
 * Runs a client over a stream of server-sent events, with all that it does to one: parsing, the schema of each event,
 * the order of events, the messages that come of them. Where runs come apart, each is the answer to a request of its own,
 * which answers what the one before asked.
 */
export async function atTheClient(version, stream, { apart } = { apart: false }) {
  const { complaints, end } = complaintsOfClients();
  const seen = new Seen();
  let messages = [];
  try {
    const answers = apart ? runs(stream) : [stream];
    let answer = answers.shift();
    const agent = new AGENTS[version]({
      url: "http://localhost/",
      fetch: async () => new Response(answer, { headers: { "content-type": "text/event-stream" } }),
    });
    const onEvent = ({ event }) => seen.observe(event);
    for (; answer !== undefined; answer = answers.shift()) {
      const resume = agent.pendingInterrupts.map(({ id }) => {
        return { interruptId: id, status: "resolved", payload: { approved: true } };
      });
      seen.hasEnded = false;
      await agent.runAgent({ runId: "run", ...(resume.length > 0 ? { resume } : {}) }, { onEvent });
      // The client takes a stream that stops for one that has succeeded.
      if (!seen.hasEnded) complaints.push("the stream has no end");
    }
    messages = agent.messages;
  } catch (problem) {
    complaints.push(`the client stops: ${problem.message.split("\n")[0]}`);
  } finally {
    end();
  }
  return { ...seen, messages, complaints };
}

/** A stream's runs, each a stream. */
function runs(stream) {
  return stream.split(/(?=data: {"type":"RUN_STARTED")/).filter((run) => run !== "");
}
