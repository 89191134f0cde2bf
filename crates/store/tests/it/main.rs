//! The store's public behaviour, one module a concern.

mod conformance;
mod support;
