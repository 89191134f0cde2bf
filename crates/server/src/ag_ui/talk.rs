//! A thread between two requests.

use anabranch_adapters::{
    Encode as _,
    ag_ui::{self, AgUi, Mode, RunIds},
    encode::Sse,
};
use anabranch_proto::{Admitted, EventKind, Message, Role, Scope, Stamp as _, event::MessageOrigin};
use anabranch_runtime::{Answer, Read, Session, SystemStamp};
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::{
    input::Prompt,
    terminal::{Terminal, UntilTerminal},
};

/// A session as its client knows it.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) session: Session,
    encoder: Sse<UntilTerminal>,
    /// The number of the last event that the encoder was told.
    pub(super) cursor: u64,
    pub(super) state: State,
    /// The message that prompted last.
    prompted_by: Option<String>,
    /// What it said, where its id is not known any more.
    prompted_with: Option<String>,
}

/// How far the last run is.
#[derive(Debug)]
pub(super) enum State {
    /// None is under way.
    Idle,
    /// A response has it.
    Running,
    /// It waits for the answers to these interrupts.
    Asking { stop: CancellationToken, interrupts: Vec<String> },
    /// Its client left before its end. It was stopped, and its end was not read yet.
    Left,
    /// There will be no other: events were lost, or the session has ended.
    Dead,
}

impl Talk {
    /// A talk that has not begun.
    pub(super) fn new(session: Session, mode: Mode) -> Self {
        let encoder = encoder(&session, mode);
        Self { session, encoder, cursor: 0, state: State::Idle, prompted_by: None, prompted_with: None }
    }

    /// A talk of before, of whose session nobody has told this process. The encoder is told what the
    /// session's log has up to this number, which is all.
    pub(super) async fn kept(session: Session, mode: Mode, last: u64) -> Self {
        let mut talk = Self::new(session, mode);
        let messages = talk.session.messages();
        let prompt = messages.iter().rfind(|message| message.role == Role::User);
        talk.prompted_with = prompt.map(Message::text);
        let mut reader = talk.session.subscribe(0);
        while talk.cursor < last {
            match reader.next().await {
                Some(Read::Event(admitted)) => talk.note(&admitted, mode),
                Some(Read::Gap { to, .. }) => {
                    talk.encoder = encoder(&talk.session, mode);
                    talk.cursor = to;
                }
                None => {
                    talk.state = State::Dead;
                    break;
                }
            }
        }
        talk
    }

    /// Tells the encoder what somebody has read before.
    fn note(&mut self, admitted: &Admitted, mode: Mode) {
        let mut unseen = Vec::new();
        self.cursor = admitted.seq;
        let begins = admitted.event.scope == Scope::Root
            && matches!(&admitted.event.kind, EventKind::UserMessage(message) if message.origin == MessageOrigin::User);
        if begins || matches!(self.take_terminal(), Some(Terminal::Asked(_))) {
            self.encoder.adapter_mut().next_run(RunIds::new("", ""));
        }
        if let Err(error) = self.encoder.event(None, &admitted.event, &mut unseen) {
            tracing::error!(%error, "an event could not be encoded");
            self.encoder = encoder(&self.session, mode);
        }
    }

    /// Whether a prompt was not given before.
    pub(super) fn is_new(&self, prompt: &Prompt) -> bool {
        prompt.id.is_none()
            || (prompt.id != self.prompted_by && self.prompted_with.as_ref() != Some(&prompt.text))
    }

    /// The message with this id has prompted.
    pub(super) fn was_prompted(&mut self, id: Option<String>) {
        (self.prompted_by, self.prompted_with) = (id, None);
    }

    /// Begins a run of the protocol.
    pub(super) fn begin(&mut self, ids: RunIds, out: &mut Vec<u8>) {
        self.state = State::Running;
        self.encoder.adapter_mut().next_run(ids);
        if let Err(error) = self.encoder.tick(SystemStamp::new().now(), out) {
            tracing::error!(%error, "a run could not begin");
            self.state = State::Dead;
        }
    }

    /// Tells the encoder what happened; whoever read it has nothing else to do with it.
    pub(super) fn tell(&mut self, admitted: &Admitted, out: &mut Vec<u8>) {
        self.cursor = admitted.seq;
        if let Err(error) = self.encoder.event(None, &admitted.event, out) {
            tracing::error!(%error, "an event could not be encoded");
            self.break_off(out);
        }
    }

    /// What follows is lost: the client is told that this is no end.
    pub(super) fn break_off(&mut self, out: &mut Vec<u8>) {
        self.state = State::Dead;
        if let Err(error) = self.encoder.finish(out) {
            tracing::error!(%error, "the end of a run could not be encoded");
        }
        self.end_session();
    }

    /// Answers a question. One that nobody waits for any more, such as after its time, is no reason not to see what came
    /// of it.
    pub(super) fn answer(&mut self, answer: &ag_ui::Answer, given: Answer) {
        if let Err(error) = self.session.answer(&answer.session, &answer.tool_call_id, given) {
            tracing::warn!(%error, "an answer changed nothing");
        }
        self.encoder.adapter_mut().answered(answer);
    }

