//! Questions to the person at the client.

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionRequest, RequiresActionStateUpdate,
    RunningStateUpdate, SessionId as WireSessionId, StateUpdate, SubagentUpdate, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields,
};
use anabranch_proto::Metadata;

use super::{
    Message, Permission, Requests,
    call::raw_input,
    card::{CardState, Question, wire},
    client::{Client, Out, Shown},
    message::{ALLOW, REJECT},
    meta::About,
};
use crate::{
    intent::{Answer, Ask, Asked, Call, Child, Speaker},
    sanitize,
};

/// The state of a session that is at work and asks so many questions.
pub(super) fn at_work(questions: usize) -> StateUpdate {
    if questions == 0 {
        StateUpdate::Running(RunningStateUpdate::new())
    } else {
        StateUpdate::RequiresAction(RequiresActionStateUpdate::new())
    }
}

impl Client {
    pub(super) fn ask(&mut self, ask: Ask<'_>, metadata: &Metadata, out: &mut Out<'_>) {
        // Another executor is no business of the person's: the call is at work.
        if ask.asked == Asked::Executor {
            return;
        }
        let call = ask.call;
        self.reveal(call, metadata, out);
        let session = match self.cards.get_mut(call.id) {
            Some(card) if card.question == Question::Open => return,
            Some(card) => {
                card.question = Question::Open;
                let session = card.session.clone();
                self.count(call, 1, out);
                session
            }
            // The card was closed with the turn, and the call goes on: the question must reach the person all the same.
            None => match self.runs.get(call.speaker.card()) {
                Some(run) => run.session.clone(),
                None => return,
            },
        };
        if self.requests == Requests::Given {
            // In the root session it is not to be seen who asks.
            let within = call.speaker.child().filter(|_| session == self.root());
            let title = match within {
                Some(child) => format!("{}: {}", sanitize::line(&child.name), sanitize::line(call.name)),
                None => sanitize::line(call.name).into_owned(),
            };
            let fields = ToolCallUpdateFields::new().title(title).raw_input(raw_input(ask.input));
            let meta = About::default().within(within.map(|child| &*child.card)).meta();
            let tool_call = ToolCallUpdate::new(wire(call.id), fields).meta(meta);
            let options = vec![
                PermissionOption::new(ALLOW, "Allow", PermissionOptionKind::AllowOnce),
                PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce),
            ];
            out(Message::Permission(Permission {
                request: RequestPermissionRequest::new(session, tool_call, options),
                session: call.speaker.child().map(|child| child.session.clone()),
                call: call.call.clone(),
            }));
        }
    }

    pub(super) fn answer(&mut self, answer: Answer<'_>, out: &mut Out<'_>) {
        if answer.asked == Asked::Executor {
            return;
        }
        let call = answer.call;
        self.withdraw(call, out);
        if let Some(card) = self.cards.get(call.id)
            && card.state == CardState::Open
            && answer.allowed
        {
            let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
            out(card.changing(call.id, fields, About::default()));
        }
    }

    /// Nobody is asked about the call any more.
    pub(super) fn withdraw(&mut self, call: Call<'_>, out: &mut Out<'_>) {
        if let Some(card) = self.cards.get_mut(call.id)
            && card.question == Question::Open
        {
            card.question = Question::None;
            self.count(call, -1, out);
        }
    }

    /// Counts a child's open questions, and tells where the first comes or the last goes.
    fn count(&mut self, call: Call<'_>, change: isize, out: &mut Out<'_>) {
        let (Some(run), Speaker::Child(child)) = (self.runs.get_mut(call.speaker.card()), call.speaker)
        else {
            return;
        };
        run.questions = run.questions.saturating_add_signed(change);
        if run.shown == Shown::Session {
            self.count_in_session(child, change, out);
        }
    }

    /// The same of a session, of which more than one run may be at work.
    pub(super) fn count_in_session(&mut self, child: &Child, change: isize, out: &mut Out<'_>) {
        let Some(runs) = self.sessions.get_mut(&child.session) else {
            return;
        };
        let before = runs.questions;
        runs.questions = before.saturating_add_signed(change);
        let has_changed = (before == 0) != (runs.questions == 0);
        // One that is idle says so itself.
        if has_changed && runs.open > 0 {
            let state = at_work(runs.questions);
            let update = SubagentUpdate::new(WireSessionId::new(child.session.as_str())).state(state);
            self.tell_parent(child, update, out);
        }
    }
}
