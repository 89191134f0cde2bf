//! Whether what is there after a restart is what has to be.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_proto::{
    Event, EventKind, Outcome, SessionId, ToolCallId, ToolResultState,
    event::MessageOrigin,
    grammar::{Profile, Verifier},
    native,
};

use crate::{agents::KNOWS, mode::Promise, seen::Seen};

/// A session's events as native lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Story {
    /// The number of the last event that was forgotten.
    pub(crate) forgotten: u64,
    pub(crate) lines: Vec<String>,
}

impl Story {
    pub(crate) fn last(&self) -> u64 {
        self.forgotten + u64::try_from(self.lines.len()).unwrap_or(u64::MAX)
    }

    fn line(&self, seq: u64) -> Option<&str> {
        let index = usize::try_from(seq.checked_sub(self.forgotten + 1)?).ok()?;
        self.lines.get(index).map(String::as_str)
    }

    /// The lines behind a number.
    fn behind(&self, seq: u64) -> &[String] {
        let index = usize::try_from(seq.saturating_sub(self.forgotten)).unwrap_or(usize::MAX);
        self.lines.get(index..).unwrap_or_default()
    }
}

/// What each session has.
pub(crate) type Stories = BTreeMap<String, Story>;

/// All that is known of a kill and of the restart after it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) promise: Promise,
    /// What the file had after each kill: the first of a server at work, others of such as were restarting.
    pub(crate) left: Vec<Stories>,
    /// What the restarted server gives.
    pub(crate) found: Stories,
    /// What readers have seen.
    pub(crate) seen: Seen,
    /// How far the killed server had said each session to be durable.
    pub(crate) durable: BTreeMap<String, u64>,
    /// Which server was killed between an event's append and its delivery, and the event.
    pub(crate) held: Option<(u64, String, u64)>,
    /// Whether a server was killed; otherwise it was stopped in order.
    pub(crate) killed: bool,
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checked {
    pub(crate) events: usize,
    pub(crate) seen: usize,
    /// Runs that were closed, and events that did so.
    pub(crate) closed: usize,
    pub(crate) closing: usize,
    /// Sessions in which something was closed.
    pub(crate) sessions: usize,
    /// Events that were seen and are lost, where that may be.
    pub(crate) lost: usize,
}

/// Finds what is wrong.
pub(crate) fn judge(case: &Case) -> Result<Checked, Vec<String>> {
    let mut findings = Vec::new();
    let mut checked = Checked::default();
    for (session, story) in &case.found {
        let mut judge = Judge { case, session, story, findings: Vec::new(), checked: &mut checked };
        judge.all();
        findings.extend(judge.findings.into_iter().map(|what| format!("{session}: {what}")));
    }
    let known = case.left.iter().flat_map(Stories::keys).chain(case.seen.sessions.keys());
    let gone: BTreeSet<_> = known.filter(|session| !case.found.contains_key(*session)).collect();
    findings.extend(gone.iter().map(|session| format!("{session}: the session is gone")));
    if findings.is_empty() { Ok(checked) } else { Err(findings) }
}

struct Judge<'a> {
    case: &'a Case,
    session: &'a str,
    story: &'a Story,
    findings: Vec<String>,
    checked: &'a mut Checked,
}

