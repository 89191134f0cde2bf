//! Agents that take one step after another.

use anabranch_runtime::{Agent, AgentBuilder, ModelRequest, ScriptedModel};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::speech::{give_up, say, turn};
use crate::plan::Pace;

/// What an agent does next.
pub(super) enum Step {
    /// Calls a tool.
    Call { tool: &'static str, arguments: Box<RawValue> },
    /// Says its result and ends.
    Done(String),
}

/// What an agent does next, given what it was told and what its tools answered so far; or why it gives up.
pub(super) type Steps<T> = fn(&T, &ModelRequest) -> Result<Step, String>;

/// An agent that does what `steps` says. `told` is the context of its spawn.
pub(super) fn agent<T: DeserializeOwned + Send + Sync + 'static>(
    name: &'static str,
    system_prompt: &'static str,
    pace: Pace,
    told: Option<&str>,
    steps: Steps<T>,
) -> AgentBuilder {
    let told = serde_json::from_str::<T>(told.unwrap_or_default())
        .map_err(|error| format!("the context is not what this agent needs: {error}"));
    let model = ScriptedModel::from_fn(format!("scripted-{name}"), move |request| {
        let step = told.as_ref().map_err(Clone::clone).and_then(|told| steps(told, request));
        match step {
            Ok(Step::Call { tool, arguments }) => turn(pace).call(tool, arguments),
            Ok(Step::Done(text)) => say(turn(pace), pace, &text),
            Err(reason) => give_up(turn(pace), reason),
        }
    });
    Agent::builder(name, model).system_prompt(system_prompt)
}

/// A call. Arguments are written at once, so that every figure among them keeps its spelling.
pub(super) fn call(tool: &'static str, arguments: &impl Serialize) -> Result<Step, String> {
    let arguments = to_raw_value(arguments).map_err(|error| error.to_string())?;
    Ok(Step::Call { tool, arguments })
}

/// Reads what a tool answered in JSON.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("a tool's answer cannot be read: {error}"))
}
