//! A run of the demo.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch_runtime::{Agent, Order, Reply, Session, SessionError};

use crate::{
    agents::{Shared, master, node_agent},
    plan::{Node, Plan},
    workspace::Workspace,
};

/// A run of the demo that has begun.
#[derive(Debug)]
#[non_exhaustive]
pub struct Run {
    /// The master's session. Close it after the reply.
    pub session: Session,
    /// Every event of the run.
    pub reply: Reply,
    /// Where the results are written.
    pub folder: PathBuf,
    workspace: Workspace,
    is_temporary: bool,
}

impl Run {
    /// Where results lie, once the run has ended; nothing where none was written, and then a temporary folder is taken
    /// away again.
    pub(crate) fn results(&self) -> Option<&Path> {
        if self.workspace.has_written() {
            return Some(&self.folder);
        }
        if self.is_temporary {
            // Where it cannot be taken away, an empty folder stays among the temporary ones.
            fs::remove_dir(&self.folder).ok();
        }
        None
    }
}

/// A run that could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The folder for results cannot be made.
    #[error("cannot make the folder {} for the results; choose another with --out", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A result would be written over an input.
    #[error(
        "the result {} would be written over the input {}; choose another folder with --out",
        result.display(),
        input.display()
    )]
    Overwrites {
        /// Where the result would be written.
        result: PathBuf,
        /// The input that lies there, perhaps by way of a link.
        input: PathBuf,
    },
    /// The session ended at once.
    #[error("the session could not be prompted")]
    Session(#[from] SessionError),
}

impl Plan {
    /// The master, for sessions of the caller's own: it does the plan's work once for each prompt, whatever that says.
    ///
    /// Results go into the folder that the plan names, and replace those of the prompt before. Where it names none, one that
    /// cannot be made, or one where a result would be written over an input, the tool that writes results fails and says so. One session at a time may have it: two would
    /// write over each other's results.
    #[must_use]
    pub fn agent(self) -> Agent {
        let workspace = self.workspace();
        if let Some(folder) = self.folder()
            && self.overwritten(folder).is_none()
        {
            // The tool says what is wrong, where somebody can read it.
            workspace.write_to(folder).ok();
        }
        master(Shared { plan: Arc::new(self), workspace })
    }

    /// The agent for a node that was [sent elsewhere](Self::elsewhere): it does the order's work once.
    ///
    /// Results go where those of [`agent`](Self::agent) do.
    #[must_use]
    pub fn node(self, order: &Order) -> Agent {
        let workspace = self.workspace();
        if let Some(folder) = self.folder()
            && self.overwritten(folder).is_none()
        {
            // The tool says what is wrong, where somebody can read it.
            workspace.write_to(folder).ok();
        }
        node_agent(&Shared { plan: Arc::new(self), workspace }, &order.arguments())
    }

    /// Begins a run.
    ///
    /// # Errors
    /// When the folder for results cannot be made or a result would be written over an input. What is wrong with an input fails its node, not the run.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(self) -> Result<Run, StartError> {
        let workspace = self.workspace();
        let prompt = format!("Compare {}.", Node::ANALYSES.map(|node| self.file(node)).join(" with "));
        let plan = Arc::new(self);
        let session = master(Shared { plan: Arc::clone(&plan), workspace: workspace.clone() }).session();
        // Named by the session, so that no two runs share it and nobody can guess it.
        let temporary = || env::temp_dir().join(format!("anabranch-demo-{}", session.id()));
        let folder = plan.folder().map_or_else(temporary, PathBuf::from);
        if let Some((result, input)) = plan.overwritten(&folder) {
            return Err(StartError::Overwrites { result, input });
        }
        if let Err(source) = workspace.write_to(&folder) {
            return Err(StartError::Folder { folder, source });
        }
        let reply = session.prompt(prompt).await?;
        Ok(Run { session, reply, folder, workspace, is_temporary: plan.folder().is_none() })
    }
}
