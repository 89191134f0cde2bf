//! Events as server-sent events, in the spelling that a reader asked for.

use anabranch_adapters::{
    Encode as _, EncodeError,
    ag_ui::{AgUi, Mode, RunIds},
    agentscope::AgentScope,
    encode::{JsonLines, NativeLines},
};
use anabranch_proto::{Admitted, Event, EventKind, Scope, SessionId, event::MessageOrigin};
use schemars::JsonSchema;
use serde::Deserialize;

use super::notice::Notice;
use crate::api::cursor::{Cursor, Epoch};

/// How events are spelt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Spelling {
    /// Our own, one frame for each event.
    #[default]
    Native,
    /// agentscope's, one frame for each event.
    Flat,
    /// AG-UI's: runs of that protocol, one after another.
    AgUi,
}

/// Writes events as server-sent events.
#[derive(Debug)]
pub(super) struct Frames {
    encoder: Encoder,
    session: SessionId,
    epoch: Epoch,
    mode: Mode,
    lines: Vec<u8>,
}

#[derive(Debug)]
enum Encoder {
    Native(NativeLines),
    Flat(JsonLines<AgentScope>),
    AgUi(Box<JsonLines<AgUi>>),
}

impl Frames {
    pub(super) fn new(spelling: Spelling, session: SessionId, epoch: Epoch, mode: Mode) -> Self {
        let encoder = match spelling {
            Spelling::Native => Encoder::Native(NativeLines),
            Spelling::Flat => Encoder::Flat(JsonLines::new(AgentScope)),
            Spelling::AgUi => ag_ui(&session, 1, mode),
        };
        Self { encoder, session, epoch, mode, lines: Vec::new() }
    }

    /// Whether what follows is spelt by what came before.
    pub(super) fn has_history(&self) -> bool {
        match self.encoder {
            Encoder::Native(_) | Encoder::Flat(_) => false,
            Encoder::AgUi(_) => true,
        }
    }

    /// Appends the frames of an event. The last of them has its number; a reader that is cut off before it is told the
    /// whole event again.
    pub(super) fn event(&mut self, admitted: &Admitted, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode(admitted)?;
        let id = self.at(admitted.seq);
        self.frame(Some(&id), out);
        Ok(())
    }

    /// Takes note of an event that the reader has had.
    pub(super) fn known(&mut self, admitted: &Admitted) -> Result<(), EncodeError> {
        let noted = self.encode(admitted);
        self.lines.clear();
        noted
    }

    /// Appends that events are missing. What was open is closed where the spelling knows of open things, and what follows
    /// stands alone.
    pub(super) fn gap(&mut self, from: u64, to: u64, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.finish(out)?;
        self.begin_anew(to);
        Notice::Gap { from, to }.write(Some(&self.at(to)), out);
        Ok(())
    }

    /// Forgets what came before: the next event is the first after this number.
    pub(super) fn begin_anew(&mut self, after: u64) {
        if self.has_history() {
            self.encoder = ag_ui(&self.session, after.saturating_add(1), self.mode);
        }
    }

    /// Appends what closes what is open, where the spelling has such.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.lines.clear();
        match &mut self.encoder {
            Encoder::Native(lines) => lines.finish(&mut self.lines)?,
            Encoder::Flat(lines) => lines.finish(&mut self.lines)?,
            Encoder::AgUi(lines) => lines.finish(&mut self.lines)?,
        }
        self.frame(None, out);
        Ok(())
    }

    fn at(&self, seq: u64) -> Cursor {
        Cursor { epoch: self.epoch.clone(), seq }
    }

    fn encode(&mut self, admitted: &Admitted) -> Result<(), EncodeError> {
        self.lines.clear();
        let (seq, event) = (admitted.seq, &admitted.event);
        match &mut self.encoder {
            Encoder::Native(lines) => lines.event(Some(seq), event, &mut self.lines),
            Encoder::Flat(lines) => lines.event(Some(seq), event, &mut self.lines),
            Encoder::AgUi(lines) => {
                if is_prompt(event) {
                    lines.adapter_mut().next_run(ids(&self.session, seq));
                }
                lines.event(Some(seq), event, &mut self.lines)
            }
        }
    }

    /// Appends the lines as a frame each; the last has the id.
    fn frame(&mut self, id: Option<&Cursor>, out: &mut Vec<u8>) {
        let is_plain = !self.lines.contains(&b'\r');
        debug_assert!(is_plain, "in JSON without white space nothing but `\\n` ends a line");
        let mut lines = self.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).peekable();
        while let Some(line) = lines.next() {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(line);
            out.push(b'\n');
            if let Some(id) = id.filter(|_| lines.peek().is_none()) {
                out.extend_from_slice(format!("id: {id}\n").as_bytes());
            }
            out.push(b'\n');
        }
        self.lines.clear();
    }
}

fn ag_ui(session: &SessionId, first: u64, mode: Mode) -> Encoder {
    Encoder::AgUi(Box::new(JsonLines::new(AgUi::new(session, ids(session, first)).mode(mode))))
}

/// The ids of the run that begins with an event: the same whoever reads, and from wherever.
fn ids(session: &SessionId, first: u64) -> RunIds {
    RunIds::new(session.as_str(), format!("{session}:{first}"))
}

/// Whether a run of the root begins with this event.
pub(super) fn is_prompt(event: &Event) -> bool {
    event.scope == Scope::Root
        && matches!(&event.kind, EventKind::UserMessage(message) if message.origin == MessageOrigin::User)
}
