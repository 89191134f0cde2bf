//! Children that run under somebody else's loop.

use std::time::Duration;

use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream};
use anabranch_proto::{
    Event, EventId, EventKind, FinishedReason, Json, Metadata, Outcome, Scope, Timestamp,
    event::{
        Custom, ReplyEnd, ReplyStart, RequireUserConfirm, StreamComplete, TextBlockDelta, TextBlockEnd,
        TextBlockStart, UserInterrupt,
    },
};
use anabranch_runtime::{Agent, ScriptedModel, Spawn, Turn};
use futures::{StreamExt, stream};

use crate::support::{events, events_as_they_are, kind, of_child, outline, own};

/// A tool that runs these events as a child.
struct Runs(ToolDefinition, Vec<EventKind>);

impl Runs {
    fn new(kinds: Vec<EventKind>) -> Self {
        Self(ToolDefinition::new("run", "", Json::parse(r#"{"type":"object"}"#).unwrap()), kinds)
    }
}

impl Tool for Runs {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, _: ToolInvocation, context: ToolContext) -> ToolStream {
        let at = Timestamp::from_unix(0, 0);
        let events: Vec<_> = (0..)
            .zip(self.1.clone())
            .map(|(number, kind)| {
                let id = EventId::new(format!("{}-{number}", context.call_id()));
                Event::new(id, at, Scope::Root, Metadata::default().with("theirs", 1), kind)
            })
            .collect();
        Spawn::new(&context, "theirs", "Do it.")
            .unwrap()
            .metadata(Metadata::default().with("node_id", "n1"))
            .stream(stream::iter(events))
    }
}

fn agent(kinds: Vec<EventKind>) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("run", serde_json::json!({})))
        .turn(|request| Turn::new().text(request.last_result_text()));
    Agent::builder("master", model).tool(Runs::new(kinds)).build()
}

fn reply() -> Vec<EventKind> {
    vec![
        ReplyStart::new("theirs", "r", "theirs").into(),
        TextBlockStart::new("r", "b").into(),
        TextBlockDelta::new("r", "b", "from elsewhere").into(),
        TextBlockEnd::new("r", "b").into(),
        ReplyEnd::new("theirs", "r", FinishedReason::Completed).into(),
    ]
}

#[tokio::test]
async fn a_foreign_stream_is_a_child_like_any_other() {
    let seen = events(agent(reply()).reply_stream("Go.")).await;
    insta::assert_snapshot!(outline(&seen[8..18]).join("\n"), @r"
    . SPAWN_SESSION_START
    theirs USER_MESSAGE
    theirs REPLY_START
    theirs TEXT_BLOCK_START
    theirs TEXT_BLOCK_DELTA
    theirs TEXT_BLOCK_END
    theirs REPLY_END
    theirs STREAM_COMPLETE
    . TOOL_RESULT_TEXT_DELTA
    . TOOL_RESULT_END
    ");
    let child = of_child(&seen, "theirs").nth(2).unwrap();
    let subagent_id = &child.scope.child().unwrap().subagent_id;
    assert_eq!(
        child.metadata.to_string(),
        format!(r#"{{"theirs":1,"subagent_id":"{subagent_id}","node_id":"n1"}}"#)
    );
    let ends = kind(own(&seen), |kind| {
        if let EventKind::ToolResultEnd(end) = kind { end.response.get_str("outcome") } else { None }
    });
    assert_eq!(ends, ["completed"]);
}

#[tokio::test]
async fn a_stream_without_an_end_has_failed_and_says_so() {
    for kinds in [vec![], reply()[..3].to_vec()] {
        let seen = events(agent(kinds).reply_stream("Go.")).await;
        let complete = kind(of_child(&seen, "theirs"), |kind| {
            if let EventKind::StreamComplete(complete) = kind { Some(complete) } else { None }
        });
        assert_eq!(complete.len(), 1);
        assert_eq!(complete[0].outcome, Outcome::Failed);
        assert_eq!(
            complete[0].error.as_ref().unwrap().message,
            "the sub-agent's stream ended before its reply did"
        );
    }
}

#[tokio::test]
async fn the_first_terminal_ends_it() {
    let mut kinds = reply();
    kinds.push(StreamComplete::new(Outcome::Interrupted).into());
    kinds.extend(reply());
    let seen = events(agent(kinds).reply_stream("Go.")).await;
    let tags: Vec<_> = of_child(&seen, "theirs").map(|event| event.kind.tag()).collect();
    assert_eq!(tags.len(), 7, "{tags:?}");
    let ends = kind(own(&seen), |kind| {
        if let EventKind::ToolResultEnd(end) = kind { end.response.get_str("outcome") } else { None }
    });
    assert_eq!(ends, ["interrupted"]);
}

/// A tool that runs a child which never pauses and never ends.
struct Babbles(ToolDefinition);

impl Tool for Babbles {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn call(&self, _: ToolInvocation, context: ToolContext) -> ToolStream {
        let spawn =
            Spawn::new(&context, "babbler", "Go.").unwrap().timeout(Duration::from_millis(20)).unwrap();
        let events =
            stream::repeat_with(move || context.event(Custom::new("word", Json::parse("1").unwrap())));
        spawn.stream(events.map(|mut event| {
            event.scope = Scope::Root;
            event
        }))
    }
}

#[tokio::test]
async fn a_child_that_is_always_ready_does_not_starve_its_deadline() {
    let definition = ToolDefinition::new("run", "", Json::parse(r#"{"type":"object"}"#).unwrap());
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("run", serde_json::json!({})))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let agent = Agent::builder("master", model).tool(Babbles(definition)).build();
    assert_eq!(agent.reply_stream("Go.").finished().await.unwrap().text(), "timed out after 0.02 s");
}

/// The parent's own events, but for what the child's result says.
fn parents(events: &[std::sync::Arc<Event>]) -> Vec<String> {
    own(events).map(|event| event.kind.tag().to_owned()).collect()
}

#[tokio::test]
async fn what_a_child_says_at_any_position_changes_nothing_of_its_parent() {
    let calm = parents(&events(agent(reply()).reply_stream("Go.")).await);
    let injected: [fn() -> EventKind; 3] = [
        || UserInterrupt::new("r").into(),
        || RequireUserConfirm::new("r", []).into(),
        || ReplyEnd::new("theirs", "other", FinishedReason::Interrupted).into(),
    ];
    for inject in injected {
        for position in 0..reply().len() {
            let mut kinds = reply();
            kinds.insert(position, inject());
            let seen = events_as_they_are(agent(kinds).reply_stream("Go.")).await;
            assert_eq!(parents(&seen), calm, "{} at {position}: {seen:#?}", inject().tag());
        }
    }
}