impl Judge<'_> {
    fn find(&mut self, what: impl Into<String>) {
        self.findings.push(what.into());
    }

    fn all(&mut self) {
        self.checked.events += self.story.lines.len();
        let Some(events) = self.read(&self.story.lines) else { return };
        self.well_formed(&events);
        self.knows_its_prompts(&events);
        if self.case.killed {
            self.only_closed();
        }
        self.seen();
    }

    /// Events with numbers that follow each other.
    fn read(&mut self, lines: &[String]) -> Option<Vec<Event>> {
        let mut reader = native::Reader::default();
        let mut events = Vec::new();
        for (seq, text) in (self.story.forgotten + 1..).zip(lines) {
            match reader.read(text) {
                Ok(line) if line.seq == Some(seq) => events.push(line.event),
                Ok(line) => {
                    self.find(format!("event {seq} has the number {:?}", line.seq));
                    return None;
                }
                Err(error) => {
                    self.find(format!("event {seq} cannot be read: {error}"));
                    return None;
                }
            }
        }
        Some(events)
    }

    fn well_formed(&mut self, events: &[Event]) {
        let mut verifier = Verifier::new(Profile::Native);
        let mut ids = BTreeSet::new();
        for event in events {
            if !ids.insert(event.id.to_string()) {
                self.find(format!("the event {} is there twice", event.id));
            }
            if let Err(violation) = verifier.check(event) {
                self.find(violation.to_string());
                return;
            }
        }
        if self.case.killed
            && let Err(violation) = verifier.finish()
        {
            self.find(violation.to_string());
        }
    }

    /// The model was asked with the whole conversation, those prompts included that were cut off.
    fn knows_its_prompts(&mut self, events: &[Event]) {
        let (mut prompts, mut before, mut said) = (0_u64, None, Some(String::new()));
        let mut wrong = Vec::new();
        for event in events.iter().filter(|event| event.scope.child().is_none()) {
            if is_prompt(event) {
                prompts += 1;
                said = Some(String::new());
            }
            let EventKind::TextBlockDelta(delta) = &event.kind else { continue };
            let Some(text) = &mut said else { continue };
            text.push_str(&delta.delta);
            let Some((known, _)) = text.strip_prefix(KNOWS).and_then(|rest| rest.split_once('.')) else {
                continue;
            };
            let forgotten = known.parse::<u64>().ok().and_then(|known| known.checked_sub(prompts));
            let is_right = match (self.story.forgotten, before) {
                (0, _) => forgotten == Some(0),
                (_, None) => forgotten.is_some(),
                (_, Some(before)) => forgotten == before,
            };
            if !is_right {
                wrong
                    .push(format!("the model knew of {known} prompts at the prompt {prompts} of those kept"));
            }
            before = Some(forgotten);
            said = None;
        }
        self.findings.extend(wrong);
    }

    /// What is there is what the killed server left, and what closes it, once and as a whole.
    fn only_closed(&mut self) {
        let Some(left) = self.case.left.first() else { return };
        let Some(left) = left.get(self.session) else {
            // A session that had not come to the disk.
            self.find("the session was not there before");
            return;
        };
        for (number, later) in self.case.left.iter().enumerate().skip(1) {
            let later = later.get(self.session);
            let is_whole =
                later.is_some_and(|later| later.last() == left.last() || later.last() == self.story.last());
            if !is_whole {
                self.find(format!("after kill {number} of a restart it was closed in part"));
            }
        }
        let all = self.case.left.iter().filter_map(|left| left.get(self.session));
        let differs = all.filter_map(|left| {
            let from = left.forgotten.max(self.story.forgotten) + 1;
            (from..=left.last()).find(|seq| left.line(*seq) != self.story.line(*seq))
        });
        if let Some(seq) = differs.min() {
            self.find(format!("event {seq} was in the file and is not, or is another"));
            return;
        }
        let durable = self.case.durable.get(self.session).copied().unwrap_or(0);
        if durable > left.last() {
            self.find(format!("event {durable} was said to be durable, and {} is the last", left.last()));
        }
        if self.story.forgotten > left.last() {
            self.find("what was running was forgotten");
            return;
        }
        let (Some(before), Some(closing)) = (self.read_from(left), self.read_behind(left.last())) else {
            return;
        };
        self.closed_once(&open_runs(&before), &closing);
        self.denied(&before, &closing);
    }

    fn closed_once(&mut self, open: &BTreeSet<Run>, closing: &[Event]) {
        let mut ended = BTreeSet::new();
        for event in closing {
            if let EventKind::StreamComplete(end) = &event.kind {
                let run = Run::of(event);
                if end.outcome != Outcome::Interrupted
                    || end.error.as_ref().is_none_or(|error| error.message.is_empty())
                {
                    self.find(format!("{run:?} was closed as {:?} with {:?}", end.outcome, end.error));
                }
                if !open.contains(&run) || !ended.insert(run.clone()) {
                    self.find(format!("{run:?} was closed and had ended before"));
                }
            } else if matches!(event.kind, EventKind::TextBlockDelta(_) | EventKind::SpawnSessionStart(_)) {
                self.find(format!("{} was made by a restart", event.kind.tag()));
            }
        }
        for run in open.difference(&ended) {
            self.find(format!("{run:?} was not closed"));
        }
        if open.is_empty() && !closing.is_empty() {
            self.find("nothing was open, and something was appended");
        }
        self.checked.closed += ended.len();
        self.checked.closing += closing.len();
        self.checked.sessions += usize::from(!ended.is_empty());
    }

    /// A call that waited for a person was denied with a text.
    fn denied(&mut self, before: &[Event], closing: &[Event]) {
        for (session, call) in open_questions(before) {
            let denied = closing.iter().any(|event| {
                let EventKind::ToolResultEnd(end) = &event.kind else { return false };
                session == Run::of(event) && end.tool_call_id == call && end.state == ToolResultState::Denied
            });
            let says_why = closing.iter().any(|event| {
                let EventKind::ToolResultTextDelta(delta) = &event.kind else { return false };
                session == Run::of(event)
                    && delta.tool_call_id == call
                    && delta.delta.contains("has not refused it")
            });
            if !denied || !says_why {
                self.find(format!("the question about {call} of {session:?} was not denied with a reason"));
            }
        }
    }

    fn read_from(&mut self, story: &Story) -> Option<Vec<Event>> {
        let mut reader = native::Reader::default();
        let read = story.lines.iter().map(|line| reader.read(line).map(|line| line.event));
        read.collect::<Result<_, _>>().map_err(|error| self.find(format!("what was left: {error}"))).ok()
    }

    fn read_behind(&mut self, seq: u64) -> Option<Vec<Event>> {
        let lines = self.story.behind(seq).to_vec();
        self.read_from(&Story { forgotten: seq, lines })
    }

    /// What was seen came once and in order, and is there.
    fn seen(&mut self) {
        let Some(frames) = self.case.seen.sessions.get(self.session) else { return };
        let mut last = 0;
        let mut epoch: Option<&str> = None;
        let mut events = Vec::new();
        let mut findings = Vec::new();
        for frame in frames {
            match (frame.name.as_deref(), frame.position()) {
                (Some("end"), _) => {}
                (Some("gap"), Some((_, to))) if self.story.forgotten >= to && to > last => last = to,
                (None, Some((of, seq))) => {
                    if seq != last + 1 {
                        findings.push(format!("event {seq} was seen after event {last}"));
                    }
                    if epoch.replace(of).is_some_and(|before| before != of) {
                        findings.push("the epoch is another".to_owned());
                    }
                    last = seq;
                    events.push((frame.server, seq, frame.data.as_str()));
                }
                _ => findings.push(format!("seen after event {last}: {frame:?}")),
            }
        }
        if let Some((server, session, seq)) = &self.case.held
            && session == self.session
            && events.iter().any(|(by, seen, _)| by == server && seen >= seq)
        {
            findings.push(format!("event {seq} was seen, though the server was killed before"));
        }
        self.checked.seen += events.len();
        let owed = match self.case.promise {
            Promise::All => u64::MAX,
            Promise::UptoBarriers => {
                let barrier = events.iter().rev().find(|(.., line)| is_barrier(line));
                barrier.map_or(0, |(_, seq, _)| *seq)
            }
            Promise::Durable => self.case.durable.get(self.session).copied().unwrap_or(0),
        };
        let kept = events.iter().filter(|(_, seq, _)| *seq > self.story.forgotten);
        let mut is_cut = false;
        for (_, seq, line) in kept {
            let is_there = self.story.line(*seq) == Some(line);
            if !is_there && *seq <= owed {
                findings.push(format!("event {seq} was seen and is not there, or is another"));
            } else if is_there && is_cut {
                findings.push(format!("event {seq} is there, and one before it that was seen is not"));
            }
            is_cut |= !is_there;
            self.checked.lost += usize::from(!is_there);
        }
        self.findings.extend(findings);
    }
}

