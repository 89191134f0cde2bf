//! The program: exit codes, usage, what goes to stdout and what to stderr.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use crate::common::{folder, normalized};
use anabranch_proto::{
    EventKind, Outcome, Scope, flat,
    grammar::{Profile, Verifier},
    native,
};
use anabranch_testkit::ag_ui::{Dialect, Reader};

fn demo(temporary: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch-demo"));
    command.env("TMPDIR", temporary).env("TMP", temporary).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

fn run(name: &str, args: &[&str]) -> Output {
    demo(&folder(name)).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What is printed, without ids, times and the temporary folder.
fn transcript(name: &str, args: &[&str]) -> String {
    let temporary = folder(name);
    let output = demo(&temporary).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    normalized(&text(&output.stdout).replace(&*temporary.to_string_lossy(), "<tmp>"))
}

#[test]
fn the_transcript_of_a_default_run() {
    let transcript = transcript("cli-text", &[]);
    assert!(!transcript.contains('\x1b') && !transcript.contains('\r'), "a pipe gets plain text");
    insta::assert_snapshot!("text", transcript);
}

#[test]
fn the_cards_of_a_default_run() {
    insta::assert_snapshot!("tool_calls", transcript("cli-cards", &["--as", "tool-calls"]));
}

#[test]
fn the_updates_of_a_default_run() {
    for (name, format) in [("acp", "acp"), ("acp_sessions", "acp-sessions")] {
        let lines = transcript(&format!("cli-{format}"), &["--as", format]);
        // How often a card that runs is written again is a matter of time.
        let is_progress = |line: &&str| line.contains("tool_call_update") && !line.contains(r#""status""#);
        let lines = lines.lines().filter(|line| !is_progress(line)).map(|line| format!("{line}\n"));
        insta::assert_snapshot!(name, lines.collect::<String>());
    }
}

#[test]
fn the_transcripts_of_the_options() {
    for (name, args) in [
        ("fan", &["--fan", "n1=2"][..]),
        ("nested", &["--nested"]),
        ("everything", &["--nested", "--fan", "n1=2", "--fan", "n2=2"]),
    ] {
        insta::assert_snapshot!(name, transcript(&format!("cli-{name}"), args));
    }
}

#[test]
fn native_writes_one_event_per_line_and_nothing_else_to_stdout() {
    let output = run("cli-native", &["--as", "native", "--nested", "--fan", "n1=2"]);
    assert_eq!(output.status.code(), Some(0));
    let mut reader = native::Reader::default();
    let mut children = 0;
    for (index, line) in text(&output.stdout).lines().enumerate() {
        let read = reader.read(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(read.seq, Some(index as u64 + 1));
        let mut written = Vec::new();
        native::write(read.seq, &read.event, &mut written).unwrap();
        assert_eq!(text(&written), line);
        children += usize::from(matches!(read.event.scope, Scope::Child(_)));
    }
    assert!(children > 100);
    assert!(text(&output.stderr).starts_with("anabranch-demo: results in "), "{}", text(&output.stderr));
}

#[test]
fn flat_writes_one_event_per_line_that_is_read_back_with_its_child() {
    let output = run("cli-flat", &["--as", "flat", "--nested", "--fan", "n1=2"]);
    assert_eq!(output.status.code(), Some(0));
    let mut reader = flat::Reader::default();
    let (mut spawned, mut depths) = (0, BTreeSet::new());
    for line in text(&output.stdout).lines() {
        let read = reader.read(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(flat::to_string(&read.event).unwrap(), line);
        assert!(!read.provisional, "{line}");
        assert!(!line.contains(r#""anabranch":{"#), "agentscope's own fields say all: {line}");
        let named = read.event.metadata.get_str("subagent_id");
        assert_eq!(named.as_deref(), read.event.scope.child().map(|child| child.subagent_id.as_str()));
        spawned += usize::from(matches!(read.event.kind, EventKind::SpawnSessionStart(_)));
        depths.insert(read.event.scope.depth());
    }
    assert!(spawned > 3);
    assert_eq!(depths, [0, 1, 2].into());
    assert!(text(&output.stderr).starts_with("anabranch-demo: results in "), "{}", text(&output.stderr));
}

/// What a stream of server-sent events carries, a line each.
fn data(stream: &str) -> String {
    let data =
        stream.split("\n\n").filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
    data.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn ag_ui_writes_a_stream_that_breaks_no_rule_of_the_protocol_in_each_mode() {
    let mut said = Vec::new();
    for (format, dialect) in [
        ("ag-ui", Dialect::Attributed),
        ("ag-ui-attribution", Dialect::AttributionOnly),
        ("ag-ui-inline", Dialect::Inline),
    ] {
        for options in [&["--nested", "--fan", "n1=2"][..], &["--fail", "n2"]] {
            let output = run(&format!("cli-{format}"), &[&["--as", format], options].concat());
            let stream = text(&output.stdout);
            assert!(stream.ends_with("\n\n"), "each event is ended");
            let reader = Reader::new(dialect).stream(&data(stream)).unwrap_or_else(|fault| panic!("{fault}"));
            let is_failing = options == ["--fail", "n2"];
            let failed = reader.ends().values().filter(|end| *end != "success").count();
            assert_eq!(failed, usize::from(is_failing && format == "ag-ui"), "{:?}", reader.ends());
            if !is_failing {
                let mut texts: Vec<_> = reader.texts().values().cloned().collect();
                texts.sort();
                said.push(texts);
            }
            assert!(text(&output.stderr).contains("results in "), "{}", text(&output.stderr));
        }
    }
    assert!(said[0].len() > 3);
    assert!(said.windows(2).all(|modes| modes[0] == modes[1]), "each mode tells all that was said");
}

#[test]
fn the_results_lie_in_the_folder_that_is_printed() {
    for format in ["text", "native", "flat", "tool-calls", "ag-ui"] {
        let output = run(&format!("cli-folder-{format}"), &["--as", format]);
        let printed = if format == "text" { &output.stdout } else { &output.stderr };
        let (_, place) = text(printed).trim_end().rsplit_once("results in ").unwrap();
        assert!(Path::new(place).join("n1-seattle.csv").is_file(), "{place}");
        assert!(Path::new(place).join("n2-new_york.csv").is_file(), "{place}");
    }
    let chosen = folder("cli-chosen").join("a/b");
    let output = run("cli-folder-chosen", &["--out", &chosen.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(chosen.join("n1-seattle.csv").is_file(), "folders on the way are made");
}

#[test]
fn a_failed_node_is_exit_code_1() {
    for node in ["n1", "n2", "n3"] {
        for format in ["text", "native", "flat", "tool-calls", "ag-ui"] {
            let output = run("cli-fail", &["--fail", node, "--as", format]);
            assert_eq!(output.status.code(), Some(1), "--fail {node} --as {format}");
        }
    }
    let output = run("cli-fail", &["--fail", "n1"]);
    assert!(
        text(&output.stdout).contains("3 sub-agents, 1 failed")
            || text(&output.stdout).contains("2 sub-agents, 1 failed")
    );
}

#[test]
fn a_missing_file_is_exit_code_1_and_named() {
    let folder = folder("cli-missing");
    fs::write(folder.join("good.csv"), "a\n1\n").unwrap();
    let output =
        demo(&folder).current_dir(&folder).args(["--input", "none.csv", "good.csv"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(&output.stdout);
    assert!(
        stdout.contains("MISSING: Analyse none.csv, all rows\n    read_csv: none.csv: cannot be read: "),
        "{stdout}"
    );
    assert!(stdout.contains("n2  good.csv, all rows"), "{stdout}");
}

#[test]
fn a_bad_command_line_is_exit_code_2_with_usage_on_stderr() {
    for args in [
        &["--bogus"][..],
        &["--as", "xml"],
        &["--fail", "n4"],
        &["--fan", "n1=3"],
        &["--input", "one.csv"],
        &["--input", "a", "b", "--input", "c", "d"],
        &["--out", "a", "--out", "b"],
        &["surplus"],
    ] {
        let output = run("cli-usage", args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
        let stderr = text(&output.stderr);
        assert!(stderr.starts_with("error: ") && stderr.contains("--help"), "{stderr}");
        assert_eq!(stderr.matches("Usage: cargo xtask demo").count(), 1, "{stderr}");
    }
    let unknown = run("cli-usage", &["--bogus"]);
    assert!(text(&unknown.stderr).contains("Usage: cargo xtask demo [OPTIONS]"));
}

#[test]
fn help_and_version_are_answers() {
    let help = run("cli-help", &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for option in ["--as", "--input", "--out", "--fail", "--nested", "--fan"] {
        assert!(text(&help.stdout).contains(option), "{option}");
    }
    assert_eq!(run("cli-help", &["--version"]).status.code(), Some(0));
}

#[test]
fn a_folder_that_cannot_be_made_is_said_on_stderr() {
    let file = folder("cli-out").join("file");
    fs::write(&file, "").unwrap();
    let output = run("cli-out-run", &["--out", &file.to_string_lossy(), "--as", "native"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(
        text(&output.stderr).starts_with("anabranch-demo: cannot make the folder "),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_reader_that_goes_away_changes_neither_the_results_nor_the_exit_code() {
    for (format, args, code) in
        [("text", &[][..], 0), ("native", &[], 0), ("tool-calls", &[], 0), ("text", &["--fail", "n1"], 1)]
    {
        let folder = folder(&format!("cli-pipe-{format}-{code}"));
        let mut child = demo(&folder)
            .args(["--as", format, "--out", &folder.to_string_lossy()])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(text(&output.stderr), "");
        assert!(folder.join("n2-new_york.csv").is_file());
    }
}

#[test]
fn a_result_over_an_input_is_refused_with_what_to_do() {
    let folder = folder("cli-overwrite");
    fs::write(folder.join("n1-x.csv"), "a\n1\n").unwrap();
    let output = demo(&folder)
        .current_dir(&folder)
        .args(["--input", "x.csv", "n1-x.csv", "--out", ".", "--as", "native"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert_eq!(
        text(&output.stderr),
        "anabranch-demo: the result ./n1-x.csv would be written over the input n1-x.csv; choose another folder with \
         --out\n"
            .replace("./", &format!(".{}", std::path::MAIN_SEPARATOR))
    );
}

#[test]
fn where_nothing_was_written_nothing_is_left_and_nothing_is_claimed() {
    for (format, args) in
        [("text", &["--fail", "n1", "--fail", "n2"][..]), ("native", &["--input", "none", "none"])]
    {
        let folder = folder(&format!("cli-nothing-{format}"));
        let output = demo(&folder).current_dir(&folder).args(["--as", format]).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let printed = if format == "text" { &output.stdout } else { &output.stderr };
        assert!(text(printed).ends_with("no results were written\n"), "{}", text(printed));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}

/// Elsewhere such names are no names.
#[cfg(unix)]
#[test]
fn no_name_reaches_a_terminal_as_more_than_text() {
    let folder = folder("cli-escapes");
    let bad = "\x1b[31m\u{202e}\u{200b}\n\u{9b}";
    fs::write(folder.join(format!("{bad}.csv")), format!("\"{bad}\",b\n1,\"{bad}\"\n\"{bad}\",2\n")).unwrap();
    let is_harmless = |output: &[u8], what: &str| {
        let found = text(output)
            .chars()
            .find(|c| *c != '\n' && (c.is_control() || matches!(c, '\u{202e}' | '\u{200b}')));
        assert_eq!(found, None, "{what}: {}", text(output));
    };
    let file = format!("{bad}.csv");
    for (what, args) in [
        ("a file and a folder", &["--input", &file, &file, "--out", bad][..]),
        ("a missing file", &["--input", bad, &file]),
        ("an option's value", &["--as", bad]),
        ("an argument", &[bad]),
        ("a folder that is a file", &["--out", &file]),
        ("a result's place", &["--input", &file, &file, "--out", &file]),
    ] {
        let output = demo(&folder).current_dir(&folder).args(args).output().unwrap();
        is_harmless(&output.stdout, what);
        is_harmless(&output.stderr, what);
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty());
    }
}

/// A run whose pipe is full: it waits for its reader, so a Ctrl-C comes in its midst however fast the machine is. Gives
/// what was read so far.
#[cfg(unix)]
fn blocked(name: &str) -> (Child, BufReader<ChildStdout>, String) {
    let folder = folder(name);
    let input = folder.join("long.csv");
    fs::write(&input, "a\n".to_owned() + &"1\n".repeat(300_000)).unwrap();
    let input = input.to_string_lossy();
    let mut child = demo(&folder)
        .args(["--as", "native", "--input", &input, &input])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    while !lines.contains("progress") {
        assert_ne!(stdout.read_line(&mut lines).unwrap(), 0, "{lines}");
    }
    (child, stdout, lines)
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    // The process may be gone already.
    Command::new("kill").args(["-INT", &child.id().to_string()]).stderr(Stdio::null()).status().unwrap();
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_run_in_order() {
    let (child, mut stdout, mut lines) = blocked("cli-stop");
    interrupt(&child);
    stdout.read_to_string(&mut lines).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "anabranch-demo: no results were written\n");

    let mut reader = native::Reader::default();
    let ends: Vec<_> = lines
        .lines()
        .filter_map(|line| {
            let event = reader.read(line).unwrap().event;
            if let EventKind::StreamComplete(end) = event.kind {
                Some((event.scope.depth(), end.outcome))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(ends, [(1, Outcome::Interrupted), (1, Outcome::Interrupted), (0, Outcome::Interrupted)]);
}

/// However far the run is when it comes: too late to stop anything, perhaps.
#[cfg(unix)]
#[test]
fn the_exit_code_after_a_ctrl_c_is_what_the_stream_says() {
    let folder = folder("cli-stop-late");
    let mut child =
        demo(&folder).args(["--as", "native"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    while !lines.contains("write_result") {
        assert_ne!(stdout.read_line(&mut lines).unwrap(), 0, "{lines}");
    }
    interrupt(&child);
    stdout.read_to_string(&mut lines).unwrap();
    let mut reader = native::Reader::default();
    let last = lines.lines().map(|line| reader.read(line).unwrap().event).last().unwrap();
    let EventKind::StreamComplete(end) = last.kind else { panic!("the last event is {}", last.kind.tag()) };
    let is_known = matches!(end.outcome, Outcome::Completed | Outcome::Interrupted);
    assert!(is_known, "{:?}", end.outcome);
    let code = if end.outcome == Outcome::Completed { 0 } else { 130 };
    assert_eq!(child.wait().unwrap().code(), Some(code));
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_ends_the_process_although_nobody_reads() {
    // Where all that is left fits into the pipe the first ends the run and with it the process; so it is tried until it
    // does not.
    let is_blocked = |attempt: usize| {
        let (mut child, stdout, _) = blocked(&format!("cli-stop-twice-{attempt}"));
        let mut count = 0;
        // Two that come too close to each other are one to the system.
        while child.try_wait().unwrap().is_none() {
            assert!(count < 10_000, "the process is still there");
            interrupt(&child);
            count += 1;
        }
        assert_eq!(child.wait().unwrap().code(), Some(130));
        drop(stdout);
        count >= 2
    };
    assert!((0..20).any(is_blocked), "the first stops the run in order");
}

#[test]
fn what_is_hidden_is_in_no_format_and_the_rest_is_well_formed() {
    const FORMATS: [&str; 9] = [
        "text",
        "tool-calls",
        "acp",
        "acp-sessions",
        "native",
        "flat",
        "ag-ui",
        "ag-ui-attribution",
        "ag-ui-inline",
    ];
    let fanned = ["--fan", "n2=2"];
    let all = run("cli-hide-nothing", &[&["--as", "native"], &fanned[..]].concat());
    for (name, hide, word) in [
        ("prompts", &["--hide", "prompts"][..], "new_york.csv, even rows.\\\""),
        ("prompts", &["--hide", "prompts"], "\"prompt\""),
        ("arguments", &["--hide", "arguments"], "n2-new_york-even.csv\\\",\\\"content"),
        ("results", &["--hide", "results"], "kept\\\":731"),
        ("children", &["--hide", "n1", "--hide", "n2", "--hide", "n3"], "read_csv"),
    ] {
        assert!(text(&all.stdout).contains(word), "{word}");
        for format in FORMATS {
            let args = [&["--as", format], &fanned[..], hide].concat();
            let output = run(&format!("cli-hide-{name}-{format}"), &args);
            assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
            let shown = text(&output.stdout);
            assert!(!shown.contains(word), "{args:?}: {word}");
        }
    }
}

#[test]
fn a_stream_with_something_hidden_is_well_formed() {
    for hide in ["thinking", "prompts", "arguments", "results", "n1", "n2", "n3"] {
        let output = run(&format!("cli-hidden-{hide}"), &["--as", "native", "--nested", "--hide", hide]);
        let (mut reader, mut verifier) = (native::Reader::default(), Verifier::new(Profile::Native));
        for line in text(&output.stdout).lines() {
            let read = reader.read(line).unwrap();
            assert_eq!(read.seq, None, "a number would tell of a gap");
            verifier.check(&read.event).unwrap_or_else(|violation| panic!("{hide}: {violation}"));
        }
        verifier.finish().unwrap_or_else(|violation| panic!("{hide}: {violation}"));
    }
}

#[test]
fn a_hidden_sub_agent_that_fails_is_still_exit_code_1() {
    let output = run("cli-hidden-fail", &["--fail", "n1", "--hide", "n1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!text(&output.stdout).contains("n1 │"), "{}", text(&output.stdout));
}
