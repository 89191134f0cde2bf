//! `/sessions`, over the wire.

mod agents;
mod client;
mod life;
mod openapi;
mod resume;
