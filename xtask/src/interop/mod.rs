//! `cargo xtask interop`: other projects judge what we write, and we read what they write.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::{fs, io};

use clap::ValueEnum;

use crate::error::Error;
use crate::process;

mod nats;
mod node;
mod programs;
mod python;

use programs::Programs;
use python::Python;

/// The package of the demo, and its program.
const DEMO: &str = "anabranch-demo";

/// The package of the server.
const SERVER: &str = "anabranch-server";

/// Why a judge cannot be asked.
#[derive(Debug)]
enum Obstacle {
    /// Something has to be installed first: what, and how.
    Missing(String),
    /// Something went wrong that no installation would change.
    Failed(Error),
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The Python of an environment in `folder` with these packages, made where it is missing; or why there is none.
pub(crate) fn environment(folder: &Path, requirements: &Path) -> Result<PathBuf, String> {
    Python::find().and_then(|python| python.environment(folder, requirements)).map_err(|obstacle| {
        match obstacle {
            Obstacle::Missing(why) => why,
            Obstacle::Failed(error) => error.with_sources(),
        }
    })
}

/// Whom to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// agentscope 2.0.11, from its Python package
    Agentscope,
    /// AG-UI's own client, from its npm package: 1.0.0, and 0.0.58 which knows no sub-agents
    AgUi,
    /// Clients of the Agent Client Protocol: its Rust SDK 5.2.0, its TypeScript SDK 2.4.0 and acpx 0.19.1 from npm, its Python
    /// SDK 0.12.1
    Acp,
    /// A NATS broker, Debian's nats-server 2.9.10: workers on its queue, one killed, the broker restarted
    Nats,
    /// schemathesis 4.32.5, from its Python package: whether `anabranch serve` does what its description says
    Openapi,
}

impl Peer {
    /// The folder of the peer's judge below `interop/`, and of its environment below the target folder.
    fn folder(self) -> &'static str {
        match self {
            Self::Agentscope => "agentscope",
            Self::AgUi => "ag-ui",
            Self::Acp => "acp",
            Self::Nats => "nats",
            Self::Openapi => "openapi",
        }
    }
}

/// Sets the peer up, runs its judge and ends as it ends.
pub(crate) fn run(peer: Peer) -> Result<ExitCode, Error> {
    match judge(peer) {
        Ok(ended) => Ok(ended),
        Err(Obstacle::Failed(error)) => Err(error),
        Err(Obstacle::Missing(what)) => {
            eprintln!("error: {what}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn judge(peer: Peer) -> Result<ExitCode, Obstacle> {
    let status = match peer {
        Peer::Agentscope => agentscope(peer.folder()),
        Peer::AgUi => ag_ui(peer.folder()),
        Peer::Acp => acp(peer.folder()),
        Peer::Openapi => openapi(peer.folder()),
        Peer::Nats => return nats::run(peer.folder()),
    };
    status.map(|status| if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn agentscope(folder: &str) -> Result<ExitStatus, Obstacle> {
    let python = Python::find()?;
    let programs = Programs::build(DEMO)?;
    let judge = programs.workspace_root.join("interop").join(folder);
    let place = programs.target_folder.join("interop").join(folder);
    let python = python.environment(&place.join("venv"), &judge.join("requirements.txt"))?;
    let results = place.join("results");
    empty(&results)?;
    let mut command = Command::new(python);
    command.arg(judge.join("judge.py"));
    command.arg("--demo").arg(programs.executable(DEMO)?);
    command.arg("--messages").arg(programs.executable("messages")?);
    // Nothing is left in the repository, and what the demo writes is left in one place.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
    command.env("TMPDIR", &results).env("TMP", &results);
    Ok(process::status(&mut command)?)
}

fn ag_ui(folder: &str) -> Result<ExitStatus, Obstacle> {
    let version = node::find()?;
    let programs = Programs::build(DEMO)?;
    let server = Programs::build(SERVER)?;
    let judge = programs.workspace_root.join("interop").join(folder);
    let place = programs.target_folder.join("interop").join(folder);
    node::install(&judge, &place, &version)?;
    let results = place.join("results");
    empty(&results)?;
    let mut command = Command::new("node");
    command.arg(place.join("judge.mjs"));
    command.arg("--demo").arg(programs.executable(DEMO)?).arg("--out").arg(&results);
    command.arg("--anabranch").arg(server.executable("anabranch")?);
    let snapshots = programs.workspace_root.join("crates/adapters/tests/transcripts/snapshots");
    command.arg("--snapshots").arg(snapshots);
    command.arg("--page").arg(programs.workspace_root.join("docs/ag-ui.md"));
    Ok(process::status(&mut command)?)
}

fn acp(folder: &str) -> Result<ExitStatus, Obstacle> {
    // Both are asked for before anything takes its time.
    let (version, python) = (node::find()?, Python::find()?);
    let programs = Programs::build(SERVER)?;
    let judge = programs.workspace_root.join("interop").join(folder);
    let place = programs.target_folder.join("interop").join(folder);
    node::install(&judge, &place, &version)?;
    let python = python.environment(&place.join("venv"), &judge.join("requirements.txt"))?;
    let results = place.join("results");
    empty(&results)?;
    let mut command = Command::new("node");
    command.arg(place.join("judge.mjs"));
    command.arg("--anabranch").arg(programs.executable("anabranch")?).arg("--out").arg(&results);
    command.arg("--rust").arg(programs.executable("acp_client")?);
    command.arg("--rust-version").arg(programs.locked("agent-client-protocol")?);
    command.arg("--python").arg(python).arg("--python-client").arg(judge.join("sdk_client.py"));
    Ok(process::status(&mut command)?)
}

fn openapi(folder: &str) -> Result<ExitStatus, Obstacle> {
    let python = Python::find()?;
    let programs = Programs::build("anabranch-server")?;
    let judge = programs.workspace_root.join("interop").join(folder);
    let place = programs.target_folder.join("interop").join(folder);
    let python = python.environment(&place.join("venv"), &judge.join("requirements.txt"))?;
    let results = place.join("results");
    empty(&results)?;
    let mut command = Command::new(python);
    command.arg(judge.join("judge.py"));
    command.arg("--anabranch").arg(programs.executable("anabranch")?).arg("--out").arg(&results);
    // Nothing is left in the repository.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
    Ok(process::status(&mut command)?)
}

/// Makes the folder, with nothing in it.
fn empty(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(folder, error)),
        Ok(()) | Err(_) => {}
    }
    fs::create_dir_all(folder).map_err(|error| unusable(folder, error))
}

fn unusable(path: &Path, source: io::Error) -> Error {
    Error::Read { path: path.display().to_string(), source }
}
