// An agent whose lines are altered on their way to the client.
//
//     node wire.mjs MODE ALTERATION NOTE agent…
//
// NOTE has how many lines were altered.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { ALTERATIONS } from "./alterations.mjs";

const [mode, alteration, note, program, ...args] = process.argv.slice(2);
// A command line of words without spaces can name it.
const alter = ALTERATIONS[mode][alteration.replaceAll("_", " ")]();
const agent = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
process.stdin.pipe(agent.stdin);
const ended = once(agent, "exit");
let altered = 0;
writeFileSync(note, `${altered}`);
for await (const text of createInterface({ input: agent.stdout, crlfDelay: Infinity })) {
  const line = JSON.parse(text);
  const lines = alter(line);
  if (lines.length !== 1 || lines[0] !== line) {
    altered += 1;
    writeFileSync(note, `${altered}`);
  }
  for (const sent of lines) process.stdout.write(`${sent === line ? text : JSON.stringify(sent)}\n`);
}
const [code] = await ended;
process.exitCode = code;
process.stdin.destroy();
