//! A strict reader of AG-UI 1.0, for tests of whatever writes it.
//!
//! Written from the protocol's own description and not from the adapter's types, so that the two cannot share a mistake.
//! It holds a stream to what the protocol's client refuses and to what that client forgives and the protocol forbids: an
//! attribution before its announcement, something in the name of a child that has ended, an id that two owners share, a
//! stream that stops in the midst of a run.
//!
//! ```
//! use anabranch_testkit::ag_ui::{Dialect, Reader};
//!
//! let mut reader = Reader::new(Dialect::Attributed);
//! reader.line(r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","timestamp":0}"#)?;
//! let fault = reader.line(r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#).unwrap_err();
//! assert_eq!(fault.to_string(), "frame 2: the message `m` is not open");
//! # Ok::<(), anabranch_testkit::ag_ui::Fault>(())
//! ```

mod rules;
mod shape;

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

/// What a stream says of children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// Children are announced.
    Attributed,
    /// Children are named and not announced, as clients before 0.0.59 need it: `SUBAGENT_*` and a cancelled run end
    /// these with an error.
    AttributionOnly,
    /// Nothing bears a child's name.
    Inline,
}

/// What is wrong with a stream, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Which frame, from 1; one after the last where the end is wrong.
    pub frame: usize,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {}: {}", self.frame, self.what)
    }
}

impl std::error::Error for Fault {}

/// Reads a stream, a frame at a time.
#[derive(Clone, Debug)]
pub struct Reader {
    rules: rules::Rules,
    frames: usize,
}

impl Reader {
    /// A reader of a stream that has not begun.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self { rules: rules::Rules::new(dialect), frames: 0 }
    }

    /// Lets a message or call that has ended go on under its id, as the client does where the owner is the same. A
    /// well-formed stream of ours does so between runs only.
    #[must_use]
    pub fn reopening(mut self) -> Self {
        self.rules.reopening = true;
        self
    }

    /// Reads a frame: one line of JSON.
    ///
    /// # Errors
    /// When the frame is malformed or breaks a rule.
    pub fn line(&mut self, line: &str) -> Result<(), Fault> {
        self.frames += 1;
        self.read(line).map_err(|what| Fault { frame: self.frames, what })
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        shape::check(&value)?;
        self.rules.frame(&value)
    }

    /// Reads a stream of lines to its end.
    ///
    /// # Errors
    /// When a frame is malformed or breaks a rule, or a run does not end.
    pub fn stream(mut self, lines: &str) -> Result<Self, Fault> {
        for line in lines.lines() {
            self.line(line)?;
        }
        self.finish()?;
        Ok(self)
    }

    /// The stream is over.
    ///
    /// # Errors
    /// When there was none, or a run has no terminal: a client would take what came for all there is.
    pub fn finish(&self) -> Result<(), Fault> {
        self.rules.finish().map_err(|what| Fault { frame: self.frames + 1, what })
    }

    /// How many frames were read.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// The texts of all messages, each under its owner, which is empty for the root, and its id.
    #[must_use]
    pub fn texts(&self) -> &BTreeMap<(String, String), String> {
        &self.rules.texts
    }

    /// The last end of each sub-agent: `success`, `suspended` or the code of its error.
    #[must_use]
    pub fn ends(&self) -> &BTreeMap<String, String> {
        &self.rules.ends
    }
}
