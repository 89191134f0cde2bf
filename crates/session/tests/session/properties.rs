//! What holds whatever comes.

use std::collections::{HashMap, HashSet};

use anabranch_proto::{
    Admitted, ErrorInfo, ErrorType, EventKind, Message, Scope, SpawnMechanism,
    event::{MessageOrigin, ToolCallEnd},
};
use anabranch_session::{EventProcessor, Limits, MessageAccumulator};
use proptest::{prelude::*, sample::select};

use crate::support::{CountingStamp, Session, render, render_scope};

/// Any line, sensible or not.
fn line() -> impl Strategy<Value = String> {
    let path = select(vec!["root", "root", "a", "b", "a/c", "a/c/d", "x/e", "a#2", "a/c#2", "b#3", "a#0"]);
    let verb = select(vec![
        "prompt {p} go",
        "prompt {p} origin=steering on",
        "start {p} reply={r}",
        "reply_end {p} reply={r}",
        "reply_end {p} interrupted reply={r}",
        "model {p} reply={r}",
        "model_end {p} reply={r}",
        "text {p} t{i} reply={r}",
        "delta {p} t{i} x reply={r}",
        "text_end {p} t{i} reply={r}",
        "thinking {p} t{i} reply={r}",
        "data {p} d{i} reply={r}",
        "hint {p} h{i} psst reply={r}",
        "call {p} k{i} reply={r}",
        "arguments {p} k{i} x reply={r}",
        "call_end {p} k{i} reply={r}",
        "result {p} k{i} reply={r}",
        "output {p} k{i} x reply={r}",
        "output_data {p} k{i} b data=aA== reply={r}",
        "result_end {p} k{i} reply={r}",
        "result_end {p} k{i} error reply={r}",
        "confirm {p} k{i} reply={r}",
        "say {p} x @node=n",
        "end {p}",
        "end {p} failed error=boom",
        "end {p} interrupted",
        "spawn {q} call=k{i} @node=n",
        "spawn {q} call=k{i} run=none",
        "spawn {q} async",
        "spawn {q} manual",
        "update {q} task=new",
        "close_reply interrupted",
        "close_session {p} timed_out",
    ]);
    (verb, path, 0..3_u8, select(vec!["r1", "r2"])).prop_map(|(verb, path, number, reply)| {
        let child = if path == "root" { "b" } else { path };
        verb.replace("{p}", path)
            .replace("{q}", child)
            .replace("{i}", &number.to_string())
            .replace("{r}", reply)
    })
}

fn script() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(line(), 0..60)
}

/// A run, by how its scope is written.
type Name = String;

/// What a run has open.
#[derive(Default)]
struct Open {
    things: HashSet<String>,
    /// Calls without a result.
    calls: HashSet<String>,
}

