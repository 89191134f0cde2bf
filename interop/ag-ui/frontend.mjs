// The frontend that `docs/ag-ui.md` shows, run as it stands there.

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { ENDS } from "./live-compare.mjs";
import { children } from "./log.mjs";
import { serve } from "./server.mjs";

const ADDRESS = "http://127.0.0.1:8080";

/** What it has to print of a run: the questions, and a panel for each session in the order of their spawns. */
function expected(run, lines) {
  const panel = (name, { texts, ends }) => `== ${name}: ${ENDS[ends[0].outcome]}\n${[...texts.values()].join("")}`;
  const panels = [panel("master", run.sessions.get("")), ...children(run).map((own) => panel(own.name, own))];
  const questions = lines.filter((line) => line === "May `write_result` run?");
  return [...questions, ...panels].join("\n");
}

/** Runs it against a live server. */
export async function judgeFrontend(places, report) {
  const page = readFileSync(places.page, "utf8");
  const [, code] = /<!-- frontend -->\n```js\n(.*?)```/s.exec(page) ?? [];
  if (!code?.includes(ADDRESS)) throw new Error(`${places.page} shows no frontend that asks ${ADDRESS}`);
  const server = await serve(places, ["--quick", "--nested", "--ask", "write_result"]);
  const script = fileURLToPath(new URL("frontend-of-the-page.mjs", import.meta.url));
  writeFileSync(script, code.replace(ADDRESS, server.address));
  const { stdout, stderr, status } = spawnSync("node", [script], { encoding: "utf8" });
  const found = await server.stopped();
  if (status !== 0 || stderr !== "") found.push(`it ended with ${status}: ${stderr}`);
  const lines = stdout.trim().split("\n");
  const [run] = server.log(server.threads[0]);
  if (run === undefined || stdout.trim() !== expected(run, lines).trim()) found.push(`it shows something else: ${stdout}`);
  const questions = lines.filter((line) => line.startsWith("May ")).length;
  if (questions !== 2) found.push(`it was asked ${questions} times`);
  report.equal(`live, the frontend of docs/ag-ui.md: ${lines.filter((line) => line.startsWith("== ")).length} panels, ${questions} questions`, found);
}
