//! How runs end, in the protocol's words.

use agent_client_protocol_schema::v1::{
    Error, ErrorStopReason, IdleStateUpdate, IdleStopReason, StateUpdate, StopReason,
};
use anabranch_proto::{Outcome, event::StreamComplete};

/// What to answer to `session/prompt` when the root's run has ended with `complete`.
///
/// # Errors
/// Where the run failed: the error to answer with.
pub fn prompt_answer(complete: &StreamComplete) -> Result<StopReason, Error> {
    match complete.outcome {
        Outcome::Completed => Ok(StopReason::EndTurn),
        Outcome::ExceedMaxIters => Ok(StopReason::MaxTurnRequests),
        Outcome::Interrupted => Ok(StopReason::Cancelled),
        // An outcome that is not known here is at least no success.
        Outcome::Failed | Outcome::TimedOut | _ => Err(error(complete)),
    }
}

/// The state of a child whose run has ended. A child has no answer to a prompt, so failure is told here.
pub(super) fn idle(complete: &StreamComplete) -> StateUpdate {
    let reason = match prompt_answer(complete) {
        Ok(StopReason::EndTurn) => IdleStopReason::EndTurn,
        Ok(StopReason::MaxTurnRequests) => IdleStopReason::MaxTurnRequests,
        Ok(_) => IdleStopReason::Cancelled,
        Err(error) => ErrorStopReason::new().error(error).into(),
    };
    StateUpdate::Idle(IdleStateUpdate::new().stop_reason(reason))
}

/// What became of a run that did not do its work, for people.
pub(super) fn notice(complete: &StreamComplete) -> Option<String> {
    match complete.outcome {
        Outcome::Completed => None,
        Outcome::Interrupted => Some("cancelled".to_owned()),
        Outcome::ExceedMaxIters => Some("stopped: it used all its model calls".to_owned()),
        Outcome::Failed | Outcome::TimedOut | _ => Some(error(complete).message),
    }
}

fn error(complete: &StreamComplete) -> Error {
    let mut error = Error::internal_error();
    error.message = match &complete.error {
        Some(info) if !info.message.is_empty() => info.message.clone(),
        _ => complete.outcome.as_str().replace('_', " "),
    };
    error
}
