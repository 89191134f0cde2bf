//! What all fakes of a run share: the plan, who is alive, who polled how often, what was asked.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use anabranch_proto::{ChildScope, SessionId};
use anabranch_runtime::{Agent, Session};
use futures::FutureExt as _;

use crate::{
    log::RecordingLog,
    plan::{self, AgentPlan, CallPlan, CancelHow, CancelPlan, Plan, Way, Work},
    seen::{Cancel, Request, Seen},
};

/// Beyond so many polls of fakes a run does not come to an end: the fakes then end by themselves.
const POLLS: u64 = 2_000_000;

/// In how many events a stop that came in the middle of the driver's turn is noticed: a turn has 64, and what the
/// processor makes because of them.
const NOTICED_WITHIN: u64 = 256;

/// The root's session.
pub(crate) const ROOT: &str = "ses_root";

/// What all fakes of a run share.
#[derive(Debug)]
pub(crate) struct World {
    agents: HashMap<u32, AgentPlan>,
    calls: HashMap<u32, CallPlan>,
    cancels: Vec<CancelPlan>,
    pub(crate) log: Arc<RecordingLog>,
    polls: AtomicU64,
    alive: AtomicUsize,
    /// Whether whatever is dropped outside of a call's poll is dropped by who stops its run.
    stops_in_drops: bool,
    /// How many layers are being polled, one inside the other.
    layers_polled: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    session: Option<Session>,
    template: Option<Agent>,
    members: HashMap<u32, Agent>,
    /// How many prompts the session has taken.
    prompts: usize,
    scopes: Vec<Arc<ChildScope>>,
    requests: Vec<Request>,
    cancels: Vec<Cancel>,
    faults: Vec<String>,
    /// Sessions that were stopped by themselves.
    stopped: Vec<SessionId>,
    /// Sessions to which something was said while they ran.
    steered: Vec<SessionId>,
    /// Calls that ran, by their numbers.
    ran: Vec<u32>,
    /// How many events each call was told that it had emitted.
    reports: HashMap<u32, usize>,
}

impl World {
    pub(crate) fn new(plan: &Plan, log: Arc<RecordingLog>) -> Arc<Self> {
        Arc::new(Self {
            agents: plan::agents(plan).into_iter().map(|agent| (agent.number, agent.clone())).collect(),
            calls: plan::calls(plan).map(|call| (call.number, call.clone())).collect(),
            cancels: plan.cancels.clone(),
            log,
            polls: AtomicU64::new(0),
            alive: AtomicUsize::new(0),
            stops_in_drops: plan::calls(plan).all(|call| {
                if let Work::Spawn(spawn) = &call.work { spawn.way == Way::InTask } else { true }
            }),
            layers_polled: AtomicUsize::new(0),
            state: Mutex::default(),
        })
    }

    pub(crate) fn agent(&self, number: u32) -> Option<&AgentPlan> {
        self.agents.get(&number)
    }

    pub(crate) fn call(&self, number: u32) -> Option<&CallPlan> {
        self.calls.get(&number)
    }

    /// Counts a poll of a fake and stops what is to be stopped there. Says whether the run has had too many.
    pub(crate) fn poll(self: &Arc<Self>) -> bool {
        let poll = self.polls.fetch_add(1, Ordering::Relaxed) + 1;
        for cancel in self.cancels.iter().filter(|cancel| cancel.poll == poll) {
            self.stop(cancel.how);
        }
        if poll == POLLS {
            self.fault("the fakes were polled two million times".to_owned());
        }
        poll >= POLLS
    }

    /// Stops something in the middle of the driver's work.
    pub(crate) fn stop(self: &Arc<Self>, how: CancelHow) {
        let Some(session) = self.session() else { return };
        match how {
            CancelHow::Session => {
                self.note_cancel(None, false, NOTICED_WITHIN);
                session.cancel();
            }
            CancelHow::Close => {
                self.note_cancel(None, true, NOTICED_WITHIN);
                // The first poll asks; the session ends even when the future is dropped.
                session.close().now_or_never();
            }
            CancelHow::Task => {
                let world = Arc::clone(self);
                tokio::spawn(async move {
                    world.note_cancel(None, false, 0);
                    session.cancel();
                });
            }
            CancelHow::Now => {
                self.note_cancel(None, false, 0);
                session.cancel();
            }
            CancelHow::Child => {
                let Some(child) = self.some_child() else { return };
                if session.cancel_session(&child).is_ok() {
                    self.lock().stopped.push(child);
                }
            }
            CancelHow::Steer => {
                let session_id = self.some_child().unwrap_or_else(|| session.id().clone());
                if session.steer(&session_id, "steered").is_ok() {
                    self.lock().steered.push(session_id);
                }
            }
        }
    }

