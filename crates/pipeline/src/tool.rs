//! What a tool is.

use std::{fmt, pin::Pin, sync::Arc};

use anabranch_proto::{Event, Json, ToolCallId, ToolChunk};
use futures::Stream;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};

use crate::ToolContext;

/// What a tool gives while it works.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "for the model or for whoever watches; there is no third")]
pub enum ToolYield {
    /// A part of the result, for the model.
    Chunk(ToolChunk),
    /// Something that happened, for whoever watches: in the caller's name, or of a child of this call, which is passed
    /// through untouched.
    Event(Arc<Event>),
}

/// The stream of a running tool. Its end is the end of the call.
pub type ToolStream = Pin<Box<dyn Stream<Item = ToolYield> + Send>>;

/// Something that a model can call.
///
/// Plain async functions become tools by [`FunctionTool`](crate::FunctionTool). Implement the trait for a tool that
/// passes on a stream of events, such as one that runs an agent.
///
/// Dropping the stream stops the call; the tool then says nothing more.
pub trait Tool: Send + Sync {
    /// The name, description and parameters that the model is told.
    fn definition(&self) -> &ToolDefinition;

    /// Whether the tool must run alone: calls before it are awaited, calls after it wait.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Runs the tool. A failure is a chunk with state `error`; a panic is caught and becomes one.
    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream;
}

/// What a model is told of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// The name, unique in a toolkit.
    pub name: Arc<str>,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON Schema of its arguments, an object.
    pub parameters: Json,
}

impl ToolDefinition {
    /// A tool with a schema for its arguments.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<String>, parameters: Json) -> Self {
        Self { name: name.into(), description: description.into(), parameters }
    }

    /// A tool whose arguments are of a type. Its schema is the type's, without the type's name.
    pub fn typed<A: JsonSchema>(name: impl Into<Arc<str>>, description: impl Into<String>) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
        let mut schema = settings.into_generator().into_root_schema_for::<A>();
        schema.remove("title");
        Self::new(name, description, Json::from(serde_json::Value::from(schema)))
    }
}

/// A call as the model made it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The call, unique within its session.
    pub id: ToolCallId,
    /// The tool's name, perhaps of none that exists.
    pub name: Arc<str>,
    /// The arguments: JSON text, perhaps malformed.
    pub arguments: String,
}

impl ToolCall {
    /// A call of a tool with arguments.
    pub fn new(id: impl Into<ToolCallId>, name: impl Into<Arc<str>>, arguments: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into() }
    }
}

/// A call whose arguments are a JSON object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolInvocation {
    /// The call, unique within its session.
    pub id: ToolCallId,
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments.
    pub arguments: Arguments,
}

impl ToolInvocation {
    /// A call whose arguments are a JSON object.
    pub fn new(id: impl Into<ToolCallId>, name: impl Into<Arc<str>>, arguments: Arguments) -> Self {
        Self { id: id.into(), name: name.into(), arguments }
    }
}

/// A call's arguments: a JSON object.
#[derive(Clone, PartialEq, Eq)]
pub struct Arguments(Json);

/// The arguments are not what the tool takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid arguments: {message}")]
pub struct ArgumentsError {
    message: String,
}

impl Arguments {
    /// Reads what a model wrote. Nothing at all stands for no arguments.
    ///
    /// # Errors
    /// When the text is not one JSON object.
    pub fn parse(text: &str) -> Result<Self, ArgumentsError> {
        let text = if text.trim().is_empty() { "{}" } else { text };
        let json = serde_json::from_str::<Json>(text)
            .map_err(|error| ArgumentsError { message: format!("not valid JSON: {error}") })?;
        if json.as_str().starts_with('{') {
            Ok(Self(json))
        } else {
            Err(ArgumentsError { message: "not a JSON object".to_owned() })
        }
    }

    /// The compact JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Reads the arguments as a type.
    ///
    /// # Errors
    /// When they are of another shape; the message names the field.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, ArgumentsError> {
        serde_json::from_str(self.as_str()).map_err(|error| ArgumentsError { message: error.to_string() })
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_or_a_readable_error() {
        assert_eq!(Arguments::parse(" ").unwrap().as_str(), "{}");
        assert_eq!(Arguments::parse("{\"a\" : 1e2}").unwrap().as_str(), "{\"a\":1e2}");
        assert_eq!(Arguments::parse("[1]").unwrap_err().to_string(), "invalid arguments: not a JSON object");
        let error = Arguments::parse("{\"a\":").unwrap_err().to_string();
        assert_eq!(error, "invalid arguments: not valid JSON: EOF while parsing a value at line 1 column 5");
    }
}
