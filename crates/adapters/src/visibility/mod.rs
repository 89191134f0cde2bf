//! Less than everything, before any adapter.
//!
//! ```
//! use anabranch_adapters::{Encode, encode::Plain, text::Text, visibility::{Visibility, Visible}};
//! # use anabranch_proto::{Event, EventId, Metadata, Scope, Timestamp, event::ThinkingBlockDelta};
//! # let event = Event::new(
//! #     EventId::new("1"), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(),
//! #     ThinkingBlockDelta::new("reply", "block", "Hm."),
//! # );
//!
//! let visibility = Visibility::new()
//!     .hide_thinking()
//!     .hide_prompts()
//!     .hide_arguments(|tool| tool == "spawn_subagent")
//!     .hide_children(|child| child.name == "critic");
//! let mut encoder = Plain::new(Visible::new(visibility, Text::new().thinking(true)));
//! let mut out = Vec::new();
//! encoder.event(None, &event, &mut out)?;
//! assert!(out.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What passes
//! Nothing is hidden unless it is asked for. A stream that obeys the rules still obeys them afterwards, so every adapter
//! and every reader takes it. An event that says nothing hidden passes as it is, without a copy.
//!
//! | hidden | what becomes of events |
//! |---|---|
//! | thinking | blocks of thinking are dropped, and taken out of whatever message or result an event carries |
//! | prompts | what agents ask agents: a child's prompt stays as the begin of its run, which a run must have, and is empty; one that steers a child is dropped. What is put before models (`HINT_BLOCK`) is dropped. The key `prompt` is taken out of all metadata. What a person asks the root stays |
//! | arguments | of tools by their names: pieces are dropped, and questions about a call and their answers have no input |
//! | results | of tools by their names: pieces are dropped, and a result that somebody else gave is empty. That there was one, and how it ended, stays |
//! | a child | its announcement, what is learnt of it, all that it says, and likewise all below it. The call that spawned it and the call's result are its parent's and stay, without the ids of the child |
//!
//! Where anything but children is hidden, what nobody can look into is not passed: events and blocks of unknown kinds are
//! dropped, and unknown fields too. What an application says by `CUSTOM` is its own, and passes.
//!
//! # What to think of
//! - A task that a model writes is arguments of the call that spawns its child, before it is a prompt. Who hides prompts hides
//!   the arguments of such tools too, as above.
//! - A child's description is for people, and stays.
//! - What a hidden child asks a person is hidden with it, and the arguments that a person is asked about are hidden where
//!   arguments are: who is to answer needs another view.
//! - Whether a child is hidden is decided once, by its first spawn, for all its runs.
//! - Numbers of events, as a log gives them, have gaps where events were dropped.

mod blocks;
mod children;
mod rules;

pub use children::Candidate;

use std::{borrow::Cow, fmt, sync::Arc};

use anabranch_proto::{Event, Timestamp};

use self::{children::Children, rules::Calls};
use crate::{Adapter, Encode, EncodeError};

/// Says of which tools something is hidden, by their names.
type Tools = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What is hidden, and what of it was met so far.
///
/// Takes the events of one root session in their order. Its memory grows with the number of children, where some are
/// hidden, and with the calls that are open, where something of calls is.
#[derive(Clone, Default)]
pub struct Visibility {
    thinking: Shown,
    prompts: Shown,
    arguments: Option<Tools>,
    results: Option<Tools>,
    children: Children,
    calls: Calls,
}

/// Whether something passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shown {
    #[default]
    Yes,
    No,
}

impl Visibility {
    /// Hides nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Hides what models think.
    #[must_use]
    pub fn hide_thinking(mut self) -> Self {
        self.thinking = Shown::No;
        self
    }

    /// Hides what agents ask agents, and what is put before models.
    #[must_use]
    pub fn hide_prompts(mut self) -> Self {
        self.prompts = Shown::No;
        self
    }

    /// Hides the arguments of calls of these tools. A call whose tool is not known, because its start was not seen, is one
    /// of them.
    #[must_use]
    pub fn hide_arguments(mut self, of: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.arguments = Some(Arc::new(of));
        self
    }

    /// Hides what calls of these tools came to. A call whose tool is not known, because its start was not seen, is one of
    /// them.
    #[must_use]
    pub fn hide_results(mut self, of: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.results = Some(Arc::new(of));
        self
    }

    /// Hides these children, and all below them.
    #[must_use]
    pub fn hide_children(mut self, which: impl Fn(&Candidate<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.children = Children::hiding(Arc::new(which));
        self
    }

    /// Takes the next event. Gives it as it is, or without what is hidden, or not at all.
    ///
    /// Who has an `Arc` of the event keeps it where this gives [`Cow::Borrowed`]: nothing was copied.
    pub fn pass<'e>(&mut self, event: &'e Event) -> Option<Cow<'e, Event>> {
        match self.children.of(event) {
            Shown::Yes => self.content(event),
            Shown::No => None,
        }
    }
}

impl fmt::Debug for Visibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visibility")
            .field("thinking", &self.thinking)
            .field("prompts", &self.prompts)
            .field("hides_arguments", &self.arguments.is_some())
            .field("hides_results", &self.results.is_some())
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}

/// A stage that hides something from what comes after it: an adapter, or an encoder.
///
/// Put it before [`Coalesce`](crate::coalesce::Coalesce), so that hidden events do not let through what is merged.
#[derive(Clone, Debug, Default)]
pub struct Visible<T> {
    visibility: Visibility,
    inner: T,
}

impl<T> Visible<T> {
    /// Hides from `inner` what `visibility` says.
    pub fn new(visibility: Visibility, inner: T) -> Self {
        Self { visibility, inner }
    }

    /// What comes after it, for what its protocol is told between events.
    pub fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<A: Adapter> Adapter for Visible<A> {
    type Frame<'a> = A::Frame<'a>;

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(A::Frame<'a>)) {
        if let Some(event) = self.visibility.pass(event) {
            self.inner.event(&event, out);
        }
    }

    fn tick(&mut self, now: Timestamp, out: &mut dyn for<'a> FnMut(A::Frame<'a>)) {
        self.inner.tick(now, out);
    }

    fn finish(&mut self, out: &mut dyn for<'a> FnMut(A::Frame<'a>)) {
        self.inner.finish(out);
    }
}

impl<E: Encode> Encode for Visible<E> {
    fn event(&mut self, seq: Option<u64>, event: &Event, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self.visibility.pass(event) {
            Some(event) => self.inner.event(seq, &event, out),
            None => Ok(()),
        }
    }

    fn tick(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.inner.tick(now, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.inner.finish(out)
    }
}
