// What differs between a session's log and a client. Both are of the same run, so ids are compared too.

/** How an outcome is told, in each mode. */
const ENDS = {
  cards: (outcome) => (outcome === "completed" ? "completed" : "failed"),
  sessions: (outcome) => {
    const reasons = { completed: "end_turn", interrupted: "cancelled", exceed_max_iters: "max_turn_requests" };
    return reasons[outcome] ?? "error";
  },
};

/** How the prompt is answered. */
const ANSWERS = { completed: "end_turn", interrupted: "cancelled", exceed_max_iters: "max_turn_requests" };

/** The same JSON for the same value, whatever the order of its keys. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "nothing";
  const fields = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
  return `{${fields.join()}}`;
}

/** Collects facts, each with how often it holds. */
class Facts extends Map {
  note(who, ...fact) {
    const key = [`${who.name} (${who.id})`, ...fact].join(" ");
    this.set(key, (this.get(key) ?? 0) + 1);
  }
}

const joined = (pieces) => [...pieces.values()].join("");

/** What was said: by each message where it has an id at the client, and as a whole in a card. */
function notePieces(facts, own, verb, pieces, isWhole, prefix) {
  if (isWhole) {
    facts.note(own, verb, JSON.stringify(joined(pieces)));
    return;
  }
  pieces.forEach((text, message) => facts.note(own, verb, prefix + message, JSON.stringify(text)));
}

/** Whose call a question is about: `<child>/<call>`, or a call of the root's. */
function asked(question, root) {
  const id = question.toolCall.toolCallId;
  const cut = id.lastIndexOf("/");
  return cut < 0 ? [root, id] : [id.slice(0, cut), id.slice(cut + 1)];
}

function expected(log, seen, mode, links) {
  // What became of a question that the client cancelled may be told by the stop of its session, or by an answer.
  const open = seen.questions.filter(({ answer }) => answer === "cancelled");
  const isOpen = (session, call) => {
    return open.some(({ question }) => asked(question, log.root).join() === [session, call].join());
  };
  const facts = new Facts();
  for (const own of log.sessions.values()) {
    const isChild = own.id !== log.root;
    const [isWhole, prefix] = [isChild && mode === "cards", isChild ? `${own.id}/` : ""];
    notePieces(facts, own, "says", own.texts, isWhole, prefix);
    notePieces(facts, own, "thinks", own.thoughts, isWhole, prefix);
    for (const [id, call] of own.calls) {
      const status = call.state === "success" ? "completed" : "failed";
      const input = canonical(JSON.parse(call.input));
      facts.note(own, "calls", id, call.tool, input, JSON.stringify(call.output), status, call.state);
    }
    own.asks.forEach((id) => facts.note(own, "asks about", id));
    for (const [id, isAllowed] of own.answers) {
      if (!isOpen(own.id, id)) facts.note(own, "is", isAllowed ? "allowed" : "denied", id);
    }
    if (!isChild) continue;
    facts.note(own, "is a child of", own.parent);
    own.ends.forEach((outcome) => facts.note(own, "ends", ENDS[mode](outcome), outcome));
    if (links) facts.note(log.sessions.get(own.parent), "shows", own.id, "in", own.spawnedBy);
  }
  const root = log.sessions.get(log.root);
  root.ends.forEach((outcome) => facts.note(root, "answers", ANSWERS[outcome] ?? "an error"));
  return facts;
}

function actual(seen, log, mode, links) {
  const facts = new Facts();
  for (const own of seen.sessions.values()) {
    const isChild = own.id !== log.root;
    const isWhole = isChild && mode === "cards";
    notePieces(facts, own, "says", own.texts, isWhole, "");
    notePieces(facts, own, "thinks", own.thoughts, isWhole, "");
    for (const [id, call] of own.calls) {
      const { tool, input, output, status, state } = call;
      facts.note(own, "calls", id, tool, canonical(input), JSON.stringify(output), status, state);
      if (links) call.links.forEach((child) => facts.note(own, "shows", child, "in", id));
    }
    if (!isChild) continue;
    facts.note(own, "is a child of", own.parent);
    own.ends.forEach((end) => facts.note(own, "ends", end, own.outcome));
  }
  for (const { question, answer } of seen.questions) {
    const [asking, id] = asked(question, log.root);
    const own = seen.sessions.get(asking) ?? { name: "nobody", id: asking };
    facts.note(own, "asks about", id);
    if (question.sessionId !== (mode === "sessions" ? asking : log.root)) facts.note(own, "asks in", question.sessionId);
    if (answer !== "cancelled") facts.note(own, "is", answer === "allow" ? "allowed" : "denied", id);
  }
  seen.answers.forEach((reason) => facts.note(seen.sessions.get(log.root), "answers", reason));
  return facts;
}

/** What differs; nothing where the client was told what the log says. */
export function differences(log, seen, { mode, links }) {
  const [wanted, got] = [expected(log, seen, mode, links), actual(seen, log, mode, links)];
  const found = [...seen.complaints];
  if (log.sessions.size < 2) found.push("the log has no child");
  for (const fact of new Set([...wanted.keys(), ...got.keys()])) {
    const [often, seldom] = [wanted.get(fact) ?? 0, got.get(fact) ?? 0];
    if (often !== seldom) found.push(`${often} in the log, ${seldom} at the client: ${fact.slice(0, 400)}`);
  }
  return found;
}
