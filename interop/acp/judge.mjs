// Has real clients of the Agent Client Protocol talk to `anabranch acp`. See `README.md`.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { unseen } from "./acpx-text.mjs";
import { ALTERATIONS } from "./alterations.mjs";
import { clients, talk } from "./clients.mjs";
import { differences } from "./compare.mjs";

const strings = ["anabranch", "rust", "rust-version", "python", "python-client", "out"];
const { values } = parseArgs({ options: Object.fromEntries(strings.map((name) => [name, { type: "string" }])) });
const places = {
  anabranch: values.anabranch,
  rust: values.rust,
  rustVersion: values["rust-version"],
  python: values.python,
  pythonClient: values["python-client"],
  out: values.out,
};

/** What is played, and what has to have happened in it. */
const PLAYS = [
  { name: "as it is", options: [], person: "allow", happened: ends({ n1: "completed", n2: "completed", n3: "completed" }) },
  { name: "a grandchild", options: ["--nested"], person: "allow", happened: (log) => children(log).some(isGrandchild) },
  { name: "a child that fails", options: ["--fail", "n1"], person: "allow", happened: ends({ n1: "failed", n2: "completed" }) },
  {
    name: "a grandchild that may",
    options: ["--nested", "--ask", "aggregate"],
    person: "allow",
    happened: (log) => children(log).some((child) => isGrandchild(child) && child.answers.get(child.asks[0]) === true),
  },
  {
    name: "a grandchild that may not",
    options: ["--nested", "--ask", "aggregate"],
    person: "reject",
    happened: (log) => children(log).some((child) => isGrandchild(child) && child.calls.get(child.asks[0])?.state === "denied"),
  },
  {
    name: "the prompt cancelled",
    options: ["--ask", "read_csv"],
    person: "cancel-prompt",
    happened: (log) => [...log.sessions.values()].every((session) => session.ends.join() === "interrupted"),
  },
  {
    name: "one child cancelled",
    options: ["--ask", "read_csv"],
    person: "cancel-child",
    happened: (log) => {
      const outcomes = children(log).map((child) => child.ends.join()).sort();
      return log.sessions.get(log.root).ends.join() === "completed" && outcomes.join() === "completed,interrupted";
    },
  },
  {
    // Whoever compares asks first, so that nothing is at its end before it is cancelled.
    name: "the prompt cancelled while a child speaks",
    options: ["--nested", "--ask", "compare"],
    person: "cancel-midway",
    isPaced: true,
    happened: (log) => log.sessions.get(log.root).ends.join() === "interrupted",
  },
  {
    name: "at a pace to watch",
    options: ["--nested"],
    person: "allow",
    isPaced: true,
    happened: (log) => children(log).some(isGrandchild),
  },
  {
    name: "prompted again",
    options: [],
    person: "again",
    prompts: 2,
    happened: (log) => children(log).length === 6 && log.sessions.get(log.root).ends.length === 2,
  },
];

function children(log) {
  return [...log.sessions.values()].filter(({ id }) => id !== log.root);
}

function isGrandchild({ depth }) {
  return depth === 2;
}

function ends(wanted) {
  return (log) => {
    const outcomes = new Map(children(log).map(({ name, ends }) => [name, ends.join()]));
    return Object.entries(wanted).every(([name, outcome]) => outcomes.get(name) === outcome);
  };
}

/** Which plays a client can play. To cancel a child needs a session of the child's. */
function plays({ mode, persons }) {
  return PLAYS.filter(({ person }) => {
    return (persons?.includes(person) ?? true) && (person !== "cancel-child" || mode === "sessions");
  });
}

/** What can be altered so that a client can show it. */
function alterations({ mode, hides = [] }) {
  return Object.keys(ALTERATIONS[mode]).filter((what) => !hides.includes(what));
}

/** Has a client play; gives the figures and what is wrong. */
async function judge(client, play, wire) {
  const { truth, seen, text, complaints } = await talk(client, play, places, wire);
  const found = play.happened(truth) ? [] : [`it did not happen: ${play.name}`];
  const figures = { runs: 1, events: truth.events, deltas: truth.deltas, children: children(truth).length };
  if (client.isText) {
    const read = unseen(truth, text);
    return { figures: { ...figures, shown: read.cards }, found: [...found, ...complaints, ...read.found] };
  }
  const { updates, chunks } = seen;
  Object.assign(figures, { updates, chunks, shown: seen.sessions.size - 1, questions: seen.questions.length });
  return { figures, found: [...found, ...differences(truth, seen, client)] };
}

const onOneLine = (text) => text.replaceAll(/\s+/g, " ");

/** Runs two at a time, in no order. */
async function each(items, work) {
  const left = [...items];
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all([worker(), worker()]);
}

let failures = 0;
const table = new Map();
const add = (client, figures) => {
  const sums = table.get(client) ?? {};
  for (const [name, figure] of Object.entries(figures)) sums[name] = (sums[name] ?? 0) + figure;
  table.set(client, sums);
};
const label = ({ name, mode }) => `${name}, ${mode}`;

const everybody = clients(places);
await each(everybody.flatMap((client) => plays(client).map((play) => ({ client, play }))), async ({ client, play }) => {
  const { figures, found } = await judge(client, play);
  failures += found.length > 0 ? 1 : 0;
  add(client, figures);
  const updates = figures.updates === undefined ? "" : `, ${figures.updates} updates`;
  const verdict = found.length > 0 ? "DIFFERS" : "equal  ";
  console.log(`${verdict} ${label(client)}: ${play.name}: ${figures.shown} ${client.mode}${updates}`);
  found.forEach((difference) => console.log(`        ${onOneLine(difference)}`));
});

// Each alteration of what an agent says has to be found, or nothing above means anything. The same way without one is equal.
const wire = fileURLToPath(new URL("wire.mjs", import.meta.url));
const trials = everybody.flatMap((client) => alterations(client).map((what) => ({ client, what })));
await each(trials, async ({ client, what }) => {
  let note;
  const altering = (folder) => {
    note = join(folder, "altered");
    return [process.execPath, wire, client.mode, what.replaceAll(" ", "_"), note];
  };
  const { found } = await judge(client, PLAYS[0], altering);
  const isNothing = what === "nothing";
  const altered = Number(readFileSync(note, "utf8"));
  if (altered === 0 !== isNothing) throw new Error(`${label(client)}: ${altered} lines altered by: ${what}`);
  const isRight = found.length > 0 !== isNothing;
  failures += isRight ? 0 : 1;
  if (!isNothing) add(client, { alterations: 1, found: found.length > 0 ? 1 : 0 });
  const verdict = isNothing ? (isRight ? "equal  " : "DIFFERS") : isRight ? "found  " : "MISSED ";
  console.log(`${verdict} ${label(client)}, altered: ${what}: ${onOneLine(found[0] ?? "").slice(0, 160)}`);
});

console.log("\n| client | plays | events | deltas | updates | chunks | children | shown | questions | alterations found |");
console.log("|---|---|---|---|---|---|---|---|---|---|");
for (const client of everybody) {
  const sums = table.get(client);
  const { runs, events, deltas, updates = "–", chunks = "–", questions = "–", alterations, found } = sums;
  const cells = [runs, events, deltas, updates, chunks, sums.children, `${sums.shown} ${client.mode}`, questions];
  console.log(`| ${[label(client), ...cells, `${found} of ${alterations}`].join(" | ")} |`);
}
console.log(failures === 0 ? "\nthe clients show what the logs say" : `\n${failures} of the above are wrong`);
process.exit(failures === 0 ? 0 : 1);
