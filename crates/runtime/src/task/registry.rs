//! All tasks of a root session.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_pipeline::ToolStream;
use anabranch_proto::{Outcome, SessionId, ToolCallId, ToolChunk};
use futures::FutureExt;
use tokio::{sync::watch, time::Instant};

use super::{
    Batch, Ingress, Kind, NewTask, OnCancel, TaskInfo, next_batch,
    record::{End, Progress, Task, stopped},
};
use crate::run::{RunControl, panic_message};

/// All tasks of a root session, ended ones included.
pub(crate) struct Tasks {
    state: Mutex<State>,
    /// How many runs of tasks have ended.
    ended: watch::Sender<u64>,
    ingress: Ingress,
}

#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    by_session: HashMap<SessionId, usize>,
    by_parent: HashMap<SessionId, Vec<usize>>,
    /// Those whose announcement has not entered the session's stream.
    coming: BTreeSet<usize>,
    /// How many tasks have had a name that models use.
    named: u64,
    ended: u64,
}

/// A result that the parent's model has not been told.
pub(crate) struct Untold {
    pub(crate) info: TaskInfo,
    pub(crate) result: ToolChunk,
}

/// Tasks that were stopped: they are gone when [`gone`](Self::gone) says so. Dropping it changes nothing for them.
#[must_use]
pub(crate) struct Stopped {
    tasks: Vec<(usize, SessionId, Arc<RunControl>)>,
}

