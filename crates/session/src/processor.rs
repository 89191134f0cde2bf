//! The machine that decides what enters a session's stream.

use std::sync::Arc;

use anabranch_proto::{
    Admitted, ChildScope, Event, EventId, EventKind, Message, Offset, Scope, SessionId, Stamp, TextBlock,
    Timestamp, ToolCallId,
    event::{MessageOrigin, UserMessage},
};

use crate::{
    Counters, Ending, Limits, MessageAccumulator, SessionTree,
    hash::IdMap,
    recent::{Fresh, Recent, Source},
    refused::Refused,
    run::{Counting, Progress, Run},
    tree::ROOT,
};

/// Decides what enters one root session's stream of events, and numbers it.
///
/// A machine without I/O: it is given events, from the root and from every child in the order in which each session
/// produced its own, and appends to a list what enters the stream because of them. Ids and times of what it makes itself
/// come from the [`Stamp`].
///
/// What it holds, whatever is given to it:
/// - A child's run is announced by one spawn before its first event, and every run begins with a prompt.
/// - Nothing enters twice: an event is known by its id and the run whose it is. Nothing of a run enters behind its `STREAM_COMPLETE`, and there is exactly one of these.
/// - What a run has open is closed before the run is: the processor is the only one that does so.
/// - Numbers have no gaps.
///
/// Given what it admitted, a fresh processor admits the same: replaying a log rebuilds the state.
#[derive(Debug)]
pub struct EventProcessor {
    pub(crate) limits: Limits,
    pub(crate) tree: SessionTree,
    /// What is private about each session, at its index in the tree.
    pub(crate) nodes: Vec<Node>,
    /// The open run of each scope, by the scope's address. The run keeps the scope alive.
    pub(crate) scopes: IdMap<usize, usize>,
    pub(crate) refused: Refused,
    pub(crate) counters: Counters,
    recent: Recent,
    pub(crate) conversation: MessageAccumulator,
    pub(crate) seq: u64,
    state: State,
}

/// Whether the session takes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Closed,
}

/// What the processor knows of a session beyond its record.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) run: Option<Box<Run>>,
    /// Whose the events in the open run's scope are, where it is a child's.
    source: Option<Source>,
    /// Whether its last run began between two runs of the root, which therefore do not end it.
    pub(crate) is_between: bool,
    /// The event that announced the last run.
    pub(crate) spawned_by: Option<EventId>,
    /// The last run that was refused.
    pub(crate) refused_run: u32,
    /// The children that each call spawned, ended ones included. The root may have some between its runs.
    pub(crate) called: IdMap<ToolCallId, Vec<usize>>,
}

/// Where ids and times come from, and where admitted events go.
pub(crate) struct Io<'a> {
    pub(crate) stamp: &'a dyn Stamp,
    /// When what is made here is said to have happened.
    pub(crate) at: Timestamp,
    pub(crate) out: &'a mut Vec<Admitted>,
}

impl EventProcessor {
    /// A processor for a root session that has had no events.
    #[must_use]
    pub fn new(root: SessionId, limits: Limits) -> Self {
        Self {
            limits,
            tree: SessionTree::new(root),
            nodes: vec![Node::default()],
            scopes: IdMap::default(),
            refused: Refused::default(),
            counters: Counters::default(),
            recent: Recent::new(),
            conversation: MessageAccumulator::new(),
            seq: 0,
            state: State::Open,
        }
    }

