//! What happens to whom.
#![expect(clippy::disallowed_methods, reason = "it waits for processes, and decides nothing by how long")]

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
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
    /// How often each may be run.
    pub(super) attempts: u32,
    /// Whether each asks before it writes its result, and is allowed to.
    pub(super) asks: bool,
    /// How many the session stops when they have begun.
    pub(super) stopped: usize,
    /// When a worker is killed, told to end, and the broker restarted.
    pub(super) kill_at: Option<usize>,
    pub(super) end_at: Option<usize>,
    pub(super) restart_at: Option<usize>,
}

impl Programme {
    /// One in which nothing happens.
    pub(super) const fn new(name: &'static str, children: usize, attempts: u32) -> Self {
        Self {
            name,
            children,
            attempts,
            asks: false,
            stopped: 0,
            kill_at: None,
            end_at: None,
            restart_at: None,
        }
    }
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
    /// Plays to the end, or until it takes too long: what there is then is judged. Gives what is wrong with the processes
    /// themselves.
    pub(super) fn run(&self, programme: &Programme) -> Result<Option<String>, Error> {
        let begun = Instant::now();
        let mut broker = Broker::start(&self.place.join("broker"))?;
        let mut workers = WORKERS
            .map(|name| self.worker(&broker.url(), name, LOST_AFTER))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        let mut session = self.start_session(&broker.url(), programme, LOST_AFTER)?;
        let ends = ends(&mut session);
        let mut leaving = None;
        while let Ok(ended) = ends.recv_timeout(LIMIT.saturating_sub(begun.elapsed())) {
            if Some(ended) == programme.kill_at
                && let Some(worker) = workers.pop()
            {
                println!("{ended} have ended: a worker is killed");
                drop(worker);
            }
            if Some(ended) == programme.end_at
                && let Some(worker) = workers.pop()
            {
                println!("{ended} have ended: a worker is told to end");
                terminate(&worker.0)?;
                leaving = Some(worker);
            }
            if Some(ended) == programme.restart_at {
                println!("{ended} have ended: the broker is restarted");
                broker.restart(AWAY)?;
            }
        }
        let ended = self.ended(&mut session, begun)?;
        let seconds = begun.elapsed().as_secs();
        let Some(status) = ended else {
            return Ok(Some(format!("the session has not ended after {seconds} s")));
        };
        println!("the session ended with {status} after {seconds} s");
        if !status.success() {
            return Ok(Some(format!("the session ended with {status}")));
        }
        match leaving.map(|mut worker| self.ended(&mut worker, begun)).transpose()? {
            Some(Some(status)) if status.success() => {
                println!("the worker that was told to end ended with {status}");
                Ok(None)
            }
            Some(status) => Ok(Some(format!("the worker that was told to end did so with {status:?}"))),
            None => Ok(None),
        }
    }

    /// Kills the session in mid-work: its workers stop what it ordered, and take nothing more of it. Gives what is wrong.
    pub(super) fn orphans(&self, children: usize) -> Result<Vec<String>, Error> {
        let begun = Instant::now();
        let started = Broker::start(&self.place.join("broker"))?;
        let url = started.url();
        let mut broker = Some(started);
        let soon = "1";
        let workers = WORKERS.map(|name| self.worker(&url, name, soon));
        let workers = workers.into_iter().collect::<Result<Vec<_>, _>>()?;
        let programme = Programme::new("orphans", children, 1);
        let mut session = self.start_session(&url, &programme, soon)?;
        let ends = ends(&mut session);
        if ends.recv_timeout(LIMIT).is_err() {
            return Ok(vec!["no child has ended".to_owned()]);
        }
        println!("1 has ended: the session is killed");
        drop(session);
        // Who gave the orders is not heard for four times that long, and then some.
        thread::sleep(Duration::from_secs(8));
        let mut found = Vec::new();
        for (index, mut worker) in workers.into_iter().enumerate() {
            // The second finds no broker to say good-bye to.
            if index > 0 {
                broker = None;
            }
            terminate(&worker.0)?;
            let asked = Instant::now();
            match self.ended(&mut worker, begun)? {
                Some(status) if status.success() && asked.elapsed() < Duration::from_secs(8) => {}
                status => {
                    found.push(format!("a worker that has nothing to do ended late, or with {status:?}"));
                }
            }
        }
        drop(broker);
        Ok(found)
    }

    /// How a process ended, where it does in time.
    fn ended(&self, process: &mut Running, begun: Instant) -> Result<Option<ExitStatus>, Error> {
        loop {
            let ended = process.0.try_wait().map_err(|error| unusable(&self.place, error))?;
            if ended.is_some() || begun.elapsed() > LIMIT {
                return Ok(ended);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn worker(&self, url: &str, name: &str, lost_after: &str) -> Result<Running, Error> {
        let mut command = Command::new(&self.anabranch);
        command.args([
            "worker",
            "--nats",
            url,
            "--nested",
            "--concurrency",
            "12",
            "--lost-after",
            lost_after,
        ]);
        command.arg("--log-events").arg(self.place.join(name));
        command.arg("--out").arg(self.place.join("results"));
        self.started(command, name)
    }

    fn start_session(&self, url: &str, programme: &Programme, lost_after: &str) -> Result<Running, Error> {
        let mut command = Command::new(&self.session);
        command.args(["--nats", url, "--lost-after", lost_after]);
        command.args(["--children", &programme.children.to_string()]);
        command.args(["--attempts", &programme.attempts.to_string()]);
        command.args(["--stop", &programme.stopped.to_string()]);
        if programme.asks {
            command.arg("--ask");
        }
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

/// Tells a process to end.
pub(super) fn terminate(process: &Child) -> Result<(), Error> {
    let mut kill = Command::new("kill");
    process::output(kill.args(["-TERM", &process.id().to_string()])).map(drop)
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
