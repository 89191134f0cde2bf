//! `POST /sessions/{id}/answer`: questions about calls are answered.

use anabranch_proto::{Json, PermissionRule, SessionId, ToolCallId, ToolChunk, ToolResultState};
use anabranch_runtime::{Answer, AnswerError};
use axum::{body::Body, extract::State, http::HeaderMap};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Found, content::Content};
use crate::http::{Answered, Object, Refusal, Shared, read_json};

/// The most answers that are given at once.
const MOST_ANSWERS: usize = 256;

/// The longest name that an answer tells its call by, in characters.
const LONGEST_ID: usize = 256;

/// Answers to questions about calls: all of them are taken, or none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Answers {
    /// The answers.
    #[schemars(length(min = 1, max = MOST_ANSWERS))]
    answers: Vec<Object<OneAnswer>>,
}

/// An answer to the question about one call: exactly one of `allow`, `deny` and `output`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["allow"] }, { "required": ["deny"] }, { "required": ["output"] }
]))]
struct OneAnswer {
    /// The session whose call it is: the root or one below it.
    #[schemars(length(min = 1, max = LONGEST_ID))]
    session: String,
    /// The call.
    #[schemars(length(min = 1, max = LONGEST_ID))]
    call: String,
    /// The call may run.
    #[serde(default)]
    #[schemars(with = "Allow")]
    allow: Option<Object<Allow>>,
    /// The call may not run.
    #[serde(default)]
    #[schemars(with = "Deny")]
    deny: Option<Object<Deny>>,
    /// What the call came to, which the client ran itself.
    #[serde(default)]
    #[schemars(with = "Output")]
    output: Option<Object<Output>>,
}

/// The call may run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Allow {
    /// Other arguments than the model's.
    #[serde(default)]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    arguments: Option<Json>,
    /// Rules for later calls, anywhere in the session.
    #[serde(default)]
    #[schemars(length(max = MOST_ANSWERS))]
    remember: Vec<Object<Rule>>,
}

/// What becomes of later calls of a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// The tool's name.
    tool: String,
    /// The arguments that the rule speaks of, as the model writes them; without them it speaks of all calls.
    #[serde(default)]
    arguments: Option<String>,
    /// What becomes of the calls.
    behavior: Behavior,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", try_from = "String")]
#[schemars(!try_from)]
enum Behavior {
    /// It runs.
    Allow,
    /// It does not run.
    Deny,
    /// Somebody is asked.
    Ask,
}

impl Behavior {
    fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }
}

impl TryFrom<String> for Behavior {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let known = [Self::Allow, Self::Deny, Self::Ask].into_iter().find(|known| known.as_str() == text);
        known.ok_or("`behavior` is to be `allow`, `deny` or `ask`")
    }
}

/// The call may not run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Deny {
    /// Why, for the model.
    #[serde(default)]
    reason: Option<String>,
}

/// What a call came to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Output {
    /// What it gave.
    content: Content,
    /// Whether the call failed.
    #[serde(default)]
    is_error: bool,
}

/// How many answers were taken: all that were given.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Taken {
    answered: usize,
}

pub(super) async fn answer(
    State(shared): State<Shared>,
    found: Found,
    headers: HeaderMap,
    body: Body,
) -> Result<Answered<Taken>, Refusal> {
    let Answers { answers } = read_json(&shared, &headers, body).await?;
    let answered = answers.len();
    if !(1..=MOST_ANSWERS).contains(&answered) {
        return Err(Refusal::BadBody(format!("`answers` is to have 1 to {MOST_ANSWERS} entries")));
    }
    let answers = answers.into_iter().map(|Object(answer)| answer.read()).collect::<Result<_, _>>()?;
    found.entry.session.answer_all(answers).map_err(|error| refusal(&error))?;
    Ok(Answered(Taken { answered }))
}

impl OneAnswer {
    fn read(self) -> Result<(SessionId, ToolCallId, Answer), Refusal> {
        let Self { session, call, allow, deny, output } = self;
        for (name, id) in [("session", &session), ("call", &call)] {
            if id.is_empty() || id.chars().count() > LONGEST_ID {
                return Err(Refusal::BadBody(format!("`{name}` is to have 1 to {LONGEST_ID} characters")));
            }
        }
        let answer = match (allow, deny, output) {
            (Some(Object(allow)), None, None) => allow.read(),
            (None, Some(Object(deny)), None) => deny.reason.map_or_else(Answer::deny, Answer::deny_because),
            (None, None, Some(Object(output))) => output.read()?,
            _ => {
                return Err(Refusal::BadBody(
                    "an answer is to have one of `allow`, `deny` and `output`".to_owned(),
                ));
            }
        };
        Ok((session.into(), call.into(), answer))
    }
}

impl Allow {
    fn read(self) -> Answer {
        let Self { arguments, remember } = self;
        let answer = arguments
            .map_or_else(Answer::allow, |arguments| Answer::allow_with(arguments.as_str().to_owned()));
        answer.remember(remember.into_iter().map(|Object(Rule { tool, arguments, behavior })| {
            PermissionRule::new(tool, behavior.as_str(), "user").content(arguments)
        }))
    }
}

impl Output {
    fn read(self) -> Result<Answer, Refusal> {
        let state = if self.is_error { ToolResultState::Error } else { ToolResultState::Success };
        Ok(Answer::output(ToolChunk::new(self.content.read()?).state(state)))
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "what else there may be is wrong with the answer")]
fn refusal(error: &AnswerError) -> Refusal {
    let why = error.to_string();
    match error {
        AnswerError::NotOpen { .. } => Refusal::NotOpen(why),
        AnswerError::Answered { .. } => Refusal::AnsweredBefore(why),
        _ => Refusal::Misfit(why),
    }
}
