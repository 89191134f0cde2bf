//! Where children begin and end.

use std::{collections::BTreeSet, sync::Arc};

use agent_client_protocol_schema::v1::{
    SessionCancelCapabilities, SessionId as WireSessionId, SessionUpdate, SubagentSessionCapabilities,
    SubagentUpdate, ToolCall, ToolCallStatus, ToolCallUpdateFields,
};
use anabranch_proto::{Message as Final, Metadata, Outcome, SpawnMechanism, event::StreamComplete};
use serde_json::{Value, json};

use super::{
    Message,
    ask::at_work,
    body::PartKind,
    card::{self, Card, CardState, End, wire},
    client::{Client, Out, Run, Shown},
    meta::About,
    stop, text,
};
use crate::{
    intent::{BlockKind, Child, CloseChild, UpdateChild},
    sanitize,
};

/// How many links to children a call shows as soon as they come.
const AT_ONCE: usize = 16;

impl Client {
    pub(super) fn open_child(&mut self, child: &Child, metadata: &Metadata, out: &mut Out<'_>) {
        let within = self.card_above(child);
        let is_known = self.announced.contains_key(&child.session);
        let shown = self.how(child, within.as_ref());
        let session = match shown {
            Shown::Session => WireSessionId::new(child.session.as_str()),
            Shown::Card | Shown::Quiet => self.root(),
        };
        match shown {
            Shown::Session => {
                let questions = self.sessions.get(&child.session).map_or(0, |runs| runs.questions);
                let update = spawned_in(child, session.clone(), metadata).state(at_work(questions));
                self.tell_parent(child, if is_known { update } else { granted(update) }, out);
                self.link(child, out);
            }
            Shown::Card | Shown::Quiet => {
                let card = Card::new(&session, within, CardState::Hidden);
                let prompt = metadata.get_str("prompt");
                let call = ToolCall::new(wire(&child.card), title(child))
                    .status(ToolCallStatus::InProgress)
                    .raw_input(task(child, prompt.as_deref()));
                self.open(&child.card, card, call, spawned("spawn_start", child, metadata), out);
            }
        }
        let runs = self.sessions.entry(child.session.clone()).or_default();
        runs.last = Arc::clone(&child.card);
        runs.open += usize::from(shown == Shown::Session);
        let run = Run {
            shown,
            session,
            card: Arc::clone(&child.card),
            result: Arc::clone(&child.result),
            name: Arc::clone(&child.name),
            depth: child.depth,
            calls: BTreeSet::default(),
            questions: 0,
            blocks: text::Blocks::default(),
            has_said: false,
        };
        self.runs.insert(Arc::clone(&child.card), run);
        if shown == Shown::Quiet {
            let text = match metadata.get_str("task_id") {
                Some(task) if child.mechanism == SpawnMechanism::AsyncWorker => {
                    format!("Started in the background, task {}.", sanitize::line(&task))
                }
                _ => "Started in the background.".to_owned(),
            };
            self.leave(&child.card, &text, out);
        }
    }

    pub(super) fn update_child(
        &mut self,
        UpdateChild { child, .. }: UpdateChild<'_>,
        metadata: &Metadata,
        out: &mut Out<'_>,
    ) {
        if self.announced.contains_key(&child.session) {
            // What is learnt of a run before the last is nothing that a session says of itself now.
            if self.sessions.get(&child.session).is_some_and(|runs| runs.last == child.card) {
                let session = WireSessionId::new(child.session.as_str());
                self.tell_parent(
                    child,
                    named(child, session).meta(spawned("spawn_update", child, metadata).meta()),
                    out,
                );
                self.link(child, out);
            }
        } else if let Some(card) = self.cards.get(&child.card) {
            let fields = ToolCallUpdateFields::new().title(title(child)).raw_input(task(child, None));
            out(card.changing(&child.card, fields, spawned("spawn_update", child, metadata)));
        }
    }

