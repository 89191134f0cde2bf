//! Children that nobody waits for: in the background, or spawned by code.
//!
//! Such a child runs on a task of its own. It starts when its announcement has entered the session's stream, its events
//! enter by the session's one [`Ingress`], and its result comes behind them.

mod hand_over;
mod ingress;
mod record;
mod registry;
mod tools;

pub(crate) use hand_over::hand_over;
pub(crate) use ingress::{BATCH, Batch, Entry, Ingress, next_batch};
pub(crate) use record::{Kind, NewTask, Restored, Untold};
pub use record::{OnCancel, TaskInfo, TaskStatus};
pub(crate) use registry::{Stopped, Tasks};
pub(crate) use tools::titled;
pub use tools::{CheckTask, ListTasks, MessageTask, StopTask};
