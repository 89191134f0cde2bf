// Clients that leave a run: after each event of it, one does.

import { ENDS, liveDifferences, written } from "./live-compare.mjs";
import { Person } from "./person.mjs";
import { complaintsOfClients } from "./seen.mjs";
import { serve } from "./server.mjs";

/**
 * How much later than its client's leaving a session may end as if nobody had left, in milliseconds: so long it may take until
 * a busy machine has told the server.
 */
const ON_ITS_WAY = 1500;

/** How many leave at a time. */
const AT_A_TIME = 12;

/** One of so many reads the whole of the run that it prompts next. */
const STAYING = 10;

/** What somebody has of a run that they left. */
const left = (person) => ({ seen: person.seen, messages: structuredClone(person.messages), at: person.leftAt });

/** Asks the server without telling it when the client leaves. */
const deaf = async (url, request) => {
  const response = await fetch(url, { ...request, signal: undefined });
  const [body, kept] = response.body.tee();
  kept.pipeTo(new WritableStream());
  return new Response(body, response);
};

/** Leaves a run after so many events and prompts again at once; most leave that run too, when a child speaks. */
async function leave(version, server, after) {
  const person = new Person(version, server, `leaves-${after}`);
  await person.prompt({ leaves: ({ events }) => events === after });
  const first = left(person);
  person.lookAnew();
  const stays = after % STAYING === 0;
  const isChilds = ({ type, subagentRunId }) => type === "TEXT_MESSAGE_CONTENT" && subagentRunId !== undefined;
  await person.prompt({ leaves: (_, event) => !stays && isChilds(event) });
  return { after, person, first, second: stays ? undefined : left(person) };
}

/** What is wrong with how a run ended that its client left. */
function wrongWithTheEnd(run, client) {
  if (client.at === undefined) return ["the run ended before its client could leave"];
  if (run === undefined) return ["the log has no such run"];
  const found = [];
  for (const own of run.sessions.values()) {
    if (own.ends.length !== 1) found.push(`${own.name} has ${own.ends.length} ends`);
    for (const { outcome, at } of own.ends) {
      const late = at - client.at;
      if (outcome !== "interrupted" && late > ON_ITS_WAY) found.push(`${own.name} was ${outcome} ${late} ms after its client left`);
    }
    const open = [...own.calls].filter(([, call]) => call.state === undefined);
    found.push(...open.map(([id]) => `the call ${id} of ${own.name} has no end`));
  }
  if (run.late > 0) found.push(`${run.late} events behind the end of the run`);
  return [...found, ...wrongWithWhatWasSeen(run, client)];
}

/** What the client had when it left: the beginning of what the log has. */
function wrongWithWhatWasSeen(run, { seen, messages }) {
  const found = [];
  const texts = [...run.sessions.values()].flatMap((own) => [...own.texts].map(([id, text]) => [written(own, id), text]));
  const said = new Map(texts);
  for (const { id, content } of messages.filter(({ role, content }) => role === "assistant" && content)) {
    if (!said.get(id)?.startsWith(content)) found.push(`the log does not begin so: ${id}: ${content}`);
  }
  for (const [id, child] of seen.children) {
    const ended = run.sessions.get(id)?.ends.map(({ outcome }) => ENDS[outcome]);
    if (ended === undefined) found.push(`the log has no child ${id}`);
    else if (child.ends.some((end) => end !== ended[0])) found.push(`${id} is told as ${child.ends.join()}, and was ${ended.join()}`);
  }
  return found;
}

/** Does some work for each item, so many at a time. */
async function each(items, work) {
  const left = [...items];
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, worker));
}

/** How many sessions of a run were interrupted, and how long after their client left the last of them was, in milliseconds. */
function interrupted(run, client) {
  const ends = [...(run?.sessions.values() ?? [])].flatMap(({ ends }) => ends);
  const cut = ends.filter(({ outcome }) => outcome === "interrupted").map(({ at }) => at - client.at);
  return { sessions: cut.length, after: Math.max(0, ...cut) };
}

