// AG-UI's own client talks to a live server: `anabranch serve`, over loopback.

import { alterations } from "./alterations.mjs";
import { alterAsking, judgeAsking } from "./asking.mjs";
import { alterLeaving, judgeLeaving, judgeLeavingAfterAnswers } from "./leaving.mjs";
import { liveDifferences } from "./live-compare.mjs";
import { children } from "./log.mjs";
import { Person } from "./person.mjs";
import { complaintsOfClients } from "./seen.mjs";
import { serve } from "./server.mjs";
import { judgeStopping } from "./stopping.mjs";

// Which client is served how. The older one knows no sub-agents; what a client is not told it cannot be held to.
const CLIENTS = [
  { version: "1.0.0", mode: "attributed", knows: { children: true, ends: true, states: true } },
  { version: "1.0.0", mode: "inline", knows: { children: false, ends: false, states: false } },
  { version: "0.0.58", mode: "attribution-only", knows: { children: true, ends: false, states: true } },
];

/** What the demo does, and how often it is prompted: at a pace to watch, with a grandchild, with a child that fails. */
const PLAYS = [
  { name: "at a pace to watch", play: [], prompts: 1 },
  { name: "a grandchild", play: ["--quick", "--nested"], prompts: 1 },
  { name: "a child that fails", play: ["--quick", "--fail", "n1"], prompts: 1 },
  { name: "prompted again", play: ["--quick"], prompts: 3 },
];

/**
 * In which runs clients leave: after each event of the first, which has a grandchild, a child that fails and a report; after
 * one of eight events of the second, in which all children come to their ends.
 */
const LEFT = [
  { name: "a grandchild, and a child that fails", play: ["--nested", "--fail", "n2"], step: 1 },
  { name: "a grandchild", play: ["--nested"], step: 8 },
];

const label = ({ version, mode }, what) => `live, @ag-ui/client ${version}, ${mode}, ${what}`;

/** Whole runs: what the client has in the end is what the log says. */
async function judgeRuns(places, client, report) {
  for (const { name, play, prompts } of PLAYS) {
    const listening = complaintsOfClients();
    const server = await serve(places, ["--children", client.mode, ...play]);
    const person = new Person(client.version, server, "thread");
    const all = [];
    for (let prompt = 0; prompt < prompts; prompt += 1) {
      person.lookAnew();
      await person.prompt();
      all.push({ complaints: person.complaints, answers: new Map(), seen: person.seen, messages: person.messages });
    }
    listening.end();
    const found = [...(await server.stopped()), ...listening.complaints];
    const runs = server.log("thread");
    if (runs.length !== prompts) found.push(`${runs.length} runs in the log, ${prompts} prompts`);
    found.push(...all.flatMap((has, at) => liveDifferences(runs[at], has, client.knows)));
    const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
    const figures = `${sum(runs.map(({ events }) => events))} events in the log, ${sum(all.map(({ seen }) => seen.events))} at the client`;
    const panels = `${sum(runs.map((run) => children(run).length))} children, ${sum(all.map(({ seen }) => seen.children.size))} at the client`;
    report.equal(label(client, `${name}: ${figures}; ${panels}`), found);
  }
}

/** Each alteration has to be found, or nothing of the above means anything; and nothing where nothing is altered. */
async function alterRuns(places, client, report) {
  const unaltered = (stream) => stream;
  for (const [what, alter] of [["nothing altered", unaltered], ...alterations(client.mode.replace("-", "_"))]) {
    let isAltered = false;
    const through = async (url, request) => {
      const response = await fetch(url, request);
      const stream = await response.text();
      const altered = alter(stream);
      isAltered = altered !== stream;
      return new Response(altered, response);
    };
    const listening = complaintsOfClients();
    const server = await serve(places, ["--children", client.mode, "--quick"]);
    const person = new Person(client.version, server, "thread", through);
    await person.prompt();
    listening.end();
    const wrong = await server.stopped();
    const found = [...listening.complaints, ...liveDifferences(server.log("thread")[0], person, client.knows)];
    if (alter === unaltered) report.equal(label(client, what), [...wrong, ...found]);
    else report.found(label(client, what), isAltered ? found : []);
  }
}

/** Everything that is looked at in a live server. */
export async function judgeServer(places, report) {
  const [attributed] = CLIENTS;
  for (const client of CLIENTS) {
    await judgeRuns(places, client, report);
    await judgeAsking(places, client, report);
    await judgeLeavingAfterAnswers(places, client, report);
  }
  for (const run of LEFT) await judgeLeaving(places, attributed, run, report);
  await judgeStopping(places, attributed, report);
  for (const client of CLIENTS) await alterRuns(places, client, report);
  await alterAsking(places, attributed, report);
  await alterLeaving(places, attributed, report);
}
