//! Messages to runs that are under way.

use std::sync::{Arc, Mutex};

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{ContentBlock, EventKind, Outcome, event::MessageOrigin};
use anabranch_runtime::{Agent, RunHandle, ScriptedModel, Session, SteerError, Turn};
use futures::stream;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{Nothing, kind, master, node, of_child, own, reply_events};

/// A tool that says that it runs, with the session, and waits until it may end.
fn waits(begun: &Arc<Notify>, go_on: &Arc<Notify>) -> impl anabranch_pipeline::Tool + use<> {
    let (begun, go_on) = (Arc::clone(begun), Arc::clone(go_on));
    FunctionTool::new("wait", "", move |_: Nothing, _| {
        let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
        async move {
            begun.notify_one();
            go_on.notified().await;
            Ok::<_, String>("waited")
        }
    })
}

/// The hints in the last message of a request: what came in mid-reply.
fn hints(request: &anabranch_runtime::ModelRequest) -> Vec<String> {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    blocks
        .filter_map(|block| if let ContentBlock::Hint(hint) = block { Some(hint.hint.text()) } else { None })
        .collect()
}

#[tokio::test]
async fn a_message_to_a_child_is_read_before_its_next_model_call() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("wait", json!({})))
        .turn(|request| Turn::new().text(hints(request).join(", ")));
    let worker = Agent::builder("worker", model).tool(waits(&begun, &go_on)).build();
    let session = master(worker, vec![node("a", "n1")]).session();
    let reply = session.prompt("Go.").await.unwrap();
    begun.notified().await;
    let child = session.with_tree(|tree| tree.children(session.id()).next().unwrap().id.clone());
    session.steer(&child, "left").unwrap();
    session.steer(&child, "then right").unwrap();
    go_on.notify_one();
    let events = reply_events(reply).await;
    let prompts = kind(of_child(&events, "n1"), |kind| {
        if let EventKind::UserMessage(message) = kind { Some(message.origin) } else { None }
    });
    assert_eq!(prompts, [MessageOrigin::Parent, MessageOrigin::Steering, MessageOrigin::Steering]);
    assert_eq!(session.messages().last().unwrap().text(), "left, then right");
    assert!(matches!(session.steer(&child, "more"), Err(SteerError::NotRunning(_))));
}

#[tokio::test]
async fn a_run_that_was_about_to_end_answers_what_was_said_meanwhile() {
    let session: Arc<Mutex<Option<Session>>> = Arc::default();
    let said = Arc::clone(&session);
    let model = ScriptedModel::new("scripted")
        .turn(move |_| {
            let session = said.lock().unwrap().take().unwrap();
            session.steer(session.id(), "And the rest?").unwrap();
            Turn::new().text("One.")
        })
        .turn(|request| Turn::new().text(format!("Two, for: {}", hints(request).concat())));
    let agent = Agent::builder("agent", model).build();
    let handle = agent.session();
    *session.lock().unwrap() = Some(handle.clone());
    let events = reply_events(handle.prompt("Go.").await.unwrap()).await;
    let ends = kind(own(&events), |kind| if let EventKind::ReplyEnd(_) = kind { Some(()) } else { None });
    assert_eq!(ends.len(), 1, "one reply");
    assert_eq!(handle.messages().len(), 2, "one prompt and one reply");
    assert!(handle.messages()[1].text().ends_with("Two, for: And the rest?"));
}

#[tokio::test]
async fn what_runs_no_agent_of_ours_takes_no_messages() {
    let tool = FunctionTool::new("unused", "", |_: Nothing, _| async { Ok::<_, String>("") });
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let foreign = ForeignTool { begun: Arc::clone(&begun), go_on: Arc::clone(&go_on), definition: tool };
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("unused", json!({})))
        .turn(|_| Turn::new().text("Done."));
    let session = Agent::builder("agent", model).tool(foreign).build().session();
    let reply = session.prompt("Go.").await.unwrap();
    begun.notified().await;
    let child = session.with_tree(|tree| tree.children(session.id()).next().unwrap().id.clone());
    assert_eq!(session.steer(&child, "left"), Err(SteerError::Deaf));
    go_on.notify_one();
    assert_eq!(reply.finished().await.unwrap().outcome, Outcome::Completed);
}

struct ForeignTool<T> {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
    definition: T,
}

impl<T: anabranch_pipeline::Tool> anabranch_pipeline::Tool for ForeignTool<T> {
    fn definition(&self) -> &anabranch_pipeline::ToolDefinition {
        self.definition.definition()
    }

    fn call(
        &self,
        _: anabranch_pipeline::ToolInvocation,
        context: anabranch_pipeline::ToolContext,
    ) -> anabranch_pipeline::ToolStream {
        assert!(RunHandle::of(&context).is_some());
        let (begun, go_on) = (Arc::clone(&self.begun), Arc::clone(&self.go_on));
        let events = stream::once(async move {
            let stamp = anabranch_runtime::SystemStamp::new();
            begun.notify_one();
            go_on.notified().await;
            anabranch_proto::Event::stamped(
                &stamp,
                anabranch_proto::Scope::Root,
                anabranch_proto::Metadata::default(),
                anabranch_proto::event::StreamComplete::new(Outcome::Completed),
            )
        });
        anabranch_runtime::Spawn::new(&context, "foreign", "Go.").unwrap().stream(events)
    }
}
