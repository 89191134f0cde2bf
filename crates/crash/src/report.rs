//! What came of it, for people.

use std::{fmt, time::Duration};

use crate::{judge::Checked, moment::Moment};

/// What all rounds came to.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) rounds: u64,
    pub(crate) files: u64,
    kills: [u64; Moment::ALL.len()],
    /// Of the kills between an append and its delivery: how many found the event on disk already.
    pub(crate) on_disk: u64,
    pub(crate) readers_killed: u64,
    pub(crate) events: usize,
    pub(crate) seen: usize,
    pub(crate) lost: usize,
    pub(crate) recoveries: usize,
    pub(crate) closed: usize,
    pub(crate) closing: usize,
    pub(crate) answered: u64,
    pub(crate) faults_found: usize,
}

/// Of a hundred kills at least so many are to be between a lifecycle event's append and its delivery.
const LEAST_HELD: u64 = 30;

impl Report {
    pub(crate) fn kill(&mut self, moment: Moment) {
        if let Some(count) = self.kills.get_mut(moment as usize) {
            *count += 1;
        }
    }

    pub(crate) fn add(&mut self, checked: &Checked) {
        self.recoveries += checked.sessions;
        self.closed += checked.closed;
        self.closing += checked.closing;
    }

    /// What a file came to in the end.
    pub(crate) fn add_file(&mut self, checked: &Checked) {
        self.files += 1;
        self.events += checked.events;
    }

    fn all_kills(&self) -> u64 {
        self.kills.iter().sum()
    }

    fn held(&self) -> u64 {
        self.kills.get(Moment::Held as usize).copied().unwrap_or_default()
    }

    /// Whether enough kills came between an append and its delivery.
    pub(crate) fn is_enough(&self) -> bool {
        self.held() * 100 >= self.all_kills() * LEAST_HELD && self.held() > 0
    }

    pub(crate) fn table(&self, took: Duration) -> String {
        let mut text = String::new();
        let kills = self.all_kills().max(1);
        let mut row = |what: &str, count: &dyn fmt::Display, more: String| {
            text.push_str(format!("{what:<42} {count:>8}  {more}").trim_end());
            text.push('\n');
        };
        row("rounds", &self.rounds, format!("{} files, {:.1} s", self.files, took.as_secs_f64()));
        row("kills of the server", &self.all_kills(), String::new());
        for moment in Moment::ALL {
            let count = self.kills.get(moment as usize).copied().unwrap_or_default();
            let mut more = format!("{} %", count * 100 / kills);
            if moment == Moment::Held {
                more = format!("{more}, at least {LEAST_HELD} wanted; {} of them were on disk", self.on_disk);
            }
            row(&format!("  {}", moment.text()), &count, more);
        }
        row("kills of the reader", &self.readers_killed, String::new());
        row("prompts answered", &self.answered, "by 8 sessions, on after each kill".to_owned());
        row("events in the logs", &self.events, "each once, no hole, well-formed".to_owned());
        row(
            "events seen and synced by readers",
            &self.seen,
            format!("{} lost, where nothing else is promised", self.lost),
        );
        row("sessions recovered", &self.recoveries, String::new());
        row("runs closed once, as interrupted", &self.closed, format!("{} events", self.closing));
        row("faults planted and found", &self.faults_found, String::new());
        text
    }
}
