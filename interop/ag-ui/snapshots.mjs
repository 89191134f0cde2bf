// The streams that the adapter's tests write, one per script and mode.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The name and the frames of each snapshot of a mode, as server-sent events. */
export function snapshots(folder, mode) {
  const end = `__${mode}.snap`;
  const files = readdirSync(folder).filter((file) => file.startsWith("transcripts__ag_ui__") && file.endsWith(end));
  return files.sort().map((file) => {
    const [, , ...lines] = readFileSync(join(folder, file), "utf8").split("---\n");
    const frames = lines.join("---\n").split("\n").filter((line) => line !== "");
    const name = file.slice("transcripts__ag_ui__".length, -end.length);
    return { name, stream: frames.map((frame) => `data: ${frame}\n\n`).join("") };
  });
}
