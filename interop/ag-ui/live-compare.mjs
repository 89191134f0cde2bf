// What differs between the log of a run and what a client of the live server has of it.

import { children } from "./log.mjs";

/** How a child's end is told, and how the root's. */
export const ENDS = { completed: "success", failed: "error", timed_out: "timeout", exceed_max_iters: "max_iters", interrupted: "cancelled" };
const ROOTS_ENDS = { completed: "success", interrupted: "cancelled" };

/** Collects facts, each with how often it holds. */
class Facts extends Map {
  note(...fact) {
    const key = fact.map((part) => part ?? "nothing").join(" ");
    this.set(key, (this.get(key) ?? 0) + 1);
  }
}

/** An id as it is written where several sessions share a client: a child's bear its name. */
export const written = (own, id) => (own.id === "" ? id : `${own.id}:${id}`);

function expected(run, knows) {
  const facts = new Facts();
  for (const own of run.sessions.values()) {
    const who = knows.children ? own.id : "somebody";
    own.texts.forEach((text, block) => facts.note(who, "says in", written(own, block), JSON.stringify(text)));
    for (const [id, call] of own.calls) {
      facts.note(who, "calls", written(own, id), call.tool, call.input, "→", call.output, knows.states ? call.state : "");
    }
    own.asks.forEach((id) => facts.note("asked", `confirm:${own.id}:${id}`));
    own.answers.forEach((isAllowed, id) => facts.note(isAllowed ? "allowed" : "denied", `confirm:${own.id}:${id}`));
    if (own.id === "") {
      own.ends.forEach(({ outcome }) => facts.note("the run ends", ROOTS_ENDS[outcome] ?? "error"));
      continue;
    }
    // Who is not announced is named where it speaks.
    if (knows.ends || (knows.children && own.texts.size > 0)) facts.note(own.id, "is", own.name);
    if (!knows.ends) continue;
    const parent = run.sessions.get(own.parent);
    facts.note(own.id, "has one place, of", parent.id, "by", own.call && written(parent, own.call));
    own.ends.forEach(({ outcome }) => facts.note(own.id, "ends", ENDS[outcome]));
  }
  return facts;
}

function actual(person, knows) {
  const facts = new Facts();
  const { seen, messages } = person;
  const outputs = new Map();
  for (const message of messages.filter(({ role }) => role === "tool")) {
    outputs.set(message.toolCallId, (outputs.get(message.toolCallId) ?? "") + message.content);
  }
  for (const message of messages.filter(({ role }) => role === "assistant")) {
    const who = (id) => (knows.children ? (seen.owners.get(id) ?? "") : "somebody");
    if (message.content) facts.note(who(message.id), "says in", message.id, JSON.stringify(message.content));
    for (const { id, function: call } of message.toolCalls ?? []) {
      const state = knows.states ? seen.states.get(id) : "";
      facts.note(who(id), "calls", id, call.name, call.arguments, "→", outputs.get(id), state);
    }
  }
  seen.interrupts.forEach(({ id }) => facts.note("asked", id));
  person.answers.forEach((decision, id) => facts.note(decision === "allow" ? "allowed" : "denied", id));
  // A run that asks goes on with the answers; the last one is the end of them all.
  seen.ends.forEach((end, at) => {
    if (end !== "interrupt" || at === seen.ends.length - 1) facts.note("the run ends", end);
  });
  for (const [id, child] of seen.children) {
    if (child.isNamed) facts.note(id, "is", child.name);
    if (!knows.ends) continue;
    facts.note(id, "has one place, of", child.parent ?? "", "by", child.call);
    // Who was suspended is announced again when it goes on, and then it has one end.
    const suspended = child.ends.slice(0, -1);
    if (suspended.some((end) => end !== "suspended")) facts.note(id, "goes on behind its end", child.ends.join());
    if (child.starts !== child.ends.length) facts.note(id, "is announced", child.starts, "times and ends", child.ends.length);
    if (child.ends.length > 0) facts.note(id, "ends", child.ends.at(-1));
  }
  return facts;
}

/** What differs; nothing where the client has what the log says, as far as it knows of children and ends. */
export function liveDifferences(run, person, knows) {
  if (run === undefined) return [...person.complaints, "the log has no such run"];
  const [wanted, got] = [expected(run, knows), actual(person, knows)];
  const found = [...person.complaints];
  for (const fact of new Set([...wanted.keys(), ...got.keys()])) {
    const [often, seldom] = [wanted.get(fact) ?? 0, got.get(fact) ?? 0];
    if (often !== seldom) found.push(`${often} in the log, ${seldom} at the client: ${fact}`);
  }
  if (children(run).length === 0) found.push("the log has no child");
  if (run.late > 0) found.push(`${run.late} events behind the end of the run in the log`);
  return found;
}
