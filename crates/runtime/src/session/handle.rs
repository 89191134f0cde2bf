//! The handle of a session.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch_adapters::{Adapter, Encode};
use anabranch_pipeline::Counters as PipelineCounters;
use anabranch_proto::{Message, Scope, SessionId, Stamp, ToolCallId};
use anabranch_session::{
    Counters, EventLog, EventProcessor, Limits as ProcessorLimits, MemoryLog, SessionTree,
};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    Attached, AttachedWith, Reader, Reply,
    driver::{Command, Driver, EVENTS_PER_TURN, PROMPT_BYTES, PROMPTS_WAITING},
    resume::Before,
    window::Window,
};
use crate::{
    Agent, Limits, LogNotEmpty, NotRunning, Prompt, SessionError, SteerError, SystemStamp,
    elsewhere::Claimed,
    limits::Slots,
    question::{Answer, AnswerError, Question, Questions},
    run::{Memories, Patience, RunControl, RunIdentity, Runs, Shared},
    task::{Ingress, TaskInfo, Tasks},
};

/// How many children the processor may have met before the limit on spawns hears of them: as many as one turn has events.
/// So the limit refuses a spawn before it is announced, and the processor never refuses one that was.
const UNSEEN: usize = EVENTS_PER_TURN;

/// A conversation with an agent.
///
/// One task runs it. Cloning shares the handle; when the last one is dropped the session answers the prompts that it has
/// taken and ends. [`close`](Self::close) ends it in order and at once.
#[derive(Clone)]
pub struct Session {
    pub(super) core: Arc<Core>,
    /// That of the root between its runs.
    pub(super) identity: RunIdentity,
    commands: mpsc::Sender<Command>,
}

/// What a session's driver, its handles and its readers share.
pub(super) struct Core {
    pub(super) id: SessionId,
    pub(super) log: Arc<dyn EventLog>,
    /// The number of the last event that the log took.
    pub(super) last: AtomicU64,
    pub(super) processor: Arc<Mutex<EventProcessor>>,
    pub(super) limits: Limits,
    pub(super) slots: Arc<Slots>,
    pub(super) stamp: Arc<dyn Stamp>,
    pub(super) pipeline: Arc<PipelineCounters>,
    /// What runs now, by its session.
    pub(super) runs: Arc<Runs>,
    pub(super) questions: Arc<Questions>,
    pub(super) tasks: Arc<Tasks>,
    pub(super) ingress: Ingress,
    /// Room for prompts that wait.
    pub(super) prompt_room: Arc<Semaphore>,
    /// Stops the runs that were asked for and have not ended, in their order.
    pub(super) prompts: Mutex<VecDeque<CancellationToken>>,
    /// Readers that hold producers back.
    pub(super) windows: Mutex<Vec<Arc<Window>>>,
    /// Asks the driver to end.
    pub(super) closing: CancellationToken,
    /// The driver has ended: the log will not grow.
    pub(super) ended: CancellationToken,
    /// How the session ended, or why nothing is appended any more.
    pub(super) ending: OnceLock<Result<(), SessionError>>,
}

impl Core {
    pub(super) fn with_processor<T>(&self, with: impl FnOnce(&mut EventProcessor) -> T) -> T {
        with(&mut self.processor.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets a reader hold producers back by what is appended from now on.
    pub(super) fn hold_for(&self, window: &Arc<Window>) {
        // Under the same lock as an append, so that each batch is counted wholly or not at all.
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        // Readers come and go on an idle session too.
        windows.retain(|window| !window.is_open());
        windows.push(Arc::clone(window));
    }

    /// The readers that hold producers back.
    pub(super) fn held_windows(&self) -> Vec<Arc<Window>> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.retain(|window| !window.is_open());
        windows.clone()
    }

    /// The prompt whose turn it was is answered: whoever cancels from here on means the next.
    pub(super) fn answered(&self) {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    }

    pub(super) fn cancel_session(&self, session: &SessionId) -> Result<(), NotRunning> {
        let run = self.runs.get(session).ok_or_else(|| NotRunning { session: session.clone() })?;
        run.cancel();
        Ok(())
    }

    /// Why the session takes no more, or gave no more.
    pub(super) fn error(&self) -> SessionError {
        match self.ending.get() {
            Some(Err(error)) => error.clone(),
            Some(Ok(())) | None => SessionError::Ended,
        }
    }
}

impl Session {
    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.core.id
    }

