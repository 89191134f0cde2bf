//! The sessions below one root: who spawned whom, how each is doing, what it used.

use std::{iter, sync::Arc};

use anabranch_proto::{
    Message, Metadata, Outcome, SessionId, SourceType, SpawnMechanism, SubagentId, Timestamp, ToolCallId,
    Usage, event::StreamComplete,
};

use crate::hash::IdMap;

/// The index of the root's record.
pub(crate) const ROOT: usize = 0;

/// The root session and every session below it, ended ones included.
///
/// The only place that knows parent, depth, runs, status, usage and the final message of each session.
#[derive(Debug)]
pub struct SessionTree {
    root: SessionRecord,
    /// Record `n` is at `n - 1`.
    children: Vec<SessionRecord>,
    index: IdMap<SessionId, usize>,
}

/// What is known of one session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The session.
    pub id: SessionId,
    /// The session that spawned its last run; none for the root.
    pub parent: Option<SessionId>,
    /// How deep it lies: 0 for the root.
    pub depth: u32,
    /// The sub-agent as the application knows it; none for the root.
    pub subagent_id: Option<SubagentId>,
    /// The name of the agent or team; of the root that of its last reply, empty before the first.
    pub source_name: Arc<str>,
    /// What runs in it.
    pub source_type: SourceType,
    /// What created its last run; none for the root.
    pub mechanism: Option<SpawnMechanism>,
    /// What it is to do, for people.
    pub description: String,
    /// The parent's tool call that spawned its last run, where one did.
    pub tool_call_id: Option<ToolCallId>,
    /// The metadata of the spawn of its last run: the prompt in brief, then the caller's own keys.
    pub metadata: Metadata,
    /// How its last run became known.
    pub announcement: Announcement,
    /// The number of its last run; 0 before the root's first.
    pub runs: u32,
    /// How it is doing.
    pub status: Status,
    /// Tool calls that it made, over all runs.
    pub tool_calls: u64,
    /// Tokens that it used, over all runs.
    pub usage: Usage,
    /// Tool calls that it and everything below it made.
    pub subtree_tool_calls: u64,
    /// Tokens that it and everything below it used.
    pub subtree_usage: Usage,
    /// When its last run began.
    pub started_at: Option<Timestamp>,
    /// When its last run ended.
    pub ended_at: Option<Timestamp>,
    /// What its last run came to.
    pub final_message: Option<Message>,
    pub(crate) parent_index: usize,
    pub(crate) children: Vec<usize>,
}

/// How a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// It has had no run.
    Idle,
    /// Its last run is open.
    Running,
    /// Its last run ended.
    Ended(Outcome),
}

/// How a run became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Announcement {
    /// By a spawn that came first; the root's runs need none.
    Spawn,
    /// By its first event: nobody had announced it.
    Fallback,
    /// By its first event, and a spawn came later.
    Upgraded,
}

impl SessionTree {
    pub(crate) fn new(root: SessionId) -> Self {
        let index = IdMap::from_iter([(root.clone(), ROOT)]);
        Self { root: SessionRecord::new(root), children: Vec::new(), index }
    }

