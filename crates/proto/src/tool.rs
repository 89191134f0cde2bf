//! What a tool gives: chunks while it works, one response at the end.

use serde::{Deserialize, Serialize};

use crate::{ContentBlock, Metadata, TextBlock};

/// The state of a tool's result (agentscope, `ToolResultState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolResultState {
    /// The tool is still at work.
    Running,
    /// It did what was asked.
    Success,
    /// A person or a rule refused the call.
    Denied,
    /// It was stopped.
    Interrupted,
    /// It failed.
    Error,
}

impl ToolResultState {
    /// The worse of two states: error, then interrupted, denied, success, running.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if other.badness() > self.badness() { other } else { self }
    }

    fn badness(self) -> u8 {
        match self {
            Self::Running => 0,
            Self::Success => 1,
            Self::Denied => 2,
            Self::Interrupted => 3,
            Self::Error => 4,
        }
    }

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Success => "success",
            Self::Denied => "denied",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }
}

/// A part of a tool's output.
///
/// Chunks of one call are put together: blocks with the same id are appended to each other (text only while no later text
/// has begun, because the stream of events names no block of text), the worst state wins, metadata is merged. What comes after [`is_last`](Self::is_last) is ignored and counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolChunk {
    /// Text and data for the model.
    pub content: Vec<ContentBlock>,
    /// The state so far. `Running` and `Success` both count as success at the end.
    pub state: ToolResultState,
    /// Whether nothing follows.
    #[serde(default)]
    pub is_last: bool,
    /// A structured result for programs; the model does not see it.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl ToolChunk {
    /// A part of a result that goes on.
    #[must_use]
    pub fn new(content: Vec<ContentBlock>) -> Self {
        Self { content, state: ToolResultState::Running, is_last: false, metadata: Metadata::default() }
    }

    /// A piece of text; the pieces of one call add up to one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![TextBlock::new(text).into()])
    }

    /// A failure, with a text that the model can read. Ends the call.
    pub fn error(text: impl Into<String>) -> Self {
        Self::text(text).state(ToolResultState::Error).last()
    }

    /// The state so far.
    #[must_use]
    pub fn state(mut self, state: ToolResultState) -> Self {
        self.state = state;
        self
    }

    /// The structured result for programs.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Says that nothing follows.
    #[must_use]
    pub fn last(mut self) -> Self {
        self.is_last = true;
        self
    }
}

impl From<String> for ToolChunk {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolChunk {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// What a tool call came to: the second layer, for the parent's model and its program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolResponse {
    /// How it ended; never `Running`.
    pub state: ToolResultState,
    /// Text and data for the model.
    pub content: Vec<ContentBlock>,
    /// A structured result for programs; the model does not see it. It is on the `TOOL_RESULT_END` as `response`.
    pub metadata: Metadata,
}

impl ToolResponse {
    /// A response in a final state.
    #[must_use]
    pub fn new(state: ToolResultState, content: Vec<ContentBlock>, metadata: Metadata) -> Self {
        Self { state, content, metadata }
    }

    /// A failure, with a text that the model can read.
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(ToolResultState::Error, vec![TextBlock::new(text).into()], Metadata::default())
    }

    /// The text of all text blocks, one after another.
    #[must_use]
    pub fn text(&self) -> String {
        self.content.iter().filter_map(ContentBlock::as_text).collect()
    }
}

/// A file that a tool produced, as `files` of a [`ToolResponse`]'s metadata lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Artifact {
    /// The name to show.
    pub name: String,
    /// Where it lies.
    pub path: String,
    /// Its media type, such as `text/csv`.
    pub mime_type: String,
}

impl Artifact {
    /// A file with a name to show, a place and a media type.
    pub fn new(name: impl Into<String>, path: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self { name: name.into(), path: path.into(), mime_type: mime_type.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_state_wins_in_any_order() {
        use ToolResultState::{Denied, Error, Interrupted, Running, Success};
        let ascending = [Running, Success, Denied, Interrupted, Error];
        for (index, &a) in ascending.iter().enumerate() {
            for &b in &ascending[index..] {
                assert_eq!(a.worse(b), b);
                assert_eq!(b.worse(a), b);
            }
        }
    }
}
