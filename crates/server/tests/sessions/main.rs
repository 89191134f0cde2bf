//! `/sessions`, over the wire.

mod agents;
mod attacks;
mod client;
mod disk;
mod life;
mod notices;
mod openapi;
mod questions;
mod resume;
#[cfg(unix)]
mod secrets;
