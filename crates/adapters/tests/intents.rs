//! The rules of cards, as events break them.

use anabranch_adapters::intent::{Intent, Intents};
use anabranch_proto::{
    Event, EventKind, Outcome, SpawnMechanism, ToolCallBlock, ToolResultState,
    event::{RequireUserConfirm, SpawnSessionStart, ToolCallStart},
};
use anabranch_testkit::{Actor, Stage};

/// What happens to cards, in a word each.
fn cards(stage: &Stage) -> Vec<String> {
    let (mut intents, mut out) = (Intents::default(), Vec::new());
    for event in stage.events() {
        intents.event(&event, &mut |intent| out.extend(word(intent)));
    }
    out
}

fn word(intent: Intent<'_>) -> Option<String> {
    match intent {
        Intent::OpenChild(child) => Some(format!("+{}", child.card)),
        Intent::UpdateChild(update) => Some(format!("~{}", update.child.card)),
        Intent::CloseChild(close) => Some(format!("-{}", close.child.card)),
        Intent::OpenCall(call) => Some(format!("+{}", call.id)),
        Intent::CloseCall(close) => Some(format!("-{}", close.call.id)),
        Intent::Ask(ask) => Some(format!("?{}", ask.call.id)),
        Intent::Text(piece) => Some(format!("{}:{}", piece.speaker.card(), piece.text)),
        // No cards of their own.
        Intent::CloseRoot(_)
        | Intent::Thought(_)
        | Intent::EndBlock(_)
        | Intent::Data(_)
        | Intent::Hint(_)
        | Intent::Prompt(_)
        | Intent::CallArguments(_)
        | Intent::CallReady(_)
        | Intent::AppendCall(_)
        | Intent::Answer(_)
        | Intent::Custom(_)
        | _ => None,
    }
}

/// Announces a child again as a producer does that does not count runs (RFC-0014).
fn announce_uncounted(parent: &Actor, child: &Actor, tool_call_id: Option<&str>) {
    let scope = child.scope().child().unwrap();
    let mut spawn = SpawnSessionStart::new(scope, SpawnMechanism::Sync, "again");
    spawn.run = None;
    spawn.tool_call_id = tool_call_id.map(Into::into);
    parent.emit(spawn);
}

#[test]
fn a_child_that_nobody_announced_is_opened_by_its_first_event_and_named_by_a_late_spawn() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawn("n1");
    child.say("Before.");
    announce_uncounted(&root, &child, None);
    child.say("After.");
    child.end(Outcome::Completed);
    announce_uncounted(&root, &child, Some("k"));
    let events = stage.events();
    let seen = |events: &[std::sync::Arc<Event>]| {
        let (mut intents, mut seen) = (Intents::default(), Vec::new());
        for event in events {
            intents.event(event, &mut |intent| seen.extend(word(intent)));
        }
        seen
    };
    // Its spawn is missing, and comes behind its first words.
    let expected = [
        "+spawn:ses_1",
        "spawn:ses_1:Before.",
        "~spawn:ses_1",
        "spawn:ses_1:After.",
        "-spawn:ses_1",
        "+spawn:ses_1#2",
    ];
    assert_eq!(seen(&events[1..]), expected);
    // Of one that says nothing but its end there is nothing to show.
    let end = events.len() - 2;
    assert!(seen(&events[end..=end]).is_empty());
}

#[test]
fn a_run_that_is_announced_again_opens_nothing() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawn("n1");
    stage.repeat_last();
    announce_uncounted(&root, &child, None);
    child.end(Outcome::Completed);
    stage.repeat_last();
    assert_eq!(cards(&stage), ["+spawn:ses_1", "-spawn:ses_1"]);
}

#[test]
fn a_spawn_that_counts_no_runs_is_the_next_run_unless_its_call_is_the_same() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawning("n1").call(&"call_1".into()).now();
    child.end(Outcome::Completed);
    announce_uncounted(&root, &child, Some("call_1"));
    announce_uncounted(&root, &child, Some("call_2"));
    assert_eq!(cards(&stage), ["+spawn:ses_1", "-spawn:ses_1", "+spawn:ses_1#2"]);
}

#[test]
fn events_go_to_the_run_that_their_scope_names() {
    let stage = Stage::new();
    let root = stage.root();
    let first = root.spawn("n1");
    let second = root.spawning("n1").again(&first).now();
    first.say("one");
    second.say("two");
    first.end(Outcome::Interrupted);
    first.say("late");
    second.end(Outcome::Completed);
    assert_eq!(
        cards(&stage),
        [
            "+spawn:ses_1",
            "+spawn:ses_1#2",
            "spawn:ses_1:one",
            "spawn:ses_1#2:two",
            "-spawn:ses_1",
            "-spawn:ses_1#2"
        ]
    );
}

#[test]
fn calls_of_the_same_id_in_different_sessions_are_different_cards() {
    let stage = Stage::new();
    let root = stage.root();
    let (one, two) = (root.spawn("n1"), root.spawn("n2"));
    for speaker in [&root, &one, &two] {
        speaker.use_tool("read", "{}", "ok");
        // Again, after its end.
        speaker.emit(ToolCallStart::new(speaker.reply(), "call_0", "read"));
    }
    assert_eq!(
        cards(&stage)[2..],
        ["+call_0", "-call_0", "+ses_1/call_0", "-ses_1/call_0", "+ses_2/call_0", "-ses_2/call_0"]
    );
}

#[test]
fn a_question_about_a_call_that_was_not_seen_opens_it() {
    let stage = Stage::new();
    let root = stage.root();
    let block = ToolCallBlock::new("call_7", "deploy", "{}");
    root.emit(RequireUserConfirm::new(root.reply(), vec![block]));
    root.result(&"call_7".into(), "deploy", ToolResultState::Denied, "no");
    assert_eq!(cards(&stage), ["+call_7", "?call_7", "-call_7"]);
}

#[test]
fn a_result_for_a_call_that_was_not_seen_is_nothing() {
    let stage = Stage::new();
    let root = stage.root();
    root.result(&"call_7".into(), "deploy", ToolResultState::Success, "done");
    assert!(cards(&stage).is_empty());
}

#[test]
fn a_child_that_is_spawned_by_one_that_ended_is_shown() {
    let stage = Stage::new();
    let root = stage.root();
    let parent = root.spawn("n1");
    parent.end(Outcome::Completed);
    parent.spawn("sub").say("still here");
    assert_eq!(cards(&stage)[2..], ["+spawn:ses_2", "spawn:ses_2:still here"]);
}

#[test]
fn what_is_learnt_of_a_child_is_known_from_then_on() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawn("n1");
    root.update(&child, |update| {
        update.source_name(Some("n2".into())).spawn_mechanism(Some(SpawnMechanism::AsyncWorker))
    });
    child.end(Outcome::Completed);
    let (mut intents, mut known) = (Intents::default(), None);
    let is_terminal = |event: &Event| matches!(event.kind, EventKind::StreamComplete(_));
    for event in stage.events() {
        intents.event(&event, &mut |intent| {
            if let (true, Intent::CloseChild(close)) = (is_terminal(&event), intent) {
                known = Some(close.child.clone());
            }
        });
    }
    let known = known.unwrap();
    assert_eq!((&*known.name, known.mechanism), ("n2", SpawnMechanism::AsyncWorker));
    assert_eq!(&*known.description, "Run n1 task");
}
