//! Closing what is open: the only place that does.

use std::{sync::Arc, vec};

use anabranch_proto::{
    Event, EventKind, FinishedReason, Metadata, Outcome, ReplyId, SpawnMechanism, ToolCallId,
    ToolResultState,
    event::{
        DataBlockEnd, ModelCallEnd, ModelFinishedReason, ReplyEnd, StreamComplete, TextBlockEnd,
        ThinkingBlockEnd, ToolCallEnd, ToolResultEnd, ToolResultStart, ToolResultTextDelta,
    },
};

use crate::{
    Ending, EventProcessor, MessageAccumulator, Status,
    processor::Io,
    run::{Arguments, BlockKind, CallResult},
    tree::ROOT,
};

/// What becomes of the root's background children, and of those that code made between its runs, when a run of it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Background {
    Stays,
    Ends,
}

/// A run that is being closed, and the children that are still to be.
struct Closing {
    node: usize,
    ending: Ending,
    children: vec::IntoIter<usize>,
}

impl EventProcessor {
    /// Closes what has to be closed before an event of a run, and gives the event, completed where something was
    /// missing in it.
    pub(crate) fn close_before(&mut self, node: usize, event: Arc<Event>, io: &mut Io<'_>) -> Arc<Event> {
        if let EventKind::ToolResultEnd(end) = &event.kind {
            self.close_called(node, &end.tool_call_id, end.state, io);
        } else if let EventKind::ReplyEnd(end) = &event.kind {
            let ending = reply_ending(end);
            self.close_written(node, Some(&end.reply_id), io);
            self.close_waited_for(node, &end.reply_id, &ending, io);
            self.close_calls(node, Some(&end.reply_id), &ending, io);
        } else if let EventKind::StreamComplete(end) = &event.kind {
            let ending = Ending::new(end.outcome).error(end.error.clone());
            self.close_beneath(node, &ending, Background::Stays, io);
            if end.message.is_none() {
                let message = self.messages_of(node).and_then(MessageAccumulator::final_message);
                if message.is_some() {
                    let mut completed = Event::clone(&event);
                    completed.kind = StreamComplete::clone(end).message(message).into();
                    return Arc::new(completed);
                }
            }
        }
        event
    }

    /// Closes a run with everything beneath it. The root's background children stay.
    pub(crate) fn close_run(&mut self, node: usize, ending: &Ending, io: &mut Io<'_>) {
        if self.run(node).is_some() {
            self.close_beneath(node, ending, Background::Stays, io);
            self.close_terminal(node, ending, io);
        }
    }

    /// Closes every run of the tree.
    pub(crate) fn close_all(&mut self, ending: &Ending, io: &mut Io<'_>) {
        if self.run(ROOT).is_some() {
            self.close_beneath(ROOT, ending, Background::Ends, io);
            self.close_terminal(ROOT, ending, io);
        }
        let left = ending.beneath("ended with its session");
        for child in self.open_children(ROOT, Background::Ends) {
            self.close_run(child, &left, io);
        }
    }

    /// Closes the children that wait for a call's result.
    fn close_called(&mut self, node: usize, call: &ToolCallId, state: ToolResultState, io: &mut Io<'_>) {
        let Some(called) = self.nodes.get_mut(node).and_then(|node| node.called.remove(call)) else { return };
        let outcome =
            if state == ToolResultState::Interrupted { Outcome::Interrupted } else { Outcome::Failed };
        let ending = Ending::new(outcome).beneath("ended with its call");
        for child in called {
            if self.waits_for(node, call, child) {
                self.close_run(child, &ending, io);
            }
        }
    }

