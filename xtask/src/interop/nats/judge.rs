//! What became of every sub-agent, by the session's log and by what the workers wrote down.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What is to be found in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) children: usize,
    /// How often each child may be run.
    pub(super) attempts: u32,
    /// How many are stopped by their session.
    pub(super) stopped: usize,
    /// Whether each asks before it does its work.
    pub(super) asks: bool,
    /// Whether a worker is killed, so that some child is lost or run again.
    pub(super) harmed: bool,
}

/// What was found, where all is well.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) terminals: usize,
    pub(super) completed: usize,
    /// Failed, because their worker was lost.
    pub(super) lost: usize,
    pub(super) again: usize,
    /// Stopped by their session, and at their workers too.
    pub(super) stopped: usize,
    /// Questions that crossed, and their answers.
    pub(super) answered: usize,
    pub(super) events: usize,
    pub(super) characters: usize,
}

/// A child as the session's log has it.
#[derive(Debug, Default)]
struct Child {
    spawns: usize,
    /// How each run of it ended, and why.
    ends: Vec<(String, String)>,
    /// What it said, by attempt.
    said: Vec<String>,
    /// Something came after its end.
    has_more: bool,
    asked: usize,
    answered: usize,
}

/// The event on a line, which may lie in a child's scope.
fn event(line: &Value) -> &Value {
    if line["type"] == "SUB_AGENT" { &line["event"] } else { line }
}

/// Holds a session's log against what is expected, and against what the workers wrote down before they sent it: files by their
/// names, `<session>.<run>.<attempt>`.
pub(super) fn judge(log: &str, workers: &[(String, String)], expected: Expected) -> Result<Ran, Vec<String>> {
    let mut found = Vec::new();
    let mut children: BTreeMap<String, Child> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    let mut events = 0;
    for text in log.lines() {
        let Ok(line) = serde_json::from_str::<Value>(text) else {
            found.push(format!("a line after event {events} cannot be read"));
            continue;
        };
        events += 1;
        if line["seq"].as_u64() != Some(events) {
            found.push(format!("event {events} has the number {}", line["seq"]));
        }
        if !ids.insert(event(&line)["id"].to_string()) {
            found.push(format!("event {events} has an id that was there before"));
        }
        take(&line, &mut children);
    }
    let mut ran = Ran { events: ids.len(), ..Ran::default() };
    if children.len() != expected.children {
        found.push(format!("{} children instead of {}", children.len(), expected.children));
    }
    let made = texts(workers);
    for (id, child) in &children {
        if let Err(what) = child.judge(id, &made, expected, &mut ran) {
            found.push(format!("{id}: {what}"));
        }
    }
    if ran.stopped != expected.stopped {
        found.push(format!("{} children were stopped instead of {}", ran.stopped, expected.stopped));
    }
    if expected.harmed && ran.lost + ran.again == 0 {
        found.push("no child was under way where its worker was killed, so nothing was shown".to_owned());
    }
    if found.is_empty() { Ok(ran) } else { Err(found) }
}

/// Takes note of an event of a child that the root spawned.
fn take(line: &Value, children: &mut BTreeMap<String, Child>) {
    if line["type"] == "SPAWN_SESSION_START" {
        let id = line["child_session_id"].as_str().unwrap_or_default();
        let child = children.entry(id.to_owned()).or_default();
        child.spawns += 1;
        child.said.push(String::new());
        return;
    }
    if line["type"] != "SUB_AGENT" || line["depth"] != 1 {
        return;
    }
    let child = children.entry(line["child_session_id"].as_str().unwrap_or_default().to_owned()).or_default();
    let event = &line["event"];
    child.has_more |= !child.ends.is_empty();
    match event["type"].as_str() {
        Some("STREAM_COMPLETE") => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            child.ends.push((text(&event["outcome"]), text(&event["error"]["message"])));
        }
        Some("TEXT_BLOCK_DELTA") => {
            if let Some(said) = child.said.last_mut() {
                said.push_str(event["delta"].as_str().unwrap_or_default());
            }
        }
        Some("REQUIRE_USER_CONFIRM") => child.asked += 1,
        Some("USER_CONFIRM_RESULT") => child.answered += 1,
        Some("CUSTOM") if event["name"] == "anabranch.run_again" => child.said.push(String::new()),
        _ => {}
    }
}

