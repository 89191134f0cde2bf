//! The broker: Debian's `nats-server`, with JetStream, on loopback.
#![expect(clippy::disallowed_methods, reason = "it waits for processes, and decides nothing by how long")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::error::Error;
use crate::interop::{Obstacle, unusable};
use crate::process;

use super::play::terminate;

/// How long the broker may take to say where it listens, and to end.
const SOON: Duration = Duration::from_secs(20);

/// The broker, running. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Broker {
    process: Child,
    place: PathBuf,
    port: u16,
}

/// Checks that there is a broker; says its version.
pub(super) fn find() -> Result<(), Obstacle> {
    let answer = Command::new("nats-server").arg("--version").stderr(Stdio::null()).output();
    match answer {
        Ok(answer) if answer.status.success() => {
            print!("{}", String::from_utf8_lossy(&answer.stdout));
            Ok(())
        }
        Ok(_) | Err(_) => Err(Obstacle::Missing(
            "nats-server is needed, 2.9 or newer; Debian has it: `apt-get install nats-server`".to_owned(),
        )),
    }
}

impl Broker {
    /// Starts one that keeps its streams in a folder. The system chooses the port.
    pub(super) fn start(place: &Path) -> Result<Self, Error> {
        fs::create_dir_all(place).map_err(|error| unusable(place, error))?;
        let process = spawn(place, "-1")?;
        let mut broker = Self { process, place: place.to_owned(), port: 0 };
        broker.port = broker.listening()?;
        Ok(broker)
    }

    /// Where it listens.
    pub(super) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Ends it in order, leaves it away for a while, and starts it again where it was.
    pub(super) fn restart(&mut self, away: Duration) -> Result<(), Error> {
        self.end()?;
        thread::sleep(away);
        self.process = spawn(&self.place, &self.port.to_string())?;
        self.listening()?;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        terminate(&self.process)?;
        let begun = Instant::now();
        while self.process.try_wait().map_err(|error| unusable(&self.place, error))?.is_none() {
            if begun.elapsed() > SOON {
                self.process.kill().map_err(|error| unusable(&self.place, error))?;
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until it says where it listens.
    fn listening(&self) -> Result<u16, Error> {
        let path = self.place.join(format!("nats-server_{}.ports", self.process.id()));
        let begun = Instant::now();
        loop {
            if let Some(port) = fs::read_to_string(&path).ok().as_deref().and_then(port) {
                return Ok(port);
            }
            if begun.elapsed() > SOON {
                let output = fs::read_to_string(self.place.join("broker.log")).unwrap_or_default();
                return Err(Error::Unreadable { command: "nats-server".to_owned(), output });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn spawn(place: &Path, port: &str) -> Result<Child, Error> {
    let mut command = Command::new("nats-server");
    command.args(["--jetstream", "--addr", "127.0.0.1", "--port", port]);
    command.arg("--store_dir").arg(place.join("store"));
    command.arg("--ports_file_dir").arg(place);
    command.arg("--log").arg(place.join("broker.log"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|source| Error::Start { command: process::shown(&command), source })
}

/// The port in what the broker says of where it listens.
fn port(said: &str) -> Option<u16> {
    let said: serde_json::Value = serde_json::from_str(said).ok()?;
    said["nats"].as_array()?.first()?.as_str()?.rsplit(':').next()?.parse().ok()
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_in_what_the_broker_says() {
        assert_eq!(port(r#"{"nats":["nats://127.0.0.1:40001"]}"#), Some(40_001));
        assert_eq!(port(r#"{"nats":[]}"#), None);
        assert_eq!(port(r#"{"nats":["#), None, "a file that is being written");
    }
}
