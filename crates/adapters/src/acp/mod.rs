//! Agent Client Protocol, version 1.
mod ask;
mod body;
mod call;
mod card;
mod child;
mod client;
mod clock;
mod message;
mod meta;
mod stop;
mod text;
mod trace;

pub use message::{ALLOW, Message, Permission, REJECT};
pub use stop::prompt_answer;

use std::sync::Arc;

use agent_client_protocol_schema::v1::SessionId as WireSessionId;
use anabranch_proto::{Event, Metadata, Timestamp};

use self::{
    body::PartKind,
    client::{Client, Out},
};
use crate::{
    Adapter,
    intent::{Intent, Intents},
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
            Intent::Text(piece) => self.say(PartKind::Text, piece, out),
            Intent::Thought(piece) => self.say(PartKind::Thinking, piece, out),
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
