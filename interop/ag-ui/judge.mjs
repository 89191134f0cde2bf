// Has AG-UI's own clients read our streams, and talk to our server. See `README.md`.

import { parseArgs } from "node:util";

import { judgeFrontend } from "./frontend.mjs";
import { judgeServer } from "./live.mjs";
import { Report } from "./report.mjs";
import { judgeStreams } from "./streams.mjs";

const strings = ["demo", "anabranch", "out", "snapshots", "page"];
const { values } = parseArgs({ options: Object.fromEntries(strings.map((name) => [name, { type: "string" }])) });

const report = new Report();
await judgeStreams(values, report);
await judgeServer(values, report);
await judgeFrontend(values, report);
process.exit(report.end());