    /// What is known of a session.
    #[must_use]
    pub fn get(&self, session: &SessionId) -> Option<&SessionRecord> {
        self.record(self.index_of(session)?)
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> &SessionRecord {
        &self.root
    }

    /// The sessions that a session spawned, in the order in which they became known.
    pub fn children(&self, session: &SessionId) -> impl Iterator<Item = &SessionRecord> {
        let record = self.get(session);
        record.into_iter().flat_map(|record| &record.children).filter_map(|&child| self.record(child))
    }

    /// Every session in the order in which it became known, the root first.
    pub fn iter(&self) -> impl Iterator<Item = &SessionRecord> {
        iter::once(&self.root).chain(&self.children)
    }

    /// How many sessions there are, the root included: never 0.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "the root is always there")]
    pub fn len(&self) -> usize {
        1 + self.children.len()
    }

    pub(crate) fn index_of(&self, session: &SessionId) -> Option<usize> {
        self.index.get(session).copied()
    }

    pub(crate) fn record(&self, index: usize) -> Option<&SessionRecord> {
        if index == ROOT { Some(&self.root) } else { self.children.get(index - 1) }
    }

    pub(crate) fn record_mut(&mut self, index: usize) -> Option<&mut SessionRecord> {
        if index == ROOT { Some(&mut self.root) } else { self.children.get_mut(index - 1) }
    }

    /// Begins a run of a child under a parent; a child that is not there is added.
    pub(crate) fn begin_child(&mut self, child: &SessionId, parent: usize) -> usize {
        let index = self.index_of(child).unwrap_or_else(|| {
            self.children.push(SessionRecord::new(child.clone()));
            self.index.insert(child.clone(), self.children.len());
            self.children.len()
        });
        let (parent_id, depth) = self
            .record(parent)
            .map_or_else(|| (self.root.id.clone(), 0), |parent| (parent.id.clone(), parent.depth));
        if let Some(record) = self.record_mut(index) {
            let before = record.parent.replace(parent_id).map(|_| record.parent_index);
            record.parent_index = parent;
            record.depth = depth + 1;
            if before != Some(parent) {
                if let Some(before) = before.and_then(|before| self.record_mut(before)) {
                    before.children.retain(|&child| child != index);
                }
                if let Some(parent) = self.record_mut(parent) {
                    parent.children.push(index);
                }
            }
        }
        index
    }

    /// Marks a run as begun.
    pub(crate) fn begin_run(&mut self, index: usize, run: u32, at: Timestamp) {
        if let Some(record) = self.record_mut(index) {
            record.runs = run;
            record.status = Status::Running;
            record.started_at = Some(at);
            record.ended_at = None;
            record.final_message = None;
        }
    }

    /// Marks a run as ended.
    pub(crate) fn end_run(&mut self, index: usize, end: &StreamComplete, at: Timestamp) {
        if let Some(record) = self.record_mut(index) {
            record.status = Status::Ended(end.outcome);
            record.ended_at = Some(at);
            record.final_message.clone_from(&end.message);
        }
    }

    /// Counts a tool call of a session, for it and for all above it.
    pub(crate) fn count_tool_call(&mut self, index: usize) {
        if let Some(record) = self.record_mut(index) {
            record.tool_calls += 1;
        }
        self.each_upwards(index, |record| record.subtree_tool_calls += 1);
    }

    /// Counts tokens of a session, for it and for all above it.
    pub(crate) fn count_usage(&mut self, index: usize, usage: Usage) {
        if let Some(record) = self.record_mut(index) {
            record.usage.add(usage);
        }
        self.each_upwards(index, |record| record.subtree_usage.add(usage));
    }

    /// The root has the name that it replies by; a child that of its spawn.
    pub(crate) fn name_root(&mut self, index: usize, name: &Arc<str>) {
        if index == ROOT {
            self.root.source_name = Arc::clone(name);
        }
    }

    fn each_upwards(&mut self, mut index: usize, change: impl Fn(&mut SessionRecord)) {
        while let Some(record) = self.record_mut(index) {
            change(record);
            if index == ROOT {
                return;
            }
            index = record.parent_index;
        }
    }
}

impl SessionRecord {
    fn new(id: SessionId) -> Self {
        Self {
            id,
            parent: None,
            depth: 0,
            subagent_id: None,
            source_name: Arc::from(""),
            source_type: SourceType::Agent,
            mechanism: None,
            description: String::new(),
            tool_call_id: None,
            metadata: Metadata::default(),
            announcement: Announcement::Spawn,
            runs: 0,
            status: Status::Idle,
            tool_calls: 0,
            usage: Usage::default(),
            subtree_tool_calls: 0,
            subtree_usage: Usage::default(),
            started_at: None,
            ended_at: None,
            final_message: None,
            parent_index: ROOT,
            children: Vec::new(),
        }
    }
}
