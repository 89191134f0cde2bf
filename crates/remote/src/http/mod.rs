//! Children on another anabranch server, over its sessions.
//!
//! A child is a session there: it is created, prompted, read as server-sent events from wherever the reader was when a
//! connection is lost, answered, and deleted when it has ended or is not wanted any more.
//!
//! # What does not cross
//! The other server is not ours: its agents have their own permissions and limits. What stands above the child here is held
//! where it can be, by what comes: depth, number of sub-agents, the rules of a stream. What cannot be held is refused:
//! permissions, unless [the server's own are enough](HttpRunner::own_permissions), and a conversation to start from. Messages
//! to a child that is under way are refused too, for the other side's prompts wait for the one before. Questions and
//! their answers cross, and so does a stop.
//!
//! A session there ends its run when its agent has said its last, and does not wait for what it has in the background, as a
//! sub-agent here would; what is still under way then is stopped.

mod body;
mod frames;
mod runner;
mod talk;

pub use runner::{HttpError, HttpRunner};