/// Checks what the processor promises of any stream that was closed.
#[expect(clippy::too_many_lines, reason = "one arm for each rule")]
fn verify(admitted: &[Admitted]) -> Result<(), TestCaseError> {
    let mut open: HashMap<Name, Open> = HashMap::new();
    let mut ended: HashSet<Name> = HashSet::new();
    let mut announced: HashSet<(String, u32)> = HashSet::new();
    // Open children by (child): parent's scope, mechanism, call.
    let mut children: HashMap<String, (Name, SpawnMechanism, Option<String>)> = HashMap::new();
    // Those that began while the root had no run.
    let mut between: HashSet<String> = HashSet::new();
    for (index, admitted) in admitted.iter().enumerate() {
        prop_assert_eq!(admitted.seq, index as u64 + 1);
        let event = &admitted.event;
        let name = render_scope(&event.scope);
        match &event.kind {
            EventKind::SpawnSessionStart(spawn) => {
                let run = spawn.run.expect("a run");
                prop_assert!(announced.insert((spawn.child_session_id.to_string(), run)), "announced twice");
                prop_assert_eq!(spawn.depth, event.scope.depth() + 1);
                prop_assert!(
                    matches!(event.scope, Scope::Root) || open.contains_key(&name),
                    "{} is not open",
                    name
                );
                let call = spawn.tool_call_id.as_ref().map(ToString::to_string);
                if name == "root" && !open.contains_key("root") {
                    between.insert(spawn.child_session_id.to_string());
                } else {
                    between.remove(spawn.child_session_id.as_str());
                }
                children.insert(spawn.child_session_id.to_string(), (name, spawn.spawn_mechanism, call));
                continue;
            }
            EventKind::SessionUpdated(update) => {
                prop_assert!(
                    matches!(event.scope, Scope::Root) || open.contains_key(&name),
                    "{} is not open",
                    name
                );
                if let Some(child) = children.get_mut(update.child_session_id.as_str()) {
                    child.1 = update.spawn_mechanism.unwrap_or(child.1);
                    child.2 = update.tool_call_id.as_ref().map(ToString::to_string).or(child.2.take());
                }
                continue;
            }
            _ => {}
        }
        if let Scope::Child(scope) = &event.scope {
            let run = (scope.child_session_id.to_string(), scope.run);
            prop_assert!(announced.contains(&run), "{} was not announced", name);
            prop_assert!(!ended.contains(&name), "{} had ended", name);
        }
        if !open.contains_key(&name) {
            prop_assert!(matches!(event.kind, EventKind::UserMessage(_)), "{} begins without a prompt", name);
            open.insert(name.clone(), Open::default());
        }
        let run = open.get_mut(&name).unwrap();
        match &event.kind {
            EventKind::ReplyStart(start) => {
                run.things.insert(format!("reply {}", start.reply_id));
            }
            EventKind::ReplyEnd(end) => {
                run.things.remove(&format!("reply {}", end.reply_id));
                let left = run.things.iter().find(|thing| thing.ends_with(&format!("in {}", end.reply_id)));
                prop_assert_eq!(left, None, "open in the reply");
                let other_reply = run.things.iter().any(|thing| thing.starts_with("reply "));
                let left = children.values().find(|(parent, mechanism, call)| {
                    *parent == name
                        && *mechanism == SpawnMechanism::Sync
                        && call.as_ref().is_none_or(|call| !run.calls.contains(call))
                });
                prop_assert!(other_reply || left.is_none(), "{:?} outlived its parent's reply", left);
            }
            EventKind::TextBlockStart(start) => {
                run.things.retain(|thing| !thing.starts_with(&format!("block {} ", start.block_id)));
                run.things.insert(format!("block {} in {}", start.block_id, start.reply_id));
            }
            EventKind::ThinkingBlockStart(start) => {
                run.things.retain(|thing| !thing.starts_with(&format!("block {} ", start.block_id)));
                run.things.insert(format!("block {} in {}", start.block_id, start.reply_id));
            }
            EventKind::TextBlockEnd(end) => {
                run.things.retain(|thing| !thing.starts_with(&format!("block {} ", end.block_id)));
            }
            EventKind::ThinkingBlockEnd(end) => {
                run.things.retain(|thing| !thing.starts_with(&format!("block {} ", end.block_id)));
            }
            EventKind::ModelCallStart(start) => {
                run.things.insert(format!("model in {}", start.reply_id));
            }
            EventKind::ModelCallEnd(end) => {
                run.things.remove(&format!("model in {}", end.reply_id));
            }
            EventKind::ToolCallStart(start) => {
                run.things.insert(format!("call {}", start.tool_call_id));
                run.calls.insert(start.tool_call_id.to_string());
            }
            EventKind::ToolCallEnd(ToolCallEnd { tool_call_id, .. }) => {
                run.things.remove(&format!("call {tool_call_id}"));
            }
            EventKind::ToolResultStart(start) => {
                run.calls.insert(start.tool_call_id.to_string());
            }
            EventKind::ToolResultEnd(end) => {
                run.calls.remove(end.tool_call_id.as_str());
                let waits = children.values().find(|(parent, mechanism, call)| {
                    *parent == name
                        && *mechanism == SpawnMechanism::Sync
                        && call.as_deref() == Some(end.tool_call_id.as_str())
                });
                prop_assert_eq!(waits, None, "a child outlived its call");
            }
            EventKind::StreamComplete(_) => {
                prop_assert!(run.things.is_empty(), "{} left open {:?}", name, run.things);
                prop_assert!(run.calls.is_empty(), "{} left without a result {:?}", name, run.calls);
                open.remove(&name);
                let may_outlive = |child: &str, mechanism: SpawnMechanism| {
                    mechanism == SpawnMechanism::AsyncWorker
                        || (mechanism == SpawnMechanism::Manual && between.contains(child))
                };
                let left = children.iter().find(|(child, (parent, mechanism, _))| {
                    *parent == name && !(name == "root" && may_outlive(child, *mechanism))
                });
                prop_assert_eq!(left, None, "a child outlived its parent");
                if let Scope::Child(scope) = &event.scope {
                    children.remove(scope.child_session_id.as_str());
                    ended.insert(name);
                }
            }
            _ => {}
        }
    }
    prop_assert!(open.is_empty(), "left open {:?}", open.keys().collect::<Vec<_>>());
    prop_assert!(children.is_empty(), "left open {:?}", children.keys().collect::<Vec<_>>());
    let runs = announced.len();
    prop_assert_eq!(ended.len(), runs, "each run ends");
    Ok(())
}