impl Child {
    fn judge(
        &self,
        id: &str,
        made: &BTreeMap<String, Made>,
        expected: Expected,
        ran: &mut Ran,
    ) -> Result<(), String> {
        if self.spawns != 1 {
            return Err(format!("announced {} times", self.spawns));
        }
        let [(outcome, why)] = &*self.ends else {
            return Err(format!("{} terminals", self.ends.len()));
        };
        if self.has_more {
            return Err("something came after its terminal".to_owned());
        }
        ran.terminals += 1;
        ran.again += usize::from(self.said.len() > 1);
        if self.said.len() > expected.attempts as usize {
            return Err(format!("run {} times and may be {} times", self.said.len(), expected.attempts));
        }
        if expected.asks && outcome == "completed" && (self.asked, self.answered) != (1, 1) {
            return Err(format!("asked {} times and had {} answers", self.asked, self.answered));
        }
        ran.answered += self.answered;
        let is_stopped = outcome == "interrupted" && expected.stopped > 0;
        let is_lost = outcome == "failed" && why.contains("was lost");
        match outcome.as_str() {
            "completed" => ran.completed += 1,
            _ if is_stopped => ran.stopped += 1,
            _ if is_lost && expected.attempts == 1 => ran.lost += 1,
            outcome => return Err(format!("ended as {outcome}: {why}")),
        }
        // Attempts that said nothing which came here leave no trace, so those that did are told by what they said: each is
        // what one worker made, or the beginning of it where that one was lost.
        let mut files = made.range(format!("{id}.1.")..format!("{id}.1/"));
        for (attempt, said) in self.said.iter().enumerate() {
            let is_whole = attempt + 1 == self.said.len() && outcome == "completed";
            let is_its = |made: &Made| {
                let Made { text, has_ended } = made;
                if is_whole { *has_ended && text == said } else { text.starts_with(said.as_str()) }
            };
            // Who was lost before it said anything may have written nothing down.
            let is_silent = said.is_empty() && !is_whole;
            if !is_silent && !files.any(|(_, made)| is_its(made)) {
                return Err(format!("no worker made the text of its attempt {}", attempt + 1));
            }
            ran.characters += said.chars().count();
        }
        let mut files = made.range(format!("{id}.1.")..format!("{id}.1/"));
        if is_stopped && files.any(|(_, made)| made.has_ended) {
            return Err("stopped here, and its worker went on to its end".to_owned());
        }
        if outcome == "completed" && self.said.last().is_none_or(String::is_empty) {
            return Err("completed, and said nothing".to_owned());
        }
        Ok(())
    }
}

/// What a worker made of a run.
struct Made {
    text: String,
    /// Whether it came to its end there.
    has_ended: bool,
}

/// The text of each run as its worker made it.
fn texts(workers: &[(String, String)]) -> BTreeMap<String, Made> {
    let made = |lines: &str| {
        let mut made = Made { text: String::new(), has_ended: false };
        for line in lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            // Of the child itself, which is the root where it runs.
            if line["type"] == "TEXT_BLOCK_DELTA" {
                made.text.push_str(line["delta"].as_str().unwrap_or_default());
            }
            made.has_ended |= line["type"] == "STREAM_COMPLETE";
        }
        made
    };
    workers.iter().map(|(name, lines)| (name.clone(), made(lines))).collect()
}

