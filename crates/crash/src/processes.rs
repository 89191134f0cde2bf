//! The server and the reader as they are started, spoken to and killed.

use std::{
    collections::BTreeMap,
    env, io,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, Command},
    sync::watch,
};

use crate::mode::Mode;

/// How long anything may take that is to happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A program of ours that does not outlive us.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
}

impl Process {
    fn start(arguments: &[&str]) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        Ok(Self { input: child.stdin.take(), child })
    }

    async fn tell(&mut self, line: &str) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(format!("{line}\n").as_bytes()).await?;
        input.flush().await
    }

    async fn kill(mut self) -> io::Result<()> {
        self.child.start_kill()?;
        self.child.wait().await.map(drop)
    }

    /// Waits for its end after it was told.
    async fn ended(mut self, what: &str) -> Result<(), String> {
        drop(self.input.take());
        let ended = tokio::time::timeout(SOON, self.child.wait()).await;
        match ended {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(status) => Err(format!("{what} ended with {status:?}")),
            Err(_) => Err(format!("{what} does not end")),
        }
    }
}

/// What a server has said so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) address: Option<String>,
    /// The event that the trap caught.
    pub(crate) caught: Option<(String, u64)>,
    has_ended: bool,
}

/// A server.
pub(crate) struct Server {
    process: Process,
    pub(crate) said: watch::Receiver<Said>,
    durable: Arc<Mutex<BTreeMap<String, u64>>>,
    hearing: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(crate) fn start(file: &Path, mode: Mode) -> io::Result<Self> {
        let file = file.to_string_lossy();
        let mut process = Process::start(&["serve", "--file", &file, "--mode", mode.name()])?;
        let output = process.child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (sender, said) = watch::channel(Said::default());
        let durable = Arc::new(Mutex::new(BTreeMap::new()));
        let noted = Arc::clone(&durable);
        let hearing = tokio::spawn(async move {
            let mut lines = BufReader::new(output).split(b'\n');
            while let Ok(Some(line)) = lines.next_segment().await {
                let line = String::from_utf8_lossy(&line);
                let words: Vec<_> = line.split(' ').collect();
                match *words {
                    ["listens", address] => {
                        sender.send_modify(|said| said.address = Some(address.to_owned()));
                    }
                    ["caught", session, seq] => {
                        sender.send_modify(|said| {
                            said.caught = seq.parse().ok().map(|seq| (session.to_owned(), seq));
                        });
                    }
                    // A number that was cut off is a smaller one: no promise more.
                    ["durable", session, seq] => {
                        if let Ok(seq) = seq.parse::<u64>() {
                            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                            let last = noted.entry(session.to_owned()).or_default();
                            *last = seq.max(*last);
                        }
                    }
                    _ => {}
                }
            }
            sender.send_modify(|said| said.has_ended = true);
        });
        Ok(Self { process, said, durable, hearing })
    }

    /// Waits until requests are answered; gives where.
    pub(crate) async fn ready(&mut self) -> Result<String, String> {
        let said =
            tokio::time::timeout(SOON, self.said.wait_for(|said| said.address.is_some() || said.has_ended));
        let address = match said.await {
            Ok(Ok(said)) => said.address.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        let address = address.ok_or("the server does not start")?;
        let health =
            reqwest::Client::new().get(format!("http://{address}/health")).timeout(SOON).send().await;
        health
            .and_then(reqwest::Response::error_for_status)
            .map_err(|error| format!("the server is not well: {error}"))?;
        Ok(address)
    }

    pub(crate) async fn trap(&mut self, event: &str, skip: u64, hold: bool) -> io::Result<()> {
        let how = if hold { "hold" } else { "pass" };
        self.process.tell(&format!("trap {event} {skip} {how}")).await
    }

    /// Waits until the trap has caught something.
    pub(crate) async fn caught(&mut self) -> Option<(String, u64)> {
        let caught = self.said.wait_for(|said| said.caught.is_some() || said.has_ended).await;
        caught.ok()?.caught.clone()
    }

    /// Kills it; gives how far it had said each session to be durable.
    pub(crate) async fn kill(self) -> io::Result<BTreeMap<String, u64>> {
        self.process.kill().await?;
        self.hearing.await.ok();
        Ok(std::mem::take(&mut *self.durable.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Has it end in order.
    pub(crate) async fn stop(self) -> Result<BTreeMap<String, u64>, String> {
        self.process.ended("the server").await?;
        Ok(std::mem::take(&mut *self.durable.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A reader.
pub(crate) struct Reader(Process);

impl Reader {
    pub(crate) fn start(file: &Path, sessions: &[String]) -> io::Result<Self> {
        let file = file.to_string_lossy();
        Process::start(&["read", "--file", &file, "--sessions", &sessions.join(",")]).map(Self)
    }

    /// Says where the server is, and which of those that there were it is.
    pub(crate) async fn at(&mut self, address: &str, number: u64) -> io::Result<()> {
        self.0.tell(&format!("at {address} {number}")).await
    }

    pub(crate) async fn kill(self) -> io::Result<()> {
        self.0.kill().await
    }

    /// Waits until it has read all that there is of a server that was stopped.
    pub(crate) async fn stop(self) -> Result<(), String> {
        self.0.ended("the reader").await
    }
}
