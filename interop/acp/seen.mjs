// What a client was told: the sessions that it can show after what reached it.

import { session } from "./log.mjs";

const OURS = "anabranch/event";
const CARD = "spawn:";

/** The text of a card's or call's content: what its agent said, and what it thought. */
function said(content, part) {
  const ofPart = content.filter((item) => item.type === "content" && item._meta?.[OURS]?.part === part);
  return ofPart.map((item) => item.content.text ?? "").join("");
}

/** What a client can show, from the lines that it printed; and what it was told that no client may be told. */
export function atTheClient(lines, root, { mode, prompts }) {
  const seen = {
    sessions: new Map([[root, session(root, "the root", undefined)]]),
    complaints: [],
    questions: [],
    updates: 0,
    chunks: 0,
    answers: [],
  };
  // Tool calls, of which some are cards, by their ids; each as its updates left it.
  const calls = new Map();
  for (const line of lines) {
    if (line.complaint !== undefined) seen.complaints.push(`the client says: ${line.complaint}`);
    if (line.question !== undefined) seen.questions.push(line);
    if (line.answer !== undefined && line.question === undefined) seen.answers.push(line.answer.stopReason);
    if (line.update === undefined) continue;
    if (seen.answers.length === prompts) seen.complaints.push("an update behind the last prompt's answer");
    take(line.update, seen, calls, mode);
  }
  // Cards first: what is called by a child is its.
  const children = [...calls].filter(([id]) => mode === "cards" && id.startsWith(CARD));
  children.forEach(([id, card]) => readCard(id, card, seen));
  [...calls].filter((call) => !children.some(([id]) => id === call[0])).forEach(([id, call]) => readCall(id, call, seen, mode));
  return seen;
}

function take({ sessionId, update }, seen, calls, mode) {
  seen.updates += 1;
  const own = seen.sessions.get(sessionId);
  if (own === undefined) {
    seen.complaints.push(`${update.sessionUpdate} in a session that was not announced: ${sessionId}`);
    return;
  }
  switch (update.sessionUpdate) {
    case "agent_message_chunk":
    case "agent_thought_chunk": {
      seen.chunks += 1;
      const pieces = update.sessionUpdate === "agent_message_chunk" ? own.texts : own.thoughts;
      pieces.set(update.messageId, (pieces.get(update.messageId) ?? "") + update.content.text);
      break;
    }
    case "tool_call":
      if (calls.has(update.toolCallId)) seen.complaints.push(`opened twice: ${update.toolCallId}`);
      calls.set(update.toolCallId, { status: "pending", content: [], ...update, session: sessionId });
      break;
    case "tool_call_update": {
      const call = calls.get(update.toolCallId);
      if (call === undefined) seen.complaints.push(`not opened: ${update.toolCallId}`);
      else if (call.session !== sessionId) seen.complaints.push(`in another session: ${update.toolCallId}`);
      else if (["completed", "failed"].includes(call.status)) seen.complaints.push(`after its end: ${update.toolCallId}`);
      else Object.assign(call, update, { _meta: { ...call._meta, ...update._meta } });
      break;
    }
    case "subagent_update":
      if (mode === "cards") seen.complaints.push("subagent_update for a client that does not know sub-agents");
      else readChild(sessionId, update, seen);
      break;
    default:
      seen.complaints.push(`what nobody sends: ${update.sessionUpdate}`);
  }
}

function readChild(parent, update, seen) {
  let child = seen.sessions.get(update.sessionId);
  if (child === undefined) {
    child = session(update.sessionId, update.title, parent);
    seen.sessions.set(child.id, child);
  }
  if (child.parent !== parent) seen.complaints.push(`${child.name} has two parents`);
  if (update.state?.state !== "idle") return;
  child.ends.push(update.state.stopReason);
  child.outcome = update._meta?.[OURS]?.outcome;
}

function readCard(id, card, seen) {
  const child = session(id.slice(CARD.length), card.title.replace("Spawned: ", ""), undefined);
  child.parent = card._meta.claudeCode?.parentToolUseId?.slice(CARD.length) ?? card.session;
  child.texts.set("all", said(card.content, undefined));
  child.thoughts.set("all", said(card.content, "thinking"));
  child.ends.push(card.status);
  child.outcome = card._meta[OURS]?.outcome;
  seen.sessions.set(child.id, child);
}

function readCall(id, call, seen, mode) {
  // `<child>/<call>`, in its child's own session or in the root's.
  const cut = id.lastIndexOf("/");
  const [caller, name] = cut < 0 ? [call.session, id] : [id.slice(0, cut), id.slice(cut + 1)];
  const own = seen.sessions.get(caller);
  if (own === undefined) {
    seen.complaints.push(`a call of nobody that is known: ${id}`);
    return;
  }
  if (mode === "sessions" && call.session !== caller) seen.complaints.push(`in another's session: ${id}`);
  const card = call._meta?.claudeCode?.parentToolUseId;
  if (mode === "cards" && cut >= 0 && card !== CARD + caller) seen.complaints.push(`in no card, or another's: ${id}`);
  const { title: tool, rawInput: input, status, content } = call;
  const links = content.filter((item) => item.type === "session").map((item) => item.sessionId);
  own.calls.set(name, { tool, input, output: said(content, undefined), status, links, state: call._meta?.[OURS]?.state });
}
