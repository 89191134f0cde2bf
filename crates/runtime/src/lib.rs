//! Agents and sub-agents in one process.
//!
//! An [`Agent`] has a [`Model`], tools and limits. A [`Session`] is a conversation with one: a driver task runs its
//! replies, decides what enters the stream and writes it to the log, from which every reader reads. An agent that has
//! [`SpawnSubagent`] among its tools can hand work to sub-agents, several at once; their events join the same stream,
//! each result returns as the result of its call.
//!
//! It is **not** a client for any vendor's model, and it names no protocol: models come by the trait, frontends by an
//! adapter given to [`Session::attach`].
//!
//! # Invariants
//! - This is the one crate that spawns, sleeps, reads clocks and makes ids.
//! - A session is one task, and children that are waited for run inside it. Those in the background and those that were
//!   asked to have tasks of their own have one each; a run ends when its tasks are gone, and none outlives its session.
//! - Readers are cursors on the log. A reader that is slow or gone changes nothing for another.
//! - Whatever happens, a run's stream ends with exactly one `STREAM_COMPLETE`, and what was open is closed before it.
//!
//! # Example
//! ```
//! use anabranch_proto::Outcome;
//! use anabranch_runtime::{Agent, ScriptedModel, SpawnSubagent, Turn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let worker = Agent::builder("worker", ScriptedModel::new("scripted").turn(|_| Turn::new().text("42"))).build();
//! let master = ScriptedModel::new("scripted")
//!     .turn(|_| Turn::new().call("spawn_subagent", serde_json::json!({ "task": "What is six times seven?" })))
//!     .turn(|request| Turn::new().text(format!("It is {}.", request.last_result_text())));
//! let master = Agent::builder("master", master).tool(SpawnSubagent::new(worker)).build();
//!
//! let finished = master.reply_stream("Ask somebody.").finished().await?;
//! assert_eq!(finished.outcome, Outcome::Completed);
//! assert_eq!(finished.text(), "It is 42.");
//! # Ok(())
//! # }
//! ```

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod agent;
mod blocking;
mod elsewhere;
mod error;
mod limits;
mod model;
mod prompt;
mod question;
mod run;
mod scripted;
mod session;
mod stamp;
mod subagent;
mod task;
mod timeout;

pub use agent::{Agent, AgentBuilder};
pub use blocking::{Blocking, BlockingTool};
pub use elsewhere::{
    Heard, Instruction, Instructions, Order, OrderHandle, OrderLimits, OrderRun, Policy, Runner, RunnerStream,
};
pub use error::{InvalidTimeout, LogNotEmpty, NotRunning, ResumeError, SessionError, SpawnError, SteerError};
pub use limits::Limits;
pub use model::{Model, ModelError, ModelItem, ModelRequest, ModelStream};
pub use prompt::Prompt;
pub use question::{Answer, AnswerError, ExternalTool, Permission, Permissions, Question, QuestionKind};
pub use run::{Fork, RunHandle, RunResult};
pub use scripted::{ScriptedModel, Turn};
pub use session::{Attached, AttachedWith, ManualChild, Read, Reader, Reply, Session, SessionBuilder};
pub use stamp::SystemStamp;
pub use subagent::{ResumeSubagent, Spawn, SpawnArguments, SpawnSubagent, Team};
pub use task::{CheckTask, ListTasks, MessageTask, OnCancel, StopTask, TaskInfo, TaskStatus};
pub use timeout::ToolTimeout;

/// The examples of the workspace's front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;

/// The examples of the page on running agents.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/running-agents.md")]
struct RunningAgents;