    /// Takes an event and appends to `out` what enters the stream because of it: nothing, the event, or more.
    pub fn process(&mut self, event: Arc<Event>, stamp: &dyn Stamp, out: &mut Vec<Admitted>) {
        // What comes before an event because of it is not later than it. A time that is not ours to read is left alone.
        let at = if event.created_at.offset() == Offset::Utc { event.created_at } else { stamp.now() };
        let io = &mut Io { stamp, at, out };
        if self.state == State::Closed {
            self.counters.late += 1;
            return;
        }
        let (source, node) = self.source(&event.scope);
        let Some(fresh) = self.recent.fresh(source, &event.id) else {
            self.counters.duplicates += 1;
            return;
        };
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            self.spawn(&event, spawn, fresh, io);
        } else if let EventKind::SessionUpdated(update) = &event.kind {
            self.update(&event, update, fresh, io);
        } else {
            self.own(event, node, fresh, io);
        }
    }

    /// Whose an event is, and the open run whose scope it shares.
    fn source(&self, scope: &Scope) -> (Source, Option<usize>) {
        let Scope::Child(scope) = scope else { return (self.recent.root(), Some(ROOT)) };
        let shared = self.scopes.get(&address(scope)).copied();
        let known = shared.and_then(|node| self.nodes.get(node)?.source);
        (known.unwrap_or_else(|| self.recent.source(scope)), shared)
    }

    /// Closes everything: the root's run and all children, background ones too. From here on every event is late.
    ///
    /// Where the ending is interrupted so is what is open beneath; else that has failed. A second call does nothing.
    pub fn close(&mut self, ending: impl Into<Ending>, stamp: &dyn Stamp, out: &mut Vec<Admitted>) {
        if self.state == State::Open {
            self.close_all(&ending.into(), &mut Io { stamp, at: stamp.now(), out });
            self.state = State::Closed;
        }
    }

    /// Closes the root's open run, but not its background children. Does nothing between runs.
    pub fn close_reply(&mut self, ending: impl Into<Ending>, stamp: &dyn Stamp, out: &mut Vec<Admitted>) {
        let root = self.tree.root().id.clone();
        self.close_session(&root, ending, stamp, out);
    }

    /// Closes one child's open run and everything beneath it. Does nothing where the child has none.
    ///
    /// Of the root it closes what [`close_reply`](Self::close_reply) does.
    pub fn close_session(
        &mut self,
        session: &SessionId,
        ending: impl Into<Ending>,
        stamp: &dyn Stamp,
        out: &mut Vec<Admitted>,
    ) {
        if let Some(node) = self.tree.index_of(session) {
            self.close_run(node, &ending.into(), &mut Io { stamp, at: stamp.now(), out });
        }
    }

    /// The sessions, ended ones included.
    #[must_use]
    pub fn tree(&self) -> &SessionTree {
        &self.tree
    }

    /// The root's conversation so far: prompts and completed replies.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.conversation.completed()
    }

    /// The root's open reply as far as it has come.
    #[must_use]
    pub fn open_message(&self) -> Option<&Message> {
        self.conversation.open_message()
    }

    /// What was dropped, added and changed so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The number of the last event admitted; 0 before the first.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.seq
    }

    /// Takes an event that a session says of itself.
    fn own(&mut self, mut event: Arc<Event>, shared: Option<usize>, fresh: Fresh, io: &mut Io<'_>) {
        let node = match &event.scope {
            Scope::Root => self.root_run(&event),
            Scope::Child(_) if shared.is_some() => shared,
            Scope::Child(scope) => {
                let Some((node, fit)) = self.locate(&Arc::clone(scope), &event, io) else { return };
                if fit == Fit::Wrong
                    && let Some(run) = self.run(node)
                {
                    let mut corrected = Event::clone(&event);
                    corrected.scope = run.scope.clone();
                    event = Arc::new(corrected);
                    self.counters.rewritten += 1;
                }
                Some(node)
            }
        };
        let Some(node) = node else {
            self.counters.late += 1;
            return;
        };
        let event = self.steering(node, event);
        self.begin(node, Some(&event), io);
        let event = self.close_before(node, event, io);
        self.recent.insert(fresh, event.id.clone());
        self.admit_own(node, event, io);
    }

    /// A prompt while its run is under way steers it, and one that begins a run does not, whatever its producer calls it: a
    /// run has one prompt.
    fn steering(&mut self, node: usize, event: Arc<Event>) -> Arc<Event> {
        let EventKind::UserMessage(prompt) = &event.kind else { return event };
        let has_begun = self.run(node).is_some_and(|run| run.progress == Progress::Begun);
        if has_begun == (prompt.origin == MessageOrigin::Steering) {
            return event;
        }
        let origin = if has_begun { MessageOrigin::Steering } else { MessageOrigin::Parent };
        self.counters.rewritten += 1;
        let mut prompt = prompt.clone();
        prompt.origin = origin;
        let mut steering = Event::clone(&event);
        steering.kind = EventKind::UserMessage(prompt);
        Arc::new(steering)
    }

    /// The root's run that an event belongs to. A prompt begins one where none is open; so does the very first event. What
    /// was to steer a run that has ended is late.
    fn root_run(&mut self, event: &Event) -> Option<usize> {
        let runs = self.tree.root().runs;
        if self.run(ROOT).is_none() {
            let begins = if let EventKind::UserMessage(prompt) = &event.kind {
                prompt.origin != MessageOrigin::Steering
            } else {
                runs == 0
            };
            if !begins {
                return None;
            }
            self.open_root(event.created_at);
        }
        Some(ROOT)
    }

    pub(crate) fn open_root(&mut self, at: Timestamp) {
        self.tree.begin_run(ROOT, self.tree.root().runs + 1, at);
        self.open(ROOT, Run::new(Scope::Root, Counting::Counted));
    }

    /// Sees to it that a run has begun with a prompt: makes one where something else comes first.
    pub(crate) fn begin(&mut self, node: usize, first: Option<&Event>, io: &mut Io<'_>) {
        if self.run(node).is_none_or(|run| run.progress == Progress::Begun) {
            return;
        }
        let metadata = first.map_or_else(|| self.brought(node), |event| event.metadata.clone());
        if let Some(run) = self.run_mut(node) {
            run.progress = Progress::Begun;
            run.metadata = metadata;
        }
        if let Some(EventKind::UserMessage(_)) = first.map(|event| &event.kind) {
            return;
        }
        let prompt = self.tree.record(node).and_then(|record| record.metadata.get_str("prompt"));
        let content = prompt.map(|prompt| TextBlock::new(prompt).into());
        let origin = if node == ROOT { MessageOrigin::User } else { MessageOrigin::Parent };
        let message = UserMessage::new(io.stamp.message_id(), Vec::from_iter(content), origin);
        self.emit(node, message, io);
    }

    /// Admits an event that is missing.
    pub(crate) fn emit(&mut self, node: usize, kind: impl Into<EventKind>, io: &mut Io<'_>) {
        if let Some(run) = self.run(node) {
            let (scope, metadata) = (run.scope.clone(), run.metadata.clone());
            let event = Event::new(io.stamp.event_id_at(io.at), io.at, scope, metadata, kind);
            self.counters.synthesised += 1;
            self.admit_own(node, Arc::new(event), io);
        }
    }

    /// Numbers one of a run's own events, having taken note of it.
    fn admit_own(&mut self, node: usize, event: Arc<Event>, io: &mut Io<'_>) {
        if let Some(run) = self.nodes.get_mut(node).and_then(|node| node.run.as_mut()) {
            run.track(&event);
            if node == ROOT {
                self.conversation.apply(&event);
            } else {
                run.messages.apply(&event);
            }
        }
        if let EventKind::ToolCallStart(_) = event.kind {
            self.tree.count_tool_call(node);
        } else if let EventKind::ModelCallEnd(end) = &event.kind {
            self.tree.count_usage(node, end.usage());
        } else if let EventKind::ReplyStart(start) = &event.kind {
            self.tree.name_root(node, &start.name);
        } else if let EventKind::StreamComplete(end) = &event.kind {
            self.tree.end_run(node, end, event.created_at);
            self.end(node);
        }
        self.admit(event, io);
    }

    /// Numbers an event that announces a child or says something new of it.
    pub(crate) fn admit_announcement(&mut self, event: Arc<Event>, fresh: Option<Fresh>, io: &mut Io<'_>) {
        if let Some(fresh) = fresh {
            self.recent.insert(fresh, event.id.clone());
        }
        self.admit(event, io);
    }

    fn admit(&mut self, event: Arc<Event>, io: &mut Io<'_>) {
        self.seq += 1;
        io.out.push(Admitted::new(self.seq, event));
    }

    pub(crate) fn run(&self, node: usize) -> Option<&Run> {
        self.nodes.get(node)?.run.as_deref()
    }

    pub(crate) fn run_mut(&mut self, node: usize) -> Option<&mut Run> {
        self.nodes.get_mut(node)?.run.as_deref_mut()
    }

    /// The messages of an open run's session.
    pub(crate) fn messages_of(&mut self, node: usize) -> Option<&MessageAccumulator> {
        if node == ROOT { Some(&self.conversation) } else { Some(self.run_mut(node)?.messages.made()) }
    }

    /// Opens a run and makes its scope known.
    pub(crate) fn open(&mut self, node: usize, run: Run) {
        let source = run.scope.child().map(|scope| self.recent.source(scope));
        if let Some(scope) = run.scope.child() {
            self.scopes.insert(address(scope), node);
        }
        if node >= self.nodes.len() {
            self.nodes.resize_with(node + 1, Node::default);
        }
        if let Some(node) = self.nodes.get_mut(node) {
            node.run = Some(Box::new(run));
            node.source = source;
        }
    }

    /// Forgets a run and its scope.
    fn end(&mut self, node: usize) {
        let Some(node) = self.nodes.get_mut(node) else { return };
        node.called.clear();
        if let Some(run) = node.run.take()
            && let Some(scope) = run.scope.child()
        {
            self.scopes.remove(&address(scope));
        }
    }
}

/// Whether an event's scope says what the tree does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Right,
    Wrong,
}

pub(crate) fn address(scope: &Arc<ChildScope>) -> usize {
    Arc::as_ptr(scope).addr()
}
