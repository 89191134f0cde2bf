//! What a client asks for: `RunAgentInput`, as AG-UI 1.0 has it.

use anabranch_adapters::ag_ui::ResumeEntry;
use anabranch_proto::Json;
use serde::Deserialize;

use crate::{Tenant, http::Refusal};

/// The longest id of a thread or a run, in characters: it is kept, and repeated in frames.
const LONGEST_ID: usize = 256;

/// The role of the user's messages.
const USER: &str = "user";

/// What a client asks for. Fields that the protocol may gain are let through.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunAgentInput {
    /// Who asks. No part of the protocol: it is known by the token that was shown.
    #[serde(skip)]
    pub tenant: Tenant,
    /// The conversation.
    pub thread_id: String,
    /// The run that begins.
    pub run_id: String,
    /// The conversation as the client knows it; the last of the user's is the prompt.
    pub messages: Vec<InputMessage>,
    /// The client's own tools, each as it spelled it.
    #[serde(default)]
    pub tools: Vec<Json>,
    /// What the client adds for the agent.
    #[serde(default)]
    pub context: Vec<Json>,
    /// The state that client and agent share.
    #[serde(default)]
    pub state: Option<Json>,
    /// What the client passes on.
    #[serde(default)]
    pub forwarded_props: Option<Json>,
    /// Answers to the interrupts by which the run before ended.
    #[serde(default)]
    pub resume: Option<Vec<ResumeEntry>>,
}

/// A message of a conversation.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct InputMessage {
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Whose it is.
    pub role: String,
    /// What it says: a text or a list of parts.
    #[serde(default)]
    pub content: Option<Json>,
}

/// What a client wants.
#[derive(Debug)]
pub(super) enum Wanted {
    /// To prompt.
    Prompt(Prompt),
    /// To answer; and to prompt with this where nothing was asked.
    Resume(Vec<ResumeEntry>, Option<Prompt>),
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    /// The id of its message, where that is one to remember.
    pub(super) id: Option<String>,
    pub(super) text: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

impl RunAgentInput {
    pub(super) fn read(body: &[u8]) -> Result<Self, Refusal> {
        let input: Self =
            serde_json::from_slice(body).map_err(|error| Refusal::Malformed(error.to_string()))?;
        for (name, id) in [("threadId", &input.thread_id), ("runId", &input.run_id)] {
            if id.is_empty() || id.chars().count() > LONGEST_ID {
                return Err(Refusal::Malformed(format!("`{name}` is to have 1 to {LONGEST_ID} characters")));
            }
        }
        Ok(input)
    }

    /// What is wanted. Beside answers the user's message prompts only where it is the last of all, and can be told from one that
    /// has prompted before.
    pub(super) fn wanted(&self) -> Result<Wanted, Refusal> {
        let entries = self.resume.as_ref().filter(|entries| !entries.is_empty());
        if let Some(entries) = entries {
            let last = self.messages.last().filter(|message| message.role == USER);
            let prompt = last.and_then(|message| message.prompt().ok()).filter(|prompt| prompt.id.is_some());
            return Ok(Wanted::Resume(entries.clone(), prompt));
        }
        let mut users = self.messages.iter().filter(|message| message.role == USER);
        let Some(last) = users.next_back() else {
            return Err(Refusal::Unusable(
                "the input has no message of the user's; add one with `role` `user`".into(),
            ));
        };
        last.prompt().map(Wanted::Prompt)
    }
}

impl InputMessage {
    fn prompt(&self) -> Result<Prompt, Refusal> {
        let id = self.id.clone().filter(|id| (1..=LONGEST_ID).contains(&id.len()));
        Ok(Prompt { id, text: self.text()? })
    }

    fn text(&self) -> Result<String, Refusal> {
        let content = self.content.as_ref().map(Json::to::<Content>);
        let text = match content {
            Some(Ok(Content::Text(text))) => text,
            Some(Ok(Content::Parts(parts))) => {
                let mut texts = Vec::new();
                for part in parts {
                    match (&*part.kind, part.text) {
                        ("text", Some(text)) => texts.push(text),
                        _ => {
                            return Err(Refusal::Unusable(
                                "the user's message has a part that is no text; send text alone".into(),
                            ));
                        }
                    }
                }
                texts.join("\n\n")
            }
            Some(Err(_)) | None => {
                return Err(Refusal::Malformed(
                    "the user's `content` is to be a text or a list of parts".to_owned(),
                ));
            }
        };
        if text.trim().is_empty() {
            return Err(Refusal::Unusable("the user's last message is empty; say something".into()));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(rest: &str) -> Result<Wanted, Refusal> {
        RunAgentInput::read(format!(r#"{{"threadId":"t","runId":"r",{rest}}}"#).as_bytes())?.wanted()
    }

    #[test]
    fn the_last_message_of_the_user_prompts() {
        for (messages, prompt) in [
            (r#"[{"role":"user","content":"a"}]"#, "a"),
            (r#"[{"role":"user","content":"a"},{"role":"assistant"},{"role":"user","content":"b"}]"#, "b"),
            (
                r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]"#,
                "a\n\nb",
            ),
        ] {
            let wanted = wanted(&format!(r#""messages":{messages},"unknown":{{}},"state":null"#)).unwrap();
            assert!(matches!(&wanted, Wanted::Prompt(wanted) if wanted.text == prompt), "{wanted:?}");
        }
    }

    #[test]
    fn what_says_nothing_is_refused() {
        for messages in [
            "[]",
            r#"[{"role":"assistant","content":"a"}]"#,
            r#"[{"role":"user"}]"#,
            r#"[{"role":"user","content":7}]"#,
            r#"[{"role":"user","content":" "}]"#,
            r#"[{"role":"user","content":[]}]"#,
            r#"[{"role":"user","content":[{"type":"image"}]}]"#,
            "{}",
            "[[]]",
        ] {
            assert!(wanted(&format!(r#""messages":{messages}"#)).is_err(), "{messages}");
        }
        assert!(wanted("\"tools\":[]").is_err());
    }

    #[test]
    fn an_answer_is_wanted_before_a_prompt_that_is_new() {
        const NEW: &str = r#"{"id":"m","role":"user","content":"a"}"#;
        for (messages, prompt) in [
            ("", None),
            (NEW, Some("a")),
            (&format!(r#"{{"role":"assistant"}},{NEW}"#), Some("a")),
            // Others came behind it, or it has no id or no text.
            (&format!(r#"{NEW},{{"role":"assistant"}}"#), None),
            (r#"{"role":"user","content":"a"}"#, None),
            (r#"{"id":"","role":"user","content":"a"}"#, None),
            (r#"{"id":"m","role":"user","content":" "}"#, None),
        ] {
            let resume = r#""resume":[{"interruptId":"confirm:s:c","status":"resolved"}]"#;
            let wanted = wanted(&format!(r#""messages":[{messages}],{resume}"#)).unwrap();
            let Wanted::Resume(entries, wanted) = wanted else { panic!("{messages}: {wanted:?}") };
            assert_eq!(entries.len(), 1);
            assert_eq!(wanted.map(|prompt| prompt.text).as_deref(), prompt, "{messages}");
        }
    }
}