impl Tasks {
    pub(crate) fn new(ingress: Ingress) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), ended: watch::Sender::new(0), ingress })
    }

    /// Makes a task known, before its child is announced. Gives its number and its name.
    pub(crate) fn make(&self, new: NewTask) -> (usize, Arc<str>) {
        let mut state = self.lock();
        let NewTask { again, kind, session, run, parent, name, description, control, within, call } = new;
        let known = again.and_then(|number| Some((number, Arc::clone(&state.tasks.get(number)?.id))));
        let (number, id) = known.clone().unwrap_or_else(|| {
            // Short, for models copy it; a name of code's is nobody's to use.
            state.named += u64::from(kind != Kind::Manual);
            let id =
                if kind == Kind::Manual { Arc::from("") } else { Arc::from(format!("task_{}", state.named)) };
            (state.tasks.len(), id)
        });
        state.by_session.insert(session.clone(), number);
        state.coming.insert(number);
        if known.is_none() {
            state.by_parent.entry(parent.clone()).or_default().push(number);
        }
        let task = Task {
            id: Arc::clone(&id),
            kind,
            session,
            run,
            parent,
            name,
            description,
            control,
            within,
            call,
            started: Instant::now(),
            is_waited_for: false,
            progress: Progress::Made,
        };
        match state.tasks.get_mut(number) {
            Some(place) => *place = task,
            None => state.tasks.push(task),
        }
        (number, id)
    }

    /// Gives a task its child, which starts when its announcement has entered the session's stream.
    pub(crate) fn ready(&self, number: usize, child: ToolStream) {
        if let Some(task) = self.lock().tasks.get_mut(number) {
            task.progress = Progress::Ready(child);
        }
    }

    /// The announcement of a child has entered the session's stream, or was refused. Starts the child's task where it has
    /// one.
    ///
    /// `is_waited_for`: whether the parent's run ends after it.
    pub(crate) fn announced(self: &Arc<Self>, child: &SessionId, is_admitted: bool, is_waited_for: bool) {
        let mut state = self.lock();
        let Some(&number) = state.by_session.get(child) else { return };
        state.coming.remove(&number);
        let Some(task) = state.tasks.get_mut(number) else { return };
        if !matches!(task.progress, Progress::Ready(_)) {
            return;
        }
        let Progress::Ready(stream) = std::mem::replace(&mut task.progress, Progress::Made) else { return };
        if !is_admitted {
            drop(state);
            drop(stream);
            self.finish(number, ToolChunk::error("the session took no more sub-agents"));
            return;
        }
        task.is_waited_for = is_waited_for;
        let tracker = task.control.tracker();
        let pump = pump(Arc::clone(self), number, stream);
        task.progress = Progress::Running(tracker.spawn(pump).abort_handle());
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
        let ended = state.ended;
        let Some(task) = state.tasks.get_mut(number).filter(|task| task.is_open()) else { return };
        let outcome = result.metadata.get("outcome").and_then(|outcome| outcome.to::<Outcome>().ok());
        task.progress = Progress::Ended(End {
            outcome: outcome.unwrap_or(Outcome::Failed),
            after: task.started.elapsed(),
            number: ended,
            untold: (task.kind != Kind::Manual).then_some(result),
        });
        drop(state);
        self.ended.send_modify(|ended| *ended += 1);
    }

    /// The results that a session's model has not been told, in the order in which the tasks ended. From here on it has.
    pub(crate) fn take_untold(&self, parent: &SessionId) -> Vec<Untold> {
        let mut untold = Vec::new();
        let mut state = self.lock();
        let State { tasks, by_parent, .. } = &mut *state;
        for number in by_parent.get(parent).into_iter().flatten() {
            let Some(task) = tasks.get_mut(*number) else { continue };
            let info = task.info();
            if let Progress::Ended(end) = &mut task.progress
                && let (Some(result), Some(info)) = (end.untold.take(), info)
            {
                untold.push((end.number, Untold { info, result }));
            }
        }
        drop(state);
        untold.sort_unstable_by_key(|(number, _)| *number);
        untold.into_iter().map(|(_, untold)| untold).collect()
    }

    /// The result of one task, where the model has not been told it.
    pub(crate) fn take_result(&self, number: usize) -> Option<ToolChunk> {
        let mut state = self.lock();
        match &mut state.tasks.get_mut(number)?.progress {
            Progress::Ended(end) => end.untold.take(),
            Progress::Made | Progress::Ready(_) | Progress::Running(_) | Progress::Discarded => None,
        }
    }

    pub(crate) fn has_untold(&self, parent: &SessionId) -> bool {
        let is_untold = |task: &Task| matches!(&task.progress, Progress::Ended(End { untold: Some(_), .. }));
        self.lock().of(parent).any(is_untold)
    }

    /// Whether a session's run waits for tasks before it ends. One whose announcement is on its way may be one of them.
    pub(crate) fn is_awaited(&self, parent: &SessionId) -> bool {
        let is_coming = |task: &Task| task.is_unannounced() && task.kind != Kind::Manual;
        self.lock().of(parent).any(|task| (task.is_waited_for && task.is_open()) || is_coming(task))
    }

    /// The result of a session's call has entered the session's stream: what the call was to announce before was lost on
    /// the way, and does not begin.
    pub(crate) fn called(&self, parent: &SessionId, call: &ToolCallId) {
        let mut state = self.lock();
        let dropped = state.discard(|task| task.parent == *parent && task.call.as_ref() == Some(call));
        drop(state);
        if !dropped.is_empty() {
            self.ended.send_modify(|ended| *ended += 1);
        }
        // Outside the lock: what is dropped is an agent's run.
        drop(dropped);
    }

    /// Waits until a task of a session that its run waits for has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(crate) fn one_ended(self: &Arc<Self>, parent: &SessionId) -> impl Future<Output = ()> + use<> {
        let (tasks, parent) = (Arc::clone(self), parent.clone());
        async move {
            let mut ended = tasks.ended.subscribe();
            let open = |tasks: &Self| tasks.lock().of(&parent).filter(|task| task.is_open()).count();
            let before = open(&tasks);
            while before > 0 && open(&tasks) >= before {
                if ended.changed().await.is_err() {
                    return;
                }
            }
        }
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
        let state = self.lock();
        let numbers = state.by_parent.get(parent).cloned().unwrap_or_default();
        state.stop(numbers.into_iter(), |task| task.is_waited_for)
    }

    /// Stops what goes with a cancelled reply of the root.
    pub(crate) fn stop_with_reply(&self, root: &SessionId) -> Stopped {
        let state = self.lock();
        let numbers = state.by_parent.get(root).cloned().unwrap_or_default();
        state.stop(numbers.into_iter(), |task| {
            task.is_waited_for || task.kind == Kind::Background(OnCancel::Stop)
        })
    }

    /// Stops the tasks whose parent is not among those that run.
    pub(crate) fn stop_orphans(&self, is_running: impl Fn(&SessionId) -> bool) -> Stopped {
        let state = self.lock();
        state.stop(0..state.tasks.len(), |task| !is_running(&task.parent))
    }

    pub(crate) fn stop_all(&self) -> Stopped {
        let state = self.lock();
        state.stop(0..state.tasks.len(), |_| true)
    }

    /// Drops a task that was not announced.
    pub(crate) fn discard(&self, number: usize) {
        let mut state = self.lock();
        let session = state.tasks.get(number).map(|task| task.session.clone());
        let dropped = state.discard(|task| Some(&task.session) == session.as_ref());
        drop(state);
        // Outside the lock: what is dropped is an agent's run.
        drop(dropped);
    }

    /// Drops the tasks that were to be announced by a run which has ended: nobody will hear of them.
    pub(crate) fn discard_unannounced(&self, within: &Arc<RunControl>) {
        let mut state = self.lock();
        let dropped = state.discard(|task| Arc::ptr_eq(task.within.uppermost(), within.uppermost()));
        drop(state);
        // Outside the lock: what is dropped is an agent's run.
        drop(dropped);
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

    /// Takes out those that were not announced and are chosen; what is given back is to be dropped outside the lock.
    fn discard(&mut self, which: impl Fn(&Task) -> bool) -> Vec<Progress> {
        let mut dropped = Vec::new();
        let tasks = &mut self.tasks;
        self.coming.retain(|number| {
            let Some(task) = tasks.get_mut(*number).filter(|task| which(task)) else { return true };
            dropped.push(std::mem::replace(&mut task.progress, Progress::Discarded));
            false
        });
        dropped
    }

    fn stop(&self, numbers: impl Iterator<Item = usize>, which: impl Fn(&Task) -> bool) -> Stopped {
        let mut stopped = Vec::new();
        for number in numbers {
            if let Some(task) = self.tasks.get(number)
                && let Progress::Running(abort) = &task.progress
                && which(task)
            {
                task.control.cancel();
                abort.abort();
                stopped.push((number, task.session.clone(), Arc::clone(&task.control)));
            }
        }
        Stopped { tasks: stopped }
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

    /// Waits until nothing of them lives.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(crate) async fn gone(&self) {
        for (_, _, control) in &self.tasks {
            control.gone().await;
        }
    }

    /// Says of those that did not end by themselves that they were interrupted. What they were about to announce is
    /// dropped with them.
    pub(crate) fn finish(&self, tasks: &Tasks) {
        for (number, _, control) in &self.tasks {
            tasks.discard_unannounced(control);
            let result = tasks.lock().tasks.get(*number).map(stopped);
            if let Some(result) = result {
                tasks.finish(*number, result);
            }
        }
    }
}

/// Runs a child and hands its events over.
async fn pump(tasks: Arc<Tasks>, number: usize, mut child: ToolStream) {
    loop {
        // A child catches what is not ours; a panic here is a fault of our own, and still no lost end.
        let next = AssertUnwindSafe(next_batch(&mut child)).catch_unwind().await;
        let batch = match next {
            Ok(Some(batch)) => batch,
            Ok(None) => return,
            Err(panic) => {
                let text = format!("the sub-agent's task panicked: {}", panic_message(&*panic));
                Batch::end(ToolChunk::error(text))
            }
        };
        let is_over = batch.end.is_some();
        if is_over {
            // Its place is free, and what it held is gone, before anybody hears that it has ended.
            drop(child);
            tasks.ingress.send(number, batch).await;
            return;
        }
        if !tasks.ingress.send(number, batch).await {
            return;
        }
        tokio::task::yield_now().await;
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("tasks", &self.lock().tasks.len()).finish_non_exhaustive()
    }
}
