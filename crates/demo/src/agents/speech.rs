//! What scripted models say.

use anabranch_proto::{ErrorType, ToolResultBlock, ToolResultState};
use anabranch_runtime::{ModelError, ModelRequest, Turn};

use crate::plan::Pace;

/// The beginning of an answer.
pub(super) fn turn(pace: Pace) -> Turn {
    if pace.answer.is_zero() { Turn::new() } else { Turn::new().wait(pace.answer) }
}

/// A text at the model's pace.
pub(super) fn say(turn: Turn, pace: Pace, text: &str) -> Turn {
    if pace.word.is_zero() { turn.text(text) } else { turn.paced_text(text, pace.word) }
}

/// The results so far, or the text of the first that is not a success.
pub(super) fn results(request: &ModelRequest) -> Result<Vec<String>, String> {
    let text = |result: &ToolResultBlock| {
        let text = result.output.text();
        if result.state == ToolResultState::Success {
            Ok(text)
        } else {
            Err(format!("{}: {text}", result.name))
        }
    };
    request.results().map(text).collect()
}

/// A model that cannot go on: the sub-agent's run fails.
pub(super) fn give_up(turn: Turn, reason: impl Into<String>) -> Turn {
    turn.fail(ModelError::new(ErrorType::other("tool"), reason))
}
