//! One open run of a session: what is open in it.

use std::{hash::Hash, sync::Arc};

use anabranch_proto::{BlockId, Event, EventKind, Metadata, ReplyId, Scope, ToolCallId};

use crate::{MessageAccumulator, hash::IdMap};

/// An open run.
#[derive(Debug)]
pub(crate) struct Run {
    /// The one scope that the run's events have.
    pub(crate) scope: Scope,
    /// The metadata of the run's first own event, its prompt: what is made for the run has it. Until then, or where the
    /// prompt itself is made before anything came, what the run's spawn says.
    pub(crate) metadata: Metadata,
    pub(crate) progress: Progress,
    pub(crate) counting: Counting,
    /// The child's messages. The root's outlive its runs and are the processor's.
    pub(crate) messages: Messages,
    pub(crate) replies: Ordered<ReplyId, ()>,
    pub(crate) model_calls: Ordered<ReplyId, ()>,
    pub(crate) blocks: Ordered<BlockId, OpenBlock>,
    pub(crate) calls: Ordered<ToolCallId, OpenCall>,
}

/// A child's messages, made of its events when somebody asks for them or they have become many: most children end by
/// their own word, and nobody asks.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    accumulator: MessageAccumulator,
    /// What the accumulator has not had yet.
    events: Vec<Arc<Event>>,
    bytes: usize,
}

impl Messages {
    /// How many events wait at most, and of how many bytes.
    const MOST_EVENTS: usize = 32;
    const MOST_BYTES: usize = 16 * 1024;

    pub(crate) fn apply(&mut self, event: &Arc<Event>) {
        self.bytes += event.approximate_bytes();
        self.events.push(Arc::clone(event));
        if self.events.len() >= Self::MOST_EVENTS || self.bytes >= Self::MOST_BYTES {
            self.made();
        }
    }

    pub(crate) fn made(&mut self) -> &MessageAccumulator {
        self.bytes = 0;
        for event in self.events.drain(..) {
            self.accumulator.apply(&event);
        }
        &self.accumulator
    }
}

/// Whether a run has had an event of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Announced,
    Begun,
}

/// Whether the producer counts the session's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    Counted,
    /// Its events say `run` 1 whichever run they belong to.
    Uncounted,
}

/// An open block.
#[derive(Clone, Debug)]
pub(crate) struct OpenBlock {
    pub(crate) kind: BlockKind,
    pub(crate) reply: ReplyId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Text,
    Thinking,
    Data,
}

