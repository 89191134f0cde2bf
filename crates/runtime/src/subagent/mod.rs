//! Sub-agents: a run of its own, on the stream of the call that spawned it.

mod adopt;
mod arguments;
mod born;
mod child;
mod deadline;
mod detached;
mod foreign;
mod parallel;
mod resume;
mod spawn;
mod team;
mod tool;

pub use arguments::SpawnArguments;
pub(crate) use born::Newborn;
pub(crate) use child::{Birth, Work, result_chunk};
pub use resume::ResumeSubagent;
pub use spawn::Spawn;
pub use team::Team;
pub use tool::SpawnSubagent;
