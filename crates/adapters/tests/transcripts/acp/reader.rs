//! A client that takes nothing on trust: each message is read by the protocol's own types, and the rules of
//! `docs/acp.md` are held by what a client sees, not by what the adapter knows.

use std::collections::{BTreeMap, HashMap};

use agent_client_protocol_schema::v1::{RequestPermissionRequest, SessionNotification};
use serde_json::{Map, Value};

const ROOT: &str = "ses_0";

/// What a client has at the end.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    children: BTreeMap<String, Child>,
    pub(crate) calls: BTreeMap<String, Call>,
    /// Messages by id: the session, the kind and the text.
    pub(crate) messages: BTreeMap<String, (String, String, String)>,
    /// Who asked, by call.
    pub(crate) questions: Vec<(String, String)>,
    /// How often a card that had not ended was written again.
    pub(crate) progress: usize,
}

#[derive(Debug)]
struct Child {
    on: String,
    state: String,
}

#[derive(Debug, Default)]
pub(crate) struct Call {
    pub(crate) session: String,
    pub(crate) title: String,
    pub(crate) status: String,
    pub(crate) within: Option<String>,
    pub(crate) content: Vec<Value>,
}

impl Call {
    /// The text in its content, without what is marked as something else.
    pub(crate) fn text(&self) -> String {
        let texts = self.content.iter().filter(|item| item.get("_meta").is_none());
        texts.filter_map(|item| item["content"]["text"].as_str()).collect()
    }

    /// The text that is marked so.
    pub(crate) fn marked(&self, part: &str) -> String {
        let is_marked = |item: &&Value| item["_meta"]["anabranch/event"]["part"] == part;
        self.content.iter().filter(is_marked).filter_map(|item| item["content"]["text"].as_str()).collect()
    }
}

/// Whether the client sent `clientCapabilities.subagents`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knows {
    Cards,
    Sessions,
}

/// Reads all lines and gives what is seen at the end.
pub(crate) fn check(lines: &str, knows: Knows) -> Seen {
    let mut seen = Seen::default();
    for line in lines.lines() {
        seen.line(&serde_json::from_str(line).unwrap(), knows);
    }
    seen.end();
    seen
}

impl Seen {
    pub(crate) fn state(&self, child: &str) -> &str {
        &self.children[child].state
    }

    fn line(&mut self, line: &Value, knows: Knows) {
        let mut message = object(line).clone();
        assert_eq!(message.remove("jsonrpc").unwrap(), "2.0");
        let method = message.remove("method").unwrap();
        let params = message.remove("params").unwrap();
        look_for_prompts(&params);
        let session = params["sessionId"].as_str().unwrap().to_owned();
        self.knows(&session);
        if method == "session/request_permission" {
            assert!(message.remove("id").unwrap().is_string());
            assert_same(
                &serde_json::from_value::<RequestPermissionRequest>(params.clone()).unwrap(),
                &params,
            );
            let call = params["toolCall"]["toolCallId"].as_str().unwrap();
            assert_eq!(self.calls[call].session, session, "asked about a call that is not opened there");
            self.questions.push((session.clone(), call.to_owned()));
            if session != ROOT {
                assert_eq!(self.state(&session), "requires_action");
            }
        } else {
            assert_eq!(method, "session/update");
            assert_same(&serde_json::from_value::<SessionNotification>(params.clone()).unwrap(), &params);
            self.update(&session, object(&params["update"]), knows);
        }
        assert!(message.is_empty(), "{message:?}");
    }

    fn update(&mut self, session: &str, update: &Map<String, Value>, knows: Knows) {
        let kind = update["sessionUpdate"].as_str().unwrap();
        look_at_meta(update.get("_meta"));
        if knows == Knows::Cards {
            assert_eq!(session, ROOT, "a client without `subagents` knows one session");
        }
        match kind {
            "subagent_update" => {
                assert_eq!(knows, Knows::Sessions);
                self.child(session, update);
            }
            "tool_call" => {
                self.works(session);
                self.open(session, update);
                self.content(update, knows);
            }
            "tool_call_update" => {
                self.change(session, update);
                self.content(update, knows);
            }
            "agent_message_chunk" | "agent_thought_chunk" => {
                self.works(session);
                let id = update["messageId"].as_str().filter(|id| !id.is_empty()).unwrap().to_owned();
                let text = update["content"]["text"].as_str().unwrap();
                let (in_session, of_kind, all) = self
                    .messages
                    .entry(id)
                    .or_insert_with(|| (session.to_owned(), kind.to_owned(), String::new()));
                assert_eq!((&**in_session, &**of_kind), (session, kind), "one message, one place");
                all.push_str(text);
            }
            kind => panic!("{kind} is not for every client"),
        }
    }

