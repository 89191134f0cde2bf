//! Tool calls.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{ToolCall, ToolCallStatus, ToolCallUpdateFields};
use anabranch_proto::{Metadata, ToolResultState};
use serde_json::Value;

use super::{
    body::PartKind,
    card::{self, Card, CardState, End, wire},
    client::{Client, Out, Shown},
    files,
    meta::About,
};
use crate::{
    intent::{Call, CallPiece, CloseCall, Speaker},
    sanitize,
};

impl Client {
    pub(super) fn open_call(&mut self, call: Call<'_>, metadata: &Metadata, out: &mut Out<'_>) {
        let Some(run) = self.runs.get_mut(call.speaker.card()) else {
            return;
        };
        run.calls.insert(Arc::clone(call.id));
        let state = if run.shown == Shown::Quiet { CardState::Hidden } else { CardState::Open };
        let within = match (run.shown, call.speaker) {
            (Shown::Card | Shown::Quiet, Speaker::Child(child)) => Some(Arc::clone(&child.card)),
            _ => None,
        };
        let card = Card::new(&run.session, within, state);
        if state == CardState::Open {
            return self.open(call.id, card, opening(call), about(call, metadata), out);
        }
        let (text, result) = (format!("Called {}", sanitize::line(call.name)), Arc::clone(&run.card));
        self.cards.insert(Arc::clone(call.id), card);
        if let Some(result) = self.cards.get_mut(&result) {
            result.body.add(PartKind::ToolCall, &text);
        }
    }

    pub(super) fn add_input(&mut self, piece: CallPiece<'_>) {
        if let Some(card) = self.cards.get_mut(piece.call.id) {
            card.input.push_str(piece.text);
        }
    }

    /// The arguments are complete: the call runs, unless somebody is asked first.
    pub(super) fn call_ready(&mut self, call: Call<'_>, out: &mut Out<'_>) {
        if let Some(card) = self.cards.get_mut(call.id) {
            let input = raw_input(&std::mem::take(&mut card.input));
            if card.state == CardState::Open {
                let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress).raw_input(input);
                out(card.changing(call.id, fields, About::default()));
            }
        }
    }

    pub(super) fn append_call(&mut self, piece: CallPiece<'_>) {
        if let Some(card) = self.cards.get_mut(piece.call.id).filter(|_| !piece.text.is_empty()) {
            card.body.append(PartKind::Text, piece.text);
            self.touch(piece.call.id);
        }
    }

    pub(super) fn close_call(
        &mut self,
        CloseCall { call, end }: CloseCall<'_>,
        metadata: &Metadata,
        out: &mut Out<'_>,
    ) {
        if let Some(run) = self.runs.get_mut(call.speaker.card()) {
            run.calls.remove(call.id);
        }
        self.withdraw(call, out);
        let notice = match end.state {
            ToolResultState::Denied => Some("denied"),
            ToolResultState::Interrupted => Some("cancelled"),
            ToolResultState::Success | ToolResultState::Error | ToolResultState::Running | _ => None,
        };
        if let Some(card) = self.cards.get_mut(call.id) {
            card.body.attach(files::links(&end.response));
            if let Some(notice) = notice {
                card.body.add(PartKind::Outcome, notice);
            }
        }
        // An end that says `running` is an end all the same.
        let status = card::status(matches!(end.state, ToolResultState::Success | ToolResultState::Running));
        let about = About::new("tool_call_end").with("state", end.state.as_str()).metadata(metadata);
        let output = (!end.response.is_empty()).then(|| serde_json::to_value(&end.response).ok()).flatten();
        self.end(call.id, End { output, ..End::new(status, about) }, out);
    }

    /// Shows a call that was kept from the client, because somebody is asked about it.
    pub(super) fn reveal(&mut self, call: Call<'_>, metadata: &Metadata, out: &mut Out<'_>) {
        if self.cards.get(call.id).is_some_and(|card| card.state == CardState::Hidden)
            && let Some(card) = self.take(call.id)
        {
            self.open(call.id, card, opening(call), about(call, metadata), out);
        }
    }
}

fn opening(call: Call<'_>) -> ToolCall {
    // The name too: a client shows it where it has no use for the title.
    ToolCall::new(wire(call.id), sanitize::line(call.name)).name(sanitize::line(call.name).into_owned())
}

fn about(call: Call<'_>, metadata: &Metadata) -> About {
    match call.speaker {
        Speaker::Root => About::default(),
        Speaker::Child(child) => About::new("tool_call")
            .with("child_session_id", child.session.as_str())
            .with("depth", child.depth),
    }
    .metadata(metadata)
}

/// Arguments as JSON; as a text where a model wrote none, or `null`, which the protocol takes for none at all.
pub(super) fn raw_input(text: &str) -> Option<Value> {
    let value = || serde_json::from_str(text).ok().filter(|value: &Value| !value.is_null());
    (!text.is_empty()).then(|| value().unwrap_or_else(|| Value::from(text)))
}