    /// Prompts the agent. A prompt that comes while another is answered waits for its turn; a tool that prompts its own
    /// session and waits for that would so wait for itself.
    ///
    /// Dropping the reply cancels nothing, unless it [is told to](Reply::cancel_on_drop).
    ///
    /// # Errors
    /// When the session has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the agent is not prompted.
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<Reply, SessionError> {
        self.ask(prompt.into(), CancellationToken::new()).await
    }

    /// Prompts the agent, and stops the reply when the token is cancelled: as [`prompt`](Self::prompt) otherwise.
    ///
    /// # Errors
    /// When the session has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the agent is not prompted.
    pub async fn prompt_until(
        &self,
        prompt: impl Into<Prompt>,
        token: &CancellationToken,
    ) -> Result<Reply, SessionError> {
        self.ask(prompt.into(), token.child_token()).await
    }

    /// Asks once there is room for the prompt.
    async fn ask(&self, prompt: Prompt, cancel: CancellationToken) -> Result<Reply, SessionError> {
        let bytes = u32::try_from(prompt.bytes().clamp(1, PROMPT_BYTES)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.core.prompt_room).acquire_many_owned(bytes);
        let room = self.core.ended.run_until_cancelled(room).await.and_then(Result::ok);
        let room = room.ok_or_else(|| self.core.error())?;
        let permit = self.commands.reserve().await.map_err(|_| self.core.error())?;
        Ok(self.send(permit, prompt, cancel, Some(room)))
    }

    fn send(
        &self,
        permit: mpsc::Permit<'_, Command>,
        prompt: Prompt,
        cancel: CancellationToken,
        room: Option<OwnedSemaphorePermit>,
    ) -> Reply {
        let (reply, mut command) = Reply::new(&self.core, prompt, cancel);
        command.room = room;
        // In the order in which the driver will take them.
        let mut prompts = self.core.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        prompts.push_back(command.cancel.clone());
        permit.send(command);
        drop(prompts);
        reply
    }

    /// Prompts a new session and gives its only handle to the reply.
    pub(crate) fn into_reply(self, prompt: Prompt) -> Reply {
        match self.commands.try_reserve() {
            Ok(permit) => self.send(permit, prompt, CancellationToken::new(), None).cancel_on_drop(),
            // The queue of a new session has room; were it not so, the reply would say that the session has ended.
            Err(_) => Reply::new(&self.core, prompt, CancellationToken::new()).0,
        }
    }

    /// Reads the session's events after number `after`; 0 for all. A reader that lags holds nobody back.
    pub fn subscribe(&self, after: u64) -> Reader {
        Reader::new(&self.core, after)
    }

    /// Reads the session's events after number `after`, holding producers back while it is behind by more than the
    /// window, for at most the stall limit; after that it holds nobody back until it has caught up. What lay before it was
    /// opened does not count.
    pub fn subscribe_lossless(&self, after: u64) -> Reader {
        Reader::lossless(&self.core, after)
    }

    /// The session's events after number `after`, as the bytes of a protocol.
    ///
    /// Lossless, as [`subscribe_lossless`](Self::subscribe_lossless) is. The encoder is told what came before without
    /// giving any bytes for it, so a client that resumes with its cursor finds open what it has open.
    pub fn attach(&self, after: u64, encode: impl Encode + 'static) -> Attached {
        Attached::new(self.subscribe_lossless(0), after, Box::new(encode))
    }