    /// Takes note that a prompt's run is being stopped; the one under way or whose turn is next where none is named.
    pub(crate) fn note_cancel(&self, prompt: Option<usize>, closes: bool, within: u64) {
        let mut state = self.lock();
        let prompt = prompt.or_else(|| self.current(&state));
        let noticed = self.log.last() + within;
        state.cancels.push(Cancel { prompt, closes, noticed, is_last_resort: false });
    }

    /// Takes note that the run under way is stopped because nothing else ends it.
    pub(crate) fn note_last_resort(&self) {
        let mut state = self.lock();
        let cancel = Cancel {
            prompt: self.current(&state),
            closes: false,
            noticed: self.log.last(),
            is_last_resort: true,
        };
        state.cancels.push(cancel);
    }

    /// The prompt whose run is under way, or whose turn is next.
    fn current(&self, state: &State) -> Option<usize> {
        let ended = *self.log.ended().borrow();
        (ended < state.prompts).then_some(ended)
    }

    /// Counts a fake until the guard is dropped.
    pub(crate) fn guard(self: &Arc<Self>) -> Guard {
        self.alive.fetch_add(1, Ordering::Relaxed);
        Guard(Arc::clone(self))
    }

    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Whether a call's stream is being polled. Whatever is dropped then is dropped by its call; else by who stops the run.
    pub(crate) fn is_in_call(&self) -> bool {
        self.layers_polled.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn in_call<T>(&self, poll: impl FnOnce() -> T) -> T {
        /// Counts back whether or not the poll panics.
        struct Leave<'a>(&'a AtomicUsize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.layers_polled.fetch_add(1, Ordering::Relaxed);
        let _leave = Leave(&self.layers_polled);
        poll()
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.lock().session.clone()
    }

    pub(crate) fn template(&self) -> Option<Agent> {
        self.lock().template.clone()
    }

    pub(crate) fn set_template(&self, template: Agent) {
        self.lock().template = Some(template);
    }

    /// A team's member.
    pub(crate) fn member(&self, number: u32) -> Option<Agent> {
        self.lock().members.get(&number).cloned()
    }

    pub(crate) fn set_member(&self, number: u32, agent: Agent) {
        self.lock().members.insert(number, agent);
    }

    pub(crate) fn set_session(&self, session: Session) {
        self.lock().session = Some(session);
    }

    /// Lets go of the session, so that its last handle is somebody else's.
    pub(crate) fn forget_session(&self) {
        let session = self.lock().session.take();
        drop(session);
    }

    /// Lets go of the agents, which hold the world in their turn.
    pub(crate) fn forget_template(&self) {
        let mut state = self.lock();
        let agents = (state.template.take(), std::mem::take(&mut state.members));
        drop(state);
        drop(agents);
    }

    pub(crate) fn prompted(&self) {
        self.lock().prompts += 1;
    }

    /// A child of the same parent that another call spawned, to be spoken for.
    pub(crate) fn sibling(&self, of: &impl Fn(&ChildScope) -> bool) -> Option<Arc<ChildScope>> {
        self.lock().scopes.iter().rev().find(|scope| of(scope)).cloned()
    }

    pub(crate) fn saw(&self, scope: &Arc<ChildScope>) {
        let mut state = self.lock();
        if !state.scopes.iter().rev().any(|seen| Arc::ptr_eq(seen, scope)) {
            state.scopes.push(Arc::clone(scope));
        }
    }

    /// One of the children that were seen.
    fn some_child(&self) -> Option<SessionId> {
        let state = self.lock();
        let number = usize::try_from(self.polls()).unwrap_or(0).checked_rem(state.scopes.len() + 1)?;
        state.scopes.get(number).map(|scope| scope.child_session_id.clone())
    }

    pub(crate) fn stops_in_drops(&self) -> bool {
        self.stops_in_drops
    }

    /// A call was told that it had emitted an event.
    pub(crate) fn reported(&self, call: u32) {
        *self.lock().reports.entry(call).or_default() += 1;
    }

    /// A call reached its tool.
    pub(crate) fn ran(&self, call: u32) {
        self.lock().ran.push(call);
    }

    pub(crate) fn asked(&self, request: Request) {
        self.lock().requests.push(request);
    }

    /// Something that must not happen was seen by a fake.
    pub(crate) fn fault(&self, what: String) {
        self.lock().faults.push(what);
    }

    pub(crate) fn take(&self) -> Seen {
        let mut state = self.lock();
        let State { requests, cancels, faults, stopped, steered, ran, reports, .. } =
            std::mem::take(&mut *state);
        drop(state);
        Seen { requests, cancels, faults, stopped, steered, ran, reports }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is whole, so a planned panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fake that is alive.
#[derive(Debug)]
pub(crate) struct Guard(Arc<World>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::Relaxed);
    }
}
