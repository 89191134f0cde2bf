//! All tasks of a root session.

use std::{
    collections::{BTreeSet, HashMap},
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_pipeline::ToolStream;
use anabranch_proto::{ContentBlock, Outcome, SessionId, TextBlock, ToolCallId, ToolChunk};
use futures::{FutureExt as _, future::BoxFuture};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Batch, Ingress, Kind, NewTask, OnCancel, Restored, TaskInfo, TaskStatus, Untold, hand_over,
    record::{End, Progress, Task, Wanted, stopped},
};
use crate::run::{Loan, OwnTasks, Patience, RunControl, drop_quietly};

/// How many bytes of results wait for the models that are to read them; what is beyond is cut.
const UNTOLD_BYTES: usize = 16 * 1024 * 1024;

/// How much of a result that is cut is left.
const CUT_BYTES: usize = 4 * 1024;

/// All tasks of a root session, ended ones included.
pub(crate) struct Tasks {
    state: Mutex<State>,
    /// How many runs of tasks have ended.
    ended: watch::Sender<u64>,
    ingress: Ingress,
    /// With which a child waits that is held up.
    patience: Patience,
}

#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    by_session: HashMap<SessionId, usize>,
    by_parent: HashMap<SessionId, Vec<usize>>,
    /// Those that the stream has not announced, and by the calls that made them.
    unannounced: BTreeSet<usize>,
    by_call: HashMap<(SessionId, ToolCallId), Vec<usize>>,
    /// The tasks whose results are in the results of these calls, which have not reached their models' conversations.
    given: HashMap<(SessionId, ToolCallId), usize>,
    /// How many bytes of results the models have not been told.
    untold_bytes: usize,
    /// How many tasks have had a name that models use.
    named: u64,
    ended: u64,
}

/// Tasks that were stopped: they are gone when [`gone`](Self::gone) says so. Dropping it changes nothing for them.
#[must_use]
pub(crate) struct Stopped {
    tasks: Vec<(usize, SessionId, Arc<RunControl>)>,
}

/// What is to be dropped without the lock: it may be an agent's run, and may panic. What was lent goes back.
struct Discarded(Vec<(Progress, Option<Loan>)>);

impl Drop for Discarded {
    fn drop(&mut self) {
        self.0.drain(..).for_each(drop_quietly);
    }
}

impl Tasks {
    /// The tasks of a session, with those that had ended before it goes on.
    pub(crate) fn new(ingress: Ingress, patience: Patience, before: Vec<Restored>) -> Arc<Self> {
        let mut state = State::default();
        for restored in before {
            state.restore(restored);
        }
        Arc::new(Self { state: Mutex::new(state), ended: watch::Sender::new(0), ingress, patience })
    }

    /// Makes a task known, before its child is announced. Gives its number and its name.
    pub(crate) fn make(&self, new: NewTask) -> (usize, Arc<str>) {
        let mut state = self.lock();
        let known = new.again.filter(|number| *number < state.tasks.len());
        let number = known.unwrap_or(state.tasks.len());
        let before = known.and_then(|number| {
            let task = state.tasks.get_mut(number)?;
            let end = if let Progress::Ended(end) = task.progress { Some(end) } else { None };
            Some((Arc::clone(&task.id), task.kind, end, mem::take(&mut task.untold)))
        });
        let (id, kind, before, untold) = before.unwrap_or_else(|| {
            // Short, for models copy it; a name of code's is nobody's to use.
            let is_named = new.kind != Kind::Manual;
            state.named += u64::from(is_named);
            let id = if is_named { Arc::from(format!("task_{}", state.named)) } else { Arc::from("") };
            (id, new.kind, None, Vec::new())
        });
        state.by_session.insert(new.session.clone(), number);
        if known.is_none() {
            state.by_parent.entry(new.parent.clone()).or_default().push(number);
        }
        state.unannounced.insert(number);
        if let Some(call) = &new.call {
            state.by_call.entry((new.parent.clone(), call.clone())).or_default().push(number);
        }
        let task = Task {
            id: Arc::clone(&id),
            kind,
            session: new.session,
            run: new.run,
            parent: new.parent,
            call: new.call,
            name: new.name,
            description: new.description,
            control: new.control,
            within: new.within,
            started: Instant::now(),
            is_waited_for: new.is_waited_for,
            progress: Progress::Made,
            before,
            loan: new.loan,
            untold,
        };
        match state.tasks.get_mut(number) {
            Some(place) => *place = task,
            None => state.tasks.push(task),
        }
        (number, id)
    }

