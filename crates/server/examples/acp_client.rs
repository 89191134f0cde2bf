//! A client on the protocol's Rust SDK: prompts an agent and prints what reached it, a line of JSON each.
//!
//! ```text
//! acp_client MODE PERSON agent…
//! ```
//!
//! In MODE `sessions` the client says that it knows sub-agents, in `cards` it does not. PERSON is who sits there: it allows or
//! rejects what it is asked, cancels the prompt or the child when it is asked, cancels the prompt when a child speaks, or allows
//! and prompts once more. `cargo xtask interop acp` compares the lines with the agent's log.

use std::{
    env,
    error::Error as StdError,
    io::{self, Write as _},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent as AgentRole, Client, Error, on_receive_notification, on_receive_request,
    schema::ProtocolVersion,
    v1::{ConnectionTo, schema as s},
};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

/// Prompts an agent and prints what reached this client.
#[derive(Debug, Parser)]
struct Options {
    #[arg(value_enum)]
    mode: Mode,
    #[arg(value_enum)]
    person: Habit,
    /// The agent and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    agent: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Cards,
    Sessions,
}

/// What the person at this client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Habit {
    Allow,
    Reject,
    CancelPrompt,
    CancelChild,
    CancelMidway,
    Again,
}

/// Who sits at this client.
#[derive(Clone, Debug)]
struct Person {
    habit: Habit,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    session: Option<s::SessionId>,
    has_cancelled: bool,
}

impl Person {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is answered: an option, or that the question was cancelled; and who is cancelled before that.
    fn decide(&self, asking: &s::SessionId) -> (Option<&'static str>, Option<s::SessionId>) {
        let mut state = self.state();
        let is_first = !mem::replace(&mut state.has_cancelled, true);
        match self.habit {
            Habit::Reject => (Some("reject"), None),
            Habit::CancelPrompt | Habit::CancelMidway => (None, state.session.clone().filter(|_| is_first)),
            Habit::CancelChild if is_first => (None, Some(asking.clone())),
            Habit::Allow | Habit::Again | Habit::CancelChild => (Some("allow"), None),
        }
    }

    /// Prints an update, and cancels where this is what the person waits for.
    fn hear(&self, update: &s::SessionNotification, agent: &ConnectionTo<AgentRole>) -> Result<(), Error> {
        print(&json!({ "update": update }))?;
        let mut state = self.state();
        let Some(root) = state.session.clone() else { return Ok(()) };
        let is_childs = update.session_id != root;
        if self.habit == Habit::CancelMidway
            && is_text_of_a_child(&update.update, is_childs)
            && !mem::replace(&mut state.has_cancelled, true)
        {
            agent.send_notification(s::CancelNotification::new(root))?;
        }
        Ok(())
    }

    fn answer(
        &self,
        request: &s::RequestPermissionRequest,
        agent: &ConnectionTo<AgentRole>,
    ) -> Result<s::RequestPermissionResponse, Error> {
        let (option, cancelled) = self.decide(&request.session_id);
        if let Some(session) = cancelled {
            agent.send_notification(s::CancelNotification::new(session))?;
        }
        print(&json!({ "question": request, "answer": option.unwrap_or("cancelled") }))?;
        let outcome = option.map_or(s::RequestPermissionOutcome::Cancelled, |option| {
            s::RequestPermissionOutcome::Selected(s::SelectedPermissionOutcome::new(option))
        });
        Ok(s::RequestPermissionResponse::new(outcome))
    }
}

/// Whether a child speaks: in its session, or in its card.
fn is_text_of_a_child(update: &s::SessionUpdate, is_childs: bool) -> bool {
    if let s::SessionUpdate::ToolCallUpdate(call) = update {
        let content = call.fields.content.as_ref();
        return call.tool_call_id.0.starts_with("spawn:")
            && content.is_some_and(|content| !content.is_empty());
    }
    matches!(update, s::SessionUpdate::AgentMessageChunk(_)) && is_childs
}

fn print(line: &Value) -> Result<(), Error> {
    writeln!(io::stdout().lock(), "{line}").map_err(Error::into_internal_error)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let Options { mode, person: habit, agent } = Options::parse();
    // The SDK tells here of what it rejects, and nowhere else.
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(tracing::level_filters::LevelFilter::WARN)
        .init();
    let (program, args) = agent.split_first().ok_or("no agent is named")?;
    let agent = AcpAgent::new(AcpAgentConfig::new(program).args(args));
    let person = Person { habit, state: Arc::default() };
    let (hearing, asked) = (person.clone(), person.clone());
    let client = Client
        .v1()
        .on_receive_notification(
            async move |update: s::SessionNotification, agent: ConnectionTo<AgentRole>| {
                hearing.hear(&update, &agent)
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: s::RequestPermissionRequest, responder, agent: ConnectionTo<AgentRole>| {
                responder.respond_with_result(asked.answer(&request, &agent))
            },
            on_receive_request!(),
        );
    let whole = client.connect_with(agent, async |agent: ConnectionTo<AgentRole>| {
        let mut capabilities = s::ClientCapabilities::new();
        if mode == Mode::Sessions {
            capabilities = capabilities.subagents(s::SubagentCapabilities::new());
        }
        let initialize = s::InitializeRequest::new(ProtocolVersion::V1).client_capabilities(capabilities);
        agent.send_request(initialize).block_task().await?;
        let folder = env::current_dir().map_err(Error::into_internal_error)?;
        let session = agent.send_request(s::NewSessionRequest::new(folder)).block_task().await?.session_id;
        person.state().session = Some(session.clone());
        for _ in 0..if habit == Habit::Again { 2 } else { 1 } {
            let text = s::ContentBlock::Text(s::TextContent::new("Compare."));
            let prompt = s::PromptRequest::new(session.clone(), vec![text]);
            let answer = agent.send_request(prompt).block_task().await?;
            print(&json!({ "answer": answer }))?;
        }
        Ok(())
    });
    Ok(whole.await?)
}
