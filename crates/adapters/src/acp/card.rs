//! A tool call of the protocol: a child's card, or a call's.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    SessionId, SessionUpdate, ToolCall, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};

use super::{Message, body::Body, clock::Pace, meta::About};

/// A card that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Card {
    /// The session that it is shown in, for life.
    pub(super) session: SessionId,
    /// The card that it belongs to, where both are in one session.
    pub(super) within: Option<Arc<str>>,
    pub(super) state: CardState,
    pub(super) body: Body,
    pub(super) pace: Pace,
    /// Arguments of a call that are not complete.
    pub(super) input: String,
    /// Whether a person is asked about it.
    pub(super) question: Question,
}

/// Whether the client knows a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CardState {
    /// Not yet. What it says is kept until then.
    Hidden,
    Open,
}

/// Whether a person is asked about a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Question {
    #[default]
    None,
    Open,
}

impl Card {
    pub(super) fn new(session: &SessionId, within: Option<Arc<str>>, state: CardState) -> Self {
        Self {
            session: session.clone(),
            within,
            state,
            body: Body::default(),
            pace: Pace::default(),
            input: String::new(),
            question: Question::None,
        }
    }

    /// The message that opens it: the one `tool_call` of its id.
    pub(super) fn opening(&mut self, call: ToolCall, about: About) -> Message {
        self.state = CardState::Open;
        let call = call.meta(about.within(self.within.as_deref()).meta());
        Message::update(&self.session, SessionUpdate::ToolCall(call))
    }

    /// A message that changes it.
    pub(super) fn changing(&self, id: &Arc<str>, fields: ToolCallUpdateFields, about: About) -> Message {
        let meta = about.within(self.within.as_deref()).meta();
        let update = ToolCallUpdate::new(wire(id), fields).meta(meta);
        Message::update(&self.session, SessionUpdate::ToolCallUpdate(update))
    }

    /// The message that ends it, with all that it says.
    pub(super) fn ending(&self, id: &Arc<str>, end: End) -> Message {
        let mut fields = ToolCallUpdateFields::new().status(end.status).raw_output(end.output);
        let content = self.body.whole();
        if !content.is_empty() {
            fields = fields.content(content);
        }
        self.changing(id, fields, end.about)
    }
}

/// How a card ends.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) status: ToolCallStatus,
    pub(super) output: Option<serde_json::Value>,
    pub(super) about: About,
}

impl End {
    pub(super) fn new(status: ToolCallStatus, about: About) -> Self {
        Self { status, output: None, about }
    }

    /// Of something that nobody ended.
    pub(super) fn unfinished() -> Self {
        Self::new(ToolCallStatus::Failed, About::new("unfinished"))
    }
}

/// The protocol has two words for how a call ends, and none for one that was stopped.
pub(super) fn status(did_its_work: bool) -> ToolCallStatus {
    if did_its_work { ToolCallStatus::Completed } else { ToolCallStatus::Failed }
}

pub(super) fn wire(id: &Arc<str>) -> ToolCallId {
    ToolCallId::new(Arc::clone(id))
}
