// What acpx shows to a person: text, with a block for each state of a tool call.

/** The texts that acpx shows: cards that have ended, and all that is no tool call. */
function blocks(text) {
  const cards = [];
  const rest = [];
  let block;
  for (const line of text.split("\n")) {
    const [, title, status] = /^\[tool\] (.*) \((\w+)\)$/.exec(line) ?? [];
    if (title !== undefined) {
      block = { title, status, lines: [] };
      cards.push(block);
    } else if (block !== undefined && /^( {2}|$)/.test(line)) {
      block.lines.push(line.replace(/^ {4}/, ""));
    } else {
      block = undefined;
      rest.push(line);
    }
  }
  return { cards: cards.filter(({ status }) => ["completed", "failed"].includes(status)), rest };
}

/** Whether these lines are among those, without a gap. */
function holds(lines, text) {
  const wanted = text.split("\n").map((line) => line.trimEnd());
  const shown = lines.map((line) => line.trimEnd());
  return shown.some((_, at) => wanted.every((line, offset) => shown[at + offset] === line));
}

/** What a person does not see as the log says it. */
export function unseen(log, text) {
  const { cards, rest } = blocks(text);
  const found = [];
  const children = [...log.sessions.values()].filter(({ id }) => id !== log.root);
  for (const { name, texts, ends } of children) {
    const shown = cards.filter(({ title }) => title === `Spawned: ${name}`);
    const said = [...texts.values()].join("");
    const end = ends[0] === "completed" ? "completed" : "failed";
    if (shown.length !== 1) found.push(`${shown.length} cards of ${name} that ended`);
    else if (shown[0].status !== end) found.push(`${name} ended as ${shown[0].status}, not ${end}`);
    else if (!holds(shown[0].lines, said)) found.push(`the card of ${name} does not say what it said`);
  }
  for (const said of log.sessions.get(log.root).texts.values()) {
    if (!holds(rest, said.trimEnd())) found.push(`the root's text is not shown: ${said.slice(0, 60)}`);
  }
  if (children.length === 0) found.push("the log has no child");
  return { cards: cards.filter(({ title }) => title.startsWith("Spawned: ")).length, found };
}
