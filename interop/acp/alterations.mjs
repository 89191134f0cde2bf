// Lines of an agent altered on purpose, before they reach a client: each alteration has to be found.

const isUpdate = (line) => line.method === "session/update";
const kind = (line) => (isUpdate(line) ? line.params.update.sessionUpdate : undefined);
const isEnd = (line) => ["completed", "failed"].includes(line.params?.update?.status);
const isCard = (line) => line.params?.update?.toolCallId?.startsWith("spawn:") ?? false;
const copy = (line) => structuredClone(line);

/** Alters the first line that `alter` gives something else for, and no other. */
function once(alter) {
  let isDone = false;
  return (line) => {
    const altered = isDone ? undefined : alter(line);
    isDone ||= altered !== undefined;
    return altered ?? [line];
  };
}

/** Gives what is of one of the first two children to the other, once both are known. */
function swapped(announced, mine, rename) {
  const children = [];
  return (line) => {
    const child = announced(line);
    if (child !== undefined && !children.includes(child) && children.length < 2) children.push(child);
    const own = children.length === 2 ? children.indexOf(mine(line)) : -1;
    return own < 0 ? [line] : [rename(copy(line), children[1 - own])];
  };
}

const everywhere = {
  nothing: () => (line) => [line],
  "an empty run": () => (line) => (isUpdate(line) ? [] : [line]),
  "one piece of the root's text missing": () => once((line) => (kind(line) === "agent_message_chunk" ? [] : undefined)),
  "one call's result missing": () =>
    once((line) => {
      if (kind(line) !== "tool_call_update" || isCard(line) || !isEnd(line)) return undefined;
      const altered = copy(line);
      delete altered.params.update.content;
      return [altered];
    }),
  "another answer to the prompt": () =>
    once((line) => {
      if (line.result?.stopReason === undefined) return undefined;
      return [{ ...line, result: { ...line.result, stopReason: "refusal" } }];
    }),
  "an update that nobody knows": () =>
    once((line) => {
      if (kind(line) !== "tool_call") return undefined;
      const unknown = copy(line);
      unknown.params.update.sessionUpdate = "subagent_spawned";
      return [line, unknown];
    }),
};

const cards = {
  "two children's ids swapped": () =>
    swapped(
      (line) => (kind(line) === "tool_call" && isCard(line) ? line.params.update.toolCallId : undefined),
      (line) => (kind(line) === "tool_call_update" ? line.params.update.toolCallId : undefined),
      (line, id) => {
        line.params.update.toolCallId = id;
        return line;
      },
    ),
  "one word of a child's text missing": () =>
    once((line) => {
      const altered = copy(line);
      const piece = isCard(line) && isEnd(line) ? altered.params.update.content?.[0]?.content : undefined;
      const shorter = piece?.text?.replace(/\S+\s*$/, "");
      if (shorter === undefined || shorter === piece.text) return undefined;
      piece.text = shorter;
      return [altered];
    }),
  "a second card for a child": () =>
    once((line) => {
      if (kind(line) !== "tool_call" || !isCard(line)) return undefined;
      const second = copy(line);
      second.params.update.toolCallId += "#2";
      return [line, second];
    }),
  "a card without an end": () => once((line) => (isCard(line) && isEnd(line) ? [] : undefined)),
  "a success shown as a failure": () =>
    once((line) => {
      if (!isCard(line) || !isEnd(line)) return undefined;
      const altered = copy(line);
      altered.params.update.status = "failed";
      return [altered];
    }),
};

const sessions = {
  "two children's ids swapped": () =>
    swapped(
      (line) => (kind(line) === "subagent_update" ? line.params.update.sessionId : undefined),
      (line) => (kind(line) === "subagent_update" ? undefined : line.params?.sessionId),
      (line, id) => {
        line.params.sessionId = id;
        return line;
      },
    ),
  "one piece of a child's text missing": () => {
    let root;
    return once((line) => {
      root ??= line.params?.sessionId;
      return kind(line) === "agent_message_chunk" && line.params.sessionId !== root ? [] : undefined;
    });
  },
  "a second session for a child": () =>
    once((line) => {
      if (kind(line) !== "subagent_update") return undefined;
      const second = copy(line);
      second.params.update.sessionId += "2";
      return [line, second];
    }),
  "a session without an end": () =>
    once((line) => (line.params?.update?.state?.state === "idle" ? [] : undefined)),
  "a success shown as a failure": () =>
    once((line) => {
      if (line.params?.update?.state?.state !== "idle") return undefined;
      const altered = copy(line);
      altered.params.update.state.stopReason = "cancelled";
      return [altered];
    }),
};

/** What can be altered in a mode; the first of it is nothing. */
export const ALTERATIONS = { cards: { ...everywhere, ...cards }, sessions: { ...everywhere, ...sessions } };
