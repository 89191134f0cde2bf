//! Where a run of the protocol ends.

use anabranch_adapters::{
    Adapter,
    ag_ui::{AgUi, Answer, Body, Frame, RunIds, RunOutcome},
};
use anabranch_proto::{Event, Timestamp};

/// How a run of the protocol ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Terminal {
    /// The root's run has ended too.
    Over,
    /// The root's run goes on when these interrupts are answered.
    Asked(Vec<String>),
}

/// The adapter to AG-UI, which notes how a run ends: then the response does.
#[derive(Debug)]
pub(super) struct UntilTerminal {
    inner: AgUi,
    terminal: Option<Terminal>,
}

impl UntilTerminal {
    pub(super) fn new(inner: AgUi) -> Self {
        Self { inner, terminal: None }
    }

    /// The ids of the run that begins with the next tick.
    pub(super) fn next_run(&mut self, ids: RunIds) {
        self.terminal = None;
        self.inner.next_run(ids);
    }

    /// An interrupt was answered.
    pub(super) fn answered(&mut self, answer: &Answer) {
        self.inner.answered(answer);
    }

    /// How the run has ended, if it has. Said once.
    pub(super) fn take_terminal(&mut self) -> Option<Terminal> {
        self.terminal.take()
    }
}

fn terminal(body: &Body<'_>) -> Option<Terminal> {
    if let Body::RunFinished { outcome: RunOutcome::Interrupt { interrupts, .. }, .. } = body {
        Some(Terminal::Asked(interrupts.iter().map(|interrupt| interrupt.id.clone()).collect()))
    } else if matches!(body, Body::RunFinished { .. } | Body::RunError { .. }) {
        Some(Terminal::Over)
    } else {
        None
    }
}

impl Adapter for UntilTerminal {
    type Frame<'a> = Frame<'a>;

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(Frame<'a>)) {
        let Self { inner, terminal: ended } = self;
        inner.event(event, &mut |frame| {
            *ended = terminal(&frame.body).or_else(|| ended.take());
            out(frame);
        });
    }

    fn tick(&mut self, now: Timestamp, out: &mut dyn for<'a> FnMut(Frame<'a>)) {
        let Self { inner, terminal: ended } = self;
        inner.tick(now, &mut |frame| {
            *ended = terminal(&frame.body).or_else(|| ended.take());
            out(frame);
        });
    }

    fn finish(&mut self, out: &mut dyn for<'a> FnMut(Frame<'a>)) {
        let Self { inner, terminal: ended } = self;
        inner.finish(&mut |frame| {
            *ended = terminal(&frame.body).or_else(|| ended.take());
            out(frame);
        });
    }
}
