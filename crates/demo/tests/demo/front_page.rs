//! What the workspace's front page shows is what a default run prints.

use std::process::Command;

use crate::common;

#[test]
fn the_front_page_shows_what_a_default_run_prints() {
    let page = include_str!("../../../../README.md");
    let (_, shown) = page.split_once("```text\nI compare").expect("a block with the demo's output");
    let (shown, _) = shown.split_once("```").expect("the block's end");
    let folder = common::folder("front-page");
    let run = Command::new(env!("CARGO_BIN_EXE_anabranch-demo")).arg("--out").arg(&folder).output().unwrap();
    let printed = String::from_utf8(run.stdout).unwrap();

    let mut rest = printed.lines();
    for line in format!("I compare{shown}").lines().filter(|line| *line != "…") {
        // The page names a folder of its own.
        let line = line.strip_suffix("<a temporary folder>").unwrap_or(line);
        assert!(
            rest.any(|printed| printed.starts_with(line)),
            "the page shows a line that the demo does not print there: {line:?}"
        );
    }
}
