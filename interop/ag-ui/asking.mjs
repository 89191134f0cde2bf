// Runs that ask: their questions end them, and the next goes on with the answers.

import { liveDifferences } from "./live-compare.mjs";
import { children } from "./log.mjs";
import { Person } from "./person.mjs";
import { complaintsOfClients } from "./seen.mjs";
import { serve } from "./server.mjs";

/** More runs than any play has questions. */
const MANY = 10;

const states = (run) => children(run).flatMap(({ calls, answers }) => [...answers.keys()].map((id) => calls.get(id).state));
const all = (...wanted) => (run) => states(run).sort().join() === wanted.join();

/** What is asked and answered, and what has to have come of it. */
const PLAYS = [
  { name: "both may", play: ["--ask", "write_result"], decide: () => "allow", happened: all("success", "success") },
  { name: "neither may", play: ["--ask", "write_result"], decide: () => "deny", happened: all("denied", "denied") },
  {
    name: "one may, one question is given up",
    play: ["--ask", "write_result"],
    decide: (_, at) => (at === 0 ? "allow" : "cancel"),
    happened: all("denied", "success"),
  },
  { name: "a grandchild may", play: ["--nested", "--ask", "aggregate"], decide: () => "allow", happened: all("success", "success") },
  { name: "a grandchild may not", play: ["--nested", "--ask", "aggregate"], decide: () => "deny", happened: all("denied", "denied") },
];

/** Prompts, and answers until nothing is asked any more. Gives what is wrong with what was seen in between. */
async function converse(person, decide, knows) {
  const found = [];
  await person.prompt();
  let answered = 0;
  for (let runs = 1; person.isAsked && runs < MANY; runs += 1) {
    found.push(...wrongWithTheBreak(person.seen, knows));
    await person.answer((interrupt) => decide(interrupt, answered++));
  }
  if (answered === 0) found.push("nothing was asked");
  return found;
}

/** While an answer is waited for no child has ended, and who asks is named. */
function wrongWithTheBreak({ children, interrupts, ends }, { ends: isTold }) {
  const found = ends.at(-1) === "interrupt" ? [] : [`a run that asks ends with ${ends.at(-1)}`];
  if (!isTold) return found;
  if (![...children.values()].some(({ ends }) => ends.at(-1) === "suspended")) found.push("no child is suspended");
  for (const { id, subagentRunId } of interrupts) {
    if (!children.has(subagentRunId)) found.push(`nobody asks ${id}`);
  }
  return found;
}

/** Plays a play at a client; `through` brings its requests to the server. */
async function talk(places, client, { play, decide, happened }, through) {
  const listening = complaintsOfClients();
  const server = await serve(places, ["--children", client.mode, "--quick", ...play]);
  const person = new Person(client.version, server, "thread", through);
  const found = await converse(person, decide, client.knows);
  listening.end();
  found.push(...(await server.stopped()), ...listening.complaints);
  const [run] = server.log("thread");
  if (run !== undefined && !happened(run)) found.push(`it came to something else: ${states(run).join()}`);
  return { person, run, found: [...found, ...liveDifferences(run, person, client.knows)] };
}

/** Has a client asked, and answer. */
export async function judgeAsking(places, client, report) {
  for (const play of PLAYS) {
    const { person, run, found } = await talk(places, client, play);
    const { starts, ends } = [...person.seen.children.values()].reduce(
      (sums, child) => ({ starts: sums.starts + child.starts, ends: sums.ends + child.ends.filter((end) => end === "suspended").length }),
      { starts: 0, ends: 0 },
    );
    const again = client.knows.ends ? `, ${children(run).length} children announced ${starts} times, ${ends} times suspended` : "";
    const figures = `${person.answers.size} questions in ${person.seen.ends.length} runs${again}`;
    report.equal(`live, @ag-ui/client ${client.version}, ${client.mode}, ${play.name}: ${figures}`, found);
  }
}

/** What is altered on the way to the server, and from it. */
const ALTERATIONS = [
  ["an answer turned round", (text) => text.replaceAll('"approved":true', '"approved":false'), (text) => text],
  [
    "children that are not announced again",
    (text) => text,
    (text, request) => (request.includes('"resume"') ? text.replaceAll(/data: {"type":"SUBAGENT_.*\n\n/g, "") : text),
  ],
  ["a child that is not suspended", (text) => text, (text) => text.replaceAll('"type":"suspended"', '"type":"success"')],
];

/** Each of these has to be found, or nothing of the above means anything. */
export async function alterAsking(places, client, report) {
  const [play] = PLAYS;
  for (const [what, request, response] of ALTERATIONS) {
    let isAltered = false;
    const altered = (text, alter, ...more) => {
      const other = alter(text, ...more);
      isAltered ||= other !== text;
      return other;
    };
    const through = async (url, sent) => {
      const answer = await fetch(url, { ...sent, body: altered(sent.body, request) });
      return new Response(altered(await answer.text(), response, sent.body), answer);
    };
    const { found } = await talk(places, client, play, through);
    report.found(`live, asked, ${what}`, isAltered ? found : []);
  }
}
