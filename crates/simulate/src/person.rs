//! Whoever is asked: answers what the plan says, and runs what others are to run.

use std::{sync::Arc, time::Duration};

use anabranch_proto::{Admitted, EventKind, SessionId, ToolCallBlock, ToolChunk};
use anabranch_runtime::Answer;
use anabranch_session::EventLog as _;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    fakes::number,
    plan::{Ask, Work},
    world::{ROOT, World},
};

/// How long a question waits for its answer, in milliseconds.
pub(crate) const REQUEST: u64 = 3_000;

/// Reads the log, and answers each question after a while.
pub(crate) fn person(world: Arc<World>, mut is_over: watch::Receiver<bool>) -> JoinHandle<()> {
    let root = SessionId::new(ROOT);
    tokio::spawn(async move {
        let mut appended = world.log.appended();
        let mut read = 0;
        loop {
            let all = world.log.all();
            for admitted in all.get(read..).unwrap_or_default() {
                for (call, is_external) in questions(admitted) {
                    let session = admitted.event.scope.session(&root).clone();
                    tokio::spawn(answer(Arc::clone(&world), session, call.clone(), is_external));
                }
            }
            read = all.len();
            tokio::select! {
                biased;
                _ = is_over.wait_for(|is_over| *is_over) => return,
                changed = appended.changed() => if changed.is_err() { return },
            }
        }
    })
}

/// The calls that an event asks about, and whether somebody else is to run them.
fn questions(admitted: &Admitted) -> Vec<(&ToolCallBlock, bool)> {
    if let EventKind::RequireUserConfirm(require) = &admitted.event.kind {
        require.tool_calls.iter().map(|call| (call, false)).collect()
    } else if let EventKind::RequireExternalExecution(require) = &admitted.event.kind {
        require.tool_calls.iter().map(|call| (call, true)).collect()
    } else {
        Vec::new()
    }
}

async fn answer(world: Arc<World>, session: SessionId, call: ToolCallBlock, is_external: bool) {
    let Some((number, plan)) = number(&call.input).and_then(|number| Some((number, world.call(number)?)))
    else {
        world.fault(format!("a question has arguments that nobody gave: {}", call.input));
        return;
    };
    let (answer, delay) = if is_external {
        let Work::External(Some(delay)) = plan.work else { return };
        let chunk = ToolChunk::text(format!("<{number}>"));
        (Answer::output(chunk), delay)
    } else {
        let answer = match plan.ask {
            Some(Ask::Allowed) => Answer::allow(),
            Some(Ask::Edited) => match edited(&call.input) {
                Some(arguments) => Answer::allow_with(arguments),
                None => return,
            },
            Some(Ask::Refused) => Answer::deny(),
            Some(Ask::Unanswered) => return,
            Some(Ask::Forbidden) | None => {
                world.fault(format!("a person was asked about call {number}"));
                return;
            }
        };
        (answer, u64::from(number) % 50)
    };
    if delay > 0 {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    // It is late where the call was stopped meanwhile.
    if let Some(session_handle) = world.session() {
        session_handle.answer(&session, &call.id, answer).ok();
    }
}

/// The same arguments with a key more, or where the tool takes no others, spelt otherwise.
fn edited(arguments: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(arguments).ok()?;
    serde_json::to_string_pretty(&value).ok()
}
