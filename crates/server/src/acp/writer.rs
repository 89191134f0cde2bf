//! The one writer of a connection.

use std::time::Duration;

use agent_client_protocol::{
    Client, Error,
    v1::{
        ConnectionTo,
        schema::{PromptResponse, RequestPermissionOutcome, RequestPermissionResponse, SessionNotification},
    },
};
use anabranch_adapters::acp::{ALLOW, Permission};
use anabranch_proto::{SessionId, ToolCallId};
use anabranch_runtime::{Answer, Session};
use tokio::sync::mpsc;

use super::{
    flow::{Flow, Room},
    sessions::Turn,
};

/// How many messages wait for the writer.
pub(super) const MAILBOX: usize = 64;

/// How often it is looked whether a call still waits for its answer.
const STILL_ASKED: Duration = Duration::from_millis(200);

/// What goes to the client, in this order.
#[derive(Debug)]
pub(super) enum Outgoing {
    Update(Box<SessionNotification>, Room),
    /// A question about a call of this session's tree.
    Permission(Session, Box<Permission>),
    /// The answer to a prompt.
    Answer(Box<Turn>, Result<PromptResponse, Error>),
}

/// Writes until the client is gone.
pub(super) async fn write(
    client: ConnectionTo<Client>,
    mut mailbox: mpsc::Receiver<Outgoing>,
    flow: Flow,
) -> Result<(), Error> {
    let closed = client.clone();
    tokio::select! {
        // What is at hand is written before the end is believed.
        biased;
        written = write_all(&client, &mut mailbox, &flow) => written,
        () = closed.incoming_closed() => Ok(()),
    }
}

async fn write_all(
    client: &ConnectionTo<Client>,
    mailbox: &mut mpsc::Receiver<Outgoing>,
    flow: &Flow,
) -> Result<(), Error> {
    while let Some(outgoing) = mailbox.recv().await {
        match outgoing {
            Outgoing::Update(update, room) => {
                flow.send(room).await;
                client.send_notification(*update)?;
            }
            Outgoing::Permission(session, permission) => ask(client, session, *permission)?,
            Outgoing::Answer(turn, answer) => turn.responder.respond_with_result(answer)?,
        }
    }
    Ok(())
}

/// Asks the person at the client, and waits for the answer beside the writer.
fn ask(client: &ConnectionTo<Client>, session: Session, permission: Permission) -> Result<(), Error> {
    let Permission { request, session: child, call, .. } = permission;
    let asking = child.unwrap_or_else(|| session.id().clone());
    let sent = client.send_request(request);
    let withdraw = sent.cancellation_handle();
    client.spawn(async move {
        tokio::select! {
            answered = sent.block_task() => {
                // A call that waits no longer needs no answer.
                if let Err(error) = session.answer(&asking, &call, answer(answered)) {
                    tracing::debug!(%error, "an answer came too late");
                }
            }
            () = no_longer_asked(&session, &asking, &call) => {
                withdraw.cancel().ok();
            }
        }
        Ok(())
    })
}

fn answer(answered: Result<RequestPermissionResponse, Error>) -> Answer {
    match answered.map(|answered| answered.outcome) {
        Ok(RequestPermissionOutcome::Selected(selected)) if &*selected.option_id.0 == ALLOW => {
            Answer::allow()
        }
        Ok(RequestPermissionOutcome::Selected(_)) => Answer::deny(),
        Ok(_) => Answer::deny_because("the question was cancelled"),
        Err(error) => {
            tracing::warn!(%error, "a client did not answer a question");
            Answer::deny_because("the client could not ask anybody")
        }
    }
}

/// Until the call was answered elsewhere, stopped, or waited too long.
async fn no_longer_asked(session: &Session, asking: &SessionId, call: &ToolCallId) {
    loop {
        tokio::time::sleep(STILL_ASKED).await;
        let open = session.questions();
        if !open.iter().any(|question| question.session_id == *asking && question.call.id == *call) {
            return;
        }
    }
}
