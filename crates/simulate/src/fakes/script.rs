//! A stream that goes through steps.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt as _, Stream, future::BoxFuture};
use tokio::time::Sleep;

use crate::{
    plan::PANIC,
    world::{Guard, World},
};

/// What a fake does next.
pub(super) enum Step<T> {
    /// Gives an item.
    Item(T),
    /// Gives an item again and again.
    Repeat(T),
    /// Is pending once, and woken at once.
    Yield,
    /// Sleeps so many milliseconds.
    Sleep(u64),
    /// Waits for something.
    Wait(BoxFuture<'static, ()>),
    /// Does something.
    Do(Box<dyn FnOnce() + Send>),
    /// Panics.
    Panic,
    /// Never goes on.
    Hang,
}

/// What a fake does when it is dropped.
pub(super) type InDrop = Box<dyn FnOnce(&World) + Send>;

/// A stream that goes through steps. Each of its polls is counted; so is whether it is alive.
pub(super) struct Script<T> {
    world: Arc<World>,
    steps: VecDeque<Step<T>>,
    sleep: Option<Pin<Box<Sleep>>>,
    in_drop: Option<InDrop>,
    _guard: Guard,
}

impl<T> Script<T> {
    pub(super) fn new(world: &Arc<World>, steps: impl IntoIterator<Item = Step<T>>) -> Self {
        Self {
            _guard: world.guard(),
            world: Arc::clone(world),
            steps: steps.into_iter().collect(),
            sleep: None,
            in_drop: None,
        }
    }

    /// Does something when it is dropped.
    pub(super) fn in_drop(mut self, in_drop: impl FnOnce(&World) + Send + 'static) -> Self {
        self.in_drop = Some(Box::new(in_drop));
        self
    }
}

/// A panic that the plan has.
pub(super) fn planned_panic() {
    // A second panic while one unwinds would end the process.
    assert!(std::thread::panicking(), "{PANIC}");
}

impl<T: Clone + Unpin> Stream for Script<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = &mut *self;
        if this.world.poll() {
            return Poll::Ready(None);
        }
        loop {
            if let Some(sleep) = &mut this.sleep {
                std::task::ready!(sleep.poll_unpin(cx));
                this.sleep = None;
            }
            match this.steps.pop_front() {
                None => return Poll::Ready(None),
                Some(Step::Item(item)) => return Poll::Ready(Some(item)),
                Some(Step::Repeat(item)) => {
                    this.steps.push_front(Step::Repeat(item.clone()));
                    return Poll::Ready(Some(item));
                }
                Some(Step::Yield) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Step::Sleep(millis)) => {
                    this.sleep = Some(Box::pin(tokio::time::sleep(Duration::from_millis(millis))));
                }
                Some(Step::Wait(mut future)) => {
                    if future.poll_unpin(cx).is_pending() {
                        this.steps.push_front(Step::Wait(future));
                        return Poll::Pending;
                    }
                }
                Some(Step::Do(act)) => act(),
                Some(Step::Panic) => planned_panic(),
                Some(Step::Hang) => {
                    this.steps.push_front(Step::Hang);
                    return Poll::Pending;
                }
            }
        }
    }
}

impl<T> Drop for Script<T> {
    fn drop(&mut self) {
        if let Some(in_drop) = self.in_drop.take() {
            in_drop(&self.world);
        }
    }
}
