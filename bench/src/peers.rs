//! Others' libraries: programs that are asked a question a line, so that each has a process, an allocator and
//! dependencies of its own.
//!
//! `peers/asked` has the questions and the answers: nanoseconds of CPU for each child or item, or why there is no such
//! thing.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::Deserialize;

use crate::measure::Other;

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

    /// The peers that can answer a question, each as a case of its own that gives nanoseconds of CPU for an item.
    pub fn cases<'a>(&'a mut self, question: &'a str) -> Vec<Other<'a>> {
        let Self { running, absent } = self;
        let mut cases: Vec<Other<'a>> = Vec::new();
        for peer in running {
            match peer.ask(question) {
                Ok(_) => {
                    let name = peer.name.clone();
                    cases.push((name, Box::new(|| peer.ask(question).expect("it could answer before"))));
                }
                Err(why) => _ = absent.insert(format!("{}: `{question}`", peer.name), why),
            }
        }
        cases
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

/// What a peer says.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Nanos(f64),
    None(String),
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
        match serde_json::from_str(&answer) {
            Ok(Answer::Nanos(nanos)) => Ok(nanos),
            Ok(Answer::None(why)) => Err(why),
            Err(_) => Err(format!("it answered `{}`", answer.trim())),
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
