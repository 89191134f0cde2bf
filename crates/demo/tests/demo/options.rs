//! What the options change, and what a bad input breaks: its own node, nothing else.

use std::{fs, path::PathBuf};

use crate::common::{Events, Report, assert_figures_were_given, events, folder};
use anabranch_demo::{Node, Plan};
use anabranch_proto::{Artifact, EventKind, Outcome, Scope, ToolResultState, event::ToolResultEnd};

/// The parent's results for its spawns: the end and the text of each.
fn results(events: &Events) -> Vec<(&ToolResultEnd, String)> {
    let own = || events.0.iter().filter(|event| event.scope == Scope::Root);
    let ends = own()
        .filter_map(|event| if let EventKind::ToolResultEnd(end) = &event.kind { Some(end) } else { None });
    let text = |end: &ToolResultEnd| {
        let deltas = own().filter_map(|event| {
            let EventKind::ToolResultTextDelta(delta) = &event.kind else { return None };
            (delta.tool_call_id == end.tool_call_id).then_some(&*delta.delta)
        });
        deltas.collect()
    };
    ends.map(|end| (end, text(end))).collect()
}

fn outcome(events: &Events, node: &str) -> Outcome {
    events.end(&events.child(node).spawn.child_session_id).1.outcome
}

#[tokio::test]
async fn a_failing_node_leaves_the_others_and_the_report_alone() {
    let events = events(Plan::new().fail(Node::N1).out(folder("fail"))).await;
    assert_eq!(events.outcome(), Outcome::Completed);
    assert_eq!((outcome(&events, "n1"), outcome(&events, "n2")), (Outcome::Failed, Outcome::Completed));

    let child = events.child("n1");
    let own = events.of(&child.spawn.child_session_id);
    let first = own.iter().find_map(|at| {
        if let EventKind::ToolResultEnd(end) = &events.0[*at].kind { Some(end) } else { None }
    });
    assert_eq!(first.unwrap().state, ToolResultState::Error, "its first tool failed");

    let results = results(&events);
    let (end, text) =
        results.iter().find(|(end, _)| Some(&end.tool_call_id) == child.spawn.tool_call_id.as_ref()).unwrap();
    assert_eq!(end.state, ToolResultState::Error);
    assert_eq!(text, "read_csv: this tool was told to fail by `--fail n1`");
    assert_eq!(
        end.response.get_str("subagent_id").as_deref(),
        child.spawn.subagent_id.as_ref().map(anabranch_proto::SubagentId::as_str)
    );
    assert_eq!(end.response.get_str("outcome").as_deref(), Some("failed"));

    let report = events.report();
    assert_eq!(report.section("n1").lines[0][0], "MISSING: Analyse seattle.csv, all rows");
    assert_eq!(report.section("n2").figures("temp_max")[0], "1461");
    assert_eq!(report.section("n3").lines[0][0], "MISSING: not run, because n1 is missing");
    assert_figures_were_given(&events);
}

#[tokio::test]
async fn a_failing_comparison_leaves_the_analyses_alone() {
    let events = events(Plan::new().fail(Node::N3).out(folder("fail-n3"))).await;
    assert_eq!(
        ["n1", "n2", "n3"].map(|node| outcome(&events, node)),
        [Outcome::Completed, Outcome::Completed, Outcome::Failed]
    );
    let report = events.report();
    assert_eq!(report.section("n1").figures("wind")[0], "1461");
    assert_eq!(report.section("n3").lines[1][0], "compare: this tool was told to fail by `--fail n3`");
}