/// Spoils a log that is well in ways that have to be found; gives those that are not.
pub(super) fn blind_spots(log: &str, workers: &[(String, String)], expected: Expected) -> Vec<String> {
    let is_terminal =
        |line: &&str| line.contains(r#""depth":1"#) && line.contains(r#""type":"STREAM_COMPLETE""#);
    let is_text =
        |line: &&str| line.contains(r#""depth":1"#) && line.contains(r#""type":"TEXT_BLOCK_DELTA""#);
    let spoilt = [
        ("a doubled terminal", spoil(log, is_terminal, |line| vec![line.to_owned(), line.to_owned()])),
        ("a missing terminal", spoil(log, is_terminal, |_| Vec::new())),
        ("a doubled event", spoil(log, is_text, |line| vec![line.to_owned(), line.to_owned()])),
        ("a missing piece of text", spoil(log, is_text, |_| Vec::new())),
        (
            "another text",
            spoil(log, is_text, |line| vec![line.replace(r#""delta":""#, r#""delta":"another "#)]),
        ),
    ];
    let missed = spoilt.into_iter().filter(|(_, log)| judge(log, workers, expected).is_ok());
    missed.map(|(what, _)| format!("the judge does not find {what}")).collect()
}

/// A log in which another line stands for one in the middle, with numbers as if nothing had happened.
fn spoil(log: &str, which: impl Fn(&&str) -> bool, instead: impl Fn(&str) -> Vec<String>) -> String {
    let count = log.lines().filter(&which).count();
    let mut met = 0;
    let mut lines = Vec::new();
    for line in log.lines() {
        met += usize::from(which(&line));
        if which(&line) && met == count.div_ceil(2) {
            lines.extend(instead(line));
        } else {
            lines.push(line.to_owned());
        }
    }
    let numbered = (1..).zip(&lines).map(|(number, line)| {
        let rest = line.split_once(',').map_or("", |(_, rest)| rest);
        // Each its own id too, so that the number of terminals alone is what is wrong.
        let rest = rest.replacen(r#""id":""#, &format!(r#""id":"{number}-"#), 1);
        format!("{{\"seq\":{number},{rest}\n")
    });
    numbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Expected = Expected { children: 2, attempts: 1, stopped: 0, asks: false, harmed: false };

    /// A log of two children that each say `a b`, and what their workers wrote down.
    fn sample() -> (String, Vec<(String, String)>) {
        let mut lines = Vec::new();
        for child in ["ses_1", "ses_2"] {
            lines.push(format!(r#""type":"SPAWN_SESSION_START","child_session_id":"{child}""#));
            for event in [
                r#""type":"TEXT_BLOCK_DELTA","delta":"a ""#,
                r#""type":"TEXT_BLOCK_DELTA","delta":"b""#,
                r#""type":"STREAM_COMPLETE","outcome":"completed""#,
            ] {
                lines.push(format!(
                    r#""type":"SUB_AGENT","child_session_id":"{child}","depth":1,"event":{{"id":"e",{event}}}"#
                ));
            }
        }
        let numbered = (1..).zip(&lines).map(|(seq, line)| {
            let line = line.replace(r#""id":"e""#, &format!(r#""id":"e{seq}""#));
            let id = if line.contains("SPAWN") { format!(r#""id":"s{seq}","#) } else { String::new() };
            format!("{{\"seq\":{seq},{id}{line}}}\n")
        });
        let workers = ["ses_1.1.1", "ses_2.1.1"].map(|name| (name.to_owned(), worker("a b")));
        (numbered.collect(), workers.to_vec())
    }

    /// What a worker writes down that makes this text.
    fn worker(text: &str) -> String {
        let delta = format!(r#"{{"type":"TEXT_BLOCK_DELTA","delta":"{text}"}}"#);
        format!("{delta}\n{}\n", r#"{"type":"STREAM_COMPLETE"}"#)
    }

    fn findings(log: &str, workers: &[(String, String)]) -> String {
        judge(log, workers, EXPECTED).unwrap_err().join("; ")
    }

    #[test]
    fn what_is_well_is_counted() {
        let (log, workers) = sample();
        let ran = judge(&log, &workers, EXPECTED).unwrap();
        let expected = Ran { terminals: 2, completed: 2, events: 8, characters: 6, ..Ran::default() };
        assert_eq!(ran, expected);
    }

    #[test]
    fn a_doubled_and_a_missing_terminal_are_found() {
        let (log, workers) = sample();
        let is_terminal = |line: &&str| line.contains("STREAM_COMPLETE");
        let doubled = spoil(&log, is_terminal, |line| vec![line.to_owned(), line.to_owned()]);
        assert_eq!(findings(&doubled, &workers), "ses_1: 2 terminals");
        let missing = spoil(&log, is_terminal, |_| Vec::new());
        assert_eq!(findings(&missing, &workers), "ses_1: 0 terminals");
        assert_eq!(blind_spots(&log, &workers, EXPECTED), [""; 0]);
    }

    #[test]
    fn whatever_else_is_wrong_is_found() {
        let (log, workers) = sample();
        assert!(findings(&log.replace("ses_2", "ses_1"), &workers).contains("1 children instead of 2"));
        assert!(
            findings(&log.replace(r#""delta":"b""#, r#""delta":"c""#), &workers).contains("no worker made")
        );
        assert!(
            findings(&log.replace("completed", "interrupted"), &workers).contains("ended as interrupted")
        );
        assert!(
            findings(&log.replace(r#""seq":3"#, r#""seq":4"#), &workers).contains("event 3 has the number 4")
        );
        assert!(findings(&log.replace("\"e3\"", "\"e2\""), &workers).contains("an id that was there before"));
        assert!(findings(&log, &workers[..1]).contains("no worker made the text"));
        let cut = worker("a b").replace("STREAM_COMPLETE", "X");
        let cut = [workers[0].clone(), ("ses_2.1.1".to_owned(), cut)];
        assert!(findings(&log, &cut).contains("no worker made the text"));
        let harmed = Expected { harmed: true, ..EXPECTED };
        assert!(judge(&log, &workers, harmed).unwrap_err()[0].contains("nothing was shown"));
        let asks = Expected { asks: true, ..EXPECTED };
        assert!(judge(&log, &workers, asks).unwrap_err()[0].contains("asked 0 times"));
        assert!(findings(&format!("{log}nonsense\n"), &workers).contains("cannot be read"));
    }

    #[test]
    fn a_child_whose_worker_was_lost_has_said_the_beginning_of_what_that_one_made() {
        let (log, workers) = sample();
        let lost = log.replacen(
            r#""outcome":"completed""#,
            r#""outcome":"failed","error":{"message":"the worker `w` was lost"}"#,
            1,
        );
        let lost = spoil(&lost, |line| line.contains(r#""delta":"b""#), |_| Vec::new());
        let ran = judge(&lost, &workers, EXPECTED).unwrap();
        assert_eq!((ran.completed, ran.lost), (1, 1));
        let may_be_run_again = Expected { attempts: 3, ..EXPECTED };
        assert!(judge(&lost, &workers, may_be_run_again).is_err());
    }

    #[test]
    fn a_child_that_is_stopped_here_stops_there() {
        let (log, workers) = sample();
        let stopped = Expected { stopped: 1, ..EXPECTED };
        assert!(judge(&log, &workers, stopped).unwrap_err()[0].contains("0 children were stopped"));
        let log = log.replacen("completed", "interrupted", 1);
        let goes_on = judge(&log, &workers, stopped).unwrap_err();
        assert!(goes_on[0].contains("its worker went on"), "{goes_on:?}");
        let ends = worker("a b and").replace("STREAM_COMPLETE", "X");
        let workers = [("ses_1.1.1".to_owned(), ends), workers[1].clone()];
        assert_eq!(judge(&log, &workers, stopped).unwrap().stopped, 1);
    }

    #[test]
    fn a_child_that_was_run_again_has_said_what_both_made() {
        let (log, mut workers) = sample();
        let again = r#""type":"CUSTOM","name":"anabranch.run_again""#;
        let log = log.replacen(
            r#"{"seq":3,"#,
            &format!(
                "{{\"seq\":3,\"type\":\"SUB_AGENT\",\"child_session_id\":\"ses_1\",\"depth\":1,\"event\":{{\"id\":\"x\",{again}}}}}\n{{\"seq\":3,"
            ),
            1,
        );
        let log = spoil(&log, |_| false, |_| Vec::new());
        workers.push(("ses_1.1.2".to_owned(), worker("b")));
        let twice = Expected { attempts: 2, ..EXPECTED };
        assert_eq!(judge(&log, &workers, twice).unwrap().again, 1);
        assert!(findings(&log, &workers).contains("run 2 times and may be 1 times"));
    }
}
