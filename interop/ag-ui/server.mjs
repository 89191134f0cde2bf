// A live server: `anabranch serve` as a process of its own, on a port that the system chooses.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { inTheLog } from "./log.mjs";

/** How long a server may take to end, in milliseconds: its drain, and what it gives those who do not read. */
const ENDING = 30_000;

/** The servers that have not ended: none outlives the judge, whatever that ends with. */
const running = new Set();
process.on("exit", () => running.forEach((server) => server.kill("SIGKILL")));

/** Starts a server, and waits until it listens. */
export async function serve({ anabranch, out }, options) {
  const folder = mkdtempSync(join(out, "server-"));
  const logs = join(folder, "logs");
  const fixed = ["serve", "--addr", "127.0.0.1:0", "--log-events", logs, "--out", join(folder, "results"),
    "--store", join(folder, "sessions.db")];
  const child = spawn(anabranch, [...fixed, ...options], { stdio: ["ignore", "ignore", "pipe"] });
  running.add(child);
  child.on("exit", () => running.delete(child));
  const server = new Server(child, logs);
  await server.listening;
  return server;
}

class Server {
  /** The address, `http://127.0.0.1:PORT`. */
  address;
  /** What it said, line by line. */
  said = [];
  #process;
  #logs;
  #ended;
  /** The session of each thread. */
  #sessions = new Map();

  constructor(process, logs) {
    this.#process = process;
    this.#logs = logs;
    this.#ended = once(process, "exit");
    this.listening = new Promise((resolve, reject) => {
      createInterface(process.stderr).on("line", (line) => {
        this.said.push(line);
        const { address } = /listening address=(?<address>\S+)/.exec(line)?.groups ?? {};
        if (address !== undefined) resolve((this.address = `http://${address}`));
        const { thread, session } = /a run begins thread="(?<thread>[^"]*)".* session=(?<session>\S+)/.exec(line)?.groups ?? {};
        if (thread !== undefined) this.#sessions.set(thread, session);
      });
      process.on("error", reject);
      process.on("exit", () => reject(new Error(`the server ended: ${this.said.join("\n")}`)));
    });
  }

  /** The threads that it has served, in their order. */
  get threads() {
    return [...this.#sessions.keys()];
  }

  /** Waits until it says this. */
  async says(words) {
    while (!this.said.some((line) => line.includes(words))) await once(this.#process.stderr, "data");
  }

  /** Sends a signal. */
  signal(name) {
    this.#process.kill(name);
  }

  /** Stops it, where it was not, and gives what is wrong with how it ended. */
  async stopped() {
    this.signal("SIGTERM");
    return this.ended();
  }

  /** Waits for its end, and gives what is wrong with it. */
  async ended() {
    const late = setTimeout(() => this.signal("SIGKILL"), ENDING);
    const [code, signal] = await this.#ended;
    clearTimeout(late);
    const warnings = this.said.filter((line) => / (WARN|ERROR) |panicked/.test(line));
    const found = warnings.map((line) => `the server warns: ${line}`);
    if (code !== 0) found.push(`the server ended with ${signal ?? code}`);
    return found;
  }

  /** The runs of a thread by its log, which is whole when the server has ended. */
  log(thread, alter = (lines) => lines) {
    const session = this.#sessions.get(thread);
    if (session === undefined) return [];
    return inTheLog(alter(readFileSync(join(this.#logs, `${session}.jsonl`), "utf8")));
  }
}
