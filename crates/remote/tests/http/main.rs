//! Children on another server, over its sessions.

mod answers;
mod ends;
mod lines;
mod support;
