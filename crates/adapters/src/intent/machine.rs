//! From events to intents.

use std::sync::Arc;

use anabranch_proto::{
    ChildScope, Event, EventId, EventKind, Scope, SessionId, ToolCallBlock, ToolCallId,
    event::{SessionUpdated, SpawnSessionStart, StreamComplete},
};
use foldhash::HashMap;

use super::{
    Answer, Ask, Asked, BlockKind, Call, CallPiece, Child, CloseCall, CloseChild, CustomOf, Data, EndBlock,
    Hint, Intent, Piece, Prompt, Speaker, UpdateChild, cards::CardIds, learnt, met,
};

/// Where intents go.
type Out<'o> = dyn for<'a> FnMut(Intent<'a>) + 'o;

/// Turns the events of one root session into intents.
///
/// Remembers who was announced and which cards are open. Its memory grows with the number of children and calls, not
/// with their events or texts.
#[derive(Clone, Debug, Default)]
pub struct Intents {
    /// A session's runs, in their order, which is that of their numbers.
    sessions: HashMap<SessionId, Vec<Run>>,
    root_calls: Calls,
    cards: CardIds,
}

/// A session's calls by their own ids.
type Calls = HashMap<ToolCallId, CallCard>;

#[derive(Clone, Debug)]
struct Run {
    child: Child,
    state: State,
    /// The event that announced it, or the first that was met.
    spawn: EventId,
    announced: Announced,
    tool_call_id: Option<ToolCallId>,
    /// Empty once the run has ended.
    calls: Calls,
}

#[derive(Clone, Debug)]
struct CallCard {
    id: Arc<str>,
    name: Arc<str>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Closed,
}

/// Whether a child was met that nobody had announced.
enum Met {
    Now,
    Not,
}

/// Whether a run's spawn was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announced {
    Yes,
    NotYet,
}

