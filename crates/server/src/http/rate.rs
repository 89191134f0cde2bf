//! How fast requests may come.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::Refusal;
use crate::{Limits, Tenant};

/// How fast each tenant's requests may come: at a rate, and a number at once beyond it.
///
/// The generic cell rate algorithm: of each tenant the moment is kept by which all that came would have come at the rate.
#[derive(Debug)]
pub(crate) struct Rate {
    /// The time between two requests at the rate; none where there is no bound.
    interval: Option<Duration>,
    /// How far the moment may lie ahead.
    ahead: Duration,
    moments: Mutex<HashMap<Tenant, Instant>>,
}

impl Rate {
    pub(crate) fn new(limits: &Limits) -> Self {
        let interval = (limits.rate > 0).then(|| Duration::from_secs(1) / limits.rate);
        let ahead = interval.unwrap_or_default() * limits.burst.max(1);
        Self { interval, ahead, moments: Mutex::default() }
    }

    /// Counts a request, where it does not come too fast.
    pub(crate) fn take(&self, tenant: &Tenant) -> Result<(), Refusal> {
        let Some(interval) = self.interval else { return Ok(()) };
        let now = Instant::now();
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        let moment = moments.entry(tenant.clone()).or_insert(now);
        let next = (*moment).max(now) + interval;
        let too_early = next.saturating_duration_since(now + self.ahead);
        if too_early.is_zero() {
            *moment = next;
            return Ok(());
        }
        // The header has whole seconds.
        Err(Refusal::TooManyRequests { wait: Duration::from_secs(too_early.as_secs() + 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_come_at_once_and_then_at_the_rate() {
        let rate = Rate::new(&Limits::default().rate(10, 5));
        let (one, other) = (Tenant::new("one").unwrap(), Tenant::new("other").unwrap());
        for _ in 0..2 {
            for _ in 0..5 {
                assert!(rate.take(&one).is_ok());
            }
            assert!(matches!(rate.take(&one), Err(Refusal::TooManyRequests { wait }) if wait.as_secs() == 1));
            assert!(rate.take(&other).is_ok(), "nobody waits for others");
            tokio::time::advance(Duration::from_millis(100)).await;
            assert!(rate.take(&one).is_ok());
            assert!(rate.take(&one).is_err());
            tokio::time::advance(Duration::from_secs(60)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_nobody_waits() {
        let rate = Rate::new(&Limits::default().rate(0, 0));
        for _ in 0..10_000 {
            assert!(rate.take(&Tenant::default()).is_ok());
        }
    }
}
