//! A child's events are not its parent's.

use std::sync::Arc;

use anabranch_pipeline::{FunctionTool, Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream};
use anabranch_proto::{
    Event, EventId, EventKind, FinishedReason, Json, Metadata, Outcome, Scope, Timestamp, ToolResultState,
    event::{
        ReplyEnd, ReplyStart, TextBlockDelta, TextBlockEnd, TextBlockStart, ToolCallEnd, ToolCallStart,
        ToolResultEnd, ToolResultStart,
    },
};
use anabranch_runtime::{Agent, ModelError, ScriptedModel, Spawn, SpawnSubagent, Turn};
use futures::stream;

use super::{announced, report, terminals, who};
use crate::support::{Text, events, kind, master, node, of_child, own, says};

#[tokio::test]
async fn a_childs_end_does_not_end_its_parent() {
    let spawn = |node: &'static str| {
        move |_: &_| Turn::new().text(format!("Now {node}. ")).call("spawn_subagent", self::node("x", node))
    };
    let model = ScriptedModel::new("scripted")
        .turn(spawn("n1"))
        .turn(spawn("n2"))
        .turn(|_| Turn::new().text("Done."));
    let tool = SpawnSubagent::new(says("worker", "hi")).named_by(|args| args.metadata_str("node_id"));
    let seen = events(Agent::builder("master", model).tool(tool).build().reply_stream("Go.")).await;
    assert_eq!(
        terminals(&seen),
        [("n1", Outcome::Completed), ("n2", Outcome::Completed), (".", Outcome::Completed)]
    );
    let tags = |tag: &str| own(&seen).filter(|event| event.kind.tag() == tag).count();
    assert_eq!((tags("MODEL_CALL_START"), tags("REPLY_START"), tags("REPLY_END")), (3, 1, 1));
}

#[tokio::test]
async fn what_a_child_says_is_no_part_of_its_parents_message() {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().text("I ask. ").call("spawn_subagent", node("x", "n1")))
        .turn(|_| Turn::new().text("I know."));
    let agent = Agent::builder("master", model).tool(SpawnSubagent::new(says("worker", "B says hi"))).build();
    let session = agent.session();
    let finished = session.prompt("Go.").await.unwrap().finished().await.unwrap();
    assert_eq!(finished.text(), "I know.");
    let messages = session.messages();
    assert_eq!(messages.len(), 2, "the prompt and one reply");
    assert_eq!((&*messages[1].name, &*messages[1].text()), ("master", "I ask. I know."));
}

/// A tool that runs these events as a child.
struct Runs(ToolDefinition, Vec<EventKind>);

impl Tool for Runs {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, _: ToolInvocation, context: ToolContext) -> ToolStream {
        let event = |(number, kind): (u32, EventKind)| {
            let (id, at) = (EventId::new(number.to_string()), Timestamp::from_unix(0, 0));
            Event::new(id, at, Scope::Root, Metadata::default(), kind)
        };
        let events: Vec<_> = (1..).zip(self.1.clone()).map(event).collect();
        Spawn::new(&context, "child", "Do it.").unwrap().stream(stream::iter(events))
    }
}

