//! Which workers live.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use async_nats::{Client, connection::State as Connection};
use bytes::Bytes;
use futures::StreamExt;
use tokio::{
    task::AbortHandle,
    time::{Instant, MissedTickBehavior},
};

use super::names::Names;

/// How often it is looked whether there is a connection: a time without one says nothing of any worker.
const LOOK: Duration = Duration::from_millis(500);

/// How many workers are remembered.
const WORKERS: usize = 10_000;

/// How often a worker says that it lives, in the time after which it is taken for lost.
pub(super) const BEATS: u32 = 4;

/// After how many times that a giver of orders is taken for lost: nobody has to be told so soon.
const GIVER: u32 = 4;

/// Hears which workers live, and which givers of orders. Dropping it ends that.
#[derive(Debug)]
pub(super) struct Alive {
    heard: Arc<Mutex<Heard>>,
    lost_after: Duration,
    task: AbortHandle,
}

#[derive(Debug)]
struct Heard {
    workers: HashMap<String, Instant>,
    /// Since when all could be heard.
    since: Instant,
}

impl Alive {
    /// Listens from now on.
    pub(super) fn new(client: Client, names: &Names, lost_after: Duration) -> Self {
        let heard = Arc::new(Mutex::new(Heard { workers: HashMap::new(), since: Instant::now() }));
        let task = tokio::spawn(listen(client, names.alive("*"), Arc::clone(&heard))).abort_handle();
        Self { heard, lost_after, task }
    }

    /// Whether a worker is lost that was known to live at some time.
    pub(super) fn is_lost(&self, worker: &str, lived: Instant) -> bool {
        let heard = lock(&self.heard);
        let last = heard.workers.get(worker).copied().unwrap_or(lived).max(lived).max(heard.since);
        last.elapsed() > self.lost_after
    }

    /// Whether a giver of orders is lost. One that was never heard may be heard yet, for so long as it is waited for.
    pub(super) fn is_giver_lost(&self, giver: &str, waited_since: Instant) -> bool {
        let heard = lock(&self.heard);
        let last = heard.workers.get(giver).copied().unwrap_or(waited_since).max(heard.since);
        last.elapsed() > self.lost_after * GIVER
    }

    /// Since when all could be heard.
    pub(super) fn since(&self) -> Instant {
        lock(&self.heard).since
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Says of somebody that it lives, for ever.
pub(super) async fn pulse(client: Client, names: Names, id: String, lost_after: Duration) {
    let subject = names.alive(&id);
    let mut beat = tokio::time::interval(lost_after / BEATS);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        // Who cannot be heard now is heard the next time.
        client.publish(subject.clone(), Bytes::new()).await.ok();
    }
}

async fn listen(client: Client, subject: String, heard: Arc<Mutex<Heard>>) {
    let mut connects = client.statistics().connects.load(Ordering::Relaxed);
    let mut beats = None;
    loop {
        if beats.is_none() {
            beats = client.subscribe(subject.clone()).await.ok();
            lock(&heard).since = Instant::now();
        }
        let beat = async {
            match &mut beats {
                Some(beats) => beats.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            beat = beat => match beat {
                Some(beat) => {
                    let worker = beat.subject.rsplit('.').next().unwrap_or_default();
                    lock(&heard).note(worker);
                }
                None => beats = None,
            },
            () = tokio::time::sleep(LOOK) => {
                let now = client.statistics().connects.load(Ordering::Relaxed);
                if now != connects || client.connection_state() != Connection::Connected {
                    connects = now;
                    lock(&heard).since = Instant::now();
                }
            }
        }
    }
}

impl Heard {
    fn note(&mut self, worker: &str) {
        if self.workers.len() >= WORKERS && !self.workers.contains_key(worker) {
            let oldest =
                self.workers.iter().min_by_key(|(_, heard)| **heard).map(|(worker, _)| worker.clone());
            oldest.map(|oldest| self.workers.remove(&oldest));
        }
        self.workers.insert(worker.to_owned(), Instant::now());
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Who hears, and what was heard, without a broker.
    fn hearing() -> Alive {
        let heard = Arc::new(Mutex::new(Heard { workers: HashMap::new(), since: Instant::now() }));
        let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
        Alive { heard, lost_after: SECOND * 4, task }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_heard_is_lost_but_not_while_nobody_can_be_heard() {
        let alive = hearing();
        let begun = Instant::now();
        lock(&alive.heard).note("a");
        tokio::time::sleep(SECOND * 3).await;
        assert!(!alive.is_lost("a", begun));
        lock(&alive.heard).note("a");
        tokio::time::sleep(SECOND * 3).await;
        assert!(!alive.is_lost("a", begun));
        assert!(alive.is_lost("b", begun), "it was never heard");
        assert!(!alive.is_lost("b", Instant::now()), "it has only just begun");
        tokio::time::sleep(SECOND * 2).await;
        assert!(alive.is_lost("a", begun));
        // The connection was away: nobody could be heard.
        lock(&alive.heard).since = Instant::now();
        assert!(!alive.is_lost("a", begun));
    }

    #[tokio::test(start_paused = true)]
    async fn a_giver_of_orders_is_waited_for_longer_and_one_that_is_known_to_be_gone_not_again() {
        let alive = hearing();
        lock(&alive.heard).note("a");
        tokio::time::sleep(SECOND * 15).await;
        assert!(!alive.is_giver_lost("a", Instant::now()));
        tokio::time::sleep(SECOND * 2).await;
        assert!(alive.is_giver_lost("a", Instant::now()), "whenever its order is taken");
        assert!(!alive.is_giver_lost("b", Instant::now()));
    }

    #[test]
    fn how_many_are_remembered_is_bounded() {
        let mut heard = Heard { workers: HashMap::new(), since: Instant::now() };
        for worker in 0..WORKERS + 10 {
            heard.note(&worker.to_string());
        }
        assert_eq!(heard.workers.len(), WORKERS);
        assert!(heard.workers.contains_key(&(WORKERS + 9).to_string()));
    }
}
