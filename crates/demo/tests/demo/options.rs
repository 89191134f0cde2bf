//! What the options change, and what a bad input breaks: its own node, nothing else.

use std::{fs, path::PathBuf, time::Duration};

use crate::common::{Events, Report, assert_figures_were_given, events, folder};
use anabranch_demo::{Node, Pace, Plan, StartError};
use anabranch_proto::{Artifact, EventKind, Outcome, Scope, ToolResultState, event::ToolResultEnd};
use anabranch_runtime::Read;
use futures::StreamExt as _;

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
    assert_eq!(report.section("n2").figures("a"), ["2", "3.5", "1.75", "1", "2.5"]);
    assert!(report.section("n1").lines[0][0].starts_with("MISSING: "));
    report.section("n1").lines[1][0].replace(&*bad.to_string_lossy(), "BAD")
}

#[tokio::test]
async fn a_bad_file_fails_its_node_with_file_line_and_reason() {
    let missing = report_on("missing", None).await;
    assert!(missing.starts_with("read_csv: BAD: cannot be read: "), "{missing}");
    for (name, bytes, expected) in [
        ("empty", &b""[..], "the file is empty; a header was expected"),
        ("no-rows", b"a,b\n", "no rows after the header"),
        ("no-header", b"1,2\n3,4\n", "line 1: no header; every field of the first line is a number"),
        ("ragged", b"a,b\n1,2\n3\n", "line 3: 1 field, but the header has 2"),
        ("not-utf8", b"a,b\n1,2\n3,\xff\xfe\n", "line 3: field 2 is not valid UTF-8"),
        ("unclosed", b"a,b\n1,\"2\n3,4\n", "line 2: a quote is opened and never closed"),
        (
            "after-quote",
            b"a,b\n1,2\n\"1\"2,3\n",
            "line 3: text after a closing quote; within quotes, a quote is written twice",
        ),
        (
            "no-numbers",
            "a,b\nx,1\ny,2\nz,n\u{202e}/\x1b[0ma\n".as_bytes(),
            "line 4: no numeric column; `b` was the last that could be one, and `n\u{fffd}/␛[0ma` is no number",
        ),
        ("all-empty", b"a,b\n,x\n,y\n", "no numeric column; no field below the header is a number"),
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
        assert_eq!(report.section("n1").figures(column), ["1", figure, figure, figure, figure]);
        assert_eq!(
            report.section("n3").figures(column),
            ["1", figure, figure, figure, figure],
            "joined: {column}"
        );
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
    assert_eq!(
        lines,
        ["n1 and n2 have no numeric column in common", "numeric only in n1: a, b", "numeric only in n2: c"]
    );
}

/// The report's first cells of a node's lines.
fn first_cells(report: &Report, node: &str) -> Vec<String> {
    report.section(node).lines.iter().map(|line| line[0].clone()).collect()
}

#[tokio::test]
async fn a_column_that_is_not_numeric_is_named_with_its_first_cell_that_is_no_number() {
    let folder = folder("left-out");
    let files = ["one.csv", "two.csv"].map(|name| folder.join(name));
    let long = "x".repeat(100);
    fs::write(&files[0], format!("a,b,c\n1,2,\n3,\"n/a\",\n4,{long},\n")).unwrap();
    fs::write(&files[1], format!("a,b,c\n1,2,3\n{long},2,3\n")).unwrap();
    let events = events(Plan::new().inputs(files).fan(Node::N2).out(folder)).await;
    let report = events.report();
    let of_n1 = first_cells(&report, "n1");
    assert_eq!(of_n1[1..], ["a", "not numeric: b (line 3: `n/a`), c (empty)"]);
    let of_n2 = first_cells(&report, "n2");
    assert_eq!(of_n2[1..], ["b", "c", &format!("not numeric: a (line 3: `{}…`)", "x".repeat(39))]);
    let of_n3 = first_cells(&report, "n3");
    assert!(
        of_n3.ends_with(&["numeric only in n1: a".to_owned(), "numeric only in n2: b, c".to_owned()]),
        "{of_n3:?}"
    );
}

/// Both are shown as `a b.csv`.
#[cfg(unix)]
#[tokio::test]
async fn two_files_that_are_shown_alike_stay_two() {
    let folder = folder("alike-names");
    let files = ["a\nb.csv", "a b.csv"].map(|name| folder.join(name));
    fs::write(&files[0], "a\n1\n").unwrap();
    fs::write(&files[1], "a\n2\n").unwrap();
    let events = events(Plan::new().inputs(files).out(folder)).await;
    let report = events.report();
    assert_eq!(report.section("n1").figures("a")[1], "1");
    assert_eq!(report.section("n2").figures("a")[1], "2");
    assert!(report.section("n2").lines[0][0].ends_with("a b.csv (2), all rows"), "{}", report.text);
}

/// An input is never written over: not by its name, not by a link to it.
#[cfg(unix)]
#[tokio::test]
async fn a_result_that_would_replace_an_input_is_refused_before_anything_begins() {
    let folder = folder("overwrite");
    let out = folder.join("out");
    fs::create_dir(&out).unwrap();
    let text = "column,count,sum,mean,min,max\na,1,1,1,1,1\n";
    let (input, other) = (out.join("n1-x.csv"), folder.join("x.csv"));
    for (name, result, fans) in [
        ("itself", None, false),
        ("symbolic", Some(("n2-x.csv", true)), false),
        ("hard", Some(("n2-x.csv", false)), false),
        ("fanned", Some(("n2-x-even.csv", true)), true),
    ] {
        fs::write(&input, text).unwrap();
        fs::write(&other, "a\n1\n").unwrap();
        let inputs = if let Some((result, is_symbolic)) = result {
            let link = out.join(result);
            fs::remove_file(&link).ok();
            let linked = if is_symbolic {
                std::os::unix::fs::symlink(&other, link)
            } else {
                fs::hard_link(&other, link)
            };
            linked.unwrap();
            [folder.join("y.csv"), other.clone()]
        } else {
            [other.clone(), input.clone()]
        };
        let plan = Plan::new().inputs(inputs).out(out.join(".").join("../out"));
        let plan = if fans { plan.fan(Node::N2) } else { plan };
        let error = plan.start().await.unwrap_err();
        assert!(matches!(error, StartError::Overwrites { .. }), "{name}: {error}");
        assert_eq!(fs::read_to_string(&input).unwrap(), text, "{name}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "a\n1\n", "{name}");
    }
}

#[tokio::test]
async fn only_an_earlier_result_is_replaced() {
    let folder = folder("replace");
    let others = folder.join("n1-seattle.csv");
    fs::write(&others, "somebody's own\n").unwrap();
    fs::create_dir(folder.join("n2-new_york.csv")).unwrap();
    let refused = events(Plan::new().out(folder.clone())).await;
    assert_eq!(["n1", "n2"].map(|node| outcome(&refused, node)), [Outcome::Failed; 2]);
    assert_eq!(fs::read_to_string(&others).unwrap(), "somebody's own\n");
    let report = refused.report();
    assert!(
        report.section("n1").lines[1][0].contains("no result of the demo's; move it away"),
        "{}",
        report.text
    );
    assert!(report.section("n2").lines[1][0].contains("no regular file; move it away"), "{}", report.text);

    fs::write(&others, "column,count,sum,me").unwrap();
    fs::remove_dir(folder.join("n2-new_york.csv")).unwrap();
    for _ in 0..2 {
        let replaced = events(Plan::new().out(folder.clone())).await;
        assert_eq!(["n1", "n2"].map(|node| outcome(&replaced, node)), [Outcome::Completed; 2]);
    }
    assert!(fs::read_to_string(&others).unwrap().contains("precipitation,1461,4426,"));
}

/// Changes the first file after a tool of `n1` has answered; gives what the report says of it.
async fn changed_after(tool: &str, before: &str, after: &str) -> String {
    let folder = folder(&format!("changing-{tool}"));
    let files = ["one.csv", "two.csv"].map(|name| folder.join(name));
    fs::write(&files[0], before).unwrap();
    fs::write(&files[1], "a\n1\n").unwrap();
    // Slow on a clock that stands still while something is left to do, so that the change comes in time.
    let pace = Pace::new(Duration::from_secs(1), Duration::ZERO);
    let mut run = Plan::new().inputs(files.clone()).out(folder).pace(pace).start().await.unwrap();
    let mut all = Vec::new();
    let mut call = None;
    while let Some(read) = run.reply.next().await {
        let Read::Event(admitted) = read else { panic!("events were lost: {read:?}") };
        if admitted.event.metadata.get_str("node_id").as_deref() == Some("n1") {
            if let EventKind::ToolCallStart(start) = &admitted.event.kind
                && &*start.tool_call_name == tool
            {
                call = Some(start.tool_call_id.clone());
            } else if let EventKind::ToolResultEnd(end) = &admitted.event.kind
                && Some(&end.tool_call_id) == call.as_ref()
            {
                fs::write(&files[0], after).unwrap();
            }
        }
        all.push(admitted.event);
    }
    run.session.close().await;
    let events = Events(all);
    assert_eq!((outcome(&events, "n1"), outcome(&events, "n2")), (Outcome::Failed, Outcome::Completed));
    events.report().section("n1").lines[1][0].replace(&*files[0].to_string_lossy(), "FILE")
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_during_the_run_fails_its_node() {
    for tool in ["read_csv", "filter_rows"] {
        let next = if tool == "read_csv" { "filter_rows" } else { "aggregate" };
        // As long as before, longer, another header, and what is no table.
        for after in ["a\n2\n", "a\n1\n2\n", "b\n1\n", "a\n1,2\n", "a\nx\n", ""] {
            assert_eq!(
                changed_after(tool, "a\n1\n", after).await,
                format!("{next}: FILE: changed while it was read; run again when nobody writes to it"),
                "{after:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_long_name_is_shown_short_and_is_one_column_all_the_same() {
    let folder = folder("long-names");
    let name = "n".repeat(70_000);
    let files = ["one.csv", "two.csv"].map(|name| folder.join(name));
    for (file, numbers) in files.iter().zip(["1,2", "3,4"]) {
        fs::write(file, format!("{name},{name}x\n{numbers}\n")).unwrap();
    }
    let events = events(Plan::new().inputs(files).out(folder)).await;
    assert_eq!(["n1", "n2", "n3"].map(|node| outcome(&events, node)), [Outcome::Completed; 3]);
    let report = events.report();
    let lines = &report.section("n3").lines[1..];
    let shown: Vec<_> = lines.iter().map(|line| &*line[0]).collect();
    assert!(shown.iter().all(|name| name.starts_with("nnnnn") && name.chars().count() == 40), "{shown:?}");
    assert_ne!(shown[0], shown[1]);
    assert_eq!(
        (&lines[0][1..], &lines[1][1..]),
        (&["1", "3", "2"].map(str::to_owned)[..], &["2", "4", "2"].map(str::to_owned)[..])
    );
    let longest = report.text.lines().map(|line| line.chars().count()).max();
    assert!(longest < Some(120), "{}", report.text);
}

#[tokio::test]
async fn only_a_sum_that_is_too_large_itself_fails_its_node() {
    let folder = folder("large");
    let files = ["one.csv", "two.csv"].map(|name| folder.join(name));
    fs::write(&files[0], "a\n1\n1.5e308\n1.5e308\n-1.5e308\n").unwrap();
    fs::write(&files[1], "a\n1.5e308\n1.5e308\n").unwrap();
    let events = events(Plan::new().inputs(files).out(folder)).await;
    let report = events.report();
    assert_eq!(report.section("n1").figures("a")[1], "1.5e308");
    let reason = &report.section("n2").lines[1][0];
    assert!(reason.ends_with("two.csv: the sum of column `a` is too large for a 64-bit number"), "{reason}");
}
