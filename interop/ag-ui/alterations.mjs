// Streams altered on purpose: each has to be found.

const frames = (stream) => stream.split("\n\n").filter((frame) => frame !== "");
const joined = (kept) => kept.map((frame) => `${frame}\n\n`).join("");
const read = (frame) => JSON.parse(frame.split("\n").find((line) => line.startsWith("data: ")).slice(6));
const written = (event) => `data: ${JSON.stringify(event)}`;
const is = (...types) => (frame) => types.includes(read(frame).type);

/** A run without anything in it. */
const empty = (stream) => joined(frames(stream).filter(is("RUN_STARTED", "RUN_FINISHED")));

/** The stream stops within its run. */
const cut = (stream) => joined(frames(stream).slice(0, -1));

/** One piece of one text is missing. */
function lost(stream) {
  const all = frames(stream);
  const at = all.findLastIndex(is("TEXT_MESSAGE_CONTENT"));
  return joined(all.filter((_, place) => place !== at));
}

/** One tool's result is missing. */
function unanswered(stream) {
  const all = frames(stream);
  const at = all.findIndex(is("TOOL_CALL_RESULT"));
  return joined(all.filter((_, place) => place !== at));
}

/** The ids of the first two children are swapped in all that they say. */
function swapped(stream) {
  const spoken = frames(stream).filter(is("TEXT_MESSAGE_START")).map((frame) => read(frame).subagentRunId);
  const [one, two] = new Set(spoken.filter((id) => id !== undefined));
  const others = { [one]: two, [two]: one };
  return joined(
    frames(stream).map((frame) => {
      const event = read(frame);
      const other = others[event.subagentRunId];
      if (!event.type.startsWith("TEXT_MESSAGE") || other === undefined) return frame;
      return written({ ...event, subagentRunId: other });
    }),
  );
}

/** Every second piece of two children's texts goes to the other's message. */
function crossed(stream) {
  const ids = frames(stream).filter(is("TEXT_MESSAGE_START")).map((frame) => read(frame).messageId);
  const [one, two] = ids.filter((id) => id.includes(":"));
  const others = { [one]: two, [two]: one };
  let pieces = 0;
  return joined(
    frames(stream).map((frame) => {
      const event = read(frame);
      const other = others[event.messageId];
      if (event.type !== "TEXT_MESSAGE_CONTENT" || other === undefined || (pieces += 1) % 2 === 0) return frame;
      return written({ ...event, messageId: other });
    }),
  );
}

/** The end of a child is missing. */
function unended(stream) {
  const all = frames(stream);
  const at = all.findIndex(is("SUBAGENT_FINISHED"));
  return joined(all.filter((_, place) => place !== at));
}

/** A success shown as something else. */
function misjudged(stream) {
  const all = frames(stream);
  const at = all.findIndex(is("SUBAGENT_FINISHED"));
  return joined(
    all.map((frame, place) => {
      if (place !== at) return frame;
      const { subagentRunId, timestamp } = read(frame);
      return written({ type: "SUBAGENT_ERROR", message: "failed", code: "error", subagentRunId, timestamp });
    }),
  );
}

/** A child is announced under the name of another. */
function renamed(stream) {
  const all = frames(stream);
  const [one, two] = all.filter(is("SUBAGENT_STARTED"));
  return joined(all.map((frame) => (frame === one ? written({ ...read(one), name: read(two).name }) : frame)));
}

/** What can be altered in a mode. */
export function alterations(mode) {
  const everywhere = [
    ["an empty run", empty],
    ["a stream that stops", cut],
    ["one piece missing", lost],
    ["one result missing", unanswered],
  ];
  const attributed = [
    ["two children's ids swapped", swapped],
    ["two children's texts crossed", crossed],
  ];
  const announced = [
    ["a child without an end", unended],
    ["a success shown as a failure", misjudged],
    ["a child under another's name", renamed],
  ];
  switch (mode) {
    case "attributed":
      return [...everywhere, ...attributed, ...announced];
    case "attribution_only":
      return [...everywhere, ...attributed];
    default:
      return [...everywhere, ["two children's texts crossed", crossed]];
  }
}
