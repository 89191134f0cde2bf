// The clients: how each is started, and what it prints.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { inTheLog } from "./log.mjs";
import { atTheClient } from "./seen.mjs";

const require = createRequire(import.meta.url);
const here = (file) => fileURLToPath(new URL(file, import.meta.url));
const installed = (name) => {
  return JSON.parse(readFileSync(here(`node_modules/${name}/package.json`), "utf8")).version;
};

/** The version of a package of a Python. */
function pythonVersion(python, name) {
  const ask = `import importlib.metadata; print(importlib.metadata.version("${name}"))`;
  return spawnSync(python, ["-c", ask], { encoding: "utf8" }).stdout.trim();
}

/** What acpx shows to nobody: results by their calls, the answer to a prompt, and a card that is like another. */
const HIDDEN = ["one call's result missing", "another answer to the prompt", "a second card for a child"];

/** How acpx ends where it denied a question. */
const DENIED = 5;

/** No client takes longer. */
const PATIENCE = 60_000;

/** Runs a program to its end. One that does not end is ended. */
function run(program, args, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    const said = { stdout: [], stderr: [] };
    child.stdout.on("data", (bytes) => said.stdout.push(bytes));
    child.stderr.on("data", (bytes) => said.stderr.push(bytes));
    const late = setTimeout(() => child.kill("SIGKILL"), PATIENCE);
    child.on("error", reject);
    child.on("close", (code, signal) => {
      clearTimeout(late);
      const text = (bytes) => Buffer.concat(bytes).toString("utf8");
      resolve({ code: code ?? signal, stdout: text(said.stdout), stderr: text(said.stderr) });
    });
  });
}

const jsonLines = (text) => text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));

/** What acpx prints is its conversation, both ways. */
function conversation(text) {
  const messages = jsonLines(text);
  const answers = new Map(messages.filter((message) => message.result?.outcome).map(({ id, result }) => [id, result.outcome]));
  return messages.flatMap((message) => {
    if (message.method === "session/update") return [{ update: message.params }];
    if (message.result?.stopReason !== undefined) return [{ answer: message.result }];
    if (message.method !== "session/request_permission") return [];
    const outcome = answers.get(message.id);
    return [{ question: message.params, answer: outcome?.optionId ?? outcome?.outcome ?? "nothing" }];
  });
}

/** The clients, by what `places` says of where programs are. */
export function clients(places) {
  const acpx = (format, ...options) => ({
    mode: "cards",
    persons: ["allow", "reject"],
    ended: (person) => (person === "reject" ? DENIED : 0),
    start: (person, agent) => {
      const approval = { allow: "--approve-all", reject: "--deny-all" }[person];
      const quoted = agent.map((word) => `"${word}"`).join(" ");
      const args = ["--agent", quoted, "--cwd", ".", "--format", format, ...options, approval, "exec", "Compare."];
      return [process.execPath, [join(here("node_modules/acpx"), require("acpx/package.json").bin.acpx), ...args]];
    },
  });
  const sdk = (entry, mode) => ({
    mode,
    start: (person, agent) => [process.execPath, [here("sdk-client.mjs"), entry, mode, person, ...agent]],
    read: jsonLines,
  });
  const rust = (mode) => ({
    mode,
    links: mode === "sessions",
    start: (person, agent) => [places.rust, [mode, person, ...agent]],
    read: jsonLines,
  });
  const typescript = `npm @agentclientprotocol/sdk ${installed("@agentclientprotocol/sdk")}`;
  const acpxName = `npm acpx ${installed("acpx")}`;
  return [
    { name: `crate agent-client-protocol ${places.rustVersion}`, ...rust("cards") },
    { name: `crate agent-client-protocol ${places.rustVersion}`, ...rust("sessions") },
    { name: `${acpxName} --json-strict`, ...acpx("json", "--json-strict"), read: conversation },
    { name: `${acpxName} as text`, ...acpx("text"), isText: true, hides: HIDDEN },
    { name: `${typescript}/unstable`, ...sdk("unstable", "sessions") },
    { name: typescript, ...sdk("stable", "cards") },
    {
      name: `PyPI agent-client-protocol ${pythonVersion(places.python, "agent-client-protocol")}`,
      mode: "cards",
      start: (person, agent) => [places.python, [places.pythonClient, person, ...agent]],
      read: jsonLines,
    },
  ];
}

let runs = 0;

/** Has a client play; gives the log of the session, and what the client has seen. */
export async function talk(client, { person, options, prompts = 1, isPaced = false }, places, wire = () => []) {
  runs += 1;
  const folder = join(places.out, `${runs}`);
  const log = join(folder, "log");
  mkdirSync(log, { recursive: true });
  const pace = isPaced ? [] : ["--quick"];
  const agent = [...wire(folder), places.anabranch, "acp", ...pace, "--log-events", log, ...options];
  const [program, args] = client.start(person, agent);
  const environment = { ...process.env, TMPDIR: folder, TMP: folder, HOME: folder, PYTHONDONTWRITEBYTECODE: "1" };
  const ended = await run(program, args, { cwd: folder, env: environment });
  const logs = readdirSync(log);
  if (logs.length !== 1) throw new Error(`${logs.length} sessions, not one: ${ended.stderr}`);
  const truth = inTheLog(readFileSync(join(log, logs[0]), "utf8"), logs[0].replace(/\.jsonl$/, ""));
  const complaints = [];
  if (ended.code !== (client.ended?.(person) ?? 0)) complaints.push(`the client ended with ${ended.code}`);
  if (ended.stderr.trim() !== "") complaints.push(`the client says: ${ended.stderr.trim().slice(0, 400)}`);
  if (client.isText) return { truth, text: ended.stdout, complaints, folder };
  const seen = atTheClient(client.read(ended.stdout), truth.root, { mode: client.mode, prompts });
  seen.complaints.unshift(...complaints);
  return { truth, seen, folder };
}
