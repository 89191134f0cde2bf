//! Streams that break one rule each.

mod edit;
mod flaws;

use std::sync::Arc;

use anabranch_proto::{Admitted, Event, grammar::Rule};

/// A stream that breaks one rule and no other, as a value.
///
/// Its one flaw is an edit of a well-formed stream, which is kept beside it: what is in one and not in the other is what
/// the rule forbids. A reader of streams shows with these what it does with each kind of fault.
///
/// ```
/// use anabranch_proto::grammar::{Profile, Rule, Verifier};
/// use anabranch_testkit::Broken;
///
/// let broken = Broken::of(Rule::OneResult);
/// let mut verifier = Verifier::new(Profile::Native);
/// let violation = broken.events.iter().find_map(|event| verifier.check_numbered(event.seq, &event.event).err());
/// assert_eq!(violation.map(|violation| violation.rule), Some(Rule::OneResult));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The rule.
    pub rule: Rule,
    /// What is wrong, in a few words.
    pub flaw: &'static str,
    /// The stream with the flaw.
    pub events: Vec<Admitted>,
    /// The stream without it, which is well formed.
    pub mended: Vec<Admitted>,
}

impl Broken {
    /// One for each rule, in the order of [`Rule::ALL`].
    #[must_use]
    pub fn all() -> Vec<Self> {
        flaws::FLAWS.iter().map(Self::from_flaw).collect()
    }

    /// The one for a rule.
    ///
    /// # Panics
    /// When there is none, which would be a fault of this crate.
    #[must_use]
    pub fn of(rule: Rule) -> Self {
        let Some(flaw) = flaws::FLAWS.iter().find(|flaw| flaw.rule == rule) else {
            panic!("no stream breaks `{rule}` alone");
        };
        Self::from_flaw(flaw)
    }

    fn from_flaw(flaw: &flaws::Flaw) -> Self {
        let mended = numbered((flaw.stream)());
        let mut edit = edit::Edit::new(&mended);
        (flaw.edit)(&mut edit);
        Self { rule: flaw.rule, flaw: flaw.what, events: edit.into_events(), mended }
    }
}

fn numbered(events: Vec<Arc<Event>>) -> Vec<Admitted> {
    (1..).zip(events).map(|(seq, event)| Admitted::new(seq, event)).collect()
}