/** Has a client leave after each event of a run, or after one of so many, and looks at how each of these runs ended. */
export async function judgeLeaving(places, { version, mode, knows }, { name, play, step }, report) {
  const listening = complaintsOfClients();
  const server = await serve(places, ["--children", mode, ...play, "--max-threads", "2000"]);
  // One that stays says how many events there are.
  const staying = new Person(version, server, "stays");
  await staying.prompt();
  const most = staying.seen.events - 1;
  const everybody = [];
  const after = Array.from({ length: Math.floor(most / step) }, (_, at) => (at + 1) * step);
  await each(after, async (events) => everybody.push(await leave(version, server, events)));
  listening.end();
  const found = [...(await server.stopped()), ...listening.complaints];
  const sums = { left: 0, ended: 0, sessions: 0, latest: 0 };
  for (const { after, person, first, second } of everybody.sort((one, other) => one.after - other.after)) {
    const [run, next] = server.log(person.thread);
    const wrong = wrongWithTheEnd(run, first);
    wrong.push(...(second ? wrongWithTheEnd(next, second) : liveDifferences(next, person, knows)));
    found.push(...wrong.map((what) => `after event ${after}: ${what}`));
    for (const [left, client] of [[run, first], ...(second ? [[next, second]] : [])]) {
      const { sessions, after } = interrupted(left, client);
      sums.left += 1;
      sums.ended += sessions > 0 ? 0 : 1;
      sums.sessions += sessions;
      sums.latest = Math.max(sums.latest, after);
    }
  }
  // Only who leaves shortly before the end may come too late.
  if (sums.ended > sums.left / 2) found.push(`${sums.ended} of ${sums.left} runs that were left came to their end`);
  const how = `${name}, left after each of ${after.length} numbers of events`;
  const figures = `${sums.left - sums.ended} of ${sums.left} runs cancelled with ${sums.sessions} sessions, within ${sums.latest} ms`;
  report.equal(`live, @ag-ui/client ${version}, ${mode}, ${how}: ${figures}`, found);
}

/** Has a client leave the run that goes on with its answer, and prompt again. */
export async function judgeLeavingAfterAnswers(places, { version, mode }, report) {
  const listening = complaintsOfClients();
  const server = await serve(places, ["--children", mode, "--ask", "write_result"]);
  const person = new Person(version, server, "thread");
  await person.prompt();
  // The first event that a child has behind the answer.
  const isFirst = (_, { type, messageId }) => type === "TEXT_MESSAGE_CONTENT" && messageId.includes(":");
  while (person.leftAt === undefined && person.isAsked) {
    person.lookAnew();
    await person.answer(() => "allow", { leaves: isFirst });
  }
  const client = left(person);
  person.lookAnew();
  await person.prompt();
  listening.end();
  // It says again what nobody asks any more, which the server warns about and leaves aside.
  const warnings = (await server.stopped()).filter((what) => !what.includes("of no interrupt that its thread waits for"));
  const found = [...warnings, ...listening.complaints, ...person.complaints];
  const [run, next] = server.log("thread");
  found.push(...wrongWithTheEnd(run, client));
  const { sessions, after } = interrupted(run, client);
  if (sessions === 0) found.push("nothing was cancelled");
  if (person.seen.ends.join() !== "interrupt" || next === undefined) found.push("the next prompt was not asked the same again");
  report.equal(`live, @ag-ui/client ${version}, ${mode}, left behind an answer: ${sessions} sessions cancelled, within ${after} ms`, found);
}

/** A thread's log, altered. */
function altered(lines, alter) {
  const events = lines.trim().split("\n").map((line) => JSON.parse(line));
  return alter(events).map((event, at) => JSON.stringify({ ...event, seq: at + 1 })).join("\n");
}

const isEnd = (event) => (event.event ?? event).type === "STREAM_COMPLETE";
const isChildsEnd = (event) => event.event !== undefined && isEnd(event);
const later = (event, ms) => {
  const own = structuredClone(event);
  own.event.created_at = new Date(Date.parse(own.event.created_at) + ms).toISOString();
  own.event.outcome = "completed";
  return own;
};

/** What a server could do wrong when a client leaves, done to the log of one that did not. */
const ALTERATIONS = [
  ["a child without an end", (events) => events.toSpliced(events.findIndex(isChildsEnd), 1)],
  ["a child that ends twice", (events) => events.flatMap((event) => (isChildsEnd(event) ? [event, event] : [event]))],
  ["a child that goes on", (events) => [...events, events.findLast(({ event }) => event?.type === "TEXT_BLOCK_DELTA")]],
  [
    "a child that came to its end",
    (events) => events.map((event) => (isChildsEnd(event) ? later(event, 2 * ON_ITS_WAY) : event)),
  ],
];

/** Each of these has to be found, or nothing of the above means anything. */
export async function alterLeaving(places, { version, mode }, report) {
  const listening = complaintsOfClients();
  const server = await serve(places, ["--children", mode]);
  const childSpeaks = (_, event) => event.type === "TEXT_MESSAGE_CONTENT" && event.subagentRunId !== undefined;
  const leaver = new Person(version, server, "leaves");
  // So early that its run has far to go.
  const pretender = new Person(version, server, "seems-to-leave", deaf);
  await Promise.all([leaver.prompt({ leaves: childSpeaks }), pretender.prompt({ leaves: ({ events }) => events === 1 })]);
  listening.end();
  report.equal("live, left at a child's text", [...(await server.stopped()), ...wrongWithTheEnd(server.log("leaves")[0], left(leaver))]);
  for (const [what, alter] of ALTERATIONS) {
    const [run] = server.log("leaves", (lines) => altered(lines, alter));
    report.found(`live, left, ${what}`, wrongWithTheEnd(run, left(leaver)));
  }
  report.found("live, left, a run that goes on", wrongWithTheEnd(server.log("seems-to-leave")[0], left(pretender)));
}
