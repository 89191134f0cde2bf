//! `/sessions`, over the wire.

mod agents;
mod attacks;
mod client;
mod life;
mod notices;
mod openapi;
#[cfg(unix)]
mod process;
mod questions;
#[cfg(unix)]
mod restart;
mod resume;
mod retention;
#[cfg(unix)]
mod secrets;
mod stored;
