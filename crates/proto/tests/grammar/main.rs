//! The verifier: what it lets pass, and what it names.

mod agentscope;
mod between;
mod field_cases;
mod identity;
mod limits;
mod mutations;
mod order;
mod questions;
mod rules;
mod streams;
mod support;
mod walks;