impl Intents {
    /// Takes the next event and gives its intents, in order.
    #[expect(
        clippy::match_same_arms,
        reason = "the kinds that give nothing are named, so that a new one is not among them by chance"
    )]
    pub fn event(&mut self, event: &Event, out: &mut Out<'_>) {
        let Some(mut place) = self.place(&event.scope) else {
            return match self.meet(event, out) {
                Met::Now => self.event(event, out),
                // Who has ended can still be the parent of somebody that is spawned.
                Met::Not => self.about_child(event, out),
            };
        };
        let speaker = place.speaker;
        match &event.kind {
            EventKind::SpawnSessionStart(_) | EventKind::SessionUpdated(_) => self.about_child(event, out),
            EventKind::StreamComplete(complete) => self.complete(&event.scope, complete, out),
            EventKind::TextBlockDelta(delta) => out(Intent::Text(Piece {
                speaker,
                reply: &delta.reply_id,
                block: &delta.block_id,
                text: &delta.delta,
            })),
            EventKind::ThinkingBlockDelta(delta) => out(Intent::Thought(Piece {
                speaker,
                reply: &delta.reply_id,
                block: &delta.block_id,
                text: &delta.delta,
            })),
            EventKind::TextBlockEnd(end) => out(Intent::EndBlock(EndBlock {
                speaker,
                reply: &end.reply_id,
                block: &end.block_id,
                kind: BlockKind::Text,
                whole: end.text.as_deref(),
            })),
            EventKind::ThinkingBlockEnd(end) => out(Intent::EndBlock(EndBlock {
                speaker,
                reply: &end.reply_id,
                block: &end.block_id,
                kind: BlockKind::Thinking,
                whole: None,
            })),
            EventKind::DataBlockStart(start) => out(Intent::Data(Data { speaker, start })),
            EventKind::HintBlock(hint) => out(Intent::Hint(Hint { speaker, hint })),
            EventKind::UserMessage(message) => out(Intent::Prompt(Prompt { speaker, message })),
            EventKind::Custom(custom) => out(Intent::Custom(CustomOf { speaker, custom })),
            EventKind::ToolCallStart(start) => {
                place.open_call(&start.tool_call_id, &start.tool_call_name, out);
            }
            EventKind::ToolCallDelta(delta) => place.with_call(&delta.tool_call_id, |call| {
                let text = &delta.delta;
                out(Intent::CallArguments(CallPiece { call, text }));
            }),
            EventKind::ToolCallEnd(end) => {
                place.with_call(&end.tool_call_id, |call| out(Intent::CallReady(call)));
            }
            EventKind::ToolResultTextDelta(delta) => place.with_call(&delta.tool_call_id, |call| {
                let text = &delta.delta;
                out(Intent::AppendCall(CallPiece { call, text }));
            }),
            EventKind::ToolResultEnd(end) => {
                place.with_call(&end.tool_call_id, |call| {
                    out(Intent::CloseCall(CloseCall { call, end }));
                });
                place.close_call(&end.tool_call_id);
            }
            EventKind::RequireUserConfirm(request) => place.ask(&request.tool_calls, Asked::Person, out),
            EventKind::RequireExternalExecution(request) => {
                place.ask(&request.tool_calls, Asked::Executor, out);
            }
            EventKind::UserConfirmResult(answer) => {
                for result in &answer.confirm_results {
                    place.answer(&result.tool_call.id, Asked::Person, result.confirmed, out);
                }
            }
            EventKind::ExternalExecutionResult(answer) => {
                for result in &answer.execution_results {
                    place.answer(&result.id, Asked::Executor, true, out);
                }
            }
            // The table in this module's page says why each of these gives nothing. A match outside `proto` must end
            // in a `_`; `clippy::wildcard_enum_match_arm` fails as soon as there is a kind that only it answers for.
            EventKind::ReplyStart(_)
            | EventKind::ReplyEnd(_)
            | EventKind::ModelCallStart(_)
            | EventKind::ModelCallEnd(_)
            | EventKind::TextBlockStart(_)
            | EventKind::ThinkingBlockStart(_)
            | EventKind::DataBlockDelta(_)
            | EventKind::DataBlockEnd(_)
            | EventKind::ToolResultStart(_)
            | EventKind::ToolResultDataDelta(_)
            | EventKind::UserInterrupt(_)
            | EventKind::ExceedMaxIters(_)
            | EventKind::Unknown(_) => {}
            _ => {}
        }
    }

    /// Where the events of a scope go; nowhere when nobody announced the run, or when it has ended.
    fn place(&mut self, scope: &Scope) -> Option<Place<'_>> {
        let cards = &mut self.cards;
        let Some(scope) = scope.child() else {
            return Some(Place { speaker: Speaker::Root, calls: &mut self.root_calls, cards });
        };
        let run = open_run(&mut self.sessions, scope)?;
        Some(Place { speaker: Speaker::Child(&run.child), calls: &mut run.calls, cards })
    }

    /// Opens the card of a child that is met in its midst.
    fn meet(&mut self, event: &Event, out: &mut Out<'_>) -> Met {
        // One that says nothing but its end has nothing to show.
        let scope = event.scope.child().filter(|_| !matches!(event.kind, EventKind::StreamComplete(_)));
        let Some(scope) = scope.filter(|scope| self.last_run(&scope.child_session_id) < scope.run) else {
            return Met::Not;
        };
        let call = scope.tool_call_id.as_ref();
        let call = call.and_then(|call| self.calls_of_last(&scope.parent_session_id).get(call));
        let call = call.map(|call| Arc::clone(&call.id));
        self.open(met(scope), scope.run, (&event.id, Announced::NotYet), call, out);
        Met::Now
    }

    fn last_run(&self, session: &SessionId) -> u32 {
        self.sessions.get(session).and_then(|runs| runs.last()).map_or(0, |last| last.child.run)
    }

    /// The calls of a session's last run; the root's, where it is no child.
    fn calls_of_last(&self, session: &SessionId) -> &Calls {
        let last = self.sessions.get(session).and_then(|runs| runs.last());
        last.map_or(&self.root_calls, |last| &last.calls)
    }

    fn about_child(&mut self, event: &Event, out: &mut Out<'_>) {
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            let call = self.card_of_call(&event.scope, spawn.tool_call_id.as_ref());
            self.spawn(&event.id, spawn, call, out);
        } else if let EventKind::SessionUpdated(update) = &event.kind {
            let call = self.card_of_call(&event.scope, update.tool_call_id.as_ref());
            self.update(update, call, out);
        }
    }

    /// The card of a call, where it was seen and its session has not ended.
    fn card_of_call(&self, scope: &Scope, call: Option<&ToolCallId>) -> Option<Arc<str>> {
        let calls = match scope.child() {
            None => &self.root_calls,
            Some(scope) => {
                let runs = self.sessions.get(&scope.child_session_id)?;
                &runs.get(at(runs, scope.run)?)?.calls
            }
        };
        Some(Arc::clone(&calls.get(call?)?.id))
    }

    fn spawn(
        &mut self,
        event: &EventId,
        spawn: &SpawnSessionStart,
        call: Option<Arc<str>>,
        out: &mut Out<'_>,
    ) {
        let runs = self.sessions.entry(spawn.child_session_id.clone()).or_default();
        let last_run = runs.last().map_or(0, |last| last.child.run);
        if let Some(last) = runs.last_mut().filter(|last| last.is_announced_late_by(spawn)) {
            last.announced = Announced::Yes;
            last.spawn = event.clone();
            last.tool_call_id.clone_from(&spawn.tool_call_id);
            return self.update(&learnt(spawn, last_run), call, out);
        }
        let run = match spawn.run {
            Some(run) if run <= last_run => return,
            Some(run) => run,
            // Who does not count runs (an RFC line) means the next one, unless this announces the last one again.
            None if runs.last().is_some_and(|last| last.is_announced_again_by(event, spawn)) => return,
            None => match last_run.checked_add(1) {
                Some(run) => run,
                None => return,
            },
        };
        self.open(spawn.clone(), run, (event, Announced::Yes), call, out);
    }

    fn open(
        &mut self,
        spawn: SpawnSessionStart,
        run: u32,
        (event, announced): (&EventId, Announced),
        call: Option<Arc<str>>,
        out: &mut Out<'_>,
    ) {
        let child = Child {
            run,
            card: self.cards.of_child(&spawn.child_session_id, run),
            result: self.cards.of_result(&spawn.child_session_id, run),
            session: spawn.child_session_id,
            parent: spawn.parent_session_id,
            name: spawn.source_name,
            description: spawn.description.into(),
            mechanism: spawn.spawn_mechanism,
            source_type: spawn.source_type,
            // Only the root lies at 0.
            depth: spawn.depth.max(1),
            call,
        };
        out(Intent::OpenChild(&child));
        self.sessions.entry(child.session.clone()).or_default().push(Run {
            child,
            state: State::Open,
            spawn: event.clone(),
            announced,
            tool_call_id: spawn.tool_call_id,
            calls: Calls::default(),
        });
    }

    fn update(&mut self, update: &SessionUpdated, call: Option<Arc<str>>, out: &mut Out<'_>) {
        let runs = self.sessions.get_mut(&update.child_session_id);
        let run = runs.and_then(|runs| at(runs, update.run).and_then(|at| runs.get_mut(at)));
        if let Some(run) = run {
            run.child.learn(update, call);
            out(Intent::UpdateChild(UpdateChild { child: &run.child, update }));
        }
    }

    fn complete(&mut self, scope: &Scope, complete: &StreamComplete, out: &mut Out<'_>) {
        let Some(scope) = scope.child() else {
            return out(Intent::CloseRoot(complete));
        };
        if let Some(run) = open_run(&mut self.sessions, scope) {
            run.state = State::Closed;
            run.calls = Calls::default();
            out(Intent::CloseChild(CloseChild { child: &run.child, complete }));
        }
    }
}

