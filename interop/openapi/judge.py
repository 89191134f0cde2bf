"""Has schemathesis judge whether `anabranch serve` does what it says of itself. See `README.md`."""

import argparse
import copy
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import alterations

HERE = Path(__file__).parent

# The same cases each time.
SEED = "1"

# Nobody can answer a question that was not asked, and what is made up never was.
NEVER_ACCEPTED = {"POST /sessions/{id}/answer"}


class Server:
    """`anabranch serve` with two tenants, none of whose tokens may be seen anywhere."""

    def __init__(self, program: str, place: Path) -> None:
        self.tokens = {tenant: secrets.token_hex(32) for tenant in ("acme", "globex")}
        tokens = place / "tokens.txt"
        tokens.write_text("".join(f"{tenant} {token}\n" for tenant, token in self.tokens.items()), encoding="utf-8")
        options = ["--addr", "127.0.0.1:0", "--token-file", str(tokens), "--quick", "--ask", "write_result"]
        # As many as come: a judge that is refused for its haste judges nothing.
        options += ["--max-rate", "0", "--max-sessions", "100000", "--max-sessions-in-all", "100000"]
        options += ["--out", str(place / "out"), "--drain", "1", "--log", "trace"]
        options += ["--store", str(place / "sessions.db")]
        self.process = subprocess.Popen([program, "serve", *options], stderr=subprocess.PIPE, encoding="utf-8")
        self.log: list[str] = []
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"address=(\S+)", line):
                self.url = f"http://{found[1]}"
                break
        else:
            raise SystemExit("the server does not listen: " + "".join(self.log))
        self.reading = threading.Thread(target=lambda: self.log.extend(self.process.stderr))
        self.reading.start()

    def description(self) -> dict:
        with urllib.request.urlopen(f"{self.url}/openapi.json") as response:
            return json.load(response)

    def stop(self) -> list[str]:
        """Stops it. Gives what is wrong with how it ended or what it said."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self.reading.join()
        said = "".join(self.log)
        wrong = [f"it ended with {status}"] if status else []
        wrong += [f"it said the token of {tenant}" for tenant, token in self.tokens.items() if token in said]
        wrong += ["it panicked"] if "panicked" in said else []
        return wrong


class Judge:
    """Runs schemathesis, and remembers what was wrong."""

    def __init__(self, server: Server, place: Path) -> None:
        self.server, self.place = server, place
        self.failures = 0
        entry = "  - name: {}\n    fixedHeaders:\n      - name: Authorization\n        value: Bearer {}\n"
        self.tenants = place / "tenants.yaml"
        entries = (entry.format(tenant, token) for tenant, token in server.tokens.items())
        self.tenants.write_text("auth:\n" + "".join(entries), encoding="utf-8")

    def fail(self, text: str) -> None:
        self.failures += 1
        print(f"FAILED  {text}")

    def schemathesis(self, document: dict, name: str, options: list[str]) -> tuple[dict, str]:
        """A run against a description. Gives its report and what it printed."""
        description, report = self.place / f"{name}.json", self.place / f"{name}.report.json"
        description.write_text(json.dumps(document), encoding="utf-8")
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml"), "run"]
        command += [str(description), "--url", self.server.url, "--auth-wfc", str(self.tenants), "--no-color"]
        command += ["--seed", SEED, "--generation-database", "none", "--request-timeout", "30", "--checks", "all"]
        command += ["--report", "json", "--report-json-path", str(report), *options]
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py")}
        # What it notes for itself is left beside its reports.
        ended = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=environment, cwd=self.place)
        if not report.is_file():
            raise SystemExit(f"schemathesis gave no report: {ended.stdout}{ended.stderr}")
        return json.loads(report.read_text(encoding="utf-8")), ended.stdout

    def judge(self) -> None:
        """All that is described is so."""
        report, said = self.schemathesis(self.server.description(), "description", ["-n", "30", "--continue-on-failure"])
        (self.place / "description.txt").write_text(said, encoding="utf-8")
        if report["exit_code"] or report["failures"] or report["errors"] or not report["complete"]:
            self.fail("the server does not do what it says")
            print(said)
        for operation, phases in report["valid_rates"].items():
            accepted, refused = (
                sum(phase[kind] for phase in phases.values() for kind in kinds)
                for kinds in (["accepted"], ["unreachable", "conflicts", "rejected"])
            )
            print(f"        {operation}: of what is described {accepted} accepted, {refused} refused as described")
            if not accepted and operation not in NEVER_ACCEPTED:
                self.fail(f"nothing was accepted by {operation}")
        operations, cases = report["operations"], report["test_cases"]
        if operations["tested"] != operations["total"]:
            self.fail(f"{operations['tested']} of {operations['total']} operations were tested")
        phases = ", ".join(name for name, phase in report["phases"].items() if phase["status"] == "success")
        print(
            f"schemathesis {report['schemathesis_version']}: {operations['tested']} operations, {cases['generated']} "
            f"requests ({phases}), {len(report['failures'])} failures"
        )

    def test_itself(self) -> None:
        """Each alteration of the description has to be found, by the check that is for it."""
        true = self.server.description()
        for number, alteration in enumerate(alterations.ALL):
            document = copy.deepcopy(true)
            alteration.alter(document)
            options = ["-n", "10", "--phases", "coverage,fuzzing,stateful"]
            # What an operation needs is made by another.
            for operation in {"createSession", alteration.operation}:
                options += ["--include-operation-id", operation]
            report, _ = self.schemathesis(document, f"altered-{number}", options)
            found = {failure["code"]: failure["title"] for failure in report["failures"]}
            if report["exit_code"] == 0 or alteration.check not in found:
                self.fail(f"not found: {alteration.name} of {alteration.operation}; instead {found}")
            else:
                print(f"found   altered: {alteration.name} of {alteration.operation}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anabranch", required=True, help="the program `anabranch`")
    parser.add_argument("--out", required=True, help="a folder for what is written")
    arguments = parser.parse_args()

    place = Path(arguments.out)
    server = Server(arguments.anabranch, place)
    judge = Judge(server, place)
    try:
        judge.judge()
        judge.test_itself()
    finally:
        wrong = server.stop()
    for text in wrong:
        judge.fail(text)
    print(f"{len(alterations.ALL)} alterations tried, {judge.failures} failures")
    return 1 if judge.failures else 0


if __name__ == "__main__":
    sys.exit(main())
