//! What happens to whom.
#![expect(clippy::disallowed_methods, reason = "it waits for processes, and decides nothing by how long")]

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::interop::unusable;
use crate::process;

use super::broker::Broker;

/// The folders in which the workers write down what they say.
pub(super) const WORKERS: [&str; 2] = ["worker-a", "worker-b"];

/// How long a play may take.
const LIMIT: Duration = Duration::from_secs(90);

/// For how long the broker is away.
const AWAY: Duration = Duration::from_secs(1);

/// After how many seconds a worker is taken for lost.
const LOST_AFTER: &str = "5";

/// A play: how many children, and after how many ends what happens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Programme {
    pub(super) name: &'static str,
    pub(super) children: usize,
    pub(super) attempts: u32,
    pub(super) kill_at: usize,
    pub(super) restart_at: Option<usize>,
}

/// Who plays, and where.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) anabranch: PathBuf,
    pub(super) session: PathBuf,
    pub(super) place: PathBuf,
}

/// A process that is killed where it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Play {
    /// Plays to the end, or until it takes too long: what there is then is judged.
    pub(super) fn run(&self, programme: &Programme) -> Result<(), Error> {
        let begun = Instant::now();
        let mut broker = Broker::start(&self.place.join("broker"))?;
        let mut workers = WORKERS
            .map(|name| self.worker(&broker.url(), name))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        let mut session = self.start_session(&broker.url(), programme)?;
        let ends = ends(&mut session);
        while let Ok(ended) = ends.recv_timeout(LIMIT.saturating_sub(begun.elapsed())) {
            if ended == programme.kill_at
                && let Some(worker) = workers.pop()
            {
                println!("{ended} have ended: a worker is killed");
                drop(worker);
            }
            if Some(ended) == programme.restart_at {
                println!("{ended} have ended: the broker is restarted");
                broker.restart(AWAY)?;
            }
        }
        let status = loop {
            if let Some(status) = session.0.try_wait().map_err(|error| unusable(&self.session, error))? {
                break Some(status);
            }
            if begun.elapsed() > LIMIT {
                break None;
            }
            thread::sleep(Duration::from_millis(50));
        };
        let seconds = begun.elapsed().as_secs();
        match status {
            Some(status) => println!("the session ended with {status} after {seconds} s"),
            None => println!("the session has not ended after {seconds} s"),
        }
        Ok(())
    }

    fn worker(&self, url: &str, name: &str) -> Result<Running, Error> {
        let mut command = Command::new(&self.anabranch);
        command.args([
            "worker",
            "--nats",
            url,
            "--nested",
            "--concurrency",
            "12",
            "--lost-after",
            LOST_AFTER,
        ]);
        command.arg("--log-events").arg(self.place.join(name));
        command.arg("--out").arg(self.place.join("results"));
        self.started(command, name)
    }

    fn start_session(&self, url: &str, programme: &Programme) -> Result<Running, Error> {
        let mut command = Command::new(&self.session);
        command.args(["--nats", url, "--lost-after", LOST_AFTER]);
        command.args(["--children", &programme.children.to_string()]);
        command.args(["--attempts", &programme.attempts.to_string()]);
        command.arg("--log").arg(self.place.join("session.jsonl"));
        command.stdout(Stdio::piped());
        self.started(command, "session")
    }

    fn started(&self, mut command: Command, name: &str) -> Result<Running, Error> {
        let path = self.place.join(format!("{name}.log"));
        let log = File::create(&path).map_err(|error| unusable(&path, error))?;
        command.stdin(Stdio::null()).stderr(log);
        let child =
            command.spawn().map_err(|source| Error::Start { command: process::shown(&command), source })?;
        Ok(Running(child))
    }
}

/// How many children have ended, as the session says it.
fn ends(session: &mut Running) -> mpsc::Receiver<usize> {
    // As many as there can be at once of what nobody takes for a while.
    let (sender, receiver) = mpsc::sync_channel(4_096);
    if let Some(stdout) = session.0.stdout.take() {
        thread::spawn(move || {
            let numbers = BufReader::new(stdout).lines().map_while(Result::ok);
            for number in numbers.filter_map(|line| line.trim().parse().ok()) {
                if sender.send(number).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}
