//! What is ended because nothing more will come of it, or not in this turn.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    SessionUpdate, StateUpdate, SubagentUpdate, ToolCall, ToolCallStatus, UnknownStateUpdate,
};
use anabranch_proto::SessionId;

use super::{
    Message,
    body::PartKind,
    card::{Card, CardState, End, wire},
    client::{Client, Out, Run, Shown},
    meta::About,
};
use crate::sanitize;

impl Client {
    /// The root's run is over: nothing of its turn stays open.
    pub(super) fn close_root(&mut self, out: &mut Out<'_>) {
        if let Some(root) = self.runs.get_mut("") {
            root.blocks.clear();
            let calls = std::mem::take(&mut root.calls);
            self.end_calls(calls, out);
        }
        let running = self.runs.iter().filter(|(_, run)| run.shown == Shown::Card);
        for card in running.map(|(card, _)| Arc::clone(card)).collect::<Vec<_>>() {
            self.leave(&card, "Goes on in the background.", out);
        }
    }

    /// No event will follow: nothing stays open, and nobody knows how it would have ended.
    pub(super) fn finish(&mut self, out: &mut Out<'_>) {
        let mut runs: Vec<_> = std::mem::take(&mut self.runs).into_iter().collect();
        runs.sort_by_key(|(_, run)| std::cmp::Reverse(run.depth));
        for (id, mut run) in runs {
            self.end_calls(std::mem::take(&mut run.calls), out);
            match run.shown {
                Shown::Session if id.is_empty() => {}
                Shown::Session => self.lose(&run, out),
                Shown::Card | Shown::Quiet => {
                    if let Some(card) = self.cards.get_mut(&run.card) {
                        card.body.add(PartKind::Outcome, "no end was seen");
                    }
                    self.end_run(&run, End::unfinished(), out);
                }
            }
        }
    }

    /// Ends a run's card with all that it said; one of its result is opened for that.
    pub(super) fn end_run(&mut self, run: &Run, end: End, out: &mut Out<'_>) {
        if let Some(mut card) = self.take(&run.card) {
            if card.state == CardState::Open {
                return out(card.ending(&run.card, end));
            }
            let title = format!("Result: {}", sanitize::line(&run.name));
            let call = ToolCall::new(wire(&run.card), title)
                .status(end.status)
                .content(card.body.whole())
                .raw_output(end.output);
            out(card.opening(call, end.about));
        }
    }

    /// Closes the card of a run that goes on without it; what it says from now on is shown with its result.
    pub(super) fn leave(&mut self, id: &Arc<str>, text: &str, out: &mut Out<'_>) {
        let Some(run) = self.runs.get_mut(id) else {
            return;
        };
        run.shown = Shown::Quiet;
        let (card, calls) = (Arc::clone(&run.result), std::mem::take(&mut run.calls));
        run.card = Arc::clone(&card);
        for call in calls {
            if let Some(card) = self.cards.get_mut(&call) {
                card.body.add(PartKind::Outcome, text);
            }
            self.end(&call, End::new(ToolCallStatus::Completed, About::new("goes_on")), out);
        }
        if let Some(mut shown) = self.take(id) {
            let said = std::mem::take(&mut shown.body);
            shown.body.add(PartKind::Outcome, text);
            out(shown.ending(id, End::new(ToolCallStatus::Completed, About::new("goes_on"))));
            let mut result = Card::new(&shown.session, Some(Arc::clone(id)), CardState::Hidden);
            result.body = said;
            self.cards.insert(card, result);
        }
    }

    /// Nobody will ever know how it ended.
    fn lose(&self, run: &Run, out: &mut Out<'_>) {
        if let Some(on) = self.announced.get(&SessionId::new(&*run.session.0)) {
            let state = StateUpdate::Unknown(UnknownStateUpdate::new());
            let update = SubagentUpdate::new(run.session.clone()).state(state);
            out(Message::update(on, SessionUpdate::SubagentUpdate(update)));
        }
    }
}