#[tokio::test]
async fn a_node_that_fans_out_has_two_sub_agents_and_n3_joins_them() {
    let folder = folder("fan");
    let whole = events(Plan::new().out(folder.clone())).await;
    let fanned = events(Plan::new().fan(Node::N1).out(folder.clone())).await;
    let children = fanned.children();
    let of_n1: Vec<_> = children
        .iter()
        .filter(|child| child.event.metadata.get_str("node_id").as_deref() == Some("n1"))
        .collect();
    assert_eq!(of_n1.len(), 2);
    assert_ne!(of_n1[0].spawn.subagent_id, of_n1[1].spawn.subagent_id);
    assert_ne!(of_n1[0].spawn.child_session_id, of_n1[1].spawn.child_session_id);

    let (report, whole) = (fanned.report(), whole.report());
    let counts: Vec<_> =
        report.sections.iter().map(|section| section.figures(&section.lines[1][0])[0]).collect();
    assert_eq!(counts[..3], ["731", "730", "1461"], "odd, even, and n2");
    for column in ["precipitation", "temp_max", "temp_min", "wind"] {
        assert_eq!(
            report.section("n3").figures(column),
            whole.section("n1").figures(column),
            "joined: {column}"
        );
    }
    let compared = |report: &Report| {
        let lines = &report.section("n3").lines;
        let start = lines.iter().position(|line| line[0] == "means compared").unwrap();
        lines[start..].to_vec()
    };
    assert_eq!(compared(&report), compared(&whole));
    assert_figures_were_given(&fanned);
    for name in ["n1-seattle-odd.csv", "n1-seattle-even.csv", "n2-new_york.csv"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
}

#[tokio::test]
async fn a_nested_sub_agent_inherits_its_node() {
    let folder = folder("nested");
    let nested = events(Plan::new().nested().out(folder.clone())).await;
    let children = nested.children();
    let own = children.iter().find(|child| child.spawn.depth == 2).unwrap();
    assert_eq!(own.spawn.parent_session_id, nested.child("n1").spawn.child_session_id);
    for at in nested.of(&own.spawn.child_session_id) {
        assert_eq!(nested.0[at].metadata.get_str("node_id").as_deref(), Some("n1"));
    }
    assert_figures_were_given(&nested);
    assert_eq!(nested.report().text, events(Plan::new().out(folder)).await.report().text);
}

#[tokio::test]
async fn each_result_is_a_file_that_the_response_lists() {
    let folder = folder("files");
    let events = events(Plan::new().out(folder.clone())).await;
    let results = results(&events);
    let files =
        |result: &ToolResultEnd| -> Vec<Artifact> { result.response.get("files").unwrap().to().unwrap() };
    for ((end, _), name) in results.iter().zip(["n1-seattle.csv", "n2-new_york.csv"]) {
        let path = folder.join(name);
        assert_eq!(files(end), [Artifact::new(name, path.to_string_lossy(), "text/csv")]);
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with("column,count,sum,mean,min,max\nprecipitation,1461,"), "{text}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

/// Runs with a bad first file and a good second one; gives what the report says of the first.
async fn report_on(name: &str, bytes: Option<&[u8]>) -> String {
    let folder = folder(name);
    let (bad, good) = (PathBuf::from("bad.csv"), folder.join("good.csv"));
    let bad = folder.join(bad);
    if let Some(bytes) = bytes {
        fs::write(&bad, bytes).unwrap();
    }
    fs::write(&good, "a,b\n1,x\n2.5,y\n").unwrap();
    let events = events(Plan::new().inputs([bad.clone(), good]).out(folder)).await;
    assert_eq!((outcome(&events, "n1"), outcome(&events, "n2")), (Outcome::Failed, Outcome::Completed));
    let report = events.report();
    assert_eq!(report.section("n2").figures("a"), ["2", "1.75", "1", "2.5"]);
    assert!(report.section("n1").lines[0][0].starts_with("MISSING: "));
    report.section("n1").lines[1][0].replace(&*bad.to_string_lossy(), "BAD")
}

#[tokio::test]
async fn a_bad_file_fails_its_node_with_file_line_and_reason() {
    let missing = report_on("missing", None).await;
    assert!(missing.starts_with("read_csv: BAD: cannot be read: "), "{missing}");
    for (name, bytes, expected) in [
        ("empty", &b""[..], "line 1: the file is empty; a header was expected"),
        ("no-rows", b"a,b\n", "line 2: no rows after the header"),
        ("no-header", b"1,2\n3,4\n", "line 1: no header; every field of the first line is a number"),
        ("ragged", b"a,b\n1,2\n3\n", "line 3: 1 field, but the header has 2"),
        ("not-utf8", b"a,b\n1,2\n3,\xff\xfe\n", "line 3: field 2 is not valid UTF-8"),
        (
            "no-numbers",
            b"a,b\nx,1\ny,2\nz,n/a\n",
            "line 4: no numeric column; `b` was the last that could be one, and `n/a` is no number",
        ),
        ("all-empty", b"a,b\n,x\n,y\n", "line 4: no numeric column; no field below the header is a number"),
    ] {
        assert_eq!(report_on(name, Some(bytes)).await, format!("read_csv: BAD: {expected}"));
    }
}

/// Elsewhere such names are no names.
#[cfg(unix)]
#[tokio::test]
async fn names_in_files_and_of_files_may_be_anything() {
    let folder = folder("names");
    let files = ["line\nend, odd rows: 1 of 2 kept, written to x.csv", "\x1b[31mred.csv"]
        .map(|name| folder.join(name));
    for file in &files {
        fs::write(file, "\"a: count 3, sum 1\",\"b\n  c\",,b c\n1,2,3,4\n").unwrap();
    }
    let events = events(Plan::new().inputs(files).fan(Node::N2).out(folder)).await;
    assert_eq!(["n1", "n2", "n3"].map(|node| outcome(&events, node)), [Outcome::Completed; 3]);
    let report = events.report();
    for (column, figure) in [("a: count 3, sum 1", "1"), ("b c", "2"), ("column 3", "3"), ("b c (2)", "4")] {
        assert_eq!(report.section("n1").figures(column), ["1", figure, figure, figure]);
        assert_eq!(report.section("n3").figures(column), ["1", figure, figure, figure], "joined: {column}");
    }
}

#[tokio::test]
async fn a_folder_is_no_input() {
    let folder = folder("folder");
    let good = folder.join("good.csv");
    fs::write(&good, "a\n1\n").unwrap();
    let events = events(Plan::new().inputs([good, folder.clone()]).out(folder)).await;
    assert_eq!((outcome(&events, "n1"), outcome(&events, "n2")), (Outcome::Completed, Outcome::Failed));
    assert!(events.report().section("n2").lines[1][0].ends_with(": is not a regular file"));
}

#[tokio::test]
async fn files_without_a_common_column_are_not_compared() {
    let folder = folder("uncommon");
    let files = ["one.csv", "two.csv"].map(|name| folder.join(name));
    fs::write(&files[0], "a,b\n1,2\n").unwrap();
    fs::write(&files[1], "c\n3\n").unwrap();
    let events = events(Plan::new().inputs(files).out(folder)).await;
    assert_eq!(events.outcome(), Outcome::Completed);
    let lines: Vec<_> = events.report().section("n3").lines.iter().map(|line| line[0].clone()).collect();
    assert_eq!(lines, ["n1 and n2 have no numeric column in common", "only in n1: a, b", "only in n2: c"]);
}
