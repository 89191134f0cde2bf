//! Reads a stream of flat lines from stdin and prints, for each session in it, the messages that its events add up to.
//!
//! ```text
//! cargo xtask demo --as flat | cargo run -p anabranch-demo --example messages
//! ```
//!
//! One JSON object per session, in the order of their first events: `subagent_id` (`null` for the root's own),
//! `provisional` where nobody announced it, and `messages`. `cargo xtask interop agentscope` compares them with what
//! agentscope makes of the same lines.

use std::{
    error::Error,
    io::{self, BufRead as _, Write as _},
};

use anabranch_proto::{
    Message, Scope, SubagentId, flat,
    lines::{EventLines, Numbered},
};
use anabranch_session::MessageAccumulator;
use serde::Serialize;

/// One session of the stream.
struct Session {
    subagent_id: Option<SubagentId>,
    provisional: bool,
    messages: MessageAccumulator,
}

#[derive(Serialize)]
struct Printed<'a> {
    subagent_id: &'a Option<SubagentId>,
    provisional: bool,
    messages: &'a [Message],
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut lines = EventLines::new(flat::Reader::default());
    let mut sessions: Vec<Session> = Vec::new();
    let mut input = io::stdin().lock();
    loop {
        let mut chunk = input.fill_buf()?;
        let length = chunk.len();
        if length == 0 {
            break;
        }
        while let Some(read) = lines.next_event(&mut chunk) {
            apply(&mut sessions, &read?);
        }
        input.consume(length);
    }
    if let Some(read) = lines.finish() {
        apply(&mut sessions, &read?);
    }

    let mut out = io::stdout().lock();
    for Session { subagent_id, provisional, messages } in &sessions {
        let printed = Printed { subagent_id, provisional: *provisional, messages: messages.messages() };
        writeln!(out, "{}", serde_json::to_string(&printed)?)?;
    }
    Ok(())
}

fn apply(sessions: &mut Vec<Session>, line: &Numbered<flat::Line>) {
    let flat::Line { event, provisional, .. } = &line.read;
    let subagent_id = match &event.scope {
        Scope::Root => None,
        Scope::Child(child) => Some(child.subagent_id.clone()),
    };
    let known = sessions.iter().position(|session| session.subagent_id == subagent_id);
    let at = known.unwrap_or_else(|| {
        let messages = MessageAccumulator::new();
        sessions.push(Session { subagent_id, provisional: *provisional, messages });
        sessions.len() - 1
    });
    sessions[at].messages.apply(event);
}
