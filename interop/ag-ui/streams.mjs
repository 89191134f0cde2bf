// Streams of the demo and of the adapter's tests, at AG-UI's own clients.

import { spawnSync } from "node:child_process";

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

/** What is wrong with what a client made of a stream. */
async function judge(client, stream, log) {
  const seen = await atTheClient(client.version, stream);
  return { seen, found: [...seen.complaints, ...differences(log, seen, client.knows)] };
}

/** Runs of the demo, compared with the log of another run of the same. */
async function judgeTheDemo(demo, report) {
  for (const options of RUNS) {
    const log = inTheLog(demo("native", options));
    for (const client of CLIENTS) {
      const { seen, found } = await judge(client, demo(client.format, options), log);
      const name = `@ag-ui/client ${client.version}, ${["--as", client.format, ...options].join(" ")}`;
      const counts = `${seen.events} events, ${seen.messages.length} messages, ${seen.children.size} children`;
      report.equal(`${name}: ${counts}`, found);
    }
  }
}

/**
 * What the demo does not do: runs after runs, children that outlive them, questions, failures. Each run is the answer to a
 * request; the current client takes them on one stream too.
 */
async function judgeTheSnapshots(folder, report) {
  for (const { version, mode } of CLIENTS) {
    for (const apart of version === "1.0.0" ? [true, false] : [true]) {
      const scripts = snapshots(folder, mode);
      const found = scripts.length > 0 ? [] : ["there are no scripts"];
      let events = 0;
      for (const { name, stream } of scripts) {
        const seen = await atTheClient(version, stream, { apart });
        events += seen.events;
        found.push(...seen.complaints.map((complaint) => `${name}: ${complaint}`));
      }
      const how = `${scripts.length} scripts, ${apart ? "a request per run" : "on one stream"}, ${events} events`;
      report.equal(`@ag-ui/client ${version}, ${mode}: ${how}`, found);
    }
  }
}

/** Each alteration of a good stream has to be found, or nothing above means anything. */
async function alter(demo, report) {
  const log = inTheLog(demo("native", []));
  for (const client of CLIENTS) {
    const stream = demo(client.format, []);
    for (const [what, alter] of alterations(client.mode)) {
      const altered = alter(stream);
      if (altered === stream) throw new Error(`${what}: nothing was altered`);
      const { found } = await judge(client, altered, log);
      report.found(`${client.format}, ${what}`, found);
    }
  }
}

/** Gives streams to clients as a server would. */
export async function judgeStreams({ demo: program, out, snapshots: folder }, report) {
  // A child that fails is an exit code of 1.
  const demo = (format, options) => {
    const args = ["--as", format, "--out", out, ...options];
    const ended = spawnSync(program, args, { encoding: "utf8", maxBuffer: 1 << 28 });
    const expected = options.includes("--fail") ? 1 : 0;
    if (ended.status !== expected) {
      throw new Error(`the demo ended with ${ended.status}, not ${expected}: ${ended.stderr}`);
    }
    return ended.stdout;
  };
  await judgeTheDemo(demo, report);
  await judgeTheSnapshots(folder, report);
  await alter(demo, report);
}
