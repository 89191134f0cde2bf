//! What can be done to a run from outside it.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::Waker,
};

use anabranch_proto::SessionId;
use futures::task::AtomicWaker;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::inbox::Inbox;

/// What can be done to a run from outside it, and what those above it must know of it.
pub(crate) struct RunControl {
    session_id: SessionId,
    cancel: CancellationToken,
    /// How many questions to people are open in it and in all runs beneath it.
    questions: AtomicUsize,
    /// Who counts its time: woken where its questions begin and where they end.
    clock: AtomicWaker,
    /// What was said to it while it is under way.
    pub(crate) inbox: Inbox,
    place: Place,
}

/// Where a run is in the tree of those that wait for one another.
enum Place {
    /// No call waits for it: a run of the root, or one in the background. Of the latter the run that started it may wait for
    /// its end.
    Top(OwnTasks, Option<Arc<RunControl>>),
    /// The run that spawned it waits for it.
    Under(Arc<RunControl>),
}

/// The tasks of a run that nobody waits for, and of the runs beneath it.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnTasks {
    /// What the run has started.
    pub(crate) tracker: TaskTracker,
    /// The run itself, where it has a task: that one waits for what it has started before it says that it has ended.
    pub(crate) itself: TaskTracker,
    /// The run is over, and so is whatever a tool of it has left behind.
    pub(crate) over: CancellationToken,
}

impl OwnTasks {
    /// The run is over: waits until no task lives that it has started.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(crate) async fn gone(&self) {
        self.over.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl RunControl {
    /// That of a run that nobody waits for.
    pub(crate) fn top(session_id: SessionId, cancel: CancellationToken) -> Arc<Self> {
        Self::new(session_id, cancel, Place::Top(OwnTasks::default(), None))
    }

    /// That of a run in the background which this run waits for when it has nothing else to do.
    pub(crate) fn awaited(self: &Arc<Self>, session_id: SessionId) -> Arc<Self> {
        let place = Place::Top(OwnTasks::default(), Some(Arc::clone(self)));
        Self::new(session_id, CancellationToken::new(), place)
    }

    /// That of a run which this run spawns.
    pub(crate) fn child(self: &Arc<Self>, session_id: SessionId) -> Arc<Self> {
        Self::new(session_id, CancellationToken::new(), Place::Under(Arc::clone(self)))
    }

    fn new(session_id: SessionId, cancel: CancellationToken, place: Place) -> Arc<Self> {
        let (questions, clock) = (AtomicUsize::new(0), AtomicWaker::new());
        Arc::new(Self { session_id, cancel, questions, clock, inbox: Inbox::default(), place })
    }

    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Whether it, or a run that waits for it, is being stopped.
    pub(crate) fn is_stopping(&self) -> bool {
        self.cancel.is_cancelled() || self.parent().is_some_and(Self::is_stopping)
    }

    /// The run above it that nobody waits for, or itself.
    pub(crate) fn uppermost(self: &Arc<Self>) -> &Arc<Self> {
        let mut run = self;
        while let Place::Under(parent) = &run.place {
            run = parent;
        }
        run
    }

    /// The tasks of this run and of all that belong to it.
    pub(crate) fn own_tasks(self: &Arc<Self>) -> OwnTasks {
        match &self.uppermost().place {
            Place::Top(tasks, _) => tasks.clone(),
            // The uppermost is a top.
            Place::Under(_) => OwnTasks::default(),
        }
    }

    /// Waits until no task of this run and of those that belong to it lives. Its own is to be stopped before.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(crate) async fn gone(self: &Arc<Self>) {
        let tasks = self.own_tasks();
        tasks.over.cancel();
        // The run first: until it is gone, it may be in the middle of starting another.
        tasks.itself.close();
        tasks.itself.wait().await;
        tasks.gone().await;
    }

    /// The run has ended: nothing is spawned by it any more, and no task that belongs to it goes on.
    fn end(&self) {
        self.cancel.cancel();
        if let Place::Top(OwnTasks { over, .. }, _) = &self.place {
            over.cancel();
        }
    }

    fn parent(&self) -> Option<&Self> {
        match &self.place {
            Place::Top(..) => None,
            Place::Under(parent) => Some(parent),
        }
    }

    /// The run whose time stands still while this one asks.
    fn waiting(&self) -> Option<&Self> {
        match &self.place {
            Place::Top(_, waiting) => waiting.as_deref(),
            Place::Under(parent) => Some(parent),
        }
    }

