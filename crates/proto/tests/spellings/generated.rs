//! Streams as trees of sessions: every kind of event, in any order that a session allows.

use anabranch_proto::{
    ChildScope, ContentBlock, DataBlock, DataSource, ErrorInfo, ErrorType, Event, EventId, EventKind, Fields,
    FinishedReason, Message, Metadata, Outcome, Role, Scope, SourceType, SpawnMechanism, TextBlock,
    TextOrBlocks, Timestamp, ToolCallBlock, ToolResultBlock, ToolResultState, event,
    event::{ConfirmResult, DataPart, MessageOrigin},
};

use crate::dice::Dice;

/// How deep children lie at most.
const MAX_DEPTH: u32 = 5;

/// A stream of a root with children and their children, siblings side by side.
pub(crate) fn stream(seed: u64) -> Vec<Event> {
    let mut maker = Maker { dice: Dice(seed), unique: 0 };
    let root = maker.dice.id(&mut 0);
    let mut events = Vec::new();
    for _ in 0..=maker.dice.below(2) {
        events.extend(maker.run(&Scope::Root, &root));
    }
    events
}

struct Maker {
    dice: Dice,
    unique: u64,
}

impl Maker {
    fn event(&mut self, scope: &Scope, kind: impl Into<EventKind>) -> Event {
        let id = EventId::new(self.dice.id(&mut self.unique));
        let time = self.dice.pick(&[
            "2026-11-30T10:00:00.000001Z",
            "2024-02-29 23:59:59.9+05:30",
            "2026-11-30T10:00:00",
        ]);
        let metadata = self.dice.metadata(scope.child().map(|child| child.subagent_id.as_str()));
        let mut event = Event::new(id, time.parse().unwrap(), scope.clone(), metadata, kind);
        // An unknown kind has all fields for its own.
        if self.dice.one_in(8) && !matches!(event.kind, EventKind::Unknown(_)) {
            let mut extra = Fields::default();
            for _ in 0..=self.dice.below(2) {
                extra.insert(self.dice.pick(&["later", "", "ü\"", "anabranch", "z"]), self.dice.json());
            }
            event.extra = Some(Box::new(extra));
        }
        event
    }

    /// One run: a prompt, a reply with events of any kind and children in it, the terminal.
    fn run(&mut self, scope: &Scope, session: &str) -> Vec<Event> {
        let reply = self.dice.id(&mut self.unique);
        let prompt = event::UserMessage::new(&*reply, self.content(), MessageOrigin::Parent);
        let start = event::ReplyStart::new(session, &*reply, "agent");
        let mut events = vec![self.event(scope, prompt), self.event(scope, start)];
        for _ in 0..self.dice.below(20) {
            let kind = self.kind(&reply);
            events.push(self.event(scope, kind));
        }
        if scope.depth() < MAX_DEPTH {
            let siblings: Vec<_> = (0..self.dice.below(3)).map(|_| self.child(scope, session)).collect();
            events.extend(self.side_by_side(siblings));
        }
        let end = event::ReplyEnd::new(session, &*reply, FinishedReason::Error)
            .error(Box::new(ErrorInfo::new(ErrorType::other(self.dice.text()), self.dice.text())));
        let message = Message::new(&*reply, "agent", Role::Assistant, self.content());
        let complete = event::StreamComplete::new(Outcome::Failed)
            .error(ErrorInfo::new(ErrorType::INTERNAL, self.dice.text()))
            .message(message);
        events.extend([self.event(scope, end), self.event(scope, complete)]);
        events
    }

    /// A child and its runs, each announced in the parent's scope.
    fn child(&mut self, parent: &Scope, parent_session: &str) -> Vec<Event> {
        let session = self.dice.id(&mut self.unique);
        let subagent = self.dice.id(&mut self.unique);
        let call = self.dice.one_in(2).then(|| self.dice.id(&mut self.unique).as_str().into());
        let of = ChildScope::new(&*session, parent_session, &*subagent, self.dice.text())
            .tool_call_id(call)
            .source_type(self.dice.pick(&[SourceType::Agent, SourceType::TeamParallel]))
            .depth(parent.depth() + 1);
        let mut events = Vec::new();
        for run in 1..=1 + u32::from(self.dice.one_in(3)) {
            let scope = of.clone().run(run);
            let spawn = event::SpawnSessionStart::new(&scope, SpawnMechanism::AsyncWorker, self.dice.text());
            events.push(self.event(parent, spawn));
            let updated = event::SessionUpdated::new(&*session, run).description(self.dice.text());
            events.push(self.event(parent, updated));
            events.extend(self.run(&scope.into(), &session));
        }
        events
    }

    /// Mixes the siblings' events; each sibling's keep their order.
    fn side_by_side(&mut self, mut siblings: Vec<Vec<Event>>) -> Vec<Event> {
        for events in &mut siblings {
            events.reverse();
        }
        let mut mixed = Vec::new();
        while !siblings.is_empty() {
            let at = self.dice.below(siblings.len());
            match siblings[at].pop() {
                Some(event) => mixed.push(event),
                None => drop(siblings.swap_remove(at)),
            }
        }
        mixed
    }