    /// The session's events after number `after`, as what `make` makes of an adapter's frames.
    ///
    /// Lossless, as [`subscribe_lossless`](Self::subscribe_lossless) is. Frames borrow from their event and a stream
    /// cannot lend, so each is turned into an item here.
    pub fn attach_with<A, F, T>(&self, after: u64, adapter: A, make: F) -> AttachedWith<A, F, T>
    where
        A: Adapter,
        F: for<'a> FnMut(A::Frame<'a>) -> T,
        for<'a> A::Frame<'a>: Serialize,
    {
        AttachedWith::new(self.subscribe_lossless(0), after, adapter, make)
    }

    /// Stops the reply that is under way, or the one whose turn is next; prompts that wait behind it are answered still.
    pub fn cancel(&self) {
        let prompts = self.core.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = prompts.front() {
            first.cancel();
        }
    }

    /// Stops one session of the tree: a sub-agent's call then has a result that says so, and its parent goes on; of the
    /// root it stops the reply that is under way.
    ///
    /// # Errors
    /// When nothing runs in the session now.
    pub fn cancel_session(&self, session: &SessionId) -> Result<(), NotRunning> {
        self.core.cancel_session(session)
    }

    /// Says something to a run that is under way: the root's reply, or a sub-agent at any depth. Its model reads it before
    /// its next call, and a run that was about to end goes on to answer it.
    ///
    /// A run that fails or is stopped before its next model call does not read it.
    ///
    /// # Errors
    /// When nothing runs in the session, what runs takes no messages, or too many wait.
    pub fn steer(&self, session: &SessionId, message: impl Into<Prompt>) -> Result<(), SteerError> {
        let run = self.core.runs.get(session).ok_or_else(|| NotRunning { session: session.clone() })?;
        run.inbox.push(message.into())
    }

    /// Answers a question about a call of the session or of any below it. Only that call was waiting.
    ///
    /// # Errors
    /// When no such question is open, when it was answered before, or when the answer does not fit. Nothing changes then.
    pub fn answer(&self, session: &SessionId, call: &ToolCallId, answer: Answer) -> Result<(), AnswerError> {
        self.core.questions.answer(session, call, answer)
    }

    /// Answers several questions, each by session and call: all of them or none.
    ///
    /// # Errors
    /// As [`answer`](Self::answer), for the first answer that is not taken. Nothing changes then, for none of them.
    pub fn answer_all(&self, answers: Vec<(SessionId, ToolCallId, Answer)>) -> Result<(), AnswerError> {
        self.core.questions.answer_all(answers)
    }

    /// How many prompts were taken and are not answered yet, the one that is being answered among them.
    #[must_use]
    pub fn prompts_open(&self) -> usize {
        self.core.prompts.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether the session has ended: it was closed, or could not go on.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.core.ended.is_cancelled()
    }

    /// The questions that are open, in the order in which they were asked.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        self.core.questions.open()
    }

    /// The background tasks of the session and of all below it, ended ones included, in the order in which they were started.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskInfo> {
        self.core.tasks.list(None)
    }

    /// Looks at the tree of the session's children. Keep it short: the session waits meanwhile.
    pub fn with_tree<T>(&self, look: impl FnOnce(&SessionTree) -> T) -> T {
        self.core.with_processor(|processor| look(processor.tree()))
    }

    /// The conversation so far: prompts and completed replies.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.core.with_processor(|processor| processor.messages().to_vec())
    }

    /// What the session's processor did not admit as it came.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.core.with_processor(|processor| processor.counters())
    }

    /// What tools yielded and nobody may see.
    #[must_use]
    pub fn pipeline_counters(&self) -> &PipelineCounters {
        &self.core.pipeline
    }

    /// How many children run now.
    #[must_use]
    pub fn children_running(&self) -> usize {
        self.core.slots.running()
    }

    /// How many blocking functions ([`BlockingTool`](crate::BlockingTool)) run whose calls were stopped.
    #[must_use]
    pub fn detached(&self) -> usize {
        self.identity.shared.detached.load(Ordering::Acquire)
    }

    /// The root between its runs.
    pub(crate) fn host_identity(&self) -> RunIdentity {
        self.identity.clone()
    }

    /// Has the session end in order, and waits for nothing.
    pub(crate) fn end(&self) {
        self.core.closing.cancel();
    }

    /// Ends the session in order: what runs is stopped and closed, prompts that wait are not answered.
    ///
    /// # Cancel safety
    /// The session ends even when the future is dropped.
    pub async fn close(&self) {
        self.core.closing.cancel();
        self.core.ended.cancelled().await;
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.core.id).finish_non_exhaustive()
    }
}

/// Builds a [`Session`].
#[must_use]
pub struct SessionBuilder {
    pub(super) agent: Agent,
    pub(super) id: Option<SessionId>,
    pub(super) log: Option<Arc<dyn EventLog>>,
    pub(super) stamp: Option<Arc<dyn Stamp>>,
}

