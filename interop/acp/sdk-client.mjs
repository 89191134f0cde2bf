// A client on the protocol's TypeScript SDK: prompts an agent and prints what reached it, a line of JSON each.
//
//     node sdk-client.mjs ENTRY MODE PERSON agent…
//
// ENTRY is the SDK's, `stable` or `unstable`. In MODE `sessions` the client says that it knows sub-agents, in `cards` not. PERSON
// is who sits there: it allows (`allow`) or rejects (`reject`) what it is asked, cancels the prompt (`cancel-prompt`) or the child
// (`cancel-child`) when it is asked, cancels the prompt when a child speaks (`cancel-midway`), or allows and prompts once more
// (`again`).

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";

const [entry, mode, person, program, ...args] = process.argv.slice(2);
const acp = await import(entry === "unstable" ? "@agentclientprotocol/sdk/unstable" : "@agentclientprotocol/sdk");
const { agent: asks, client: hears } = acp.methods;

const print = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
// The SDK tells here of what it rejects, and nowhere else.
console.error = (...words) => {
  print({ complaint: words.map((word) => (typeof word === "string" ? word : JSON.stringify(word))).join(" ") });
};
console.warn = console.error;

const agent = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const ended = once(agent, "exit");
let session;
let hasCancelled = false;

const cancel = (context, sessionId) => {
  hasCancelled = true;
  return context.notify(asks.session.cancel, { sessionId });
};

/** What is answered to a question: an option, or that it was cancelled. */
async function decide(asking, context) {
  switch (person) {
    case "reject":
      return "reject";
    case "cancel-prompt":
    case "cancel-midway":
      if (!hasCancelled) await cancel(context, session);
      return undefined;
    case "cancel-child":
      // The first that asks, and nobody else.
      if (hasCancelled) return "allow";
      await cancel(context, asking);
      return undefined;
    default:
      return "allow";
  }
}

/** Whether a child speaks: in its session, or in its card. */
function isTextOfAChild({ sessionId, update }) {
  if (update.sessionUpdate === "agent_message_chunk") return sessionId !== session;
  const isCard = update.sessionUpdate === "tool_call_update" && update.toolCallId.startsWith("spawn:");
  return isCard && update.content?.length > 0;
}

await acp
  .client({ name: "interop" })
  .onNotification(hears.session.update, async ({ params, agent: context }) => {
    print({ update: params });
    if (person === "cancel-midway" && !hasCancelled && isTextOfAChild(params)) await cancel(context, session);
  })
  .onRequest(hears.session.requestPermission, async ({ params, agent: context }) => {
    const optionId = await decide(params.sessionId, context);
    print({ question: params, answer: optionId ?? "cancelled" });
    return { outcome: optionId === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId } };
  })
  .connectWith(acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)), async (context) => {
    const clientCapabilities = mode === "sessions" ? { subagents: {} } : {};
    await context.request(asks.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities });
    ({ sessionId: session } = await context.request(asks.session.new, { cwd: process.cwd(), mcpServers: [] }));
    const prompt = [{ type: "text", text: "Compare." }];
    for (let prompts = person === "again" ? 2 : 1; prompts > 0; prompts -= 1) {
      print({ answer: await context.request(asks.session.prompt, { sessionId: session, prompt }) });
    }
  });
agent.stdin.end();
const [code] = await ended;
if (code !== 0) print({ complaint: `the agent ended with ${code}` });
