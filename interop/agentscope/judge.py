"""Has agentscope judge our flat spelling, and us judge agentscope's own output. See `README.md`."""

import argparse
import json
import subprocess
import sys
import warnings

import agentscope

import agents
import mutations
from compare import differences
from rebuild import Rebuilt, Refused, fold, rebuild

# The demo as it is, with a grandchild, with more children, and with a child that fails.
RUNS = [[], ["--nested"], ["--fan", "n1=2"], ["--fail", "n1"]]


class Judge:
    """Counts what was compared and remembers what was wrong."""

    def __init__(self, demo: str, messages: str) -> None:
        self.demo, self.messages = demo, messages
        self.failures = 0
        self.events = 0
        self.compared = 0
        self.kinds: set[str] = set()

    def run_demo(self, options: list[str]) -> list[str]:
        """The lines of a run. A child that fails is an exit code of 1."""
        ended = subprocess.run([self.demo, "--as", "flat", *options], capture_output=True, encoding="utf-8", check=False)
        expected = 1 if "--fail" in options else 0
        if ended.returncode != expected:
            raise SystemExit(f"the demo ended with {ended.returncode}, not {expected}: {ended.stderr.strip()}")
        return ended.stdout.splitlines()

    def our_messages(self, lines: list[str]) -> list[dict]:
        """What our flat reader and our accumulator make of lines."""
        text = "".join(f"{line}\n" for line in lines)
        ended = subprocess.run([self.messages], input=text, capture_output=True, encoding="utf-8", check=False)
        if ended.returncode:
            raise SystemExit(f"our reader refuses the lines: {ended.stderr.strip()}")
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def verdict(self, name: str, theirs: Rebuilt, ours: list[dict]) -> None:
        """Prints what was compared, and what differs."""
        found = differences(theirs, ours)
        self.failures += bool(found)
        self.events += theirs.events
        self.compared += theirs.messages
        self.kinds |= theirs.kinds
        counts = f"{theirs.events} events of {len(theirs.kinds)} kinds, {theirs.messages} messages"
        sessions = f"{len(theirs.sessions)} sessions"
        print(f"{'DIFFERS' if found else 'equal':8}{name}: {counts} in {sessions}")
        for line in found:
            print(f"        {line}")

    def judge_ours(self, options: list[str]) -> None:
        """agentscope validates and rebuilds what we wrote."""
        name = " ".join(["our demo", *options])
        lines = self.run_demo(options)
        try:
            theirs = rebuild(lines)
        except Refused as refused:
            self.failures += 1
            print(f"REFUSED {name}: {refused}")
            return
        self.verdict(name, theirs, self.our_messages(lines))

    def judge_theirs(self) -> None:
        """We read what agentscope wrote, and rebuild what it rebuilds from its own objects."""
        events = agents.events()
        ours = self.our_messages([event.model_dump_json() for event in events])
        self.verdict("agentscope's own agents, read by us", fold(events), ours)

    def test_itself(self) -> None:
        """Each alteration of a good stream has to be found."""
        lines = self.run_demo([])
        ours = self.our_messages(lines)
        if differences(rebuild(lines), ours):
            self.failures += 1
            print("MISSED  the stream to alter is not good itself")
            return
        for mutation in mutations.ALL:
            name = mutation.__name__.replace("_", " ")
            try:
                found = differences(rebuild(mutations.altered(lines, mutation)), ours)
            except Refused as refused:
                found = [str(refused)]
            self.failures += not found
            print(f"{'found' if found else 'MISSED':8}altered: {name}{f' ({len(found)})' if found else ''}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", required=True, help="the demo's program")
    parser.add_argument("--messages", required=True, help="the program that prints our messages of flat lines")
    arguments = parser.parse_args()
    # agentscope itself still emits what it calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)

    judge = Judge(arguments.demo, arguments.messages)
    for options in RUNS:
        judge.judge_ours(options)
    judge.judge_theirs()
    judge.test_itself()
    judge.failures += not judge.events or not judge.compared
    print(
        f"agentscope {agentscope.__version__}: {judge.events} events of {len(judge.kinds)} kinds and "
        f"{judge.compared} messages compared, {len(mutations.ALL)} alterations tried, {judge.failures} failures"
    )
    return 1 if judge.failures else 0


if __name__ == "__main__":
    sys.exit(main())