    /// Says something to the run that is under way.
    pub(super) fn steer(&mut self, prompt: &Prompt) {
        self.was_prompted(prompt.id.clone());
        if let Err(error) = self.session.steer(self.session.id(), &*prompt.text) {
            tracing::warn!(%error, "what the user said beside an answer reached nobody");
        }
    }

    /// How the run has ended, if it has. Said once.
    pub(super) fn take_terminal(&mut self) -> Option<Terminal> {
        self.encoder.adapter_mut().take_terminal()
    }

    /// Reads the run that its client left to its end.
    ///
    /// # Cancel safety
    /// What was read stays read.
    pub(super) async fn settle(&mut self) {
        if !matches!(self.state, State::Left) {
            return;
        }
        let mut reader = self.session.subscribe(self.cursor);
        while matches!(self.state, State::Left) {
            let mut unseen = Vec::new();
            match reader.next().await {
                Some(Read::Event(admitted)) => self.tell(&admitted, &mut unseen),
                Some(Read::Gap { .. }) | None => self.break_off(&mut unseen),
            }
            match self.take_terminal() {
                Some(Terminal::Over) if matches!(self.state, State::Left) => self.state = State::Idle,
                // It was asked before it was stopped, and its end is not read while nothing may be sent.
                Some(Terminal::Asked(_)) => {
                    self.begin(RunIds::new("", ""), &mut unseen);
                    self.state = State::Left;
                }
                Some(Terminal::Over) | None => {}
            }
        }
    }

    /// Ends the session, without waiting for its end.
    pub(super) fn end_session(&self) {
        // Closing begins with the first poll, and goes on without another.
        let _ = futures::FutureExt::now_or_never(self.session.close());
    }
}

fn encoder(session: &Session, mode: Mode) -> Sse<UntilTerminal> {
    // These ids are replaced before the first run.
    let adapter = AgUi::new(session.id(), RunIds::new("", "")).mode(mode);
    Sse::new(UntilTerminal::new(adapter))
}

#[cfg(test)]
mod tests {
    use anabranch_pipeline::FunctionTool;
    use anabranch_runtime::{Agent, Permissions, ScriptedModel, Turn};

    use super::*;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}

    fn asking() -> Talk {
        let model = ScriptedModel::from_fn("scripted", |request| match request.turn {
            0 => Turn::new().call("write", serde_json::json!({})),
            _ => Turn::new().text("done"),
        });
        let write =
            FunctionTool::new("write", "Writes.", |_: Nothing, _| async { Ok::<_, String>("written") });
        let agent =
            Agent::builder("agent", model).tool(write).permissions(Permissions::new().ask("write")).build();
        Talk::new(agent.session(), Mode::Attributed)
    }

    /// Reads up to the end of a run.
    async fn shown(talk: &mut Talk, ids: RunIds) -> (String, Terminal) {
        let (mut reader, mut out) = (talk.session.subscribe(talk.cursor), Vec::new());
        talk.begin(ids, &mut out);
        loop {
            if let Some(terminal) = talk.take_terminal() {
                return (String::from_utf8(out).unwrap(), terminal);
            }
            let Some(Read::Event(admitted)) = reader.next().await else { panic!("it goes on") };
            talk.tell(&admitted, &mut out);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_asked_before_it_was_left_leaves_nothing_for_the_next() {
        let mut talk = asking();
        let stop = CancellationToken::new();
        drop(talk.session.prompt_until("Write.", &stop).await.unwrap());
        let mut unseen = Vec::new();
        talk.begin(RunIds::new("thread", "left"), &mut unseen);
        // It asks, and nobody has read the question when the client leaves.
        let mut reader = talk.session.subscribe(0);
        while talk.session.questions().is_empty() {
            reader.next().await.unwrap();
        }
        stop.cancel();
        talk.state = State::Left;
        talk.settle().await;
        assert!(matches!(talk.state, State::Idle), "{:?}", talk.state);

        drop(talk.session.prompt("Write.").await.unwrap());
        let (frames, terminal) = shown(&mut talk, RunIds::new("thread", "next")).await;
        let Terminal::Asked(interrupts) = terminal else { panic!("it asks: {frames}") };
        assert_eq!(interrupts.len(), 1);
        assert_eq!(frames.matches("RUN_STARTED").count(), 1);
        assert!(!frames.contains("left") && frames.contains(r#""runId":"next""#), "{frames}");
    }

    #[tokio::test]
    async fn a_session_that_ends_breaks_its_talk_off() {
        let mut talk = asking();
        let mut out = Vec::new();
        talk.begin(RunIds::new("thread", "run"), &mut out);
        talk.session.close().await;
        talk.state = State::Left;
        talk.settle().await;
        assert!(matches!(talk.state, State::Dead));
    }
}
