//! What the AG-UI adapter writes, read again by the testkit's strict reader.

use std::collections::BTreeMap;

use anabranch_adapters::{
    Adapter as _,
    ag_ui::{self, AgUi, Body, Frame, Mode, RunIds, RunOutcome},
    encode::JsonLines,
};
use anabranch_proto::{
    ChildScope, Event, EventKind, Outcome, Scope, Timestamp, ToolCallBlock, event::RequireUserConfirm,
};
use anabranch_testkit::{
    Stage,
    ag_ui::{Dialect, Reader},
    transcript,
};
use proptest::prelude::*;

use crate::{played, scripts};

const MODES: [(Mode, Dialect, &str); 3] = [
    (Mode::Attributed, Dialect::Attributed, "attributed"),
    (Mode::AttributionOnly, Dialect::AttributionOnly, "attribution_only"),
    (Mode::Inline, Dialect::Inline, "inline"),
];

fn adapter(mode: Mode) -> AgUi {
    AgUi::new("ses_0", RunIds::new("thread", "run")).mode(mode)
}

fn written<E: std::borrow::Borrow<Event>>(
    mode: Mode,
    events: impl IntoIterator<Item = impl std::ops::Deref<Target = E>>,
) -> String {
    transcript(JsonLines::new(adapter(mode)), events)
}

fn read(dialect: Dialect, lines: &str) -> Reader {
    Reader::new(dialect).stream(lines).unwrap_or_else(|fault| panic!("{fault}\n{lines}"))
}

#[test]
fn each_script_gives_its_ag_ui() {
    for (name, script) in scripts::ALL {
        for (mode, dialect, suffix) in MODES {
            let lines = written(mode, played(*script).events());
            read(dialect, &lines);
            // All happens at one time, which would hide what differs.
            let lines = lines.replace(r#","timestamp":1767225600000"#, "");
            insta::assert_snapshot!(format!("{name}__{suffix}"), lines);
        }
    }
}

#[test]
fn admitting_each_event_twice_opens_nothing_twice() {
    for (_, script) in scripts::ALL {
        let events = played(*script).events();
        let twice: Vec<_> = events.iter().flat_map(|event| [event, event]).collect();
        for (mode, dialect, _) in MODES {
            read(dialect, &written(mode, twice.iter().copied()));
        }
    }
}

#[test]
fn a_stream_that_begins_or_ends_anywhere_breaks_no_rule() {
    for (_, script) in scripts::ALL {
        let events = played(*script).events();
        for at in 0..events.len() {
            for (mode, dialect, _) in MODES {
                read(dialect, &written(mode, &events[at..]));
                read(dialect, &written(mode, &events[..=at]));
            }
        }
    }
}

proptest! {
    #[test]
    fn a_stream_that_is_shuffled_lost_and_repeated_breaks_no_rule(
        script in proptest::sample::select(scripts::ALL),
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 1..80),
    ) {
        let events = played(script.1).events();
        let picked: Vec<_> = picks.iter().map(|pick| pick.get(&events)).collect();
        for (mode, dialect, _) in MODES {
            let lines = written(mode, picked.iter().copied());
            if let Err(fault) = Reader::new(dialect).reopening().stream(&lines) {
                prop_assert!(false, "{fault}\n{lines}");
            }
        }
    }
}

#[test]
fn every_kind_of_event_has_an_answer_in_every_scope() {
    let stage = Stage::new();
    let child = stage.root().spawn("n1");
    let strange = ChildScope::new("ses_strange", "ses_0", "sa_strange", "strange");
    for scope in [&Scope::Root, child.scope(), &Scope::from(strange)] {
        let mut events: Vec<_> = stage.events();
        events.extend(scripts::one_of_each_kind(scope).into_iter().map(Into::into));
        for (mode, dialect, _) in MODES {
            read(dialect, &written(mode, &events));
        }
    }
}

/// What the log says that each child and the root said, by the ids that they are sent under.
fn said(events: &[std::sync::Arc<Event>]) -> BTreeMap<(String, String), String> {
    let mut said: BTreeMap<_, String> = BTreeMap::new();
    for event in events {
        if let EventKind::TextBlockDelta(delta) = &event.kind {
            let (owner, id) = match event.scope.child() {
                None => (String::new(), delta.block_id.to_string()),
                Some(child) => {
                    let owner = match child.run {
                        1 => child.child_session_id.to_string(),
                        run => format!("{}#{run}", child.child_session_id),
                    };
                    let id = format!("{owner}:{}", delta.block_id);
                    (owner, id)
                }
            };
            said.entry((owner, id)).or_default().push_str(&delta.delta);
        }
    }
    said
}

