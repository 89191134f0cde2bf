//! The rules of `docs/acp.md`, each by its name there. What holds for every message is in the reader.

use anabranch_adapters::{Adapter as _, acp::Acp, coalesce::Coalesce, encode::JsonLines};
use anabranch_proto::{
    ErrorType, Event, Metadata, Outcome, SpawnMechanism, Timestamp, ToolCallBlock, ToolResultState,
    event::{
        RequireUserConfirm, SpawnSessionStart, TextBlockDelta, TextBlockEnd, ThinkingBlockDelta,
        ToolResultEnd, ToolResultTextDelta,
    },
};
use anabranch_testkit::{Actor, Stage, transcript};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    MODES, encoder,
    reader::{self, Knows, Seen},
};
use crate::{played, scripts};

fn lines(stage: &Stage, knows: Knows) -> String {
    transcript(encoder(knows), stage.events())
}

fn seen(stage: &Stage, knows: Knows) -> Seen {
    reader::check(&lines(stage, knows), knows)
}

/// The updates in short: the session, and what it is about.
fn order(lines: &str) -> Vec<String> {
    let word = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let update = &line["params"]["update"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let about = text(&update["toolCallId"])
            .or_else(|| text(&update["sessionId"]))
            .or_else(|| text(&update["content"]["text"]))
            .unwrap_or_default();
        let state = text(&update["status"]).or_else(|| text(&update["state"]["state"])).unwrap_or_default();
        format!("{} {about} {state}", line["params"]["sessionId"].as_str().unwrap()).trim().to_owned()
    };
    lines.lines().map(word).collect()
}

/// So many milliseconds after 1970.
fn at(millis: i64) -> Timestamp {
    let nanoseconds = u32::try_from(millis % 1000).unwrap() * 1_000_000;
    Timestamp::from_unix(millis / 1000, nanoseconds)
}

fn grandchild(stage: &Stage) -> (Actor, Actor, Actor) {
    let root = stage.root();
    let child = root.spawn("n1");
    let grandchild = child.spawn("n2");
    (root, child, grandchild)
}

#[test]
fn a_child_is_announced_before_its_traffic_and_after_its_ancestors() {
    let stage = Stage::new();
    let (_, _, grandchild) = grandchild(&stage);
    grandchild.say("Hello.");
    let lines = lines(&stage, Knows::Sessions);
    assert_eq!(order(&lines)[..3], ["ses_0 ses_1 running", "ses_1 ses_2 running", "ses_2 Hello."]);
}

#[test]
fn a_child_of_an_unknown_parent_is_a_card_and_no_parent_is_guessed() {
    let stage = Stage::new();
    let (_, _, grandchild) = grandchild(&stage);
    grandchild.say("Hello.");
    grandchild.end(Outcome::Completed);
    // Nothing of its parent was seen.
    let lines = transcript(encoder(Knows::Sessions), &stage.events()[2..]);
    let seen = reader::check(&lines, Knows::Sessions);
    assert_eq!(seen.calls["spawn:ses_2"].text(), "Hello.");
    assert!(!lines.contains("subagent_update"), "{lines}");
}

#[test]
fn a_stream_that_begins_anywhere_opens_each_call_once() {
    for (_, script) in scripts::ALL {
        let events = played(*script).events();
        for (knows, _) in MODES {
            for from in 0..events.len() {
                reader::check(&transcript(encoder(knows), &events[from..]), knows);
            }
            let twice: Vec<_> = events.iter().flat_map(|event| [event, event]).collect();
            reader::check(&transcript(encoder(knows), twice), knows);
        }
    }
}

#[test]
fn a_spawn_that_comes_again_changes_nothing() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawn("n1");
    let again = |stage: &Stage| {
        let spawn = stage.events()[0].kind.clone();
        root.emit(spawn);
    };
    for (knows, _) in MODES {
        let before = transcript(encoder(knows), &stage.events()[..1]);
        again(&stage);
        assert_eq!(transcript(encoder(knows), stage.events()), before);
    }
    child.end(Outcome::Completed);
    again(&stage);
    assert_eq!(seen(&stage, Knows::Sessions).state("ses_1"), "idle");
}

