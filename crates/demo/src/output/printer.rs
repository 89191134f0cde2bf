//! Events as bytes on stdout.

use std::io::{self, Write as _};

use anabranch_adapters::{
    Encode,
    acp::Acp,
    ag_ui::{AgUi, Mode, RunIds},
    agentscope::AgentScope,
    encode::{JsonLines, NativeLines, Plain, Sse},
    text::Text,
    tool_calls::ToolCalls,
};
use anabranch_proto::{Event, Scope, SessionId};
use anabranch_runtime::Session;

use super::{Look, live::Live, status::status};
use crate::summary::Summary;

/// Writes events to stdout.
pub(crate) struct Printer {
    encode: Box<dyn Encode>,
    look: Look,
    live: Live,
    /// What was encoded and not written: pieces, each with whose it is.
    pieces: Vec<(Option<SessionId>, String)>,
}

impl Printer {
    /// Lines for people.
    pub(crate) fn text(look: Look) -> Self {
        // Whole lines are coloured here, so that the status line can have the same colours.
        Self::new(Plain::new(Text::new()), look)
    }

    /// A JSON line per change of a tool-call card.
    pub(crate) fn tool_calls() -> Self {
        Self::new(JsonLines::new(ToolCalls::new()), Look::Plain)
    }

    /// The Agent Client Protocol's updates, a line each.
    pub(crate) fn acp(acp: Acp) -> Self {
        Self::new(JsonLines::new(acp), Look::Plain)
    }

    /// A JSON line per event.
    pub(crate) fn native() -> Self {
        Self::new(NativeLines, Look::Plain)
    }

    /// A JSON line per event, as agentscope reads them.
    pub(crate) fn flat() -> Self {
        Self::new(JsonLines::new(AgentScope), Look::Plain)
    }

    /// Server-sent events of AG-UI. The session is the thread, and its one turn the run.
    pub(crate) fn ag_ui(session: &Session, mode: Mode) -> Self {
        let ids = RunIds::new(session.id().as_str(), "run");
        Self::new(Sse::new(AgUi::new(session.id(), ids).mode(mode)), Look::Plain)
    }

    fn new(encode: impl Encode + 'static, look: Look) -> Self {
        Self { encode: Box::new(encode), look, live: Live::default(), pieces: Vec::new() }
    }

    /// Takes an event, with its number where it is to be told. It is shown with the next [`show`](Self::show).
    pub(crate) fn event(&mut self, seq: Option<u64>, event: &Event) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.encode.event(seq, event, &mut bytes).map_err(io::Error::other)?;
        let speaker = match &event.scope {
            Scope::Root => None,
            Scope::Child(child) => Some(child.child_session_id.clone()),
        };
        self.push(speaker, bytes);
        Ok(())
    }

    /// Shows what was taken, and on a terminal the status below it.
    pub(crate) fn show(&mut self, summary: &Summary) -> io::Result<()> {
        let text: String = self
            .pieces
            .drain(..)
            .map(|(speaker, piece)| match speaker.and_then(|session| summary.place(&session)) {
                Some(place) => each_line(&piece, |line| self.look.coloured(place, line)),
                None => piece,
            })
            .collect();
        match self.look {
            Look::Plain => write(&text),
            Look::Terminal { .. } => write(&self.live.draw(&text, &status(summary, self.look))),
        }
    }

    /// Shows what the adapter held back, and takes the status away.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.encode.finish(&mut bytes).map_err(io::Error::other)?;
        let rest = String::from_utf8_lossy(&bytes);
        let end = self.live.end();
        write(&format!("{end}{rest}"))
    }

    /// Writes a line that belongs to no event. The output must be at the begin of a line.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        write(&format!("{}\n", self.look.dim(text)))
    }

    fn push(&mut self, speaker: Option<SessionId>, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let text = String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into());
            self.pieces.push((speaker, text));
        }
    }
}

/// The text with each line that is not empty changed, and the line ends left where they are.
fn each_line(text: &str, change: impl Fn(&str) -> String) -> String {
    let changed = text.split('\n').map(|line| if line.is_empty() { String::new() } else { change(line) });
    changed.collect::<Vec<_>>().join("\n")
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