    /// Gives a task its child, which starts when its announcement has entered the session's stream.
    pub(crate) fn ready(&self, number: usize, child: ToolStream) {
        let mut state = self.lock();
        match state.tasks.get_mut(number) {
            Some(task) if matches!(task.progress, Progress::Made) => task.progress = Progress::Ready(child),
            // It was given up meanwhile.
            Some(_) | None => {
                drop(state);
                drop_quietly(child);
            }
        }
    }

    /// The announcement of a child's run has entered the session's stream, or was refused. Starts the child's task where it
    /// has one.
    ///
    /// `is_waited_for`: whether the parent's run ends after it.
    pub(crate) fn announced(
        self: &Arc<Self>,
        child: &SessionId,
        run: u32,
        is_admitted: bool,
        is_waited_for: bool,
    ) {
        let mut state = self.lock();
        let Some(&number) = state.by_session.get(child) else { return };
        let Some(task) = state.tasks.get_mut(number).filter(|task| task.run == run) else { return };
        if !matches!(task.progress, Progress::Ready(_)) {
            return;
        }
        let Progress::Ready(stream) = mem::replace(&mut task.progress, Progress::Starting(Wanted::Yes))
        else {
            return;
        };
        task.before = None;
        let loan = task.loan.take();
        task.is_waited_for = is_waited_for;
        let own = task.control.own_tasks();
        state.settle(number);
        drop(state);
        if !is_admitted {
            drop_quietly(stream);
            self.finish(number, ToolChunk::error("the session took no more sub-agents"));
            return;
        }
        if let Some(loan) = loan {
            loan.spend();
        }
        // Without the lock: a runtime that is being shut down drops the child in here.
        let itself = own.itself.clone();
        let abort = itself.spawn(pump(Arc::clone(self), number, stream, own)).abort_handle();
        if let Some(task) = self.lock().tasks.get_mut(number)
            && let Progress::Starting(wanted) = task.progress
        {
            if wanted == Wanted::No {
                abort.abort();
            }
            task.progress = Progress::Running(abort);
        } else {
            abort.abort();
        }
    }

    /// A call's result has entered the stream: nothing follows from it, so what it made and was not announced never will be.
    pub(crate) fn call_ended(&self, session: &SessionId, call: &ToolCallId) {
        let mut state = self.lock();
        if state.unannounced.is_empty() {
            return;
        }
        let lost = state.by_call.get(&(session.clone(), call.clone())).cloned().unwrap_or_default();
        let dropped = state.discard(lost);
        drop(state);
        self.forget(dropped);
    }

    /// The child of a task, which run of it the task is, and what can be done to it.
    pub(crate) fn child(&self, number: usize) -> Option<(SessionId, u32, Arc<RunControl>)> {
        let state = self.lock();
        let task = state.tasks.get(number)?;
        Some((task.session.clone(), task.run, Arc::clone(&task.control)))
    }

    /// Takes note of what a task came to. The first end of a run counts.
    pub(crate) fn finish(&self, number: usize, result: ToolChunk) {
        let mut state = self.lock();
        state.ended += 1;
        let (ended, room) = (state.ended, UNTOLD_BYTES.saturating_sub(state.untold_bytes));
        let Some(task) = state.tasks.get_mut(number).filter(|task| task.is_open()) else { return };
        let outcome = result.metadata.get("outcome").and_then(|outcome| outcome.to::<Outcome>().ok());
        let end = End { outcome: outcome.unwrap_or(Outcome::Failed), after: task.started.elapsed() };
        let dropped =
            Discarded(vec![(mem::replace(&mut task.progress, Progress::Ended(end)), task.loan.take())]);
        if task.kind != Kind::Manual
            && let Some(info) = task.info()
        {
            let result = within(result, room);
            let bytes = bytes(&result);
            task.untold.push(Untold { info, result, bytes, number: ended, given_by: None });
            state.untold_bytes += bytes;
        }
        state.settle(number);
        drop(state);
        self.forget(dropped);
    }

