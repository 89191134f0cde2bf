// What is printed, and whether all of it is as it should be.

const onOneLine = (text) => text.replaceAll(/\s+/g, " ").slice(0, 200);

/** Verdicts. */
export class Report {
  failures = 0;

  /** Nothing may have been found. */
  equal(what, found) {
    this.failures += found.length > 0 ? 1 : 0;
    console.log(`${found.length > 0 ? "DIFFERS" : "equal  "} ${what}`);
    found.slice(0, 20).forEach((difference) => console.log(`        ${onOneLine(difference)}`));
  }

  /** Something has to have been found: what was looked at was altered on purpose. */
  found(what, found) {
    this.failures += found.length > 0 ? 0 : 1;
    console.log(`${found.length > 0 ? "found  " : "MISSED "} ${what}: ${onOneLine(found[0] ?? "")}`);
  }

  /** Ends with the last word. */
  end() {
    console.log(this.failures === 0 ? "AG-UI's clients read what we mean" : `${this.failures} of the above are wrong`);
    return this.failures === 0 ? 0 : 1;
  }
}
