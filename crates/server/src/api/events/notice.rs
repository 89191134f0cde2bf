//! What a stream of events says of itself.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::cursor::Cursor;

/// What a stream of events says of itself: a server-sent event with a name, so that who reads the session's events alone
/// does not take it for one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Notice {
    /// The cursor that was shown is none of this session's any more, and the events follow from the first.
    Resync {
        /// Why the cursor is of no use.
        reason: ResyncReason,
        /// The position from which the events follow.
        cursor: String,
    },
    /// These events were forgotten. The stream goes on behind them.
    Gap {
        /// The number of the first that is missing.
        from: u64,
        /// The number of the last that is missing.
        to: u64,
    },
    /// Nothing follows.
    End {
        /// Why not.
        reason: EndReason,
    },
}

/// Why a cursor is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResyncReason {
    /// It is no cursor of this server's.
    Malformed,
    /// It is of another counting of events.
    ForeignEpoch,
    /// No event has had its number.
    Ahead,
    /// The beginning of the run that it lies in was forgotten, and the spelling cannot go on without.
    Expired,
}

/// Why nothing follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndReason {
    /// The session was deleted or has ended.
    Ended,
    /// The server is being stopped.
    Stopping,
    /// The session's events cannot be read any more.
    Failed,
    /// All events that there were have been sent, and no others were asked for.
    CaughtUp,
}

impl Notice {
    /// The names that they have.
    pub(super) const NAMES: [&str; 3] = ["resync", "gap", "end"];

    fn name(&self) -> &'static str {
        match self {
            Self::Resync { .. } => "resync",
            Self::Gap { .. } => "gap",
            Self::End { .. } => "end",
        }
    }

    /// Appends it as a server-sent event. Who resumes with its id is not told again.
    pub(super) fn write(&self, id: Option<&Cursor>, out: &mut Vec<u8>) {
        // Texts and numbers always have a spelling.
        let data = serde_json::to_string(self).unwrap_or_default();
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        out.extend_from_slice(format!("event: {}\ndata: {data}\n{id}\n", self.name()).as_bytes());
    }
}