    /// The results that a session's model has not been told, in the order in which the tasks ended. From here on it has.
    ///
    /// Those that were given to a call which came to nothing are among them.
    pub(crate) fn take_untold(&self, parent: &SessionId) -> Vec<Untold> {
        let mut untold = Vec::new();
        let mut state = self.lock();
        let State { tasks, by_parent, given, untold_bytes, .. } = &mut *state;
        for number in by_parent.get(parent).into_iter().flatten() {
            if let Some(task) = tasks.get_mut(*number) {
                untold.append(&mut task.untold);
            }
        }
        *untold_bytes -= untold.iter().map(|untold| untold.bytes).sum::<usize>();
        given.retain(|(session, _), _| session != parent);
        drop(state);
        untold.sort_unstable_by_key(|untold| untold.number);
        untold
    }

    /// The results of one task that the model has not been told. They are in the result of this call, and told when
    /// [that has reached the model](Self::told).
    pub(crate) fn give(
        &self,
        number: usize,
        session: &SessionId,
        call: &ToolCallId,
    ) -> Vec<(TaskInfo, ToolChunk)> {
        let mut state = self.lock();
        let Some(task) = state.tasks.get_mut(number) else { return Vec::new() };
        let mut given = Vec::new();
        for untold in task.untold.iter_mut().filter(|untold| untold.given_by.is_none()) {
            untold.given_by = Some(call.clone());
            given.push((untold.info.clone(), untold.result.clone()));
        }
        if !given.is_empty() {
            state.given.insert((session.clone(), call.clone()), number);
        }
        given
    }

    /// The result of a call is a part of its model's conversation.
    pub(crate) fn told(&self, session: &SessionId, call: &ToolCallId) {
        let mut state = self.lock();
        if state.given.is_empty() {
            return;
        }
        let State { tasks, given, untold_bytes, .. } = &mut *state;
        let number = given.remove(&(session.clone(), call.clone()));
        if let Some(task) = number.and_then(|number| tasks.get_mut(number)) {
            let is_told = |untold: &Untold| untold.given_by.as_ref() == Some(call);
            for told in task.untold.extract_if(.., |untold| is_told(untold)) {
                *untold_bytes -= told.bytes;
            }
        }
    }

    pub(crate) fn has_untold(&self, parent: &SessionId) -> bool {
        self.lock().of(parent).any(|task| !task.untold.is_empty())
    }

    /// Whether a session's run waits for tasks before it ends.
    pub(crate) fn is_awaited(&self, parent: &SessionId) -> bool {
        self.lock().of(parent).any(|task| task.is_waited_for && task.is_open())
    }

