//! What the server offers: each operation's route and its description, in one place so that neither is without the other.

use std::borrow::Cow;

use axum::{
    http::{Method, StatusCode},
    routing::MethodRouter,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use serde_json::Value;

use super::Shared;

/// How a type is described.
pub(crate) type Describe = fn(&mut SchemaGenerator) -> Schema;

/// One operation.
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// Where it is, parameters in braces.
    pub(crate) path: &'static str,
    /// Its name for programs.
    pub(crate) name: &'static str,
    /// What it does, in a sentence.
    pub(crate) summary: &'static str,
    /// Whether anybody may ask.
    pub(crate) is_open: bool,
    pub(crate) query: Option<Describe>,
    /// Names of headers that it reads, and what they say.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: Option<Describe>,
    /// A body that it takes.
    pub(crate) example: Value,
    pub(crate) answers: Vec<Answer>,
    /// The statuses with which it refuses, and why.
    pub(crate) refusals: Vec<(StatusCode, &'static str)>,
    pub(crate) route: MethodRouter<Shared>,
}

/// What an operation answers.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) description: Cow<'static, str>,
    pub(crate) content: Content,
    /// Operations that go on with its `id`.
    pub(crate) links: bool,
}

/// What an answer's body is.
pub(crate) enum Content {
    Nothing,
    Json(Describe),
    /// Server-sent events, each of which is so.
    Events(Describe),
}

impl Operation {
    pub(crate) fn new(
        method: Method,
        path: &'static str,
        name: &'static str,
        summary: &'static str,
        route: MethodRouter<Shared>,
    ) -> Self {
        Self {
            method,
            path,
            name,
            summary,
            is_open: false,
            query: None,
            headers: Vec::new(),
            body: None,
            example: Value::Null,
            answers: Vec::new(),
            refusals: Vec::new(),
            route,
        }
    }

    /// Anybody may ask, without a token.
    pub(crate) fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(SchemaGenerator::root_schema_for::<T>);
        self
    }

    pub(crate) fn header(mut self, name: &'static str, says: &'static str) -> Self {
        self.headers.push((name, says));
        self
    }

    /// Reads a body of JSON, such as an example, with all that this can be refused for.
    pub(crate) fn body(mut self, body: Describe, example: Value) -> Self {
        (self.body, self.example) = (Some(body), example);
        self.refuses(400, "The body is no JSON, or not what is described.")
            .refuses(408, "The body took too long.")
            .refuses(413, "The body is too large.")
            .refuses(415, "The body is not sent as `application/json`.")
            .refuses(503, "The server is being stopped, or has no room.")
    }

    pub(crate) fn answers<T: JsonSchema>(self, status: u16, description: &'static str) -> Self {
        self.answer(status, description, Content::Json(SchemaGenerator::subschema_for::<T>))
    }

    pub(crate) fn answer(mut self, status: u16, description: &'static str, content: Content) -> Self {
        let answer = Answer { status: code(status), description: description.into(), content, links: false };
        self.answers.push(answer);
        self
    }

    /// Its last answer has an `id` with which other operations go on.
    pub(crate) fn with_links(mut self) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.links = true;
        }
        self
    }

    pub(crate) fn refuses(mut self, status: u16, why: &'static str) -> Self {
        self.refusals.push((code(status), why));
        self
    }
}

fn code(status: u16) -> StatusCode {
    // The table has numbers of statuses alone; a wrong one shows in the description.
    StatusCode::from_u16(status).unwrap_or_default()
}
