//! What must hold of every run, as a table of named checks.

mod bounds;
mod calls;
mod cancelled;
mod expected;
mod grammar;
mod left;
mod outcomes;
mod pauses;
mod readers;
mod replay;
mod requests;
mod story;
mod times;
mod unread;

use std::fmt;

use crate::{plan::Plan, run::Record};
pub(crate) use story::Story;

/// A check that a run did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The check's name.
    pub check: &'static str,
    /// What was found, and what was expected.
    pub what: String,
}

/// How many characters of what was found are shown.
const SHOWN: usize = 3_000;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.what.char_indices().nth(SHOWN).map_or(&*self.what, |(end, _)| &self.what[..end]);
        write!(f, "{}: {shown}", self.check)
    }
}

/// Finds what is wrong, or nothing.
type Find = fn(&Story<'_>) -> Result<(), String>;

/// Every check, in the order in which they are made: what explains most comes first.
const TABLE: &[(&str, Find)] = &[
    ("hang", left::comes_to_an_end),
    ("panic", left::has_no_other_panic),
    ("numbers", grammar::numbers_have_no_gaps),
    ("grammar", grammar::is_well_formed),
    ("forged", grammar::nothing_forged_is_seen),
    ("terminals", outcomes::each_run_has_one_terminal),
    ("outcomes", outcomes::each_run_ends_as_planned),
    ("cancelled", cancelled::nothing_completes_after_a_cancel),
    ("calls", calls::each_call_has_its_result),
    ("results", calls::each_result_is_as_planned),
    ("leave", calls::what_may_not_run_does_not),
    ("hints", requests::hints_come_once),
    ("steering", requests::what_is_said_is_read),
    ("limits", bounds::limits_are_kept),
    ("alone", bounds::exclusive_calls_run_alone),
    ("requests", requests::models_see_what_a_replay_builds),
    ("order", requests::results_come_in_call_order),
    ("replay", replay::a_replay_admits_the_same),
    ("readers", readers::each_reads_the_log),
    ("delays", times::nobody_is_held_up),
    ("times", times::deadlines_are_kept),
    ("unread", unread::readers_change_nothing),
    ("left", left::nothing_is_left),
    ("seen", left::no_fake_saw_a_fault),
];

/// The names of all checks.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// Makes every check, up to the first that fails.
///
/// # Errors
/// When a check fails.
pub fn check(plan: &Plan, record: &Record) -> Result<(), Failure> {
    let story = Story::new(plan, record);
    for (check, find) in TABLE {
        find(&story).map_err(|what| Failure { check, what })?;
    }
    Ok(())
}

/// Fails with a text unless something holds.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