fn open_run<'s>(sessions: &'s mut HashMap<SessionId, Vec<Run>>, scope: &ChildScope) -> Option<&'s mut Run> {
    let runs = sessions.get_mut(&scope.child_session_id)?;
    // The last one, but for a run that was still open when the next began.
    let at = at(runs, scope.run)?;
    let run = runs.get_mut(at)?;
    (run.state == State::Open).then_some(run)
}

/// Where a run is among those of its session.
fn at(runs: &[Run], run: u32) -> Option<usize> {
    runs.binary_search_by_key(&run, |known| known.child.run).ok()
}

impl Run {
    /// Whether a spawn is that of this run, which was met before.
    fn is_announced_late_by(&self, spawn: &SpawnSessionStart) -> bool {
        self.announced == Announced::NotYet && spawn.run.is_none_or(|run| run == self.child.run)
    }

    fn is_announced_again_by(&self, event: &EventId, spawn: &SpawnSessionStart) -> bool {
        self.state == State::Open
            || self.spawn == *event
            || (spawn.tool_call_id.is_some() && self.tool_call_id == spawn.tool_call_id)
    }
}

/// Where a session's events go.
struct Place<'a> {
    speaker: Speaker<'a>,
    calls: &'a mut Calls,
    cards: &'a mut CardIds,
}

impl Place<'_> {
    fn open_call(&mut self, id: &ToolCallId, name: &Arc<str>, out: &mut Out<'_>) {
        if self.calls.contains_key(id) {
            return;
        }
        let card =
            CallCard { id: self.cards.of_call(self.speaker, id), name: Arc::clone(name), state: State::Open };
        out(Intent::OpenCall(card.call(self.speaker, id)));
        self.calls.insert(id.clone(), card);
    }

    /// The call, where its card is open.
    fn with_call(&self, id: &ToolCallId, show: impl FnOnce(Call<'_>)) {
        if let Some((id, card)) = self.calls.get_key_value(id)
            && card.state == State::Open
        {
            show(card.call(self.speaker, id));
        }
    }

    fn close_call(&mut self, id: &ToolCallId) {
        if let Some(card) = self.calls.get_mut(id) {
            card.state = State::Closed;
        }
    }

    fn ask(&mut self, calls: &[ToolCallBlock], asked: Asked, out: &mut Out<'_>) {
        for block in calls {
            // A question must reach a person even where the call itself was not seen.
            if !self.calls.contains_key(&block.id) {
                self.open_call(&block.id, &block.name, out);
                self.with_call(&block.id, |call| {
                    let text = &block.input;
                    out(Intent::CallArguments(CallPiece { call, text }));
                    out(Intent::CallReady(call));
                });
            }
            let input = &block.input;
            self.with_call(&block.id, |call| out(Intent::Ask(Ask { call, asked, input })));
        }
    }

    fn answer(&self, id: &ToolCallId, asked: Asked, allowed: bool, out: &mut Out<'_>) {
        self.with_call(id, |call| {
            out(Intent::Answer(Answer { call, asked, allowed }));
        });
    }
}

impl CallCard {
    fn call<'a>(&'a self, speaker: Speaker<'a>, call: &'a ToolCallId) -> Call<'a> {
        Call { speaker, id: &self.id, call, name: &self.name }
    }
}
