// A person at a client of a live server.

import { AGENTS } from "./client.mjs";
import { Seen } from "./seen.mjs";

let runs = 0;

/** Somebody with a thread of their own. */
export class Person {
  complaints = [];
  seen = new Seen();
  /** When they left the run that they left, in milliseconds since 1970. */
  leftAt;
  /** What they answered, by interrupt. */
  answers = new Map();
  #agent;
  /** Messages that are of no matter to what is seen. */
  #before = new Set();

  /** `through` brings requests to the server: the client's own way, or one that alters what it brings. */
  constructor(version, server, thread, through = (url, request) => fetch(url, request)) {
    this.thread = thread;
    this.#agent = new AGENTS[version]({ url: `${server.address}/ag-ui`, threadId: thread, fetch: through });
  }

  /** The messages that the client has of what was seen. */
  get messages() {
    return this.#agent.messages.filter(({ id }) => !this.#before.has(id));
  }

  /** Looks at what comes from now on alone. */
  lookAnew() {
    this.seen = new Seen();
    this.#before = new Set(this.#agent.messages.map(({ id }) => id));
  }

  /** Prompts, and reads the run to its end; or leaves at an event, which is told by the run's events so far. */
  async prompt({ leaves = () => false, onEvent = () => {} } = {}) {
    this.#agent.addMessage({ id: `prompt-${(runs += 1)}`, role: "user", content: "Compare them." });
    // The client keeps the interrupts of a run until it has read the end of the next.
    const resume = this.#agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" }));
    await this.#run(resume.length > 0 ? { resume } : {}, leaves, onEvent);
  }

  /** Answers all that the run before asked, by what the client was told of each question. */
  async answer(decide, { leaves = () => false } = {}) {
    const resume = this.#agent.pendingInterrupts.map((interrupt) => {
      const decision = decide(interrupt);
      this.answers.set(interrupt.id, decision);
      if (decision === "cancel") return { interruptId: interrupt.id, status: "cancelled" };
      const fields = Object.keys(interrupt.responseSchema.properties);
      const payload = Object.fromEntries(fields.map((field) => [field, decision === "allow"]));
      return { interruptId: interrupt.id, status: "resolved", payload };
    });
    await this.#run({ resume }, leaves, () => {});
  }

  /** Whether they are asked something. */
  get isAsked() {
    return this.#agent.pendingInterrupts.length > 0;
  }

  async #run(parameters, leaves, onEvent) {
    const seen = this.seen;
    seen.hasEnded = false;
    let hasLeft = false;
    const observe = ({ event }) => {
      // What the client has at hand it passes on, also after it left.
      if (hasLeft) return;
      seen.observe(event);
      onEvent(event);
      if (!leaves(seen, event)) return;
      hasLeft = true;
      this.leftAt = Date.now();
      this.#agent.abortRun();
      // A fetch that is aborted at the very end of its body may never settle in Node 20, and the client with it.
      void this.#agent.detachActiveRun();
    };
    try {
      await this.#agent.runAgent({ runId: `run-${(runs += 1)}`, ...parameters }, { onEvent: observe });
    } catch (problem) {
      this.complaints.push(`the client stops: ${problem.message.split("\n")[0]}`);
    }
    // The client takes a stream that stops for one that has succeeded.
    if (!hasLeft && !seen.hasEnded) this.complaints.push("the run has no end");
  }
}