    /// Closes the children that a reply waits for and no open call does; those end with their calls. While another reply
    /// is open they stay, for nobody says whose they are.
    fn close_waited_for(&mut self, node: usize, reply: &ReplyId, ending: &Ending, io: &mut Io<'_>) {
        let Some(run) = self.run(node) else { return };
        if run.replies.len() > usize::from(run.replies.contains(reply)) {
            return;
        }
        let ending = ending.beneath("ended with its parent's reply");
        let waited_for = |child: &usize| {
            self.tree.record(*child).is_some_and(|record| {
                record.mechanism == Some(SpawnMechanism::Sync)
                    && record.tool_call_id.as_ref().is_none_or(|call| !run.calls.contains(call))
            })
        };
        let children: Vec<_> =
            self.open_children(node, Background::Stays).into_iter().filter(waited_for).collect();
        for child in children {
            self.close_run(child, &ending, io);
        }
    }

    /// Closes all that a run has open, deepest first, but not the run.
    ///
    /// What it writes itself ends first, then its children one after another, each with all beneath it, then the calls
    /// that waited for them, then its replies.
    fn close_beneath(&mut self, node: usize, ending: &Ending, background: Background, io: &mut Io<'_>) {
        let mut path = vec![self.begin_closing(node, ending.clone(), background, io)];
        while let Some(closing) = path.last_mut() {
            if let Some(child) = closing.children.next() {
                if self.run(child).is_some() {
                    let ending = closing.ending.beneath("ended with its parent");
                    path.push(self.begin_closing(child, ending, Background::Ends, io));
                }
            } else if let Some(closing) = path.pop() {
                self.close_calls(closing.node, None, &closing.ending, io);
                self.close_replies(closing.node, &closing.ending, io);
                if !path.is_empty() {
                    self.close_terminal(closing.node, &closing.ending, io);
                }
            }
        }
    }

    fn begin_closing(
        &mut self,
        node: usize,
        ending: Ending,
        background: Background,
        io: &mut Io<'_>,
    ) -> Closing {
        self.begin(node, None, io);
        self.close_written(node, None, io);
        Closing { node, ending, children: self.open_children(node, background).into_iter() }
    }

    /// The children of a session that have an open run.
    fn open_children(&self, node: usize, background: Background) -> Vec<usize> {
        let stays = |child: usize| {
            let mechanism = self.tree.record(child).and_then(|record| record.mechanism);
            let is_between = self.nodes.get(child).is_some_and(|node| node.is_between);
            background == Background::Stays
                && node == ROOT
                && (mechanism == Some(SpawnMechanism::AsyncWorker)
                    || (mechanism == Some(SpawnMechanism::Manual) && is_between))
        };
        let children = self.tree.record(node).map(|record| record.children.as_slice()).unwrap_or_default();
        children.iter().copied().filter(|&child| self.run(child).is_some() && !stays(child)).collect()
    }

    /// Closes what the model writes in a reply, or in all: blocks, model calls, the arguments of tool calls.
    fn close_written(&mut self, node: usize, reply: Option<&ReplyId>, io: &mut Io<'_>) {
        let Some(run) = self.run(node) else { return };
        let within = |of: &ReplyId| reply.is_none_or(|reply| reply == of);
        let blocks = run.blocks.select(|block| within(&block.reply));
        let model_calls: Vec<_> = run.model_calls.keys().filter(within).collect();
        let calls = run.calls.select(|call| within(&call.reply) && call.arguments == Arguments::Open);
        for (id, block) in blocks {
            let end: EventKind = match block.kind {
                BlockKind::Text => TextBlockEnd::new(block.reply, id).into(),
                BlockKind::Thinking => ThinkingBlockEnd::new(block.reply, id).into(),
                BlockKind::Data => DataBlockEnd::new(block.reply, id).into(),
            };
            self.emit(node, end, io);
        }
        for reply in model_calls {
            let end =
                ModelCallEnd::new(reply, 0_u64, 0_u64).finished_reason(ModelFinishedReason::Interrupted);
            self.emit(node, end, io);
        }
        for (id, call) in calls {
            self.emit(node, ToolCallEnd::new(call.reply, id), io);
        }
    }

