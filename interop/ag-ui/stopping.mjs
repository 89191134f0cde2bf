// A server that is stopped while a run is under way.

import { liveDifferences } from "./live-compare.mjs";
import { Person } from "./person.mjs";
import { complaintsOfClients } from "./seen.mjs";
import { serve } from "./server.mjs";

/** A run that is given the time to its end, and one that is given none. */
const PLAYS = [
  { name: "SIGTERM, and time for the run", options: [], end: "success", children: ["success"] },
  { name: "SIGTERM, and no time for the run", options: ["--drain", "0"], end: "cancelled", children: ["cancelled", "success"] },
];

/** What others are told meanwhile. */
async function askMeanwhile(server) {
  const health = await fetch(`${server.address}/health`);
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ threadId: "another", runId: "run", messages: [{ role: "user", content: "Compare them." }] });
  const run = await fetch(`${server.address}/ag-ui`, { method: "POST", headers, body });
  const wrong = [health, run].filter(({ status }) => status !== 503);
  return wrong.map(({ url, status }) => `${url} answers ${status} while the server is stopped`);
}

/** Has a server stopped at a child's first word. */
export async function judgeStopping(places, { version, mode, knows }, report) {
  for (const { name, options, end, children } of PLAYS) {
    const listening = complaintsOfClients();
    const server = await serve(places, ["--children", mode, "--log", "info", ...options]);
    const person = new Person(version, server, "thread");
    let meanwhile;
    await person.prompt({
      onEvent: ({ type, subagentRunId }) => {
        if (meanwhile !== undefined || type !== "TEXT_MESSAGE_CONTENT" || subagentRunId === undefined) return;
        server.signal("SIGTERM");
        meanwhile = end === "success" ? server.says("stopping").then(() => askMeanwhile(server)) : Promise.resolve([]);
      },
    });
    const found = meanwhile === undefined ? ["no child spoke"] : await meanwhile;
    // A run that has no time is warned about, as it should be.
    const ended = (await server.ended()).filter((what) => end === "success" || !what.includes("runs under way are stopped"));
    listening.end();
    const [run] = server.log("thread");
    found.push(...ended, ...listening.complaints, ...liveDifferences(run, person, knows));
    if (person.seen.ends.join() !== end) found.push(`the run ends as ${person.seen.ends.join()}, not ${end}`);
    const ends = [...person.seen.children.values()].flatMap(({ ends }) => ends);
    if (ends.some((end) => !children.includes(end))) found.push(`children end as ${ends.join()}`);
    report.equal(`live, @ag-ui/client ${version}, ${mode}, ${name}: ${person.seen.ends.join()}, children ${ends.join()}`, found);
  }
}
