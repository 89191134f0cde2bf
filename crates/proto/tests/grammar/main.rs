//! The verifier: what it lets pass, and what it names.

mod agentscope;
mod field_cases;
mod limits;
mod mutations;
mod order;
mod rules;
mod streams;
mod support;
mod walks;
