//! What is written to stdout.

mod live;
mod look;
mod printer;
mod status;

pub(crate) use look::Look;
pub(crate) use printer::Printer;
