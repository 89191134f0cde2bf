//! Who runs a child.

use serde::{Deserialize, Serialize};

/// A message that says who runs a child from here on. Each is stored only where it follows the one that its author knew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    /// How often somebody has begun to run it.
    pub(super) attempt: u32,
    /// Who says so.
    pub(super) worker: String,
    pub(super) state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// The author runs it.
    Running,
    /// The author gives it up; somebody else is to run it again.
    Released { why: String },
    /// Whoever ran it is lost, and nobody runs it again.
    Lost { why: String },
    /// It has ended, or nobody wants it any more.
    Ended,
}

/// A claim as it lies in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) claim: Claim,
    /// Where it lies.
    pub(super) seq: u64,
}

/// What a worker that was given an order does about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Runs it, once its claim is stored behind this one.
    Run { attempt: u32, behind: u64 },
    /// Says that whoever ran it is lost, once that is stored behind this one.
    Lose { attempt: u32, behind: u64, worker: String },
    /// Looks again later: whoever runs it may live.
    Wait,
    /// It runs it already.
    Mine,
    /// Nothing is left to do.
    Done,
}

/// Decides about an order by the last claim of its run.
///
/// `attempts`: how often it may be run. `is_lost`: whether a worker is.
pub(super) fn decide(
    last: Option<&Stored>,
    me: &str,
    attempts: u32,
    is_lost: impl FnOnce(&str) -> bool,
) -> Decision {
    let Some(Stored { claim: Claim { attempt, worker, state }, seq }) = last else {
        return Decision::Run { attempt: 1, behind: 0 };
    };
    let (next, behind) = (attempt.saturating_add(1), *seq);
    match state {
        State::Ended | State::Lost { .. } => Decision::Done,
        State::Released { .. } => Decision::Run { attempt: next, behind },
        State::Running if worker == me => Decision::Mine,
        State::Running if !is_lost(worker) => Decision::Wait,
        State::Running if *attempt < attempts => Decision::Run { attempt: next, behind },
        State::Running => Decision::Lose { attempt: *attempt, behind, worker: worker.clone() },
    }
}

/// Why a child has failed whose worker is lost.
pub(super) fn lost(worker: &str, attempt: u32) -> String {
    match attempt {
        0 | 1 => format!("the worker `{worker}` that ran the sub-agent was lost, and it is not run again"),
        attempt => format!("the worker `{worker}` that ran the sub-agent, as the {attempt}. one, was lost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(attempt: u32, worker: &str, state: State) -> Stored {
        Stored { claim: Claim { attempt, worker: worker.to_owned(), state }, seq: 40 + u64::from(attempt) }
    }

    #[test]
    fn one_of_two_workers_has_a_child_and_what_is_lost_is_run_as_often_as_it_may() {
        let decide =
            |last: Option<Stored>, attempts, is_lost| decide(last.as_ref(), "me", attempts, |_| is_lost);
        assert_eq!(decide(None, 1, false), Decision::Run { attempt: 1, behind: 0 });
        let running = |attempt| Some(stored(attempt, "other", State::Running));
        assert_eq!(decide(running(1), 3, false), Decision::Wait);
        assert_eq!(decide(running(1), 3, true), Decision::Run { attempt: 2, behind: 41 });
        assert_eq!(decide(running(2), 3, true), Decision::Run { attempt: 3, behind: 42 });
        let lose = |attempt, behind| Decision::Lose { attempt, behind, worker: "other".to_owned() };
        assert_eq!(decide(running(3), 3, true), lose(3, 43));
        assert_eq!(decide(running(1), 1, true), lose(1, 41));
        assert_eq!(decide(Some(stored(1, "me", State::Running)), 1, true), Decision::Mine);
        let released = Some(stored(1, "other", State::Released { why: String::new() }));
        assert_eq!(decide(released, 2, false), Decision::Run { attempt: 2, behind: 41 });
        for state in [State::Ended, State::Lost { why: String::new() }] {
            assert_eq!(decide(Some(stored(1, "other", state)), 9, true), Decision::Done);
        }
    }
}