    /// Gives a result to every call of a reply, or of all, that has none.
    fn close_calls(&mut self, node: usize, reply: Option<&ReplyId>, ending: &Ending, io: &mut Io<'_>) {
        let Some(run) = self.run(node) else { return };
        let within = |of: &ReplyId| reply.is_none_or(|reply| reply == of);
        for (id, call) in run.calls.select(|call| within(&call.reply) && call.result != CallResult::Given) {
            let (state, text) = ending.result(&call);
            let child = self.waited_for(node, &id);
            self.close_called(node, &id, state, io);
            if call.result == CallResult::Missing {
                self.emit(node, ToolResultStart::new(call.reply.clone(), id.clone(), call.name), io);
            }
            if !self.messages_of(node).is_some_and(|messages| messages.has_output(&id)) {
                let text = ToolResultTextDelta::new(call.reply.clone(), id.clone(), text);
                self.emit(node, text, io);
            }
            let response = child.map(|child| self.response(node, child)).unwrap_or_default();
            self.emit(node, ToolResultEnd::new(call.reply, id, state).response(response), io);
        }
    }

    /// The child that a call waits for: the last one that it spawned.
    fn waited_for(&self, node: usize, call: &ToolCallId) -> Option<usize> {
        self.nodes
            .get(node)?
            .called
            .get(call)?
            .iter()
            .copied()
            .rfind(|&child| self.waits_for(node, call, child))
    }

    fn waits_for(&self, node: usize, call: &ToolCallId, child: usize) -> bool {
        self.tree.record(child).is_some_and(|record| {
            record.parent_index == node
                && record.mechanism == Some(SpawnMechanism::Sync)
                && record.tool_call_id.as_ref() == Some(call)
        })
    }

    /// What a call that spawned a child would have answered to programs: which child, how it ended, the caller's keys.
    fn response(&self, node: usize, child: usize) -> Metadata {
        let Some(record) = self.tree.record(child) else { return Metadata::default() };
        let Status::Ended(outcome) = record.status else { return Metadata::default() };
        let mut response = Metadata::default();
        if let Some(subagent_id) = &record.subagent_id {
            response = response.with("subagent_id", subagent_id.as_str());
        }
        response = response.with("child_session_id", record.id.as_str()).with("outcome", outcome.as_str());
        // What the spawn has and its parent's own events have too is inherited.
        let inherited = self.run(node).map(|run| run.metadata.clone()).unwrap_or_default();
        let spawn = record.metadata.clone().without_reserved();
        let own = spawn.iter().filter(|(key, value)| inherited.get(key) != Some(*value));
        own.fold(response, |response, (key, value)| response.with_json(key, value.clone()))
    }

    fn close_replies(&mut self, node: usize, ending: &Ending, io: &mut Io<'_>) {
        let replies: Vec<_> = self.run(node).into_iter().flat_map(|run| run.replies.keys()).collect();
        for reply in replies {
            let session = self.tree.record(node).map(|record| record.id.clone());
            let session = session.unwrap_or_else(|| self.tree.root().id.clone());
            let end = ReplyEnd::new(session, reply, ending.outcome.finished_reason())
                .error(ending.error.clone().map(Box::new));
            self.emit(node, end, io);
        }
    }

    fn close_terminal(&mut self, node: usize, ending: &Ending, io: &mut Io<'_>) {
        let message = self.messages_of(node).and_then(MessageAccumulator::final_message);
        let end = StreamComplete::new(ending.outcome).error(ending.error.clone()).message(message);
        self.emit(node, end, io);
    }
}

/// How a reply's end ends what is open in the reply.
#[expect(clippy::match_same_arms, reason = "a kind that is not named fails the lint for wildcards")]
fn reply_ending(end: &ReplyEnd) -> Ending {
    let outcome = match end.finished_reason {
        FinishedReason::Completed => Outcome::Completed,
        FinishedReason::Interrupted => Outcome::Interrupted,
        FinishedReason::ExceedMaxIters => Outcome::ExceedMaxIters,
        FinishedReason::Error => Outcome::Failed,
        _ => Outcome::Failed,
    };
    Ending::new(outcome).error(end.error.as_deref().cloned())
}