    pub(super) fn close_child(
        &mut self,
        CloseChild { child, complete }: CloseChild<'_>,
        metadata: &Metadata,
        out: &mut Out<'_>,
    ) {
        let Some(mut run) = self.runs.remove(&child.card) else {
            return;
        };
        self.end_calls(std::mem::take(&mut run.calls), out);
        let said = complete.message.as_ref().map(Final::text).unwrap_or_default();
        match run.shown {
            Shown::Session => {
                if !run.has_said && !said.is_empty() {
                    out(text::chunk(&run, BlockKind::Text, text::id_of_result(child), &said));
                }
                let open = self.sessions.get_mut(&child.session).map_or(0, |runs| {
                    runs.open = runs.open.saturating_sub(1);
                    runs.open
                });
                let asked = isize::try_from(run.questions).unwrap_or(isize::MAX);
                self.count_in_session(child, asked.saturating_neg(), out);
                // Where another run is at work, the session is not idle.
                if open == 0 {
                    let update = SubagentUpdate::new(run.session.clone()).state(stop::idle(complete));
                    self.tell_parent(child, update.meta(ended(complete, metadata).meta()), out);
                }
            }
            Shown::Card | Shown::Quiet => {
                if let Some(card) = self.cards.get_mut(&run.card) {
                    if !said.is_empty() && !card.body.ends_with(&said) {
                        card.body.add(PartKind::Text, &said);
                    }
                    if let Some(notice) = stop::notice(complete) {
                        card.body.add(PartKind::Outcome, &notice);
                    }
                }
                let status = card::status(complete.outcome == Outcome::Completed);
                let mut end = End::new(status, ended(complete, metadata));
                end.output = Some(match &complete.error {
                    None => json!({ "outcome": complete.outcome }),
                    Some(error) => json!({ "outcome": complete.outcome, "error": error }),
                });
                self.end_run(&run, end, out);
            }
        }
    }

    /// Sends what is about a child to the session that it was announced on.
    pub(super) fn tell_parent(&self, child: &Child, update: SubagentUpdate, out: &mut Out<'_>) {
        if let Some(on) = self.announced.get(&child.session) {
            out(Message::update(on, SessionUpdate::SubagentUpdate(update)));
        }
    }

    /// Links a child's session from the call that spawned it: at once, unless the call spawns so many that writing all links
    /// each time would cost their square.
    fn link(&mut self, child: &Child, out: &mut Out<'_>) {
        if let Some(call) = &child.call
            && let Some(card) = self.cards.get_mut(call)
            && card.state == CardState::Open
            && let Some(count) = card.body.link(WireSessionId::new(child.session.as_str()))
        {
            if count > AT_ONCE {
                return self.touch(call);
            }
            let fields = ToolCallUpdateFields::new().content(card.body.tail());
            out(card.changing(call, fields, About::default()));
        }
    }
}

fn title(child: &Child) -> String {
    format!("Spawned: {}", sanitize::line(&child.name))
}

/// What a child is to do. A prompt is no matter for `_meta`, which clients write to their logs.
fn task(child: &Child, prompt: Option<&str>) -> Value {
    let mut task = json!({ "description": sanitize::line(&child.description) });
    if let (Value::Object(task), Some(prompt)) = (&mut task, prompt) {
        task.insert("prompt".to_owned(), prompt.into());
    }
    task
}

fn named(child: &Child, session: WireSessionId) -> SubagentUpdate {
    SubagentUpdate::new(session)
        .title(sanitize::line(&child.name).into_owned())
        .description(sanitize::line(&child.description).into_owned())
}

fn spawned(what: &str, child: &Child, metadata: &Metadata) -> About {
    About::new(what)
        .with("child_session_id", child.session.as_str())
        .with("spawn_mechanism", child.mechanism.as_str())
        .with("depth", child.depth)
        .with("run", child.run)
        .metadata(metadata)
}

/// What announces a child or says that it runs again, but for its state.
fn spawned_in(child: &Child, session: WireSessionId, metadata: &Metadata) -> SubagentUpdate {
    named(child, session).meta(spawned("spawn_start", child, metadata).meta())
}

/// The one thing that the client may do to a child: to cancel it.
fn granted(update: SubagentUpdate) -> SubagentUpdate {
    let cancel = SessionCancelCapabilities::new();
    update.capabilities(SubagentSessionCapabilities::new().cancel(cancel))
}

fn ended(complete: &StreamComplete, metadata: &Metadata) -> About {
    About::new("spawn_end").with("outcome", complete.outcome.as_str()).metadata(metadata)
}
