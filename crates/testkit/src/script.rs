//! A stream that is written down.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_proto::Event;
use futures::{Stream, stream::FusedStream};

/// A stream that gives what was written down, in that order, and then ends.
///
/// A step can be a pending: the stream then wakes its task by itself, so nothing hangs, and whoever polls sees a
/// source that is not always ready. By default the items are events.
///
/// # Cancel safety
/// A poll takes one step or none. But dropping a script that was not read to its last step panics, unless the thread
/// panics already: a consumer that stops early is a finding. A consumer that is right to stop early ends with
/// [`Script::abandon`].
///
/// ```
/// use anabranch_testkit::Script;
/// use futures::{FutureExt as _, StreamExt as _};
///
/// let mut script = Script::new().item(1).pending().item(2);
/// assert_eq!(script.next().now_or_never(), Some(Some(1)));
/// assert_eq!(script.next().now_or_never(), None);
/// assert_eq!(script.next().now_or_never(), Some(Some(2)));
/// assert_eq!(script.next().now_or_never(), Some(None));
/// ```
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Script<T = Arc<Event>> {
    steps: VecDeque<Step<T>>,
    ended: bool,
}

#[derive(Debug)]
enum Step<T> {
    Item(T),
    Pending,
}

/// Items are moved out and never pinned.
impl<T> Unpin for Script<T> {}

impl<T> Script<T> {
    /// A stream that ends at once.
    pub fn new() -> Self {
        Self { steps: VecDeque::new(), ended: false }
    }

    /// Then gives an item.
    pub fn item(mut self, item: T) -> Self {
        self.steps.push_back(Step::Item(item));
        self
    }

    /// Then gives these items.
    pub fn items(mut self, items: impl IntoIterator<Item = T>) -> Self {
        self.steps.extend(items.into_iter().map(Step::Item));
        self
    }

    /// Then is not ready once.
    pub fn pending(mut self) -> Self {
        self.steps.push_back(Step::Pending);
        self
    }

    /// Ends the stream now; dropping it is then no finding.
    pub fn abandon(&mut self) {
        self.steps.clear();
    }

    fn items_left(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Item(_))).count()
    }
}

impl Script {
    /// Then gives an event.
    pub fn event(self, event: impl Into<Arc<Event>>) -> Self {
        self.item(event.into())
    }
}

impl<T> Default for Script<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Stream for Script<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        match self.steps.pop_front() {
            Some(Step::Item(item)) => Poll::Ready(Some(item)),
            Some(Step::Pending) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                self.ended = true;
                Poll::Ready(None)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.items_left();
        (left, Some(left))
    }
}

impl<T> FusedStream for Script<T> {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

impl<T> Drop for Script<T> {
    fn drop(&mut self) {
        assert!(
            self.steps.is_empty() || std::thread::panicking(),
            "a script was dropped with {} steps left, {} of them items",
            self.steps.len(),
            self.items_left()
        );
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::atomic::{AtomicUsize, Ordering},
        task::{Wake, Waker},
    };

    use futures::{FutureExt as _, StreamExt as _};

    use super::*;
    use crate::Stage;

    /// Compiles where a script goes wherever its items go.
    fn assert_goes_anywhere<T: Send + Sync + Unpin>(_: &T) {}

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_script_gives_its_steps_wakes_after_a_pending_and_stays_ended() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let mut script = Script::new().pending().items(["a", "b"]);
        let mut poll = |script: &mut Script<_>| Pin::new(script).poll_next(&mut context);

        assert_eq!(script.size_hint(), (2, Some(2)));
        assert_eq!(poll(&mut script), Poll::Pending);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(poll(&mut script), Poll::Ready(Some("a")));
        assert_eq!(poll(&mut script), Poll::Ready(Some("b")));
        assert!(!script.is_terminated());
        assert_eq!(poll(&mut script), Poll::Ready(None));
        assert_eq!(poll(&mut script), Poll::Ready(None));
        assert!(script.is_terminated());
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_script_of_events_takes_them_owned_or_shared() {
        let stage = Stage::new();
        stage.root().begin("go");
        let [first, second] = &stage.events()[..] else { panic!("two events") };
        let script = Script::new().event(Event::clone(first)).event(Arc::clone(second));
        assert_goes_anywhere(&script);
        let events = script.collect::<Vec<_>>().now_or_never().unwrap();
        assert_eq!(events, stage.events());
    }

    #[test]
    fn dropping_a_script_that_was_not_read_panics() {
        let script = Script::new().item(1).pending();
        let panic = catch_unwind(AssertUnwindSafe(|| drop(script))).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert_eq!(message, "a script was dropped with 2 steps left, 1 of them items");
    }

    #[test]
    fn an_abandoned_script_ends() {
        let mut script = Script::new().item(1);
        script.abandon();
        assert_eq!(script.size_hint(), (0, Some(0)));
    }

    #[test]
    fn a_panic_elsewhere_is_not_doubled() {
        let panic = catch_unwind(|| {
            let _script = Script::new().item(1);
            panic!("first");
        });
        assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"first"));
    }
}
