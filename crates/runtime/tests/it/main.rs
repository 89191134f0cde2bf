//! The runtime's public behaviour, one module a concern.

mod cancel;
mod conversation;
mod failure;
mod foreign;
mod hostile;
mod metadata_uses;
mod one_run;
mod peers;
mod readers;
mod sessions;
mod spawning;
mod support;