/// A run of a session; of the root's there is one at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    session: Option<SessionId>,
    number: u32,
}

impl Run {
    fn of(event: &Event) -> Self {
        match event.scope.child() {
            Some(child) => Self { session: Some(child.child_session_id.clone()), number: child.run },
            None => Self { session: None, number: 0 },
        }
    }
}

/// The runs that began and did not end.
fn open_runs(events: &[Event]) -> BTreeSet<Run> {
    let mut open = BTreeSet::new();
    for event in events {
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            let number = spawn.run.unwrap_or(1);
            open.insert(Run { session: Some(spawn.child_session_id.clone()), number });
        } else if is_prompt(event) {
            open.insert(Run::of(event));
        } else if matches!(event.kind, EventKind::StreamComplete(_)) {
            open.remove(&Run::of(event));
        }
    }
    open
}

/// The calls that waited for a person, with their runs.
fn open_questions(events: &[Event]) -> BTreeSet<(Run, ToolCallId)> {
    let mut open = BTreeSet::new();
    for event in events {
        if let EventKind::RequireUserConfirm(asked) = &event.kind {
            open.extend(asked.tool_calls.iter().map(|call| (Run::of(event), call.id.clone())));
        } else if let EventKind::UserConfirmResult(answered) = &event.kind {
            for answer in &answered.confirm_results {
                open.remove(&(Run::of(event), answer.tool_call.id.clone()));
            }
        } else if let EventKind::ToolResultEnd(end) = &event.kind {
            open.remove(&(Run::of(event), end.tool_call_id.clone()));
        }
    }
    open
}

/// Whether a run of the root begins with it.
fn is_prompt(event: &Event) -> bool {
    event.scope.child().is_none()
        && matches!(&event.kind, EventKind::UserMessage(message) if message.origin == MessageOrigin::User)
}

fn is_barrier(line: &str) -> bool {
    let of_kind = |kind: &str| line.contains(&format!("\"type\":\"{kind}\""));
    [
        "SPAWN_SESSION_START",
        "STREAM_COMPLETE",
        "TOOL_RESULT_END",
        "REQUIRE_USER_CONFIRM",
        "USER_CONFIRM_RESULT",
    ]
    .into_iter()
    .any(of_kind)
}

#[cfg(test)]
mod tests;
