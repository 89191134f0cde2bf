//! One conversation, however it is built: by the loop, by the processor, by a replay of the log.

use std::sync::{Arc, Mutex};

use anabranch_pipeline::FunctionTool;
use anabranch_proto::{EventKind, Message};
use anabranch_runtime::{Agent, ScriptedModel, Turn};
use anabranch_session::MessageAccumulator;
use proptest::prelude::*;

use crate::support::{Text, events, own};

/// What one model call says.
#[derive(Clone, Debug)]
enum Said {
    Text(String),
    Thinking(String),
    Call(String),
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        "[a-z ]{1,12}".prop_map(Said::Text),
        "[a-z ]{1,12}".prop_map(Said::Thinking),
        "[a-z0-9]{0,6}".prop_map(Said::Call),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What each model call is asked is what a replay of the log up to that call builds, and what the processor keeps in
    /// the end is what a replay of all of it builds.
    #[test]
    fn the_loop_the_processor_and_a_replay_agree(turns in prop::collection::vec(prop::collection::vec(said(), 1..4), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(check(turns));
    }
}

async fn check(turns: Vec<Vec<Said>>) {
    let asked: Arc<Mutex<Vec<Vec<Message>>>> = Arc::default();
    let keep = Arc::clone(&asked);
    let model = ScriptedModel::from_fn("scripted", move |request| {
        keep.lock().unwrap().push(request.messages.clone());
        let Some(turn) = turns.get(request.turn as usize) else { return Turn::new().text("end") };
        turn.iter().fold(Turn::new(), |turn, said| match said {
            Said::Text(text) => turn.text(text),
            Said::Thinking(text) => turn.thinking(text),
            Said::Call(text) => turn.call("slow", serde_json::json!({ "text": text })),
        })
    });
    // Longer texts take longer, so results come out of order.
    let slow = FunctionTool::new("slow", "", |args: Text, _| async move {
        tokio::time::sleep(std::time::Duration::from_millis(args.text.len() as u64)).await;
        if args.text.len() == 3 { Err("three".to_owned()) } else { Ok(args.text) }
    });
    let session = Agent::builder("agent", model).tool(slow).build().session();
    let mut replay = MessageAccumulator::new();
    let mut expected = Vec::new();
    for prompt in ["one", "two"] {
        for event in own(&events(session.prompt(prompt).await.unwrap()).await) {
            if matches!(event.kind, EventKind::ModelCallStart(_)) {
                let said = |message: &&Message| !message.content.is_empty();
                expected.push(replay.messages().iter().filter(said).cloned().collect::<Vec<_>>());
            }
            replay.apply(event);
        }
    }
    assert_eq!(*asked.lock().unwrap(), expected);
    assert_eq!(session.messages(), replay.messages());
}