    fn child(&mut self, on: &str, update: &Map<String, Value>) {
        let id = update["sessionId"].as_str().unwrap();
        assert_ne!(id, ROOT);
        let state = update.get("state").map(|state| state["state"].as_str().unwrap().to_owned());
        if let Some(child) = self.children.get_mut(id) {
            assert_eq!(child.on, on, "a child never changes its parent");
            assert!(!update.contains_key("capabilities"), "granted once");
            child.state = state.unwrap_or_else(|| child.state.clone());
        } else {
            assert_eq!(state.as_deref(), Some("running"), "announced as running");
            assert_eq!(update["capabilities"].to_string(), r#"{"cancel":{}}"#, "nothing but a cancel");
            assert!(update["title"].is_string() && update["description"].is_string());
            self.children.insert(id.to_owned(), Child { on: on.to_owned(), state: state.unwrap() });
        }
    }

    fn open(&mut self, session: &str, update: &Map<String, Value>) {
        let id = update["toolCallId"].as_str().unwrap();
        assert!(!self.calls.contains_key(id), "{id} is opened twice");
        let within = update.get("_meta").and_then(|meta| meta["claudeCode"]["parentToolUseId"].as_str());
        assert!(within.is_none_or(|within| self.calls.contains_key(within)), "{id} is within nothing");
        let status = update.get("status").map_or("pending", |status| status.as_str().unwrap());
        let call = Call {
            session: session.to_owned(),
            title: update["title"].as_str().unwrap().to_owned(),
            status: status.to_owned(),
            within: within.map(str::to_owned),
            content: Vec::new(),
        };
        assert!(!call.title.contains(|c: char| c.is_control()));
        self.calls.insert(id.to_owned(), call);
    }

    fn change(&mut self, session: &str, update: &Map<String, Value>) {
        let id = update["toolCallId"].as_str().unwrap();
        let call = self.calls.get_mut(id).unwrap_or_else(|| panic!("{id} was not opened"));
        assert_eq!(call.session, session, "a call stays in its session");
        assert!(rank(&call.status) < 2, "{id} has ended");
        if let Some(status) = update.get("status").and_then(Value::as_str) {
            assert!(rank(status) >= rank(&call.status), "{id} goes back to {status}");
            status.clone_into(&mut call.status);
        } else if update.contains_key("content") {
            self.progress += 1;
        }
    }

    fn content(&mut self, update: &Map<String, Value>, knows: Knows) {
        let Some(Value::Array(content)) = update.get("content") else {
            return;
        };
        for item in content {
            match item["type"].as_str().unwrap() {
                "content" => {
                    look_at_meta(item.get("_meta"));
                    assert!(["text", "resource_link"].contains(&item["content"]["type"].as_str().unwrap()));
                }
                "session" => {
                    assert_eq!(knows, Knows::Sessions);
                    self.knows(item["sessionId"].as_str().unwrap());
                }
                kind => panic!("{kind}"),
            }
        }
        let call = self.calls.get_mut(update["toolCallId"].as_str().unwrap()).unwrap();
        call.content.clone_from(content);
    }

    /// A session is announced before anything of it.
    fn knows(&self, session: &str) {
        assert!(session == ROOT || self.children.contains_key(session), "{session} was not announced");
    }

    /// A child that is idle says nothing.
    fn works(&self, session: &str) {
        if session != ROOT {
            assert!(["running", "requires_action"].contains(&self.state(session)), "{session} is idle");
        }
    }

    fn end(&self) {
        for (id, call) in &self.calls {
            assert_eq!(rank(&call.status), 2, "{id} is {} at the end", call.status);
        }
        for (id, child) in &self.children {
            assert!(["idle", "unknown"].contains(&&*child.state), "{id} is {} at the end", child.state);
        }
    }
}

fn rank(status: &str) -> u8 {
    match status {
        "pending" => 0,
        "in_progress" => 1,
        "completed" | "failed" => 2,
        status => panic!("version 1 has no status {status}"),
    }
}

/// What the protocol's types read says the same again: nothing was unknown, malformed or at the wrong place.
fn assert_same<T: serde::Serialize>(read: &T, written: &Value) {
    assert_eq!(&serde_json::to_value(read).unwrap(), written);
}

fn look_at_meta(meta: Option<&Value>) {
    let known = ["anabranch/event", "claudeCode", "traceparent", "tracestate", "baggage"];
    for key in meta.into_iter().flat_map(|meta| object(meta).keys()) {
        assert!(known.contains(&key.as_str()), "`_meta` has {key}");
    }
}

/// No `_meta` has a prompt in it, however deep.
fn look_for_prompts(value: &Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                assert!(key != "_meta" || !value.to_string().contains("\"prompt\""), "{value}");
                look_for_prompts(value);
            }
        }
        Value::Array(values) => values.iter().for_each(look_for_prompts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap()
}

/// How many messages of each kind there are, for tests that count.
pub(crate) fn kinds(lines: &str) -> HashMap<String, usize> {
    let mut kinds = HashMap::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let kind = line["params"]["update"]["sessionUpdate"].as_str().unwrap_or("request").to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}
