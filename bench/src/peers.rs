//! Others' libraries: programs that are asked a question a line, so that each has a process, an allocator and
//! dependencies of its own.
//!
//! A question is `spawn 64 10` (64 children in one turn, 10 times) or `pass 4 50000` (4 tools of so many items on one
//! stream); the answer is the nanoseconds of CPU for each child or item, or `none` and why there is no such thing.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::measure::{Scale, median};

/// A peer's program at work.
struct Peer {
    name: String,
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The peers that are there.
#[derive(Default)]
pub struct Peers {
    running: Vec<Peer>,
    /// Those that are not, and why.
    pub absent: BTreeMap<String, String>,
}

impl Peers {
    /// Starts programs, each given as `name=program arguments…`.
    #[must_use]
    pub fn start(programs: &[String]) -> Self {
        let mut peers = Self::default();
        for program in programs {
            let Some((name, line)) = program.split_once('=') else { continue };
            match start(name, line) {
                Ok(peer) => peers.running.push(peer),
                Err(why) => _ = peers.absent.insert(name.to_owned(), why),
            }
        }
        peers
    }

    /// What a child costs each of them, by CPU: nanoseconds.
    pub fn spawn(&mut self, children: usize, scale: Scale) -> Vec<(String, f64)> {
        let times = (scale.events / 200 / children).clamp(1, 50);
        self.ask(&format!("spawn {children} {times}"), scale.rounds.min(3))
    }

    /// What an item costs each of them from a tool to the stream, by CPU: nanoseconds.
    pub fn pass(&mut self, tools: usize, scale: Scale) -> Vec<(String, f64)> {
        self.ask(&format!("pass {tools} {}", scale.events / 10 / tools), scale.rounds.min(3))
    }

    /// Asks every peer in turn, so many rounds; the medians of those that can.
    fn ask(&mut self, question: &str, rounds: usize) -> Vec<(String, f64)> {
        let mut answers: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for _ in 0..rounds {
            for peer in &mut self.running {
                match peer.ask(question) {
                    Ok(cost) => answers.entry(peer.name.clone()).or_default().push(cost),
                    Err(why) => _ = self.absent.insert(format!("{}: {question}", peer.name), why),
                }
            }
        }
        answers.into_iter().map(|(name, costs)| (name, median(costs))).collect()
    }

    /// What could not be asked, for people.
    #[must_use]
    pub fn notes(&self) -> String {
        let mut text = String::new();
        for (what, why) in &self.absent {
            writeln!(text, "not measured: {what}: {why}").expect("it is a string");
        }
        text
    }
}

fn start(name: &str, line: &str) -> Result<Peer, String> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().map_err(|error| error.to_string())?;
    let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
        return Err("it has no pipes".to_owned());
    };
    Ok(Peer { name: name.to_owned(), process, questions, answers: BufReader::new(answers) })
}

impl Peer {
    fn ask(&mut self, question: &str) -> Result<f64, String> {
        writeln!(self.questions, "{question}")
            .and_then(|()| self.questions.flush())
            .map_err(|error| error.to_string())?;
        let mut answer = String::new();
        let read = self.answers.read_line(&mut answer).map_err(|error| error.to_string())?;
        if read == 0 {
            return Err("it ended".to_owned());
        }
        let answer = answer.trim();
        match answer.strip_prefix("none") {
            Some(why) => Err(why.trim().to_owned()),
            None => answer.parse().map_err(|_| format!("it answered `{answer}`")),
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        for Peer { process, questions, .. } in self.running.drain(..) {
            // Without questions it ends.
            drop(questions);
            let mut process = process;
            process.wait().ok();
        }
    }
}
