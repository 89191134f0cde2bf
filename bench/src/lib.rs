//! What is measured, and what it is measured beside.
//!
//! A row is a budget of the design: what ours costs, the floor beside it, the ratio. Both are measured in one process, turn
//! about, several times; what counts is the median of the ratios, since the machine's mood moves both. Costs are of the
//! process's CPU time, which other processes move less than the wall's; where a person waits it is the wall's.
//!
//! Ours is always what users build: the toolkit, the session with its processor, its log and its limits. Where a limit
//! would refuse the number of children it is set higher by the setter that users have.

pub mod counted;
pub mod deltas;
pub mod floors;
/// The session's own file, for the guard in [`rows::duplicates`].
#[expect(dead_code, reason = "the session's own file; not all of it is measured")]
#[path = "../../crates/session/src/hash.rs"]
mod hash;
pub mod machine;
pub mod measure;
pub mod peers;
pub mod plot;
pub mod report;
pub mod rows;
pub mod scaling;
pub mod tools;
pub mod why;