#[test]
fn a_child_that_goes_on_is_running_again_in_the_session_that_it_has() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawn("n1");
    child.end(Outcome::Completed);
    let next = root.spawning("n1").again(&child).now();
    next.say("Again.");
    let sessions = lines(&stage, Knows::Sessions);
    assert_eq!(order(&sessions)[1..4], ["ses_0 ses_1 idle", "ses_0 ses_1 running", "ses_1 Again."]);
    next.end(Outcome::Failed);
    let cards = seen(&stage, Knows::Cards).calls;
    assert_eq!((&*cards["spawn:ses_1"].status, &*cards["spawn:ses_1#2"].status), ("completed", "failed"));
}

#[test]
fn a_child_that_nobody_announced_is_announced_once_and_named_later() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawning("agent").mechanism(SpawnMechanism::Manual).now();
    child.say("Before.");
    root.update(&child, |update| update.source_name(Some("analyst".into())));
    child.end(Outcome::Completed);
    // As the session's processor announces it, and where nobody did: then its first event says who it is.
    for events in [&stage.events()[..], &stage.events()[1..]] {
        let sessions = transcript(encoder(Knows::Sessions), events);
        let seen = reader::check(&sessions, Knows::Sessions);
        assert_eq!(sessions.matches(r#""title":"agent""#).count(), 1);
        assert_eq!(sessions.matches(r#""title":"analyst""#).count(), 1);
        assert_eq!(seen.state("ses_1"), "idle");
        let cards = transcript(encoder(Knows::Cards), events);
        assert_eq!(reader::check(&cards, Knows::Cards).calls["spawn:ses_1"].text(), "Before.");
        assert!(cards.contains(r#""title":"Spawned: analyst""#));
    }
}

#[test]
fn a_child_is_idle_before_its_call_ends() {
    let stage = Stage::new();
    let root = stage.root();
    let call = root.call("spawn_subagent", "");
    let child = root.spawning("n1").call(&call).now();
    child.say("Last words.");
    child.end(Outcome::Completed);
    root.result(&call, "spawn_subagent", ToolResultState::Success, "Done.");
    let sessions = order(&lines(&stage, Knows::Sessions));
    assert_eq!(sessions[4..], ["ses_1 Last words.", "ses_0 ses_1 idle", "ses_0 call_0 completed"]);
    let cards = order(&lines(&stage, Knows::Cards));
    assert_eq!(cards[3..], ["ses_0 spawn:ses_1 completed", "ses_0 call_0 completed"]);
}

#[test]
fn a_second_terminal_changes_nothing() {
    let stage = Stage::new();
    let child = stage.root().spawn("n1");
    let call = child.call("read", "");
    child.result(&call, "read", ToolResultState::Success, "a");
    child.end(Outcome::Completed);
    let before = MODES.map(|(knows, _)| lines(&stage, knows));
    child.result(&call, "read", ToolResultState::Error, "late");
    child.say("Late.");
    child.end_with_error(Outcome::Failed, ErrorType::INTERNAL, "late");
    assert_eq!(MODES.map(|(knows, _)| lines(&stage, knows)), before);
}

proptest! {
    #[test]
    fn a_stream_that_is_shuffled_lost_and_repeated_breaks_no_rule(
        script in proptest::sample::select(scripts::ALL),
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 0..80),
    ) {
        let events = played(script.1).events();
        let picked: Vec<_> = picks.iter().map(|pick| pick.get(&events)).collect();
        for (knows, _) in MODES {
            reader::check(&transcript(encoder(knows), picked.iter().copied()), knows);
        }
    }
}

#[test]
fn what_was_stopped_is_failed_and_says_so() {
    let stage = Stage::new();
    let child = stage.root().spawn("n1");
    let call = child.call("fetch", "{}");
    child.result(&call, "fetch", ToolResultState::Interrupted, "");
    child.end(Outcome::Interrupted);
    for (knows, _) in MODES {
        let lines = lines(&stage, knows);
        let seen = reader::check(&lines, knows);
        let call = &seen.calls["ses_1/call_0"];
        assert_eq!((&*call.status, &*call.marked("outcome")), ("failed", "cancelled"));
        assert!(!lines.contains(r#""status":"cancelled""#));
        assert!(lines.contains(r#""state":"interrupted""#));
    }
    let cards = seen(&stage, Knows::Cards).calls;
    assert_eq!(cards["spawn:ses_1"].marked("outcome"), "cancelled");
    assert!(lines(&stage, Knows::Sessions).contains(r#"{"state":"idle","stopReason":"cancelled"}"#));
}

#[test]
fn each_outcome_has_its_stop_reason() {
    for (outcome, reason) in [
        (Outcome::Completed, "end_turn"),
        (Outcome::Interrupted, "cancelled"),
        (Outcome::ExceedMaxIters, "max_turn_requests"),
        (Outcome::Failed, "error"),
        (Outcome::TimedOut, "error"),
    ] {
        let stage = Stage::new();
        stage.root().spawn("n1").end(outcome);
        let lines = lines(&stage, Knows::Sessions);
        assert!(lines.contains(&format!(r#""stopReason":"{reason}""#)), "{lines}");
        let complete = anabranch_proto::event::StreamComplete::new(outcome);
        match anabranch_adapters::acp::prompt_answer(&complete) {
            Ok(answer) => assert_eq!(serde_json::to_value(answer).unwrap(), reason),
            Err(error) => assert_eq!((reason, i32::from(error.code)), ("error", -32603)),
        }
    }
}

#[test]
fn nothing_of_the_turn_is_open_behind_it() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    // As no processor would leave it: neither the call nor the child has ended.
    root.call("read", "{}");
    let child = root.spawn("n1");
    child.say("Still at it.");
    child.call("read", "{}");
    root.end(Outcome::Completed);
    let mut acp = Acp::cards("ses_0");
    let mut out = Vec::new();
    for event in stage.events() {
        acp.event(&event, &mut |message| out.push(serde_json::to_string(&message).unwrap()));
    }
    let before = reader::check(&out.join("\n"), Knows::Cards);
    assert_eq!(
        (&*before.calls["call_0"].status, &*before.calls["spawn:ses_1"].status),
        ("failed", "completed")
    );
    child.end_saying(Outcome::Completed, "Still at it.");
    assert_eq!(seen(&stage, Knows::Cards).calls["spawn:ses_1/result"].text(), "Still at it.");
}

#[test]
fn nothing_of_the_turn_is_held_back_behind_it() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawn("n1");
    let (theirs, ours) = (child.open_text(), root.open_text());
    child.delta(&theirs, "Not ");
    child.delta(&theirs, "ended.");
    root.delta(&ours, "No");
    root.delta(&ours, "r mine.");
    root.end(Outcome::Completed);
    for acp in [Acp::cards("ses_0"), Acp::sessions("ses_0")] {
        let (mut merged, mut said) = (Coalesce::new(acp), String::new());
        for event in stage.events() {
            merged.event(&event, &mut |message| said += &serde_json::to_string(&message).unwrap());
        }
        // A card is of the turn; what it says from then on is shown with its result.
        let is_card = said.contains("spawn:ses_1");
        assert!(said.contains("Nor mine.") && (is_card || said.contains("Not ended.")), "{said}");
    }
}

#[test]
fn a_thought_and_a_text_of_one_id_are_two_messages_and_nobodys_id_can_be_made_of_others() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawn("n1");
    for speaker in [&root, &child] {
        speaker.emit(ThinkingBlockDelta::new("r", "b", "Hm."));
        speaker.emit(TextBlockDelta::new("r", "b", "Yes."));
        speaker.emit(TextBlockEnd::new("r", "b").text(Some("Yes.".to_owned())));
    }
    root.emit(TextBlockDelta::new("ses_1/r", "b", "Forged."));
    root.emit(TextBlockDelta::new("ses_1", "r/b", "Forged."));
    root.emit(TextBlockDelta::new("thought:r", "b", "Forged."));
    let seen = seen(&stage, Knows::Sessions);
    let texts: Vec<_> = seen.messages.values().map(|(_, _, text)| text.as_str()).collect();
    assert_eq!(texts.iter().filter(|text| **text == "Forged.").count(), 3, "{texts:?}");
    assert_eq!(texts.len(), 7, "{texts:?}");
}

#[test]
fn a_background_child_closes_its_card_at_once_and_shows_its_result_when_it_ends() {
    let stage = played(|stage| {
        let root = stage.root();
        let child = root.spawning("w").mechanism(SpawnMechanism::AsyncWorker).with("task_id", "t7").now();
        root.end(Outcome::Completed);
        child.say("Half.");
        child.end_saying(Outcome::Completed, "Half.");
    });
    let cards = lines(&stage, Knows::Cards);
    assert_eq!(
        order(&cards),
        [
            "ses_0 spawn:ses_1 in_progress",
            "ses_0 spawn:ses_1 completed",
            "ses_0 spawn:ses_1/result completed"
        ]
    );
    let calls = reader::check(&cards, Knows::Cards).calls;
    assert_eq!(calls["spawn:ses_1"].marked("outcome"), "Started in the background, task t7.");
    assert_eq!(calls["spawn:ses_1/result"].text(), "Half.");
    assert_eq!(calls["spawn:ses_1/result"].within.as_deref(), Some("spawn:ses_1"));
    let sessions = order(&lines(&stage, Knows::Sessions));
    assert_eq!(sessions, ["ses_0 ses_1 running", "ses_1 Half.", "ses_0 ses_1 idle"]);
}

#[test]
fn a_background_child_that_asks_shows_its_call_first() {
    let stage = Stage::new();
    let child = stage.root().spawning("w").mechanism(SpawnMechanism::AsyncWorker).now();
    let call = child.call("delete", "{}");
    let block = ToolCallBlock::new(&call, "delete", "{}");
    child.emit(RequireUserConfirm::new(child.reply(), vec![block]));
    child.result(&call, "delete", ToolResultState::Success, "gone");
    let seen = seen(&stage, Knows::Cards);
    assert_eq!(seen.questions, [("ses_0".to_owned(), "ses_1/call_0".to_owned())]);
    assert_eq!(seen.calls["ses_1/call_0"].text(), "gone");
}

#[test]
fn siblings_and_runs_with_the_same_ids_are_told_apart() {
    let stage = played(scripts::named("colliding_ids"));
    for (knows, _) in MODES {
        let seen = seen(&stage, knows);
        for call in ["ses_1/c", "ses_2#2/c"] {
            assert_eq!(seen.calls[call].status, "completed");
        }
    }
    let said = seen(&stage, Knows::Sessions).messages;
    assert_eq!((&*said["ses_1/r/b"].2, &*said["ses_2#2/r/b"].2), ("One.", "Two."));
}

#[test]
fn a_call_keeps_its_session_for_life() {
    let stage = Stage::new();
    let (_, child, grandchild) = grandchild(&stage);
    for speaker in [&child, &grandchild] {
        speaker.use_tool("read", "{}", "a");
    }
    let sessions = seen(&stage, Knows::Sessions).calls;
    assert_eq!((&*sessions["ses_1/call_0"].session, &*sessions["ses_2/call_0"].session), ("ses_1", "ses_2"));
    let cards = seen(&stage, Knows::Cards).calls;
    for (call, card) in [("ses_1/call_0", "spawn:ses_1"), ("ses_2/call_0", "spawn:ses_2")] {
        assert_eq!((&*cards[call].session, cards[call].within.as_deref()), ("ses_0", Some(card)));
    }
}

#[test]
fn tokens_of_two_children_never_mix() {
    let stage = played(scripts::named("same_name_token_by_token"));
    let cards = seen(&stage, Knows::Cards);
    assert_eq!(cards.calls["spawn:ses_1"].text(), "The sky is\nblue.");
    assert_eq!(cards.calls["spawn:ses_2"].text(), "Grass is green.\n");
    // The root alone speaks in its session, in one message, however the tokens came.
    let root: Vec<_> = cards.messages.values().collect();
    assert_eq!(root.len(), 1);
    assert_eq!(root[0].2, "(waiting) ".repeat(4));
    let sessions = seen(&stage, Knows::Sessions).messages;
    let texts: Vec<_> = sessions.values().map(|(session, _, text)| (&**session, &**text)).collect();
    assert!(
        texts.contains(&("ses_1", "The sky is\nblue.")) && texts.contains(&("ses_2", "Grass is green.\n"))
    );
}

/// A child that says a thousand words in ten thousand pieces, one each millisecond.
fn talkative(stage: &Stage) -> String {
    let child = stage.root().spawn("n1");
    let block = child.open_text();
    let mut text = String::new();
    for count in 0..10_000 {
        let piece = format!("größer {count} ");
        child.delta(&block, &piece);
        text.push_str(&piece);
    }
    child.close_text(&block);
    child.end(Outcome::Completed);
    text
}

#[test]
fn ten_thousand_pieces_are_a_bounded_number_of_bounded_updates_and_nothing_is_lost() {
    let stage = Stage::new();
    let text = talkative(&stage);
    let mut acp = Acp::cards("ses_0");
    let mut messages = Vec::new();
    for (count, event) in (0..).zip(stage.events()) {
        let mut out = |message| messages.push(serde_json::to_string(&message).unwrap());
        acp.event(&event, &mut out);
        acp.tick(at(1_000_000_000_000 + count), &mut out);
    }
    let seen = reader::check(&messages.join("\n"), Knows::Cards);
    assert_eq!(seen.calls["spawn:ses_1"].text(), text);
    // Ten seconds, four a second.
    assert!((35..=41).contains(&seen.progress), "{}", seen.progress);
    let (end, progress) = messages.split_last().unwrap();
    assert!(progress.iter().all(|message| message.len() < 10_000));
    assert!(end.len() > text.len());
    assert!(progress.last().unwrap().contains(r#""text":"…"#));
    // In its own session each piece goes at once, and none is repeated.
    let sessions = lines(&stage, Knows::Sessions);
    assert_eq!(reader::kinds(&sessions)["agent_message_chunk"], 10_000);
    assert!(sessions.len() < 10_000 * 250);
}

#[test]
fn without_ticks_the_events_say_what_time_it_is() {
    let stage = Stage::new();
    let child = stage.root().spawn("n1");
    child.say("One.");
    child.say("Two.");
    let made = |event: &Event, millis: i64| {
        let mut event = event.clone();
        event.created_at = at(millis);
        event
    };
    let written = |pause: i64| {
        let events: Vec<_> =
            (0..).zip(stage.events()).map(|(count, event)| made(&event, 1_000 + count * pause)).collect();
        reader::check(&transcript(encoder(Knows::Cards), &events), Knows::Cards).progress
    };
    assert_eq!((written(0), written(100), written(300)), (0, 2, 2));
}

#[test]
fn what_a_tool_says_is_shown_while_it_runs() {
    let stage = Stage::new();
    let root = stage.root();
    let call = root.call("build", "{}");
    root.emit(ToolResultTextDelta::new(root.reply(), &call, "half"));
    let mut acp = Acp::cards("ses_0");
    let mut messages = Vec::new();
    for event in stage.events() {
        acp.event(&event, &mut |message| messages.push(serde_json::to_value(&message).unwrap()));
    }
    acp.tick(Timestamp::from_unix(2_000_000_000, 0), &mut |message| {
        messages.push(serde_json::to_value(&message).unwrap());
    });
    let last = &messages.last().unwrap()["params"]["update"];
    assert_eq!(last["content"][0]["content"]["text"], "half");
    assert!(last.get("status").is_none());
}

#[test]
fn merged_pieces_say_the_same() {
    for (name, script) in scripts::ALL {
        for (knows, _) in MODES {
            let acp = match knows {
                Knows::Cards => Acp::cards("ses_0").permissions(true),
                Knows::Sessions => Acp::sessions("ses_0").permissions(true),
            };
            let stage = played(*script);
            let merged = transcript(JsonLines::new(Coalesce::new(acp)), stage.events());
            let (merged, whole) = (reader::check(&merged, knows), seen(&stage, knows));
            assert_eq!(merged.messages, whole.messages, "{name}");
            let texts = |seen: &Seen| seen.calls.values().map(reader::Call::text).collect::<Vec<_>>();
            assert_eq!(texts(&merged), texts(&whole), "{name}");
        }
    }
}

#[test]
fn what_a_tool_wrote_is_linked() {
    let stage = Stage::new();
    let root = stage.root();
    let call = root.call("write", "");
    let files = json!([{ "name": "a.csv", "path": "/data/a.csv", "mime_type": "text/csv" }]);
    let response = Metadata::default().with("files", files);
    root.emit(ToolResultEnd::new(root.reply(), &call, ToolResultState::Success).response(response));
    let link = &seen(&stage, Knows::Cards).calls["call_0"].content[0]["content"];
    let expected = json!({ "type": "resource_link", "mimeType": "text/csv", "name": "a.csv", "uri": "file:///data/a.csv" });
    assert_eq!(*link, expected);
}

#[test]
fn nothing_is_kept_for_a_child_that_nobody_announced() {
    let stage = Stage::new();
    let text = talkative(&stage);
    // What comes first announces it, so nothing of it has to wait.
    let sessions = transcript(encoder(Knows::Sessions), &stage.events()[1..]);
    reader::check(&sessions, Knows::Sessions);
    assert_eq!(order(&sessions)[..2], ["ses_0 ses_1 running", "ses_1 größer 0"]);
    let cards = transcript(encoder(Knows::Cards), &stage.events()[1..]);
    assert_eq!(reader::check(&cards, Knows::Cards).calls["spawn:ses_1"].text(), text);
    // Of one that says nothing but its end there is nothing to say.
    let events = stage.events();
    for (knows, _) in MODES {
        assert_eq!(transcript(encoder(knows), &events[events.len() - 1..]), "");
    }
}

#[test]
fn metadata_is_under_one_key_and_a_trace_where_the_protocol_has_it() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawning("n1").with("tenant_id", "t").with("traceparent", parent).now();
    child.end(Outcome::Completed);
    for (knows, _) in MODES {
        let lines = lines(&stage, knows);
        reader::check(&lines, knows);
        let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        let meta = &first["params"]["update"]["_meta"];
        assert_eq!(meta["traceparent"], parent);
        assert_eq!(meta["anabranch/event"]["metadata"]["tenant_id"], "t");
        assert_eq!(meta["anabranch/event"]["child_session_id"], "ses_1");
    }
}

#[test]
fn no_prompt_is_in_meta() {
    let stage = Stage::new();
    stage.root().spawning("n1").with("prompt", "Do not tell").now().end(Outcome::Completed);
    // The reader looks into each `_meta`.
    let cards = lines(&stage, Knows::Cards);
    reader::check(&cards, Knows::Cards);
    let first: Value = serde_json::from_str(cards.lines().next().unwrap()).unwrap();
    let task = json!({ "description": "Run n1 task", "prompt": "Do not tell" });
    assert_eq!(first["params"]["update"]["rawInput"], task);
    assert!(!lines(&stage, Knows::Sessions).contains("Do not tell"));
}

#[test]
fn a_client_that_knows_one_session_gets_no_other() {
    for (name, script) in scripts::ALL {
        let cards = lines(&played(*script), Knows::Cards);
        for word in ["subagent_update", "session_message", r#""type":"session""#] {
            assert!(!cards.contains(word), "{name}: {word}");
        }
    }
}

#[test]
fn a_child_is_granted_a_cancel_once_and_nothing_else() {
    let stage = played(scripts::named("second_run"));
    let sessions = lines(&stage, Knows::Sessions);
    reader::check(&sessions, Knows::Sessions);
    assert_eq!(sessions.matches("capabilities").count(), 1);
    assert_eq!(sessions.matches(r#""capabilities":{"cancel":{}}"#).count(), 1);
}

#[test]
fn a_grandchilds_question_goes_to_its_session_or_to_the_root() {
    let stage = Stage::new();
    let (_, _, grandchild) = grandchild(&stage);
    let call = grandchild.call("delete", r#"{"path":"a"}"#);
    let block = ToolCallBlock::new(&call, "delete", r#"{"path":"a"}"#);
    grandchild.emit(RequireUserConfirm::new(grandchild.reply(), vec![block]));
    let asked = |session: &str| [(session.to_owned(), "ses_2/call_0".to_owned())];
    assert_eq!(seen(&stage, Knows::Cards).questions, asked("ses_0"));
    assert_eq!(seen(&stage, Knows::Sessions).questions, asked("ses_2"));
    // Whoever does not read requests gets none, and the state all the same.
    let lines = transcript(JsonLines::new(Acp::sessions("ses_0")), stage.events());
    assert!(!lines.contains("request_permission") && lines.contains("requires_action"));
}

#[test]
fn two_questions_are_both_asked_once_and_stay_until_they_are_answered() {
    let stage = played(scripts::named("two_questions"));
    for (knows, _) in MODES {
        let seen = seen(&stage, knows);
        assert_eq!(seen.questions.len(), 2);
        assert_eq!(seen.calls["ses_1/call_0"].status, "failed");
        assert_eq!(seen.calls["ses_2/call_0"].text(), "nobody answered");
    }
    let states = order(&lines(&stage, Knows::Sessions));
    let of = |child: &str| {
        let of_child = |line: &&String| line.starts_with(&format!("ses_0 {child}"));
        states.iter().filter(of_child).filter_map(|line| line.split(' ').nth(2)).collect::<Vec<_>>()
    };
    for child in ["ses_1", "ses_2"] {
        assert_eq!(of(child), ["running", "requires_action", "running", "idle"]);
    }
}

#[test]
fn a_session_asks_as_long_as_any_of_its_runs_does() {
    let stage = Stage::new();
    let root = stage.root();
    let first = root.spawn("n1");
    let ask = |run: &Actor| {
        let call = run.call("delete", "{}");
        let block = ToolCallBlock::new(&call, "delete", "{}");
        run.emit(RequireUserConfirm::new(run.reply(), vec![block]));
        call
    };
    let one = ask(&first);
    // As no processor would have it: the next run begins before this one has ended.
    let second = root.spawning("n1").again(&first).now();
    let other = ask(&second);
    first.result(&one, "delete", ToolResultState::Denied, "");
    first.end(Outcome::Completed);
    second.result(&other, "delete", ToolResultState::Denied, "");
    ask(&second);
    second.end(Outcome::Completed);
    let states = order(&lines(&stage, Knows::Sessions));
    let states: Vec<_> = states.iter().filter_map(|line| line.strip_prefix("ses_0 ses_1 ")).collect();
    let (running, asks) = ("running", "requires_action");
    assert_eq!(states, [running, asks, asks, running, asks, "idle"]);
}

#[test]
fn a_run_that_is_not_counted_is_told_from_a_late_duplicate_by_its_call() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawning("n1").call(&"k1".into()).now();
    child.end(Outcome::Completed);
    for call in ["k1", "k2"] {
        let mut spawn = SpawnSessionStart::new(child.scope().child().unwrap(), SpawnMechanism::Sync, "again");
        spawn.run = None;
        spawn.tool_call_id = Some(call.into());
        root.emit(spawn);
    }
    let states = order(&lines(&stage, Knows::Sessions));
    assert_eq!(states[..3], ["ses_0 ses_1 running", "ses_0 ses_1 idle", "ses_0 ses_1 running"]);
    assert_eq!(states.len(), 4, "and what is lost at the end: {states:?}");
}

#[test]
fn a_call_that_spawns_many_links_to_all_of_them_and_is_not_written_with_each() {
    let stage = Stage::new();
    let root = stage.root();
    let call = root.call("map", "{}");
    let children: Vec<_> = (0..500).map(|_| root.spawning("n").call(&call).now()).collect();
    for child in &children {
        child.end(Outcome::Completed);
    }
    root.result(&call, "map", ToolResultState::Success, "");
    let lines = lines(&stage, Knows::Sessions);
    let seen = reader::check(&lines, Knows::Sessions);
    assert!(seen.progress < 20, "{}", seen.progress);
    assert_eq!(seen.calls["call_0"].content.len(), children.len());
    assert_eq!(seen.calls["call_0"].content[499]["sessionId"], "ses_500");
}

#[test]
fn the_table_of_rules_names_tests_that_there_are() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/acp.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let (_, rules) = docs.split_once("\n## Rules\n").unwrap();
    let rows: Vec<_> =
        rules.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |")).collect();
    let numbers: Vec<_> = rows.iter().filter_map(|row| row.split('|').nth(1)).map(str::trim).collect();
    assert_eq!(numbers, (1..=19).map(|number| number.to_string()).collect::<Vec<_>>());
    for row in rows {
        let tests: Vec<_> = row.rsplit('|').nth(1).unwrap().split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "{row}");
        for test in tests {
            let function = format!("\nfn {test}() {{");
            let property = format!("    fn {test}(\n");
            let source = include_str!("rules.rs");
            assert!(source.contains(&function) || source.contains(&property), "there is no test `{test}`");
        }
    }
}
