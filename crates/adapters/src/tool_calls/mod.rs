//! A card per child and per tool call, as RFC-0014 gives them.
//!
//! A child opens a card `spawn:<child>` (RFC-0014, second `convert` sample), its text is appended to it a block at a
//! time, and its end closes it. Tool calls of the root and of children are cards likewise. The root's own text is
//! chunks of a message.
//!
//! | intent | frames |
//! |---|---|
//! | `OpenChild` | `tool_call_start`, metadata `spawn_start` |
//! | `UpdateChild` | `tool_call_update` with the title where the name changed, metadata `spawn_update` |
//! | `CloseChild` | what was not complete of its text, then `tool_call_update` `completed` or `failed`, with the final text, metadata `spawn_end` |
//! | `CloseRoot` | nothing: it is the answer to the prompt, not a frame of it |
//! | `Text`, `Thought` of the root | `agent_message_chunk`, `agent_thought_chunk`, at once |
//! | `Text`, `Thought` of a child | nothing until the block's end |
//! | `EndBlock` of a child | `tool_call_update` of its card whose content is to be appended, metadata `spawn_text` or `spawn_thinking` |
//! | `EndBlock` of the root | nothing; where the block had no pieces, its text as a chunk |
//! | `OpenCall` | `tool_call_start`, metadata `tool_call` |
//! | `CallArguments` | nothing until they are complete |
//! | `CallReady` | `tool_call_update`, metadata `tool_call_input` with the arguments as the model wrote them |
//! | `AppendCall` | nothing until the result is complete |
//! | `Ask`, `Answer` | `tool_call_update` without a status, since the call goes on; metadata says what is asked and what was answered |
//! | `CloseCall` | `tool_call_update` `completed` or `failed`, with the text of the result, metadata `tool_call_end` |
//! | `Custom` of a child | `tool_call_update` of its card, metadata `custom` |
//! | `Custom` of the root | nothing: there is no card that it belongs to |
//! | `Data`, `Hint`, `Prompt` | nothing: frames carry text, and prompts are not shown |
//!
//! A child that was stopped, ran out of time or of model calls, and a call that was denied or stopped, are `failed`;
//! the metadata's `outcome` or `state` says why. A background child's card stays open until the child ends, whatever
//! the root's turn does.
//!
//! Titles and descriptions are one line without control characters, whatever a source calls itself. Contents,
//! arguments and errors are as they came: whoever shows them knows where.
//!
//! ```
//! use anabranch_adapters::{Encode, encode::JsonLines, tool_calls::ToolCalls};
//! # use anabranch_proto::{ChildScope, Event, EventId, Metadata, Scope, SpawnMechanism, Timestamp};
//! # use anabranch_proto::event::SpawnSessionStart;
//! # let event = Event::new(
//! #     EventId::new("1"), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(),
//! #     SpawnSessionStart::new(
//! #         &ChildScope::new("ses_1", "ses_0", "sa_1", "n1"), SpawnMechanism::Sync, "Run n1 task",
//! #     ),
//! # );
//! let mut out = Vec::new();
//! JsonLines::new(ToolCalls::new()).event(None, &event, &mut out)?;
//! assert_eq!(
//!     String::from_utf8(out)?,
//!     concat!(
//!         r#"{"type":"tool_call_start","tool_call_id":"spawn:ses_1","title":"Spawned: n1","kind":"other","#,
//!         r#""status":"in_progress","metadata":{"type":"spawn_start","child_session_id":"ses_1","#,
//!         r#""spawn_mechanism":"sync","depth":1}}"#,
//!         "\n",
//!     ),
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod frame;
mod held;
mod render;

pub use frame::{
    AgentMessageChunk, AgentThoughtChunk, Frame, StartMetadata, Status, ToolCallStart, ToolCallUpdate,
    ToolKind, UpdateMetadata,
};

use anabranch_proto::Event;

use crate::{Adapter, intent::Intents};

/// The adapter to tool-call cards.
#[derive(Clone, Debug, Default)]
pub struct ToolCalls {
    intents: Intents,
    held: held::Held,
}

impl ToolCalls {
    /// An adapter for a new stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Adapter for ToolCalls {
    type Frame<'a> = Frame<'a>;

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(Frame<'a>)) {
        let held = &mut self.held;
        self.intents.event(event, &mut |intent| render::intent(held, intent, out));
    }

    fn finish(&mut self, out: &mut dyn for<'a> FnMut(Frame<'a>)) {
        self.held.finish(&mut |card, block| out(render::block(card, block)));
    }
}