impl SessionBuilder {
    pub(crate) fn new(agent: Agent) -> Self {
        Self { agent, id: None, log: None, stamp: None }
    }

    /// The session's id. A new one by default.
    pub fn id(mut self, id: impl Into<SessionId>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Where admitted events are kept. In memory by default, 64 MiB of them.
    pub fn log(mut self, log: Arc<dyn EventLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// Where ids and times come from. This machine by default.
    pub fn stamp(mut self, stamp: Arc<dyn Stamp>) -> Self {
        self.stamp = Some(stamp);
        self
    }

    /// Starts the session.
    ///
    /// # Errors
    /// When the log has events already: numbers begin at 1, and a log has each number once. [`resume`](Self::resume) goes on
    /// with a session that a log has.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(self) -> Result<Session, LogNotEmpty> {
        let events = self.log.as_ref().map_or(0, |log| log.last());
        if events > 0 { Err(LogNotEmpty { events }) } else { Ok(self.start_anew()) }
    }

    /// Starts the session on a log that is empty.
    pub(crate) fn start_anew(mut self) -> Session {
        let stamp = self.stamp.get_or_insert_with(|| Arc::new(SystemStamp::new()));
        let id = self.id.get_or_insert_with(|| stamp.session_ids().0).clone();
        let processor = EventProcessor::new(id, self.bounds());
        self.start_with(processor, &Before::default())
    }

    /// What the processor refuses to go beyond.
    pub(super) fn bounds(&self) -> ProcessorLimits {
        let limits = self.agent.inner().limits;
        ProcessorLimits::default()
            .max_depth(limits.max_depth)
            .max_spawned(limits.max_spawned.saturating_add(UNSEEN))
    }

    /// Starts the session with what its log has led to.
    pub(super) fn start_with(self, processor: EventProcessor, before: &Before) -> Session {
        let stamp = self.stamp.unwrap_or_else(|| Arc::new(SystemStamp::new()));
        let limits = self.agent.inner().limits;
        let (id, last) = (processor.tree().root().id.clone(), processor.last_seq());
        let slots = Slots::new(limits);
        slots.note_tree(processor.tree().len().saturating_sub(1));
        let (ingress, entries) = Ingress::new();
        let patience = Patience::new(limits.stall);
        let core = Arc::new(Core {
            questions: Questions::with_rules_of(&before.rules),
            tasks: Tasks::new(ingress.clone(), patience.clone(), before.tasks(&processor)),
            processor: Arc::new(Mutex::new(processor)),
            id,
            log: self.log.unwrap_or_else(|| Arc::new(MemoryLog::new())),
            last: AtomicU64::new(last),
            limits,
            slots,
            stamp,
            pipeline: Arc::default(),
            runs: Arc::default(),
            ingress,
            prompt_room: Arc::new(Semaphore::new(PROMPT_BYTES)),
            prompts: Mutex::default(),
            windows: Mutex::default(),
            closing: CancellationToken::new(),
            ended: CancellationToken::new(),
            ending: OnceLock::new(),
        });
        let (commands, queue) = mpsc::channel(PROMPTS_WAITING);
        let shared = Shared {
            stamp: Arc::clone(&core.stamp),
            limits,
            slots: Arc::clone(&core.slots),
            counters: Arc::clone(&core.pipeline),
            runs: Arc::clone(&core.runs),
            questions: Arc::clone(&core.questions),
            tasks: Arc::clone(&core.tasks),
            memories: Arc::<Memories>::default(),
            claimed: Claimed::new(Arc::clone(&core.processor)),
            patience,
            detached: Arc::default(),
        };
        let identity = RunIdentity {
            session_id: core.id.clone(),
            scope: Scope::Root,
            metadata: self.agent.inner().metadata.clone(),
            control: RunControl::top(core.id.clone(), core.closing.clone()),
            permissions: self.agent.inner().permissions.iter().cloned().collect(),
            attempt: 1,
            kept: None,
            shared: Arc::new(shared),
        };
        let driver = Driver::new(self.agent, identity.clone(), Arc::clone(&core), queue, entries);
        tokio::spawn(driver.run());
        Session { core, identity, commands }
    }
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("agent", &self.agent)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
