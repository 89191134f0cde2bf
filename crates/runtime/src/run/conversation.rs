//! What a run's model has been told: shared by the loop and by what its tools start from it.

use std::{
    collections::HashSet,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anabranch_proto::{ContentBlock, Event, Message, Role, ToolCallId, ToolResultState};
use anabranch_session::MessageAccumulator;

/// A run's conversation: what lay before it, then its prompt and its reply.
pub(crate) struct Conversation {
    /// The conversation before this run.
    history: Vec<Message>,
    /// This run's prompt and reply, built from the same events as everybody else builds them from.
    run: Mutex<MessageAccumulator>,
}

impl Conversation {
    pub(crate) fn new(history: Vec<Message>) -> Self {
        Self { history, run: Mutex::new(MessageAccumulator::new()) }
    }

    /// Takes in one of the run's own events.
    pub(crate) fn apply(&self, event: &Event) {
        self.lock().apply(event);
    }

    /// All messages. A reply that has said nothing yet, or never did, is no part of a conversation.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let run = self.lock();
        let messages = self.history.iter().chain(run.messages());
        messages.filter(|message| !message.content.is_empty()).cloned().collect()
    }

    /// All messages, without calls that have no result: what another run can start from.
    pub(crate) fn settled(&self) -> Vec<Message> {
        let mut messages = self.messages();
        for message in &mut messages {
            let given: HashSet<ToolCallId> = message.content.iter().filter_map(given).cloned().collect();
            message.content.retain(|block| {
                if let ContentBlock::ToolCall(call) = block {
                    given.contains(&call.id)
                } else if let ContentBlock::ToolResult(result) = block {
                    given.contains(&result.id)
                } else {
                    true
                }
            });
        }
        messages.retain(|message| !message.content.is_empty());
        messages
    }

    /// What the run comes to: what it said in the end.
    pub(crate) fn final_message(&self) -> Option<Message> {
        self.lock().final_message()
    }

    /// The text and data of the run's replies, whatever lay between.
    pub(crate) fn said(&self) -> Vec<ContentBlock> {
        let run = self.lock();
        let replies = run.messages().iter().filter(|message| message.role != Role::User);
        let said = |block: &&ContentBlock| matches!(block, ContentBlock::Text(_) | ContentBlock::Data(_));
        replies.flat_map(|message| &message.content).filter(said).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, MessageAccumulator> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The call whose complete result a block is.
fn given(block: &ContentBlock) -> Option<&ToolCallId> {
    let ContentBlock::ToolResult(result) = block else { return None };
    (result.state != ToolResultState::Running).then_some(&result.id)
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("history", &self.history.len()).finish_non_exhaustive()
    }
}

/// How much of its parent's conversation a forked sub-agent starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fork {
    /// All of it.
    #[default]
    Full,
    /// The last so many turns: a prompt and what was done for it. The turn under way is one.
    LastTurns(usize),
}

impl Fork {
    pub(crate) fn filter(self, mut messages: Vec<Message>) -> Vec<Message> {
        if let Self::LastTurns(turns) = self {
            let prompts: Vec<_> = messages
                .iter()
                .enumerate()
                .filter(|(_, message)| message.role == Role::User)
                .map(|(at, _)| at)
                .collect();
            let first = match prompts.len().checked_sub(turns) {
                Some(before) => prompts.get(before).copied().unwrap_or(messages.len()),
                None => 0,
            };
            messages.drain(..first.min(messages.len()));
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::TextBlock;

    use super::*;

    fn message(role: Role, text: &str) -> Message {
        Message::new(text, "name", role, vec![TextBlock::new(text).into()])
    }

    #[test]
    fn the_last_turns_begin_with_a_prompt() {
        let messages = || {
            [("1", Role::User), ("a", Role::Assistant), ("2", Role::User), ("b", Role::Assistant)]
                .map(|(text, role)| message(role, text))
                .to_vec()
        };
        let texts =
            |fork: Fork| fork.filter(messages()).iter().map(Message::text).collect::<Vec<_>>().concat();
        assert_eq!(texts(Fork::Full), "1a2b");
        assert_eq!(texts(Fork::LastTurns(0)), "");
        assert_eq!(texts(Fork::LastTurns(1)), "2b");
        assert_eq!(texts(Fork::LastTurns(2)), "1a2b");
        assert_eq!(texts(Fork::LastTurns(9)), "1a2b");
    }
}