    /// Waits until a session's run has something to read of its tasks, where it reads it, or waits for none any more.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(crate) async fn one_ended(&self, parent: &SessionId, reads: bool) {
        let mut ended = self.ended.subscribe();
        while self.is_awaited(parent) && !(reads && self.has_untold(parent)) {
            if ended.changed().await.is_err() {
                return;
            }
        }
    }

    /// Gives up what a session made and the stream has not announced.
    pub(crate) fn discard_of(&self, parent: &SessionId) {
        let mut state = self.lock();
        let lost = state.unannounced.iter().copied();
        let is_its = |task: &Task| task.parent == *parent;
        let lost = lost.filter(|number| state.tasks.get(*number).is_some_and(is_its)).collect();
        let dropped = state.discard(lost);
        drop(state);
        self.forget(dropped);
    }

    /// Waits until a task has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(crate) async fn has_ended(&self, number: usize) {
        let mut ended = self.ended.subscribe();
        while self.lock().tasks.get(number).is_some_and(Task::is_open) {
            if ended.changed().await.is_err() {
                return;
            }
        }
    }

    /// The task of a child that has not ended, as far as the session's stream has it.
    pub(crate) fn open_task_of(&self, child: &SessionId) -> Option<usize> {
        let state = self.lock();
        let number = *state.by_session.get(child)?;
        state.tasks.get(number).filter(|task| task.is_open()).map(|_| number)
    }

    /// The number of a session's task by its name, and how it is.
    pub(crate) fn find(&self, parent: &SessionId, id: &str) -> Option<(usize, TaskInfo)> {
        let state = self.lock();
        let mut numbers = state.by_parent.get(parent)?.iter().copied();
        numbers.find_map(|number| {
            let task = state.tasks.get(number)?;
            if *task.id == *id && task.kind != Kind::Manual { Some((number, task.info()?)) } else { None }
        })
    }

    /// Asks a task to end; it does so by itself, as interrupted.
    pub(crate) fn cancel(&self, number: usize) {
        if let Some(task) = self.lock().tasks.get(number) {
            task.control.cancel();
        }
    }

    /// All background tasks, or those of one session, in the order in which they were started.
    pub(crate) fn list(&self, parent: Option<&SessionId>) -> Vec<TaskInfo> {
        let state = self.lock();
        let info = |task: &Task| if task.kind == Kind::Manual { None } else { task.info() };
        match parent {
            Some(parent) => state.of(parent).filter_map(info).collect(),
            None => state.tasks.iter().filter_map(info).collect(),
        }
    }

    /// Stops the tasks that a run of a session waits for.
    pub(crate) fn stop_awaited(&self, parent: &SessionId) -> Stopped {
        self.stop_of(parent, |task| task.is_waited_for)
    }

    /// Stops what goes with a cancelled reply of the root.
    pub(crate) fn stop_with_reply(&self, root: &SessionId) -> Stopped {
        self.stop_of(root, |task| task.is_waited_for || task.kind == Kind::Background(OnCancel::Stop))
    }

    /// Stops the tasks whose parent is not among those that run.
    pub(crate) fn stop_orphans(&self, is_running: impl Fn(&SessionId) -> bool) -> Stopped {
        self.stop(|task| !is_running(&task.parent))
    }

    pub(crate) fn stop_all(&self) -> Stopped {
        self.stop(|_| true)
    }

    fn stop_of(&self, parent: &SessionId, which: impl Fn(&Task) -> bool) -> Stopped {
        let mut state = self.lock();
        let numbers = state.by_parent.get(parent).cloned().unwrap_or_default();
        let (stopped, dropped) = state.stop(numbers, which);
        drop(state);
        self.forget(dropped);
        stopped
    }

    fn stop(&self, which: impl Fn(&Task) -> bool) -> Stopped {
        let mut state = self.lock();
        let numbers = (0..state.tasks.len()).collect();
        let (stopped, dropped) = state.stop(numbers, which);
        drop(state);
        self.forget(dropped);
        stopped
    }

    /// Gives up a task that was not announced.
    pub(crate) fn discard(&self, number: usize) {
        let dropped = self.lock().discard(vec![number]);
        self.forget(dropped);
    }

    /// Gives up the tasks that were to be announced by a run which has ended: nobody will hear of them.
    pub(crate) fn discard_unannounced(&self, within: &Arc<RunControl>) {
        let mut state = self.lock();
        let is_within = |task: &Task| Arc::ptr_eq(task.within.uppermost(), within.uppermost());
        let lost = state.unannounced.iter().copied();
        let lost = lost.filter(|number| state.tasks.get(*number).is_some_and(is_within)).collect();
        let dropped = state.discard(lost);
        drop(state);
        self.forget(dropped);
    }

    /// Drops what ended or was given up, and wakes whoever waits for it.
    fn forget(&self, dropped: Discarded) {
        if !dropped.0.is_empty() {
            drop(dropped);
            self.ended.send_modify(|ended| *ended += 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The tasks of a session.
    fn of(&self, parent: &SessionId) -> impl Iterator<Item = &Task> {
        self.by_parent.get(parent).into_iter().flatten().filter_map(|number| self.tasks.get(*number))
    }

    /// Takes note of a task that ended under another program.
    fn restore(&mut self, restored: Restored) {
        let number = self.tasks.len();
        let Restored { info, run, result } = restored;
        let TaskStatus::Ended(outcome) = info.status else { return };
        // The names that models use count; none of the new ones is to be one of the old.
        let name = info.task_id.strip_prefix("task_").and_then(|number| number.parse().ok());
        self.named = self.named.max(name.unwrap_or(0));
        let control = RunControl::top(info.session_id.clone(), CancellationToken::new());
        let mut untold = Vec::new();
        if let Some(result) = result {
            let result = within(result, UNTOLD_BYTES.saturating_sub(self.untold_bytes));
            let bytes = bytes(&result);
            self.untold_bytes += bytes;
            self.ended += 1;
            untold.push(Untold { info: info.clone(), result, bytes, number: self.ended, given_by: None });
        }
        self.by_session.insert(info.session_id.clone(), number);
        self.by_parent.entry(info.parent_session_id.clone()).or_default().push(number);
        self.tasks.push(Task {
            id: info.task_id,
            kind: Kind::Background(OnCancel::Stop),
            session: info.session_id,
            run,
            parent: info.parent_session_id,
            call: None,
            name: info.name,
            description: info.description,
            within: Arc::clone(&control),
            control,
            started: Instant::now(),
            is_waited_for: false,
            progress: Progress::Ended(End { outcome, after: info.elapsed }),
            before: None,
            loan: None,
            untold,
        });
    }

    /// Takes note that a task is announced, or never will be.
    fn settle(&mut self, number: usize) {
        self.unannounced.remove(&number);
        let Some(task) = self.tasks.get(number) else { return };
        let Some(call) = &task.call else { return };
        let key = (task.parent.clone(), call.clone());
        if let Some(made) = self.by_call.get_mut(&key) {
            made.retain(|made| *made != number);
            if made.is_empty() {
                self.by_call.remove(&key);
            }
        }
    }

    /// Gives up those of these tasks that were not announced: a first run was never there, a further one neither.
    fn discard(&mut self, numbers: Vec<usize>) -> Discarded {
        let mut dropped = Vec::new();
        for number in numbers {
            let Some(task) = self.tasks.get_mut(number).filter(|task| task.is_unannounced()) else {
                continue;
            };
            let instead = task.before.take().map_or(Progress::Discarded, Progress::Ended);
            dropped.push((mem::replace(&mut task.progress, instead), task.loan.take()));
            self.settle(number);
        }
        Discarded(dropped)
    }

    /// Stops those of these tasks that run, and gives up those that were not announced.
    fn stop(&mut self, numbers: Vec<usize>, which: impl Fn(&Task) -> bool) -> (Stopped, Discarded) {
        let (mut stopped, mut lost) = (Vec::new(), Vec::new());
        for number in numbers {
            let Some(task) = self.tasks.get_mut(number).filter(|task| which(task)) else { continue };
            match &mut task.progress {
                Progress::Made | Progress::Ready(_) => lost.push(number),
                Progress::Starting(wanted) => *wanted = Wanted::No,
                Progress::Running(abort) => abort.abort(),
                Progress::Ended(_) | Progress::Discarded => continue,
            }
            task.control.cancel();
            if !task.is_unannounced() {
                stopped.push((number, task.session.clone(), Arc::clone(&task.control)));
            }
        }
        (Stopped { tasks: stopped }, self.discard(lost))
    }
}

impl Stopped {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The children's sessions.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        self.tasks.iter().map(|(_, session, _)| session)
    }

    /// Waits until nothing of them lives, nor of the tasks that they and all they waited for had started, and gives up what
    /// was still to be announced by them.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(crate) fn gone<'a>(&'a self, tasks: &'a Tasks) -> BoxFuture<'a, ()> {
        async move {
            for (_, _, control) in &self.tasks {
                control.gone().await;
                tasks.discard_unannounced(control);
                let below = tasks.stop(|task| Arc::ptr_eq(task.within.uppermost(), control));
                below.gone(tasks).await;
                below.finish(tasks);
            }
        }
        .boxed()
    }

    /// Says of those that did not end by themselves that they were interrupted.
    pub(crate) fn finish(&self, tasks: &Tasks) {
        for (number, ..) in &self.tasks {
            let result = tasks.lock().tasks.get(*number).map(stopped);
            if let Some(result) = result {
                tasks.finish(*number, result);
            }
        }
    }
}

/// A result that takes no more than there is room for; of one that does its beginning, and how much that is.
fn within(mut result: ToolChunk, room: usize) -> ToolChunk {
    let size = bytes(&result);
    if size <= room || size <= CUT_BYTES {
        return result;
    }
    let text: String = result.content.iter().filter_map(ContentBlock::as_text).collect();
    let end = (0..=CUT_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let beginning = text.get(..end).unwrap_or_default();
    let note = format!(
        "{beginning}\n\n(These are the first {end} of {} bytes of text: too many results have waited to be read.)",
        text.len()
    );
    result.content = vec![TextBlock::new(note).into()];
    result
}

fn bytes(result: &ToolChunk) -> usize {
    result.content.iter().map(ContentBlock::approximate_bytes).sum()
}

/// Runs a child and hands its events over.
async fn pump(tasks: Arc<Tasks>, number: usize, child: ToolStream, own: OwnTasks) {
    let send = async |batch: Batch| {
        if batch.end.is_some() {
            // What it had started is gone too before anybody hears that it has ended.
            own.gone().await;
        }
        tasks.ingress.send(number, batch).await
    };
    hand_over(child, &tasks.patience, send).await;
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("tasks", &self.lock().tasks.len()).finish_non_exhaustive()
    }
}
