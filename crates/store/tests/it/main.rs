//! The store's public behaviour, one module a concern.

mod conformance;
mod durability;
mod faults;
mod opening;
mod retention;
mod sessions;
mod support;
mod versions;