#[test]
fn each_child_says_at_the_client_what_it_said_in_the_log() {
    for name in [
        "two_children_in_parallel",
        "nested",
        "second_run",
        "same_name_token_by_token",
        "ends_mid_message",
        "unicode",
        "colliding_siblings",
        "background_beyond_the_turn",
        "questions_in_turn",
        "field_case_5",
    ] {
        let script = scripts::ALL.iter().find(|(known, _)| *known == name).unwrap().1;
        let events = played(script).events();
        let expected = said(&events);
        assert!(!expected.is_empty(), "{name}");
        for (mode, dialect, _) in MODES {
            let read = read(dialect, &written(mode, &events));
            let mut expected = expected.clone();
            if dialect == Dialect::Inline {
                expected = expected.into_iter().map(|((_, id), text)| ((String::new(), id), text)).collect();
            }
            assert_eq!(read.texts(), &expected, "{name}");
        }
    }
}

#[test]
fn a_child_that_is_met_in_its_midst_is_announced_by_its_scope() {
    let stage = Stage::new();
    let root = stage.root();
    let call = root.call("spawn_subagent", "{}");
    let child = root.spawning("n1").call(&call).now();
    let from = stage.events().len();
    let grandchild = child.spawn("reader");
    grandchild.say("Here.");
    grandchild.end(Outcome::Completed);
    child.end(Outcome::Completed);
    root.end(Outcome::Completed);
    let lines = written(Mode::Attributed, &stage.events()[from..]);
    let reader = read(Dialect::Attributed, &lines);
    let ends: Vec<_> = reader.ends().iter().map(|(id, end)| format!("{id} {end}")).collect();
    assert_eq!(ends, ["ses_1 success", "ses_2 success"]);
    let started: Vec<_> = lines.lines().filter(|line| line.contains("SUBAGENT_STARTED")).collect();
    assert!(started[0].contains(r#""name":"n1","description":"Run n1 task","parentToolCallId":"call_0""#));
    assert!(started[1].contains(r#""parentSubagentRunId":"ses_1""#));
}

#[test]
fn ends_are_told_apart() {
    let events =
        played(scripts::ALL.iter().find(|(name, _)| *name == "interrupted_and_timed_out").unwrap().1)
            .events();
    let reader = read(Dialect::Attributed, &written(Mode::Attributed, &events));
    let ends: Vec<_> = reader.ends().iter().map(|(id, end)| format!("{id} {end}")).collect();
    assert_eq!(ends, ["ses_1 cancelled", "ses_2 timeout", "ses_3 max_iters"]);
}

#[test]
fn ten_thousand_pieces_are_ten_thousand_frames_and_grow_as_they_are() {
    let length = |count: usize| {
        let stage = Stage::new();
        let child = stage.root().spawn("n1");
        let block = child.open_text();
        for _ in 0..count {
            child.delta(&block, "x");
        }
        child.close_text(&block);
        child.end(Outcome::Completed);
        stage.root().end(Outcome::Completed);
        let lines = written(Mode::Attributed, stage.events());
        let reader = read(Dialect::Attributed, &lines);
        assert_eq!(reader.texts().values().map(String::len).sum::<usize>(), count);
        assert_eq!(reader.frames(), count + 6);
        lines.len()
    };
    let (some, many) = (length(1_000), length(10_000));
    let per_piece = (many - some) / 9_000;
    assert_eq!(length(10_001) - many, per_piece, "each piece adds as much as the first");
}

#[test]
fn the_caller_names_the_next_run_and_time_begins_it() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let worker = root.spawning("worker").mechanism(anabranch_proto::SpawnMechanism::AsyncWorker).now();
    root.end(Outcome::Completed);
    let mut adapter = adapter(Mode::Attributed);
    let mut lines = String::new();
    let mut write = |frame: anabranch_adapters::ag_ui::Frame<'_>| {
        lines.push_str(&serde_json::to_string(&frame).unwrap());
        lines.push('\n');
    };
    for event in stage.events() {
        adapter.event(&event, &mut write);
    }
    let before = stage.events().len();
    worker.end(Outcome::Completed);
    for event in &stage.events()[before..] {
        adapter.event(event, &mut write);
    }
    adapter.tick(Timestamp::from_unix(7, 0), &mut write);
    adapter.next_run(RunIds::new("thread", "second"));
    adapter.tick(Timestamp::from_unix(8, 0), &mut write);
    adapter.tick(Timestamp::from_unix(9, 0), &mut write);
    let before = stage.events().len();
    root.begin("And?");
    root.end(Outcome::Completed);
    root.begin("And?");
    root.end(Outcome::Completed);
    for event in &stage.events()[before..] {
        adapter.event(event, &mut write);
    }
    adapter.finish(&mut write);
    read(Dialect::Attributed, &lines);
    let kinds: Vec<_> = lines
        .lines()
        .map(|line| {
            let frame: serde_json::Value = serde_json::from_str(line).unwrap();
            let run = frame["runId"].as_str().unwrap_or_default();
            format!("{} {run}", frame["type"].as_str().unwrap()).trim_end().to_owned()
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "RUN_STARTED run",
            "SUBAGENT_STARTED",
            "SUBAGENT_FINISHED",
            "RUN_FINISHED run",
            "RUN_STARTED second",
            "SUBAGENT_STARTED",
            "SUBAGENT_FINISHED",
            "RUN_FINISHED second",
            "RUN_STARTED second#2",
            "RUN_FINISHED second#2",
        ]
    );
}

#[test]
fn what_has_no_room_between_two_runs_is_counted_and_ends_are_kept() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let worker = root.spawning("worker").mechanism(anabranch_proto::SpawnMechanism::AsyncWorker).now();
    root.end(Outcome::Completed);
    for _ in 0..100 {
        worker.say("A word.");
    }
    worker.end(Outcome::Completed);
    root.begin("And?");
    root.end(Outcome::Completed);
    let adapter = adapter(Mode::Attributed).held_bytes(4096);
    let lines = transcript(JsonLines::new(adapter), stage.events());
    let reader = read(Dialect::Attributed, &lines);
    assert_eq!(reader.ends()["ses_1"], "success");
    assert!(reader.frames() < 50, "{lines}");
    let dropped = lines.lines().find(|line| line.contains("anabranch.events_dropped")).unwrap();
    let dropped: serde_json::Value = serde_json::from_str(dropped).unwrap();
    let kept = lines.lines().filter(|line| line.contains("TEXT_MESSAGE")).count() as u64;
    let dropped = dropped["value"]["count"].as_u64().unwrap();
    // Each word is three events; the end of the child's reply gives no frame.
    assert!((299..=302).contains(&(kept + dropped)), "{kept} + {dropped}");
}

/// What the examples in `docs/ag-ui.md` are of.
fn documented(stage: &Stage) {
    let root = stage.root();
    root.begin("Compare two cities");
    let (one, two) = (
        root.call("spawn_subagent", r#"{"task":"Seattle"}"#),
        root.call("spawn_subagent", r#"{"task":"New York"}"#),
    );
    let (a, b) = (root.spawning("city").call(&one).now(), root.spawning("city").call(&two).now());
    let (left, right) = (a.open_text(), b.open_text());
    a.delta(&left, "Seattle ");
    b.delta(&right, "New York ");
    a.delta(&left, "is");
    a.close_text(&left);
    a.end(Outcome::Interrupted);
    root.result(&one, "spawn_subagent", anabranch_proto::ToolResultState::Interrupted, "");
    b.delta(&right, "is warm.");
    b.close_text(&right);
    b.end_saying(Outcome::Completed, "New York is warm.");
    root.result(&two, "spawn_subagent", anabranch_proto::ToolResultState::Success, "New York is warm.");
    root.end(Outcome::Completed);
}

#[test]
fn the_examples_in_the_documentation_are_what_is_written() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ag-ui.md");
    let page = std::fs::read_to_string(path).unwrap();
    for (mode, dialect, name) in MODES {
        let lines = written(mode, played(documented).events());
        read(dialect, &lines);
        let lines = lines.replace(r#","timestamp":1767225600000"#, "");
        let example = format!("<!-- {name} -->\n```json\n{lines}```\n");
        assert!(page.contains(&example), "docs/ag-ui.md lacks:\n{example}");
    }
}

#[test]
fn an_interrupt_that_was_answered_is_not_told_again_by_the_next_question() {
    let events = played(|stage| {
        let root = stage.root();
        root.begin("Deploy");
        for tool in ["delete", "deploy"] {
            let call = root.call(tool, "{}");
            let block = ToolCallBlock::new(&call, tool, "{}");
            root.emit(RequireUserConfirm::new(root.reply(), vec![block]));
        }
    })
    .events();
    let second = events.iter().rposition(|event| matches!(event.kind, EventKind::RequireUserConfirm(_)));
    for is_answered in [false, true] {
        let mut adapter = adapter(Mode::Attributed);
        let mut interrupts = Vec::new();
        let mut take = |frame: Frame<'_>| {
            if let Body::RunFinished { outcome: RunOutcome::Interrupt { interrupts: told, .. }, .. } =
                frame.body
            {
                interrupts.push(told.iter().map(|interrupt| interrupt.id.clone()).collect::<Vec<_>>());
            }
        };
        for (at, event) in events.iter().enumerate() {
            if Some(at) == second && is_answered {
                let entry = r#"{"interruptId":"confirm:ses_0:call_0","status":"resolved"}"#;
                adapter.answered(&ag_ui::answer(serde_json::from_str(entry).unwrap()).unwrap());
            }
            if Some(at) == second {
                adapter.next_run(RunIds::new("thread", "next"));
            }
            adapter.event(event, &mut take);
        }
        let ids = ["confirm:ses_0:call_0", "confirm:ses_0:call_1"];
        let again = if is_answered { &ids[1..] } else { &ids[..] };
        assert_eq!(interrupts, [&ids[..1], again]);
    }
}
