//! What is sent to the other server, and what it says.

use anabranch_proto::{
    ContentBlock, DataSource, ErrorInfo, ErrorType, PermissionRule, SessionId, ToolCallId, ToolResultState,
};
use anabranch_runtime::{Answer, Order};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

/// A session that the other server has begun.
#[derive(Debug, Deserialize)]
pub(super) struct Created {
    pub(super) id: SessionId,
    /// The position before its first event.
    pub(super) cursor: String,
}

/// What the other server says where it refuses something.
#[derive(Debug, Deserialize)]
pub(super) struct Refused {
    error: Refusal,
}

#[derive(Debug, Deserialize)]
struct Refusal {
    code: String,
    message: String,
}

impl Refused {
    /// What a body says that came with an error, as far as it can be read.
    pub(super) fn read(body: &[u8]) -> Option<(String, String)> {
        let Self { error: Refusal { code, message } } = serde_json::from_slice(body).ok()?;
        Some((code, message))
    }
}

/// The prompt of an order.
pub(super) fn prompt(order: &Order) -> Result<Value, ErrorInfo> {
    let content = content(&order.prompt)?;
    if order.metadata.is_empty() {
        return Ok(json!({ "content": content }));
    }
    Ok(json!({ "content": content, "metadata": order.metadata }))
}

/// Text and data, in the server's words.
fn content(blocks: &[ContentBlock]) -> Result<Value, ErrorInfo> {
    let block = |block: &ContentBlock| {
        if let ContentBlock::Text(text) = block {
            return Some(json!({ "type": "text", "text": text.text }));
        }
        let ContentBlock::Data(data) = block else { return None };
        let source = match &data.source {
            DataSource::Base64 { data, media_type, .. } => {
                json!({ "type": "base64", "data": data, "media_type": media_type })
            }
            DataSource::Url { url, media_type, .. } => {
                json!({ "type": "url", "url": url, "media_type": media_type })
            }
            _ => return None,
        };
        Some(match &data.name {
            Some(name) => json!({ "type": "data", "source": source, "name": name }),
            None => json!({ "type": "data", "source": source }),
        })
    };
    blocks.iter().map(block).collect::<Option<Vec<_>>>().map(Value::from).ok_or_else(|| {
        let text = "a server over HTTP takes text and data, and the prompt has something else";
        ErrorInfo::new(ErrorType::INVALID_REQUEST, text)
    })
}

/// Answers to questions about calls, in the server's words.
#[derive(Debug, Serialize)]
pub(super) struct Answers<'a> {
    answers: [OneAnswer<'a>; 1],
}

#[derive(Debug, Serialize)]
struct OneAnswer<'a> {
    session: &'a str,
    call: &'a str,
    #[serde(flatten)]
    answer: Said<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Said<'a> {
    Allow {
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments: Option<Box<RawValue>>,
        remember: Vec<Rule<'a>>,
    },
    Deny {
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
    Output {
        content: Value,
        is_error: bool,
    },
}

#[derive(Debug, Serialize)]
struct Rule<'a> {
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
    behavior: &'a str,
}

impl<'a> Answers<'a> {
    /// An answer to a question about a call of a session, as that is called there.
    pub(super) fn new(
        session: &'a SessionId,
        call: &'a ToolCallId,
        answer: &'a Answer,
    ) -> Result<Self, ErrorInfo> {
        let wrong = |text: String| ErrorInfo::new(ErrorType::INVALID_REQUEST, text);
        let answer = match answer {
            Answer::Allow { arguments, rules, .. } => {
                // JSON text of an object, which the question's own side has held it to.
                let arguments = arguments.clone().map(RawValue::from_string).transpose();
                let rule = |rule: &'a PermissionRule| Rule {
                    tool: &rule.tool_name,
                    arguments: rule.rule_content.as_deref(),
                    behavior: &rule.behavior,
                };
                Said::Allow {
                    arguments: arguments.map_err(|error| wrong(format!("an answer's arguments: {error}")))?,
                    remember: rules.iter().map(rule).collect(),
                }
            }
            Answer::Deny { reason, .. } => Said::Deny { reason: reason.as_deref() },
            Answer::Output(chunk) => Said::Output {
                content: content(&chunk.content)?,
                is_error: chunk.state.worse(ToolResultState::Success) != ToolResultState::Success,
            },
            _ => return Err(wrong("an answer of a kind that a server over HTTP does not know".to_owned())),
        };
        Ok(Self { answers: [OneAnswer { session: session.as_str(), call: call.as_str(), answer }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(answer: &Answer) -> String {
        let (session, call) = (SessionId::from("s"), ToolCallId::from("c"));
        serde_json::to_string(&Answers::new(&session, &call, answer).unwrap()).unwrap()
    }

    #[test]
    fn answers_are_in_the_servers_words() {
        let rule = PermissionRule::new("write", "allow", "user");
        let allow = Answer::allow_with(r#"{"n":1e2}"#).remember([rule]);
        assert_eq!(
            written(&allow),
            r#"{"answers":[{"session":"s","call":"c","allow":{"arguments":{"n":1e2},"remember":[{"tool":"write","behavior":"allow"}]}}]}"#
        );
        let deny = r#"{"answers":[{"session":"s","call":"c","deny":{"reason":"no"}}]}"#;
        assert_eq!(written(&Answer::deny_because("no")), deny);
        let output = r#"{"answers":[{"session":"s","call":"c","output":{"content":[{"type":"text","text":"a"}],"is_error":false}}]}"#;
        assert_eq!(written(&Answer::output("a")), output);
    }

    #[test]
    fn a_refusal_is_read_where_it_is_one() {
        let read = Refused::read(br#"{"error":{"code":"not_open","message":"There is none."}}"#);
        assert_eq!(read, Some(("not_open".to_owned(), "There is none.".to_owned())));
        assert_eq!(Refused::read(b"<html>"), None);
    }
}