    fn part(&mut self) -> DataPart {
        if self.dice.one_in(2) {
            DataPart::Base64("aGk=".to_owned())
        } else {
            DataPart::Url(self.dice.text())
        }
    }

    fn content(&mut self) -> Vec<ContentBlock> {
        let mut call = ToolCallBlock::new(self.dice.text(), "bash", self.dice.text());
        call.suggested_rules = vec![
            serde_json::from_str(r#"{"tool_name":"t","rule_content":null,"behavior":"allow","source":"s"}"#)
                .unwrap(),
        ];
        let data = DataSource::from_part("image/png".into(), &self.part());
        let other = serde_json::from_str(r#"{"type":"hologram","size":1e3,"of":null}"#).unwrap();
        let mut text = TextBlock::new(self.dice.text()).id(self.dice.text());
        text.extra.insert(self.dice.pick(&["later", "", "ü\""]), self.dice.json());
        let blocks: [ContentBlock; 4] =
            [text.into(), DataBlock::new(data).name(self.dice.text()).into(), call.into(), other];
        let count = self.dice.below(blocks.len() + 1);
        blocks.into_iter().take(count).collect()
    }

    fn result(&mut self) -> ToolResultBlock {
        let mut result = ToolResultBlock::new(self.dice.text(), "bash");
        result.output = if self.dice.one_in(2) {
            TextOrBlocks::Text(self.dice.text())
        } else {
            TextOrBlocks::Blocks(self.content())
        };
        result.metadata = self.dice.metadata(None);
        result
    }

    fn kind(&mut self, reply: &str) -> EventKind {
        let (id, text) = (self.dice.text(), self.dice.text());
        let call = || ToolCallBlock::new("c", "bash", "{}");
        match self.dice.below(29) {
            0 => event::ModelCallStart::new(reply, text).into(),
            1 => event::ModelCallEnd::new(reply, 1_u64, u64::MAX).cache_input_tokens(7_u64).into(),
            2 => event::TextBlockStart::new(reply, id).into(),
            3 => event::TextBlockDelta::new(reply, id, text).into(),
            4 => event::TextBlockEnd::new(reply, id).text(self.dice.one_in(2).then_some(text)).into(),
            5 => event::ThinkingBlockStart::new(reply, id).into(),
            6 => event::ThinkingBlockDelta::new(reply, id, text).into(),
            7 => event::ThinkingBlockEnd::new(reply, id).into(),
            8 => event::DataBlockStart::new(reply, id, "image/png").name(text).into(),
            9 => event::DataBlockDelta::new(reply, id, "image/png", self.part()).into(),
            10 => event::DataBlockEnd::new(reply, id).into(),
            11 => event::HintBlockEvent::new(reply, id, text, TextOrBlocks::Blocks(self.content())).into(),
            12 => event::ToolCallStart::new(reply, id, text).into(),
            13 => event::ToolCallDelta::new(reply, id, text).into(),
            14 => event::ToolCallEnd::new(reply, id).into(),
            15 => event::ToolResultStart::new(reply, id, text).into(),
            16 => event::ToolResultTextDelta::new(reply, id, text).into(),
            17 => event::ToolResultDataDelta::new(reply, id, "b", "image/png", self.part()).into(),
            18 | 19 => {
                let response =
                    if self.dice.one_in(2) { self.dice.metadata(None) } else { Metadata::default() };
                event::ToolResultEnd::new(reply, id, ToolResultState::Denied).response(response).into()
            }
            20 => event::RequireUserConfirm::new(reply, [call()]).into(),
            21 => event::RequireExternalExecution::new(reply, [call()]).into(),
            22 => event::UserConfirmResult::new(reply, [ConfirmResult::new(true, call())]).into(),
            23 => event::UserInterrupt::new(reply).into(),
            24 => event::ExternalExecutionResult::new(reply, [self.result()]).into(),
            25 => event::ExceedMaxIters::new(reply, text).into(),
            26 => event::UserMessage::new(id, self.content(), MessageOrigin::Steering).into(),
            27 => {
                let name = self.dice.pick(&[
                    "anabranch.user_message",
                    "anabranch.spawn_session_start",
                    "anabranch.stream_complete",
                    "anabranch.of_the_future",
                    "team_updated",
                ]);
                event::Custom::new(name, self.dice.json()).into()
            }
            _ => {
                let mut fields = Fields::default();
                for _ in 0..self.dice.below(3) {
                    fields.insert(self.dice.pick(&["b", "a", "reply_id", "anabranch"]), self.dice.json());
                }
                event::Unknown::new(self.dice.pick(&["NEW_KIND", "", "ü"]), fields).into()
            }
        }
    }
}

/// The time of events whose time does not matter.
pub(crate) fn at() -> Timestamp {
    "2026-11-30T10:00:00.000001Z".parse().unwrap()
}
