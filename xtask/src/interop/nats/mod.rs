//! A broker, two workers and a session: one worker is killed in mid-work and the broker is restarted, and the session's log
//! says what became of every sub-agent.

mod broker;
mod judge;
mod play;

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use super::programs::Programs;
use super::{Obstacle, empty, unusable};
use crate::error::Error;
use crate::process;

use judge::{Expected, Ran};
use play::{Play, Programme};

/// What is played.
const PLAYS: [Programme; 3] = [
    // One worker is killed in mid-work, the broker is restarted.
    Programme { kill_at: Some(40), restart_at: Some(110), ..Programme::new("once", 200, 1) },
    // The same where lost children are run again.
    Programme { kill_at: Some(12), restart_at: Some(30), ..Programme::new("again", 60, 3) },
    // Questions and stops cross, and a worker that is told to end ends when its children have.
    Programme { asks: true, stopped: 6, end_at: Some(15), ..Programme::new("talk", 40, 1) },
];

/// Plays each programme and judges it. Then it is judged whether the judge can judge.
pub(super) fn run(folder: &str) -> Result<ExitCode, Obstacle> {
    broker::find()?;
    let server = Programs::build("anabranch-server")?;
    let checker = Programs::build("anabranch-testkit")?;
    let place = server.target_folder.join("interop").join(folder);
    empty(&place)?;
    let mut found = Vec::new();
    for programme in PLAYS {
        let Programme { name, children, attempts, .. } = programme;
        println!("== {name}: {children} children, each run {attempts} times at most");
        let play = Play {
            anabranch: server.executable("anabranch")?,
            session: server.executable("nats_session")?,
            place: place.join(programme.name),
        };
        found.extend(play.run(&programme)?.map(|what| format!("{name}: {what}")));
        let log = play.place.join("session.jsonl");
        if !process::status(std::process::Command::new(checker.executable("anabranch-check")?).arg(&log))?
            .success()
        {
            found.push(format!("{}: the session's stream is not well-formed", programme.name));
        }
        let text = fs::read_to_string(&log).map_err(|error| unusable(&log, error))?;
        let workers = said_by_workers(&play.place)?;
        let Programme { asks, stopped, kill_at, .. } = programme;
        let expected = Expected { children, attempts, stopped, asks, harmed: kill_at.is_some() };
        match judge::judge(&text, &workers, expected) {
            Ok(ran) => println!("{}", shown(&ran)),
            Err(findings) => found.extend(findings.iter().map(|what| format!("{}: {what}", programme.name))),
        }
        if found.is_empty() {
            found.extend(judge::blind_spots(&text, &workers, expected));
        }
    }
    found.extend(orphans(&server, &place)?.iter().map(|what| format!("orphans: {what}")));
    for what in &found {
        eprintln!("finding: {what}");
    }
    println!("{}", if found.is_empty() { "nats: no findings" } else { "nats: there are findings" });
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many children a session orders that is killed: more than workers come to before they know.
const ORPHANS: usize = 2_000;

/// A session that is killed: what it ordered ends, though nobody says so.
fn orphans(server: &Programs, place: &Path) -> Result<Vec<String>, Obstacle> {
    println!("== orphans: {ORPHANS} children, and their session is killed");
    let play = Play {
        anabranch: server.executable("anabranch")?,
        session: server.executable("nats_session")?,
        place: place.join("orphans"),
    };
    let mut found = play.orphans(ORPHANS)?;
    let workers = said_by_workers(&play.place)?;
    let ended = workers.iter().filter(|(_, lines)| lines.contains(r#""type":"STREAM_COMPLETE""#)).count();
    println!("{} were begun, {ended} of them came to an end at their worker", workers.len());
    if workers.len() >= ORPHANS {
        found.push("all were run for a session that was gone".to_owned());
    }
    Ok(found)
}

fn shown(ran: &Ran) -> String {
    let Ran { terminals, completed, lost, again, stopped, answered, events, characters } = ran;
    format!(
        "{terminals} terminals of as many children, none twice: {completed} completed, {lost} failed with their worker, \
         {again} were run again, {stopped} stopped here and there; {answered} answers crossed; {events} events in order; {characters} characters of text as the workers made them"
    )
}

/// What the workers wrote down before they sent it, by the names of their files.
fn said_by_workers(place: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut said = Vec::new();
    for worker in play::WORKERS {
        let folder = place.join(worker);
        let files = fs::read_dir(&folder).map_err(|error| unusable(&folder, error))?;
        for file in files {
            let path = file.map_err(|error| unusable(&folder, error))?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // A worker that was killed may have been in the middle of a character.
            let bytes = fs::read(&path).map_err(|error: io::Error| unusable(&path, error))?;
            said.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(said)
}