    /// Takes note of a question to people: nobody's time runs while it is open, its own nor that of those who wait for it.
    pub(crate) fn ask(self: &Arc<Self>) -> Asking {
        self.each_upwards(|run| {
            if run.questions.fetch_add(1, Ordering::AcqRel) == 0 {
                run.clock.wake();
            }
        });
        Asking(Arc::clone(self))
    }

    /// Whether it waits for a person, or a run beneath it does. Whoever counts its time is woken when that changes.
    pub(crate) fn is_asking(&self, clock: &Waker) -> bool {
        self.clock.register(clock);
        self.questions.load(Ordering::Acquire) > 0
    }

    fn each_upwards(&self, change: impl Fn(&Self)) {
        let mut run = Some(self);
        while let Some(this) = run {
            change(this);
            run = this.waiting();
        }
    }
}

impl fmt::Debug for RunControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunControl").field("session_id", &self.session_id).finish_non_exhaustive()
    }
}

/// A question to people is open. Dropping it says that it no longer is.
pub(crate) struct Asking(Arc<RunControl>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.each_upwards(|run| {
            if run.questions.fetch_sub(1, Ordering::AcqRel) == 1 {
                run.clock.wake();
            }
        });
    }
}

/// The open runs of a session and all below it, by the session.
#[derive(Debug, Default)]
pub(crate) struct Runs(Mutex<HashMap<SessionId, Arc<RunControl>>>);

impl Runs {
    /// Makes a run known, until what is returned is dropped.
    pub(crate) fn open(self: &Arc<Self>, control: &Arc<RunControl>) -> OpenRun {
        self.lock().insert(control.session_id.clone(), Arc::clone(control));
        OpenRun { runs: Arc::clone(self), control: Arc::clone(control) }
    }

    pub(crate) fn get(&self, session: &SessionId) -> Option<Arc<RunControl>> {
        self.lock().get(session).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<RunControl>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run that is known by its session.
pub(crate) struct OpenRun {
    runs: Arc<Runs>,
    control: Arc<RunControl>,
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        let mut runs = self.runs.lock();
        // The session's next run may have begun.
        if runs.get(&self.control.session_id).is_some_and(|open| Arc::ptr_eq(open, &self.control)) {
            runs.remove(&self.control.session_id);
        }
        drop(runs);
        self.control.end();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_question_holds_the_time_of_all_who_wait_for_it() {
        let root = RunControl::top("root".into(), CancellationToken::new());
        let (child, sibling) = (root.child("child".into()), root.child("sibling".into()));
        let grandchild = child.child("grandchild".into());
        let (first, second) = (grandchild.ask(), grandchild.ask());
        let is_asking = |run: &Arc<RunControl>| run.is_asking(Waker::noop());
        assert!([&root, &child, &grandchild].into_iter().all(is_asking));
        assert!(!is_asking(&sibling));
        drop(first);
        assert!(is_asking(&child));
        drop(second);
        assert!(![&root, &child, &grandchild].into_iter().any(is_asking));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_run_starts_while_it_is_stopped_is_gone_with_it() {
        struct Gone(Arc<AtomicUsize>);

        impl Drop for Gone {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Release);
            }
        }

        let root = RunControl::top("root".into(), CancellationToken::new());
        let OwnTasks { tracker, itself, over } = root.own_tasks();
        let (gone, it_is_over) = (Arc::new(AtomicUsize::new(0)), over.clone());
        let guard = Gone(Arc::clone(&gone));
        itself.spawn(async move {
            over.cancelled().await;
            // A thread that is in the middle of something, while whoever waits has looked once.
            std::thread::sleep(Duration::from_millis(20));
            tracker.spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                drop(guard);
            });
        });
        root.gone().await;
        assert!(it_is_over.is_cancelled());
        assert_eq!(gone.load(Ordering::Acquire), 1);
    }

    #[test]
    fn a_run_is_known_until_it_ends_and_its_successor_stays() {
        let runs = Arc::<Runs>::default();
        let root = RunControl::top("root".into(), CancellationToken::new());
        let first = runs.open(&root.child("child".into()));
        let next = root.child("child".into());
        let second = runs.open(&next);
        drop(first);
        assert!(Arc::ptr_eq(&runs.get(&"child".into()).unwrap(), &next));
        drop(second);
        assert!(runs.get(&"child".into()).is_none());
    }
}
