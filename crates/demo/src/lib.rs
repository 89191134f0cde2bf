//! Two sub-agents working side by side on real data, in one stream.
//!
//! A master spawns `n1` and `n2` in one turn; each analyses a CSV file with tools. Then `n3` compares, and the master
//! reports. [`Plan`] says what a run is to do and starts it; [`main`](main()) is the command line over it.
//!
//! ```text
//! Plan ──start──▶ master ─┬─ n1: read_csv, filter_rows, aggregate, write_result ─┬─ n3: join_parts, compare ─▶ report
//!                         └─ n2: the same, on the other file ────────────────────┘
//! ```
//!
//! It is **not** an example of how to write a model: its models are scripts. Its tools and everything beneath them are
//! real.
//!
//! # Invariants
//! - Every figure in the report was given by a tool; agents hand each other text and nothing else.
//! - All tools of a node read the same bytes of its file, or the node fails; no input is ever written to.
//! - Names, cells and paths of others reach a terminal through `shown` alone.
//! - Tools run in task and give way every few hundred rows.
//! - A node that fails leaves the others alone, and the report says what is missing.

// A panic in a library is a lost stream.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod agents;
mod cli;
mod columns;
mod figure;
mod findings;
mod layout;
mod output;
mod plan;
mod report;
mod result_files;
mod run;
mod shown;
mod stop;
mod sum;
mod summary;
mod table;
mod tools;
mod workspace;

pub use cli::main;
pub use plan::{Node, Pace, Plan};
pub use run::{Run, StartError};
pub use tools::TOOLS;