fn all_messages(processor: &EventProcessor) -> Vec<Message> {
    let mut messages = processor.messages().to_vec();
    messages.extend(processor.open_message().cloned());
    messages
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_the_stream_is_well_formed(script in script()) {
        let mut session = Session::with_limits(Limits::default().max_depth(2));
        session.play(&script.join("\n"));
        session.play("close interrupted");
        verify(&session.admitted)
            .map_err(|error| TestCaseError::fail(format!("{error}\n{}", render(&session.admitted))))?;
    }

    #[test]
    fn processing_every_event_twice_equals_once(script in script()) {
        let mut once = Session::new();
        once.play(&script.join("\n"));
        let mut twice = Session::new();
        for line in &script {
            twice.play(line);
            if !line.starts_with("close") {
                twice.play("again");
            }
        }
        prop_assert_eq!(render(&once.admitted), render(&twice.admitted));
        prop_assert_eq!(&once.admitted, &twice.admitted);
        prop_assert_eq!(all_messages(&once.processor), all_messages(&twice.processor));
    }

    #[test]
    fn accumulating_what_was_admitted_equals_the_messages(script in script()) {
        let mut session = Session::new();
        session.play(&script.join("\n"));
        let mut messages = MessageAccumulator::new();
        for admitted in session.admitted.iter().filter(|admitted| matches!(admitted.event.scope, Scope::Root)) {
            messages.apply(&admitted.event);
        }
        prop_assert_eq!(messages.messages(), &*all_messages(&session.processor));
    }

    #[test]
    fn reading_messages_changes_nothing(script in script()) {
        let mut session = Session::new();
        session.play(&script.join("\n"));
        let (mut read, mut unread) = (MessageAccumulator::new(), MessageAccumulator::new());
        for admitted in session.admitted.iter().filter(|admitted| matches!(admitted.event.scope, Scope::Root)) {
            read.apply(&admitted.event);
            unread.apply(&admitted.event);
            prop_assert_eq!(read.messages(), read.clone().into_messages());
            prop_assert_eq!(read.open_message().is_some(), read.completed().len() < read.messages().len());
        }
        prop_assert_eq!(read.messages(), unread.messages());
        prop_assert_eq!(read.final_message(), unread.final_message());
    }

    #[test]
    fn what_was_admitted_is_admitted_again_unchanged(script in script()) {
        let mut session = Session::new();
        session.play(&script.join("\n"));
        session.play("close failed");
        let mut replay = EventProcessor::new("root".into(), Limits::default());
        let mut admitted = Vec::new();
        for event in &session.admitted {
            replay.process(event.event.clone(), &CountingStamp::default(), &mut admitted);
        }
        prop_assert_eq!(render(&session.admitted), render(&admitted));
        prop_assert_eq!(&session.admitted, &admitted);
        prop_assert_eq!(replay.counters().synthesised, 0);
        prop_assert_eq!(replay.counters().rewritten, 0);
    }

    #[test]
    fn what_was_cut_anywhere_is_closed_well_and_once(script in script(), cut in any::<prop::sample::Index>()) {
        let mut session = Session::new();
        session.play(&script.join("\n"));
        session.admitted.truncate(cut.index(session.admitted.len() + 1));
        let replay = |admitted: &[Admitted]| {
            let mut processor = EventProcessor::new("root".into(), Limits::default());
            for admitted in admitted {
                processor.replay(admitted).unwrap();
            }
            processor
        };
        let why = ErrorInfo::new(ErrorType::INTERNAL, "the program ended");
        let mut processor = replay(&session.admitted);
        processor.interrupt(&why, &session.stamp, &mut session.admitted);
        verify(&session.admitted)?;
        let mut again = replay(&session.admitted);
        let mut none = Vec::new();
        again.interrupt(&why, &session.stamp, &mut none);
        prop_assert_eq!(none, vec![]);
        prop_assert_eq!(again.messages(), processor.messages());
        prop_assert_eq!(again.open_message(), None);
    }

    #[test]
    fn splitting_deltas_does_not_change_messages(
        pieces in prop::collection::vec((0..4_u8, "[a-z]{0,6}"), 0..40),
        cuts in prop::collection::vec(0..7_usize, 40),
    ) {
        let begin = "prompt root go\nstart root\nmodel root\ntext root t\nthinking root h\ncall root k\nresult root k";
        let line = |kind: u8, text: &str| match kind {
            0 => format!("delta root t {text}"),
            1 => format!("thinking_delta root h {text}"),
            2 => format!("arguments root k {text}"),
            _ => format!("output root k {text}"),
        };
        let mut whole = Session::new();
        let mut split = Session::new();
        // The first piece of an output makes its block, an empty one too: begin it in both.
        for session in [&mut whole, &mut split] {
            session.play(begin);
            session.play("output root k |");
        }
        for ((kind, text), cut) in pieces.iter().zip(cuts) {
            let (head, tail) = text.split_at(cut.min(text.len()));
            whole.play(&line(*kind, text));
            split.play(&line(*kind, head));
            split.play(&line(*kind, tail));
        }
        let texts = |session: &Session| format!("{:?}", session.processor.open_message().unwrap().content);
        prop_assert_eq!(texts(&whole), texts(&split));
    }

    #[test]
    fn results_stand_in_call_order_whatever_the_order_of_completion(
        order in (1..9_usize).prop_flat_map(|count| {
            // Each call's start, output and end, in an order of its own; the calls' events are interleaved.
            Just((0..count).flat_map(|call| [call; 3]).collect::<Vec<_>>()).prop_shuffle()
        }),
    ) {
        let count = order.len() / 3;
        let mut session = Session::new();
        session.play("prompt root go\nstart root\nmodel root");
        for call in 0..count {
            session.play(&format!("call root k{call}\ncall_end root k{call}"));
        }
        session.play("model_end root");
        let mut step = vec![0; count];
        for call in order {
            let verb = ["result", "output", "result_end"][step[call]];
            let text = if verb == "output" { format!(" o{call}") } else { String::new() };
            session.play(&format!("{verb} root k{call}{text}"));
            step[call] += 1;
        }
        session.play("model root\ntext root t\ndelta root t done");
        let content = &session.processor.open_message().unwrap().content;
        let outputs: Vec<String> = content.iter().filter_map(|block| match block {
            anabranch_proto::ContentBlock::ToolResult(result) => Some(result.output.text()),
            _ => None,
        }).collect();
        prop_assert_eq!(outputs, (0..count).map(|call| format!("o{call}")).collect::<Vec<_>>());
        prop_assert_eq!(content.len(), 2 * count + 1);
        prop_assert_eq!(content.last().unwrap().as_text(), Some("done"));
    }
}

#[test]
fn the_lines_of_a_script_are_of_every_sort() {
    // The generator's words are those that the language knows.
    let mut session = Session::new();
    session.play("prompt root go\nprompt root origin=steering on");
    let origins: Vec<_> = session
        .admitted
        .iter()
        .filter_map(|admitted| match &admitted.event.kind {
            EventKind::UserMessage(prompt) => Some(prompt.origin),
            _ => None,
        })
        .collect();
    assert_eq!(origins, [MessageOrigin::User, MessageOrigin::Steering]);
}
