//! The runtime's public behaviour, one module a concern.

mod background;
mod blocking;
mod cancel;
mod conversation;
mod elsewhere;
mod failure;
mod foreign;
mod forks;
mod hostile;
mod hostile_tasks;
mod metadata_uses;
mod one_run;
mod peers;
mod questions;
mod races;
mod readers;
mod restart;
mod resuming;
mod sessions;
mod slow_logs;
mod spawning;
mod steering;
mod stopping;
mod support;
mod teams;
mod tool_time;