/// A tool call whose arguments or whose result is not complete.
#[derive(Clone, Debug)]
pub(crate) struct OpenCall {
    pub(crate) name: Arc<str>,
    pub(crate) reply: ReplyId,
    pub(crate) arguments: Arguments,
    pub(crate) result: CallResult,
    /// Whether a person was asked whether it may run, and has not answered.
    pub(crate) is_asked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arguments {
    Open,
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallResult {
    Missing,
    Open,
    Given,
}

impl Run {
    pub(crate) fn new(scope: Scope, counting: Counting) -> Self {
        Self {
            scope,
            metadata: Metadata::default(),
            progress: Progress::Announced,
            counting,
            messages: Messages::default(),
            replies: Ordered::default(),
            model_calls: Ordered::default(),
            blocks: Ordered::default(),
            calls: Ordered::default(),
        }
    }

    /// Takes note of what one of the run's own events opens and closes.
    #[expect(clippy::match_same_arms, reason = "a kind that is not named fails the lint for wildcards")]
    pub(crate) fn track(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ReplyStart(start) => self.replies.insert_once(&start.reply_id),
            EventKind::ReplyEnd(end) => self.replies.remove(&end.reply_id),
            EventKind::ModelCallStart(start) => self.model_calls.insert_once(&start.reply_id),
            EventKind::ModelCallEnd(end) => self.model_calls.remove(&end.reply_id),
            EventKind::TextBlockStart(start) => {
                self.open_block(BlockKind::Text, &start.block_id, &start.reply_id);
            }
            EventKind::ThinkingBlockStart(start) => {
                self.open_block(BlockKind::Thinking, &start.block_id, &start.reply_id);
            }
            EventKind::DataBlockStart(start) => {
                self.open_block(BlockKind::Data, &start.block_id, &start.reply_id);
            }
            EventKind::TextBlockEnd(end) => self.blocks.remove(&end.block_id),
            EventKind::ThinkingBlockEnd(end) => self.blocks.remove(&end.block_id),
            EventKind::DataBlockEnd(end) => self.blocks.remove(&end.block_id),
            EventKind::ToolCallStart(start) => {
                let call = OpenCall {
                    name: Arc::clone(&start.tool_call_name),
                    reply: start.reply_id.clone(),
                    arguments: Arguments::Open,
                    result: CallResult::Missing,
                    is_asked: false,
                };
                self.calls.insert(start.tool_call_id.clone(), call);
            }
            EventKind::ToolCallEnd(end) => {
                self.settle(&end.tool_call_id, |call| call.arguments = Arguments::Complete);
            }
            EventKind::ToolResultStart(start) => {
                if let Some(call) = self.calls.get_mut(&start.tool_call_id) {
                    call.result = CallResult::Open;
                } else {
                    let call = OpenCall {
                        name: Arc::clone(&start.tool_call_name),
                        reply: start.reply_id.clone(),
                        arguments: Arguments::Complete,
                        result: CallResult::Open,
                        is_asked: false,
                    };
                    self.calls.insert(start.tool_call_id.clone(), call);
                }
            }
            EventKind::ToolResultEnd(end) => {
                self.settle(&end.tool_call_id, |call| call.result = CallResult::Given);
            }
            EventKind::ExternalExecutionResult(result) => {
                for given in &result.execution_results {
                    self.settle(&given.id, |call| {
                        // A result that has begun on the stream ends there too.
                        if call.result == CallResult::Missing {
                            call.result = CallResult::Given;
                        }
                    });
                }
            }
            EventKind::RequireUserConfirm(require) => {
                for call in &require.tool_calls {
                    self.settle(&call.id, |call| call.is_asked = true);
                }
            }
            EventKind::UserConfirmResult(result) => {
                for answer in &result.confirm_results {
                    self.settle(&answer.tool_call.id, |call| call.is_asked = false);
                }
            }
            EventKind::TextBlockDelta(_)
            | EventKind::ThinkingBlockDelta(_)
            | EventKind::DataBlockDelta(_)
            | EventKind::HintBlock(_)
            | EventKind::ToolCallDelta(_)
            | EventKind::ToolResultTextDelta(_)
            | EventKind::ToolResultDataDelta(_)
            | EventKind::RequireExternalExecution(_)
            | EventKind::UserInterrupt(_)
            | EventKind::ExceedMaxIters(_)
            | EventKind::Custom(_)
            | EventKind::UserMessage(_)
            | EventKind::SpawnSessionStart(_)
            | EventKind::SessionUpdated(_)
            | EventKind::StreamComplete(_)
            | EventKind::Unknown(_) => {}
            _ => {}
        }
    }

    fn open_block(&mut self, kind: BlockKind, id: &BlockId, reply: &ReplyId) {
        self.blocks.insert(id.clone(), OpenBlock { kind, reply: reply.clone() });
    }

    /// Changes a call, and forgets it where its arguments and its result are complete.
    fn settle(&mut self, id: &ToolCallId, change: impl FnOnce(&mut OpenCall)) {
        if let Some(call) = self.calls.get_mut(id) {
            change(call);
            if call.arguments == Arguments::Complete && call.result == CallResult::Given {
                self.calls.remove(id);
            }
        }
    }
}

/// A map that gives its entries in the order in which they came.
#[derive(Debug)]
pub(crate) struct Ordered<K, V> {
    entries: IdMap<K, (u64, V)>,
    next: u64,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Self { entries: IdMap::default(), next: 0 }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Ordered<K, V> {
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.entries.insert(key, (self.next, value));
        self.next += 1;
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.entries.remove(key);
    }

    /// The entries that `wanted` chooses, in order.
    pub(crate) fn select(&self, wanted: impl Fn(&V) -> bool) -> Vec<(K, V)> {
        let mut chosen: Vec<_> = self.entries.iter().filter(|(_, (_, value))| wanted(value)).collect();
        chosen.sort_unstable_by_key(|(_, (order, _))| *order);
        chosen.into_iter().map(|(key, (_, value))| (key.clone(), value.clone())).collect()
    }
}

impl<K: Clone + Eq + Hash> Ordered<K, ()> {
    /// Adds a key, unless it is there.
    pub(crate) fn insert_once(&mut self, key: &K) {
        if !self.contains(key) {
            self.insert(key.clone(), ());
        }
    }

    /// The keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.select(|()| true).into_iter().map(|(key, ())| key)
    }
}
