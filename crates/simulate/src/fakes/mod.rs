//! Models, tools, layers and streams that do what the plan says.

mod foreign;
mod layer;
mod model;
mod script;
mod tool;
mod typed;

pub(crate) use layer::{Meddler, number};
pub(crate) use model::FakeModel;
pub(crate) use tool::{FakeTool, OUTPUT};
pub(crate) use typed::typed;

/// What an agent is called, and what it is asked: so its model knows whose it is.
pub(crate) fn agent_name(number: u32) -> String {
    format!("a{number}")
}

/// What somebody else's stream is called.
pub(crate) fn foreign_name(number: u32) -> String {
    format!("f{number}")
}

/// What a team is called.
pub(crate) fn team_name(number: u32) -> String {
    format!("t{number}")
}

/// The key of the metadata of what nobody may see.
pub(crate) const FORGED: &str = "forged";
