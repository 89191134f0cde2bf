//! The rows, a file for each budget.

pub mod cancel;
pub mod children;
pub mod depth;
pub mod driver;
pub mod duplicates;
pub mod durable;
pub mod encode;
pub mod http;
pub mod linear;
pub mod memory;
pub mod merge;
pub mod own_tasks;
pub mod read;
pub mod spawn;