#[tokio::test]
async fn a_childs_interruption_does_not_interrupt_its_parent() {
    for (reason, state) in [
        (FinishedReason::Completed, ToolResultState::Success),
        (FinishedReason::Interrupted, ToolResultState::Interrupted),
    ] {
        let kinds: Vec<EventKind> = vec![
            ReplyStart::new("theirs", "r", "child").into(),
            ToolCallStart::new("r", "call_0_0", "theirs").into(),
            ToolCallEnd::new("r", "call_0_0").into(),
            ToolResultStart::new("r", "call_0_0", "theirs").into(),
            ToolResultEnd::new("r", "call_0_0", ToolResultState::Interrupted).into(),
            TextBlockStart::new("r", "b").into(),
            TextBlockDelta::new("r", "b", "so far").into(),
            TextBlockEnd::new("r", "b").into(),
            ReplyEnd::new("theirs", "r", reason).into(),
        ];
        let definition = ToolDefinition::new("run", "", Json::parse(r#"{"type":"object"}"#).unwrap());
        let model = ScriptedModel::new("scripted")
            .turn(|_| Turn::new().call("run", serde_json::json!({})))
            .turn(|_| Turn::new().text("I go on."));
        let agent = Agent::builder("master", model).tool(Runs(definition, kinds)).build();
        let seen = events(agent.reply_stream("Go.")).await;
        assert_eq!(terminals(&seen).last(), Some(&(".", Outcome::Completed)), "{reason:?}");
        let ends =
            kind(
                own(&seen),
                |kind| {
                    if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None }
                },
            );
        assert_eq!(ends, [state], "the call's result is what its child came to");
    }
}

/// An agent that calls `echo` under the id that every scripted model begins with.
fn echoes(text: &'static str) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("echo", serde_json::json!({ "text": text })))
        .turn(report);
    let echo = FunctionTool::new("echo", "", |args: Text, _| async move {
        tokio::task::yield_now().await;
        Ok::<_, String>(args.text)
    });
    Agent::builder("worker", model).tool(echo).build()
}

#[tokio::test]
async fn calls_of_one_id_in_several_sessions_each_have_their_own_result() {
    let texts = ["first", "second"];
    let spawn = SpawnSubagent::choosing(move |args| echoes(texts[usize::from(args.task == "1")]))
        .named_by(|args| args.metadata_str("node_id"));
    let agent = crate::support::master_with(spawn, vec![node("0", "n1"), node("1", "n2")]);
    let session = agent.session();
    let seen = events(session.prompt("Go.").await.unwrap()).await;
    let ids: Vec<_> = seen
        .iter()
        .filter_map(|event| {
            let EventKind::ToolCallStart(call) = &event.kind else { return None };
            Some((who(event), call.tool_call_id.as_str()))
        })
        .collect();
    assert_eq!(ids.iter().filter(|(_, id)| *id == "call_0_0").count(), 3, "{ids:?}");
    let messages = session.messages();
    assert_eq!(messages[1].text(), "success: first\nsuccess: second");
}

#[tokio::test]
async fn two_children_of_one_name_are_two_sessions() {
    let calls = vec![node("x", "same"), node("x", "same"), node("x", "same")];
    let seen = events(master(says("worker", "some words"), calls).reply_stream("Go.")).await;
    let sessions: std::collections::BTreeSet<_> =
        of_child(&seen, "same").map(|event| event.scope.child().unwrap().child_session_id.as_str()).collect();
    assert_eq!((announced(&seen), sessions.len()), (3, 3));
    for session in sessions {
        let own: Vec<_> = of_child(&seen, "same")
            .filter(|event| event.scope.child().unwrap().child_session_id.as_str() == session)
            .cloned()
            .collect();
        let said: String =
            kind(
                &own,
                |kind| {
                    if let EventKind::TextBlockDelta(delta) = kind { Some(&*delta.delta) } else { None }
                },
            )
            .concat();
        assert_eq!((&*said, terminals(&own)), ("some words", vec![("same", Outcome::Completed)]));
    }
}

#[tokio::test]
async fn a_grandchilds_result_goes_to_its_own_parent_in_every_turn() {
    let spawn =
        |text: &'static str| move |_: &_| Turn::new().text(text).call("spawn_subagent", node("x", "leaf"));
    let model = ScriptedModel::new("scripted").turn(spawn("one ")).turn(spawn("two ")).turn(report);
    let middle = Agent::builder("middle", model).tool(SpawnSubagent::new(says("leaf", "a leaf"))).build();
    let agent = master(middle, vec![node("x", "middle")]);
    let session = agent.session();
    for _ in 0..2 {
        let seen = events(session.prompt("Go.").await.unwrap()).await;
        let texts = |events: Vec<&Arc<Event>>| {
            kind(events, |kind| {
                if let EventKind::ToolResultTextDelta(delta) = kind {
                    Some(delta.delta.clone())
                } else {
                    None
                }
            })
        };
        assert_eq!(texts(of_child(&seen, "middle").collect()).concat(), "a leafa leaf");
        assert_eq!(texts(own(&seen).collect()).concat(), "success: a leaf\nsuccess: a leaf");
        let by_leaf = |event: &&Arc<Event>| event.scope.child().is_some_and(|child| child.depth == 2);
        let middle = &of_child(&seen, "middle").next().unwrap().scope.child().unwrap().child_session_id;
        assert!(
            seen.iter()
                .filter(by_leaf)
                .all(|event| { event.scope.child().is_some_and(|child| child.parent_session_id == *middle) })
        );
    }
}

#[tokio::test]
async fn a_child_that_dies_before_it_says_anything_is_announced_and_ended() {
    let error = || ModelError::new(anabranch_proto::ErrorType::AUTHENTICATION, "no key");
    let model = ScriptedModel::from_fn("scripted", move |_| Turn::new().fail(error()));
    let agent = master(Agent::builder("worker", model).build(), vec![node("x", "n1")]);
    let seen = events(agent.reply_stream("Go.")).await;
    assert_eq!(announced(&seen), 1);
    let tags: Vec<_> = of_child(&seen, "n1").map(|event| event.kind.tag()).collect();
    assert_eq!(
        tags,
        ["USER_MESSAGE", "REPLY_START", "MODEL_CALL_START", "MODEL_CALL_END", "REPLY_END", "STREAM_COMPLETE"]
    );
    assert_eq!(terminals(&seen), [("n1", Outcome::Failed), (".", Outcome::Completed)]);
}
