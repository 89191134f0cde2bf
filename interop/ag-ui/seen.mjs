// What a client was told: its events, as it passes them on.

/** What a client hears of children and runs; its messages it keeps itself. */
export class Seen {
  events = 0;
  /** Each child by its id: its name and whether it was called so, whose it is, how often it was announced, and how it ended each time. */
  children = new Map();
  /** The child that opened each message and call; nobody for the root's. */
  owners = new Map();
  /** The state of each call's result, where the client is told. */
  states = new Map();
  /** What each run ended with: the outcome's type, or `error`. */
  ends = [];
  /** Every interrupt, as it was told. */
  interrupts = [];
  /** Whether the run that began last has ended. */
  hasEnded = false;

  observe(event) {
    this.events += 1;
    const child = event.subagentRunId;
    switch (event.type) {
      case "RUN_STARTED":
        this.hasEnded = false;
        break;
      case "SUBAGENT_STARTED":
        this.#announce(event);
        break;
      case "SUBAGENT_FINISHED":
        this.children.get(child).ends.push(event.outcome?.type ?? "success");
        break;
      case "SUBAGENT_ERROR":
        this.children.get(child).ends.push(event.code);
        break;
      case "TEXT_MESSAGE_START":
        this.owners.set(event.messageId, child);
        this.#meet(child, event);
        break;
      case "TOOL_CALL_START":
        this.owners.set(event.toolCallId, child);
        this.#meet(child, event);
        break;
      case "TOOL_CALL_RESULT":
        this.states.set(event.toolCallId, event.metadata?.tool_result_state);
        break;
      case "RUN_FINISHED":
        this.hasEnded = true;
        this.ends.push(event.outcome?.type ?? "success");
        this.interrupts.push(...(event.outcome?.interrupts ?? []));
        break;
      case "RUN_ERROR":
        this.hasEnded = true;
        this.ends.push("error");
        break;
    }
  }

  #announce(event) {
    const known = this.children.get(event.subagentRunId);
    const { name, parentSubagentRunId: parent, parentToolCallId: call } = event;
    const { starts = 0, ends = [] } = known ?? {};
    this.children.set(event.subagentRunId, { name, isNamed: true, parent, call, starts: starts + 1, ends });
  }

  /** Who was not announced has a name where it speaks, and the application's own where it does not. */
  #meet(child, event) {
    if (child === undefined) return;
    if (!this.children.has(child)) this.children.set(child, { name: event.metadata?.node_id, starts: 0, ends: [] });
    if (event.name !== undefined) Object.assign(this.children.get(child), { name: event.name, isNamed: true });
  }
}

/** Listens to what clients say of their own: a warning means that something was not as they want it. */
export function complaintsOfClients() {
  const complaints = [];
  const { warn, error } = console;
  console.warn = (...words) => complaints.push(`the client warns: ${words.join(" ")}`);
  console.error = (...words) => complaints.push(`the client says: ${words.join(" ")}`);
  const end = () => Object.assign(console, { warn, error });
  return { complaints, end };
}
