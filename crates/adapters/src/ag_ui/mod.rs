//! AG-UI 1.0: a run per prompt, a sub-agent per child's run.
//!
//! The frames are the protocol's events, written by hand and borrowed from what happened. What each kind becomes, what the
//! [modes](Mode) change and why stands in `docs/ag-ui.md`.
//!
//! - **Runs.** The first event begins a run of the protocol; the root's end ends it. The root's next prompt begins the
//!   next, under the ids that the caller gave ([`AgUi::next_run`]) or under the first run's with `#2`, `#3`…
//! - **Children.** A child is announced before anything bears its id, and what it has open is closed before its end. Its
//!   id is its session's, `<child>#2` for its second run. Ids of its messages and calls are `<child>:<id>`, since models
//!   use `call_0` again and again; the root's are as they came.
//! - **Who outlives a run** is suspended at its end and announced again in the next. Between two runs nothing may be sent:
//!   what happens is kept within a bound ([`AgUi::held_bytes`]) and shown when the next run begins; what has no room is
//!   counted and told as `anabranch.events_dropped`.
//! - **Questions** end the run with an interrupt; [`answer`] finds the call that an answer in the next run's input is
//!   for.
//!
//! ```
//! use anabranch_adapters::{Encode, ag_ui::{AgUi, RunIds}, encode::Sse};
//! # use anabranch_proto::{Event, EventId, Metadata, Outcome, Scope, Timestamp, event::StreamComplete};
//! # let event = Event::new(
//! #     EventId::new("1"), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(),
//! #     StreamComplete::new(Outcome::Completed),
//! # );
//! let mut out = Vec::new();
//! Sse::new(AgUi::new("ses_0", RunIds::new("thread", "run"))).event(None, &event, &mut out)?;
//! assert_eq!(
//!     String::from_utf8(out)?,
//!     concat!(
//!         r#"data: {"type":"RUN_STARTED","threadId":"thread","runId":"run","protocolVersion":"1.0","timestamp":0}"#,
//!         "\n\n",
//!         r#"data: {"type":"RUN_FINISHED","threadId":"thread","runId":"run","outcome":{"type":"success"},"timestamp":0}"#,
//!         "\n\n",
//!     ),
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod children;
mod frame;
mod hold;
mod ids;
mod interrupt;
mod machine;
mod metadata;
mod mode;
mod owner;
mod questions;
mod runs;
mod writer;

pub use frame::{Body, Frame, Interrupt, RawEvent, RunOutcome, SubagentOutcome, TokenUsage, Value};
pub use ids::RunIds;
pub use interrupt::{Answer, ResumeEntry, ResumeStatus, UnknownInterrupt, answer};
pub use metadata::FrameMetadata;
pub use mode::Mode;

use std::sync::Arc;

use anabranch_proto::{Event, SessionId, Timestamp, event::StreamComplete};

use crate::Adapter;

/// The adapter to AG-UI 1.0.
#[derive(Clone, Debug)]
pub struct AgUi {
    mode: Mode,
    /// The root's session.
    session: SessionId,
    /// The ids that the caller gave last.
    first: RunIds,
    /// How many runs have begun since.
    since_given: u64,
    /// The ids that the caller gave for the next run.
    given: Option<RunIds>,
    run_id: Arc<str>,
    /// How many runs have begun.
    run: u64,
    phase: Phase,
    root: owner::Owner,
    children: children::Children,
    ids: ids::SentIds,
    questions: questions::Questions,
    usage: runs::Tally,
    held: hold::Held,
    /// When the last event happened.
    at: i64,
}

/// How far the run of the protocol is.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// No run has begun.
    Before,
    /// One is under way.
    Running,
    /// The root has ended; somebody that it waits for has not.
    Finishing(Box<StreamComplete>),
    /// The root's run has ended, and so has the protocol's.
    Between,
    /// The protocol's run has ended with a question; the root's goes on.
    Asking,
}

impl AgUi {
    /// An adapter for the stream of a root session, whose first run has these ids.
    pub fn new(session: impl Into<SessionId>, ids: RunIds) -> Self {
        Self {
            mode: Mode::default(),
            session: session.into(),
            run_id: Arc::clone(&ids.run_id),
            first: ids,
            since_given: 0,
            given: None,
            run: 0,
            phase: Phase::Before,
            root: owner::Owner::default(),
            children: children::Children::default(),
            ids: ids::SentIds::default(),
            questions: questions::Questions::default(),
            usage: runs::Tally::default(),
            held: hold::Held::default(),
            at: 0,
        }
    }

    /// What the client is told of children; by default everything.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// About how many bytes of events are kept between two runs; by default 256 KiB.
    #[must_use]
    pub fn held_bytes(mut self, most: usize) -> Self {
        self.held.most_bytes = most;
        self
    }

    /// The ids of the next run, from the client's next `RunAgentInput`.
    ///
    /// Where a run has ended, the next one begins with the next event or [`tick`](Adapter::tick), whichever comes first.
    /// Where one is under way, these are the ids of the one after it.
    pub fn next_run(&mut self, ids: RunIds) {
        self.give(ids);
    }

    /// An interrupt was answered: it is not told again, where another question ends the next run before the session says
    /// what came of the answer.
    pub fn answered(&mut self, answer: &Answer) {
        self.questions.answered(&answer.session, &answer.tool_call_id, answer.asked);
    }
}

impl Adapter for AgUi {
    type Frame<'a> = Frame<'a>;

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(Frame<'a>)) {
        self.take(event, out);
    }

    fn tick(&mut self, now: Timestamp, out: &mut dyn for<'a> FnMut(Frame<'a>)) {
        self.begin_given(now, out);
    }

    fn finish(&mut self, out: &mut dyn for<'a> FnMut(Frame<'a>)) {
        self.end_stream(out);
    }
}
