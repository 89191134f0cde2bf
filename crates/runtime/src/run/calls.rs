//! The names of a session's tool calls.

use std::collections::{HashMap, HashSet};

use anabranch_proto::{ContentBlock, Message, ToolCallId};

/// Gives each call of a session an id of its own: models begin with `call_0` again and again.
#[derive(Debug, Default)]
pub(crate) struct CallNames {
    used: HashSet<ToolCallId>,
    /// What the model calls a call of this turn, and its id.
    of_turn: HashMap<ToolCallId, ToolCallId>,
    /// What stands behind each name where the run was begun before, by somebody whose names are not known.
    behind: String,
}

impl CallNames {
    /// The names that a conversation has used.
    pub(crate) fn of(messages: &[Message]) -> Self {
        let blocks = messages.iter().flat_map(|message| &message.content);
        let used = blocks
            .filter_map(
                |block| if let ContentBlock::ToolCall(call) = block { Some(call.id.clone()) } else { None },
            )
            .collect();
        Self { used, ..Self::default() }
    }

    /// The names of a run that was begun so often.
    pub(crate) fn attempt(mut self, attempt: u32) -> Self {
        if attempt > 1 {
            self.behind = format!("@{attempt}");
        }
        self
    }

    /// A new model call begins; it may use the names of the last one again.
    pub(crate) fn next_turn(&mut self) {
        self.of_turn.clear();
    }

    /// The id of a new call: the model's name for it, or with `#2`, `#3`… where that was used.
    pub(crate) fn begin(&mut self, name: &ToolCallId) -> ToolCallId {
        let mut id = if self.behind.is_empty() {
            name.clone()
        } else {
            ToolCallId::from(format!("{name}{}", self.behind))
        };
        let mut number = 2_u64;
        while !self.used.insert(id.clone()) {
            id = ToolCallId::from(format!("{name}{}#{number}", self.behind));
            number += 1;
        }
        self.of_turn.insert(name.clone(), id.clone());
        id
    }

    /// The id of the call that the model names so in this turn.
    pub(crate) fn get(&self, name: &ToolCallId) -> Option<&ToolCallId> {
        self.of_turn.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_used_gets_a_number() {
        let mut names = CallNames::default();
        let mut begin = |name: &str| names.begin(&name.into()).to_string();
        assert_eq!(begin("call_0"), "call_0");
        assert_eq!(begin("call_0"), "call_0#2");
        assert_eq!(begin("call_0#2"), "call_0#2#2");
        assert_eq!(begin("call_0"), "call_0#3");
        assert_eq!(names.get(&"call_0".into()).unwrap().as_str(), "call_0#3");
        names.next_turn();
        assert_eq!(names.get(&"call_0".into()), None);
    }

    #[test]
    fn a_run_that_is_begun_again_has_names_of_its_own() {
        let mut names = CallNames::default().attempt(3);
        let mut begin = |name: &str| names.begin(&name.into()).to_string();
        assert_eq!(begin("call_0"), "call_0@3");
        assert_eq!(begin("call_0"), "call_0@3#2");
        assert_eq!(names.get(&"call_0".into()).unwrap().as_str(), "call_0@3#2");
    }
}
