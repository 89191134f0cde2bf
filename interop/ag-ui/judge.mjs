// Has AG-UI's own client read our streams. See `README.md`.

import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";

import { alterations } from "./alterations.mjs";
import { atTheClient } from "./client.mjs";
import { differences, inTheLog } from "./compare.mjs";
import { snapshots } from "./snapshots.mjs";

// The demo as it is, with a grandchild, with more children, and with a child that fails.
const RUNS = [[], ["--nested"], ["--fan", "n1=2"], ["--fail", "n1"]];

// What each client is given. The older one knows no sub-agents.
const CLIENTS = [
  { version: "1.0.0", format: "ag-ui", mode: "attributed", knows: { children: true, ends: true } },
  { version: "1.0.0", format: "ag-ui-inline", mode: "inline", knows: { children: false, ends: false } },
  { version: "0.0.58", format: "ag-ui-attribution", mode: "attribution_only", knows: { children: true, ends: false } },
];

const { values } = parseArgs({ options: { demo: { type: "string" }, out: { type: "string" }, snapshots: { type: "string" } } });

/** What a run of the demo writes. A child that fails is an exit code of 1. */
function demo(format, options) {
  const args = ["--as", format, "--out", values.out, ...options];
  const ended = spawnSync(values.demo, args, { encoding: "utf8", maxBuffer: 1 << 28 });
  const expected = options.includes("--fail") ? 1 : 0;
  if (ended.status !== expected) {
    throw new Error(`the demo ended with ${ended.status}, not ${expected}: ${ended.stderr}`);
  }
  return ended.stdout;
}

/** What is wrong with what a client made of a stream. */
async function judge(client, stream, log) {
  const seen = await atTheClient(client.version, stream);
  return { seen, found: [...seen.complaints, ...differences(log, seen, client.knows)] };
}

let failures = 0;
for (const options of RUNS) {
  const log = inTheLog(demo("native", options));
  for (const client of CLIENTS) {
    const { seen, found } = await judge(client, demo(client.format, options), log);
    failures += found.length > 0 ? 1 : 0;
    const name = `@ag-ui/client ${client.version}, ${["--as", client.format, ...options].join(" ")}`;
    const counts = `${seen.events} events, ${seen.messages.length} messages, ${seen.children.size} children`;
    console.log(`${found.length > 0 ? "DIFFERS" : "equal  "} ${name}: ${counts}`);
    found.forEach((difference) => console.log(`        ${difference}`));
  }
}

// What the demo does not do: runs after runs, children that outlive them, questions, failures. Each run is the answer to a
// request; the current client takes them on one stream too.
for (const { version, mode } of CLIENTS) {
  for (const apart of version === "1.0.0" ? [true, false] : [true]) {
    const scripts = snapshots(values.snapshots, mode);
    let events = 0;
    for (const { name, stream } of scripts) {
      const seen = await atTheClient(version, stream, { apart });
      events += seen.events;
      failures += seen.complaints.length > 0 ? 1 : 0;
      seen.complaints.forEach((complaint) => console.log(`REFUSED ${mode}, ${name}: ${complaint}`));
    }
    failures += scripts.length > 0 ? 0 : 1;
    const how = `${scripts.length} scripts, ${apart ? "a request per run" : "on one stream"}, ${events} events`;
    console.log(`read    @ag-ui/client ${version}, ${mode}: ${how}`);
  }
}

// Each alteration of a good stream has to be found, or nothing above means anything.
const log = inTheLog(demo("native", []));
for (const client of CLIENTS) {
  const stream = demo(client.format, []);
  for (const [what, alter] of alterations(client.format)) {
    const altered = alter(stream);
    if (altered === stream) throw new Error(`${what}: nothing was altered`);
    const { found } = await judge(client, altered, log);
    failures += found.length > 0 ? 0 : 1;
    console.log(`${found.length > 0 ? "found  " : "MISSED "} ${client.format}, ${what}: ${found[0] ?? ""}`);
  }
}
console.log(failures === 0 ? "AG-UI's clients read what we mean" : `${failures} of the above are wrong`);
process.exit(failures === 0 ? 0 : 1);
