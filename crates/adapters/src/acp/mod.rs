//! The [Agent Client Protocol](https://agentclientprotocol.com), version 1, which editors speak.
//!
//! [`Acp`] makes notifications `session/update`, as the protocol's own types. Children are cards (tool calls) in the
//! root session, or sessions of their own where the client sent `clientCapabilities.subagents`. `docs/acp.md` has the
//! mapping and the rules, each with the test that holds it.
//!
//! It is not a server: it answers nothing and refuses nothing. [`prompt_answer`] says what to answer to a prompt, and
//! [`Acp::permissions`] gives the requests that a server is to send.
//!
//! ```
//! use anabranch_adapters::{Encode, acp::Acp, encode::JsonLines};
//! # use anabranch_proto::{Event, EventId, Metadata, Scope, Timestamp, event::TextBlockDelta};
//! # let event = Event::new(
//! #     EventId::new("1"), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(),
//! #     TextBlockDelta::new("reply", "block", "hello"),
//! # );
//! let mut out = Vec::new();
//! JsonLines::new(Acp::cards("ses_0")).event(None, &event, &mut out)?;
//! assert_eq!(
//!     String::from_utf8(out)?,
//!     concat!(
//!         r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"ses_0","update":"#,
//!         r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"},"#,
//!         r#""messageId":"reply/block"}}}"#,
//!         "\n",
//!     ),
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ask;
mod body;
mod call;
mod card;
mod child;
mod client;
mod clock;
mod ending;
mod files;
mod message;
mod meta;
mod place;
mod stop;
mod text;
mod trace;

pub use message::{ALLOW, Message, Permission, REJECT};
pub use stop::prompt_answer;

use std::sync::Arc;

use agent_client_protocol_schema::v1::SessionId as WireSessionId;
use anabranch_proto::{Event, Metadata, Timestamp};

use self::client::{Client, Out};
use crate::{
    Adapter,
    intent::{BlockKind, Intent, Intents},
};

/// How children are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Cards,
    Sessions,
}

/// What becomes of questions to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requests {
    Left,
    Given,
}

/// The adapter to the Agent Client Protocol.
#[derive(Clone, Debug)]
pub struct Acp {
    intents: Intents,
    client: Client,
}

impl Acp {
    /// Children are cards in the root session: for a client that did not send `clientCapabilities.subagents`.
    pub fn cards(session_id: impl Into<Arc<str>>) -> Self {
        Self::new(session_id, Mode::Cards)
    }

    /// Children are sessions of their own: for a client that sent `clientCapabilities.subagents`, and for no other.
    pub fn sessions(session_id: impl Into<Arc<str>>) -> Self {
        Self::new(session_id, Mode::Sessions)
    }

    fn new(session_id: impl Into<Arc<str>>, mode: Mode) -> Self {
        Self { intents: Intents::default(), client: Client::new(WireSessionId::new(session_id), mode) }
    }

    /// Whether questions to a person come as [`Message::Permission`] among the updates, in their place.
    ///
    /// By default not: whoever writes requests must also read the answers.
    #[must_use]
    pub fn permissions(mut self, given: bool) -> Self {
        self.client.requests = if given { Requests::Given } else { Requests::Left };
        self
    }
}

impl Adapter for Acp {
    type Frame<'a> = Message;

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(Message)) {
        let client = &mut self.client;
        client.clock.event(event.created_at);
        self.intents.event(event, &mut |intent| client.intent(intent, &event.metadata, out));
        client.progress(out);
    }

    fn tick(&mut self, now: Timestamp, out: &mut dyn for<'a> FnMut(Message)) {
        self.client.clock.tick(now);
        self.client.progress(out);
    }

    fn finish(&mut self, out: &mut dyn for<'a> FnMut(Message)) {
        self.client.finish(out);
    }
}

impl Client {
    fn intent(&mut self, intent: Intent<'_>, metadata: &Metadata, out: &mut Out<'_>) {
        match intent {
            Intent::OpenChild(child) => self.open_child(child, metadata, out),
            Intent::UpdateChild(update) => self.update_child(update, metadata, out),
            Intent::CloseChild(close) => self.close_child(close, metadata, out),
            Intent::CloseRoot(_) => self.close_root(out),
            Intent::Text(piece) => self.say(BlockKind::Text, piece, out),
            Intent::Thought(piece) => self.say(BlockKind::Thinking, piece, out),
            Intent::EndBlock(end) => self.end_block(end, out),
            Intent::OpenCall(call) => self.open_call(call, metadata, out),
            Intent::CallArguments(piece) => self.add_input(piece),
            Intent::CallReady(call) => self.call_ready(call, out),
            Intent::AppendCall(piece) => self.append_call(piece),
            Intent::Ask(ask) => self.ask(ask, metadata, out),
            Intent::Answer(answer) => self.answer(answer, out),
            Intent::CloseCall(close) => self.close_call(close, metadata, out),
            Intent::Data(_) | Intent::Hint(_) | Intent::Prompt(_) | Intent::Custom(_) => {}
        }
    }
}
