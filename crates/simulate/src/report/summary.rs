//! What many seeds had in them.

use std::{collections::BTreeMap, fmt, time::Duration};

use anabranch_proto::{EventKind, Outcome};

use crate::{
    plan::{self, Behaviour, Child, Fate, Meddling, Plan, TurnEnd, Way, Work},
    run::{Record, name_of},
};

/// What many seeds had in them, to be added up.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    seeds: u64,
    runs: u64,
    events: u64,
    polls: u64,
    requests: u64,
    /// How many children at which depth.
    depths: BTreeMap<u32, u64>,
    /// How many trees with at most so many children.
    sizes: BTreeMap<u64, u64>,
    outcomes: BTreeMap<&'static str, u64>,
    faults: BTreeMap<String, u64>,
    cancels: BTreeMap<&'static str, u64>,
}

/// The sizes of trees that are told apart: up to so many children.
const SIZES: [u64; 6] = [0, 1, 4, 16, 32, 1_000];

/// How wide the values of the table are.
const WIDTH: usize = 92;

impl Summary {
    /// Adds a seed.
    pub fn add(&mut self, plan: &Plan, record: &Record) {
        self.seeds += 1;
        self.events += record.log.len() as u64;
        self.polls += record.polls;
        self.requests += record.seen.requests.len() as u64;
        let mut children = 0;
        for admitted in &record.log {
            if let EventKind::SpawnSessionStart(spawn) = &admitted.event.kind {
                children += 1;
                *self.depths.entry(spawn.depth).or_default() += 1;
            } else if let EventKind::StreamComplete(complete) = &admitted.event.kind {
                self.runs += 1;
                *self.outcomes.entry(complete.outcome.as_str()).or_default() += 1;
            }
        }
        let size = SIZES.into_iter().find(|size| children <= *size).unwrap_or(children);
        *self.sizes.entry(size).or_default() += 1;
        self.add_faults(plan);
        for cancel in plan.cancels.iter().filter(|cancel| cancel.poll <= record.polls) {
            *self.cancels.entry(name_of(cancel.how)).or_default() += 1;
        }
        for prompt in &plan.prompts {
            let name = match prompt.reply.fate {
                Fate::Cancels(_) => "Reply::cancel",
                Fate::LeavesAndCancels(_) => "a reply dropped",
                Fate::CancelsNext => "Session::cancel behind a reply",
                Fate::Reads | Fate::Leaves(_) => continue,
            };
            *self.cancels.entry(name).or_default() += 1;
        }
    }

    fn add_faults(&mut self, plan: &Plan) {
        let mut count = |name: String| *self.faults.entry(name).or_default() += 1;
        for agent in plan::agents(plan) {
            for turn in agent.turns.iter().filter(|turn| turn.end != TurnEnd::Done) {
                count(format!("model {:?}", turn.end));
            }
        }
        for call in plan::calls(plan) {
            if call.meddling != Meddling::None {
                count(format!("layer {:?}", call.meddling));
            }
            if let Some(ask) = call.ask {
                count(format!("ask {ask:?}"));
            }
            match &call.work {
                Work::Tool { behaviour: Behaviour::Ok, .. } => {}
                Work::Tool { behaviour, .. } => count(format!("tool {behaviour:?}")),
                Work::Refused(refusal) => count(format!("call {refusal:?}")),
                Work::External(answered) => {
                    count(format!("outside {}", if answered.is_some() { "answered" } else { "unanswered" }));
                }
                Work::Spawn(spawn) => {
                    if spawn.way != Way::InTask {
                        count(format!("child {:?}", spawn.way));
                    }
                    if let Child::Team(team) = &spawn.child {
                        count(format!("team {}", if team.parallel { "parallel" } else { "sequential" }));
                    }
                    if spawn.fork {
                        count("child forked".to_owned());
                    }
                    if let Child::Foreign(foreign) = &spawn.child {
                        let end = format!("{:?}", foreign.end);
                        count(format!("stream {}", end.split('(').next().unwrap_or_default()));
                    }
                }
            }
        }
    }

    /// Adds what another has.
    pub fn merge(&mut self, other: Self) {
        fn add<K: Ord>(to: &mut BTreeMap<K, u64>, from: BTreeMap<K, u64>) {
            for (key, count) in from {
                *to.entry(key).or_default() += count;
            }
        }
        self.seeds += other.seeds;
        self.runs += other.runs;
        self.events += other.events;
        self.polls += other.polls;
        self.requests += other.requests;
        add(&mut self.depths, other.depths);
        add(&mut self.sizes, other.sizes);
        add(&mut self.outcomes, other.outcomes);
        add(&mut self.faults, other.faults);
        add(&mut self.cancels, other.cancels);
    }

    /// The table, with how long all took.
    #[must_use]
    pub fn table(&self, took: Duration) -> String {
        let mut rows = vec![
            ("seeds".to_owned(), self.seeds.to_string()),
            ("runs".to_owned(), self.runs.to_string()),
            ("events".to_owned(), self.events.to_string()),
            ("model calls".to_owned(), self.requests.to_string()),
            ("polls of fakes".to_owned(), self.polls.to_string()),
            ("outcomes".to_owned(), listed(self.outcomes.iter())),
            ("children by depth".to_owned(), listed(self.depths.iter())),
            (
                "trees by children".to_owned(),
                listed(self.sizes.iter().map(|(size, count)| (size_name(*size), count))),
            ),
            ("cancels".to_owned(), listed(self.cancels.iter())),
        ];
        // By what goes wrong, then how.
        let mut faults: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
        for (name, count) in &self.faults {
            let (who, how) = name.split_once(' ').unwrap_or((name, ""));
            faults.entry(who).or_default().push((how, *count));
        }
        for (who, how) in faults {
            rows.push((format!("faults: {who}"), listed(how.into_iter())));
        }
        rows.push(("time".to_owned(), format!("{:.1} s", took.as_secs_f64())));
        let lines: Vec<_> = rows.iter().map(|(name, value)| wrapped(name, value)).collect();
        lines.join("\n")
    }

    /// How many runs ended so.
    #[must_use]
    pub fn ended(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(outcome.as_str()).copied().unwrap_or(0)
    }
}

/// How a size of trees is called: the smallest and the largest number of children.
fn size_name(size: u64) -> String {
    let smallest = SIZES.into_iter().rfind(|smaller| *smaller < size).map_or(0, |smaller| smaller + 1);
    if smallest == size { size.to_string() } else { format!("{smallest}–{size}") }
}

/// A row whose value goes on below itself where it is long.
fn wrapped(name: &str, value: &str) -> String {
    let mut text = format!("{name:<18}");
    let mut width = 0;
    for part in value.split_inclusive(", ") {
        if width > 0 && width + part.len() > WIDTH {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.push_str(&" ".repeat(18));
            width = 0;
        }
        if width == 0 {
            text.push(' ');
        }
        text.push_str(part);
        width += part.len();
    }
    text
}

fn listed(counts: impl Iterator<Item = (impl fmt::Display, impl fmt::Display)>) -> String {
    counts.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}
