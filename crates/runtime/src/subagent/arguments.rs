//! What a model gives to spawn a sub-agent.

use std::time::Duration;

use anabranch_proto::Metadata;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::SpawnError;

/// How long a sub-agent may run unless its spawn says otherwise.
const DEFAULT_TIMEOUT: u64 = 600;

/// The longest time that a model may ask for: a day.
pub(super) const MAX_TIMEOUT: u64 = 86_400;

/// The arguments of the tool `spawn_subagent`, as the model writes them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SpawnArguments {
    /// The task for the sub-agent, complete in itself: without `fork` it sees nothing of this conversation.
    #[schemars(length(min = 1))]
    pub task: String,
    /// What else it needs to know: results of other tasks, constraints, names of files.
    #[serde(default)]
    pub context: Option<String>,
    /// Whether it starts from this conversation as it is now.
    #[serde(default)]
    pub fork: bool,
    /// Whether it works in the background while you go on. You are told of its end.
    #[serde(default)]
    pub background: bool,
    /// After how many seconds it is stopped.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = MAX_TIMEOUT))]
    pub timeout: u64,
    /// Keys that the application asked you to give, such as the node of a graph that the task is for.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub metadata: Option<Metadata>,
}

pub(super) fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT
}

/// How many bytes of metadata a model may give: they are on every event of the child.
const MAX_METADATA: usize = 16 * 1024;

impl SpawnArguments {
    /// Arguments with a task, and the defaults for the rest.
    pub fn new(task: impl Into<String>) -> Self {
        Self {
            task: task.into(),
            context: None,
            fork: false,
            background: false,
            timeout: DEFAULT_TIMEOUT,
            metadata: None,
        }
    }

    /// The value of a key of `metadata`, where it is a string.
    #[must_use]
    pub fn metadata_str(&self, key: &str) -> Option<String> {
        self.metadata.as_ref()?.get_str(key)
    }

    /// Refuses what cannot be done, with a text that the model can read.
    pub(crate) fn check(&self) -> Result<Duration, SpawnError> {
        if self.task.trim().is_empty() {
            return Err(SpawnError::Argument("`task` is empty; say what the sub-agent is to do".to_owned()));
        }
        let timeout = seconds(self.timeout)?;
        let bytes = self.metadata.as_ref().map_or(0, |metadata| metadata.to_string().len());
        if bytes > MAX_METADATA {
            let text = format!(
                "`metadata` has {bytes} bytes and may have {MAX_METADATA}; put what is large into `context`"
            );
            return Err(SpawnError::Argument(text));
        }
        let reserved = |key: &&str| Metadata::RESERVED.contains(key);
        if let Some(key) = self.metadata.iter().flat_map(Metadata::iter).map(|(key, _)| key).find(reserved) {
            let text = format!("`metadata` may not have the key `{key}`, which is reserved; leave it out");
            return Err(SpawnError::Argument(text));
        }
        Ok(timeout)
    }
}

/// A time-out as a model gives it.
pub(super) fn seconds(timeout: u64) -> Result<Duration, SpawnError> {
    if (1..=MAX_TIMEOUT).contains(&timeout) {
        Ok(Duration::from_secs(timeout))
    } else {
        let text = format!("`timeout` must be 1 to {MAX_TIMEOUT} seconds, not {timeout}");
        Err(SpawnError::Argument(text))
    }
}
