//! `anabranch acp`, as a client sees it: the protocol's own, in process and over a pipe.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the protocol's enums grow, and each test looks for one variant"
)]

mod binary;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent_client_protocol::{
    Agent as AgentRole, Channel, Client, ConnectTo, Error, on_receive_notification, on_receive_request,
    schema::ProtocolVersion,
    v1::{ConnectionTo, schema as s},
};
use anabranch_demo::Plan;
use anabranch_pipeline::FunctionTool;
use anabranch_proto::{EventKind, Scope};
use anabranch_runtime::{Agent, Permissions, Read, ScriptedModel, SpawnArguments, SpawnSubagent, Turn};
use anabranch_server::acp::AcpServer;
use futures::StreamExt as _;
use serde_json::json;
use tokio::sync::Notify;

const TEMPORARY: &str = env!("CARGO_TARGET_TMPDIR");

const PATIENCE: Duration = Duration::from_secs(20);

/// What the client does with questions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Person {
    Allows,
    Denies,
    Waits,
}

/// What came, in order.
#[derive(Clone, Default)]
struct Seen {
    updates: Arc<Mutex<Vec<s::SessionNotification>>>,
    questions: Arc<Mutex<Vec<s::RequestPermissionRequest>>>,
    /// How many questions were cancelled.
    withdrawn: Arc<Mutex<usize>>,
    changed: Arc<Notify>,
}

impl Seen {
    fn updates(&self) -> Vec<s::SessionNotification> {
        self.updates.lock().unwrap().clone()
    }

    fn questions(&self) -> Vec<s::RequestPermissionRequest> {
        self.questions.lock().unwrap().clone()
    }

    /// Waits until `found` finds what it looks for.
    async fn until<T>(&self, found: impl Fn(&Self) -> Option<T>) -> T {
        let look = async {
            loop {
                let changed = self.changed.notified();
                if let Some(found) = found(self) {
                    return found;
                }
                changed.await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.expect("it does not come")
    }

    /// Text per session.
    fn texts(&self) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::<_, String>::new();
        for s::SessionNotification { session_id, update, .. } in self.updates() {
            if let s::SessionUpdate::AgentMessageChunk(chunk) = update
                && let s::ContentBlock::Text(text) = chunk.content
            {
                texts.entry(session_id.to_string()).or_default().push_str(&text.text);
            }
        }
        texts
    }

    /// The ids of child sessions by their titles.
    fn children(&self) -> BTreeMap<String, String> {
        let updates = self.updates().into_iter();
        let children = updates.filter_map(|update| match update.update {
            s::SessionUpdate::SubagentUpdate(child) => {
                Some((child.title.value()?.clone(), child.session_id.to_string()))
            }
            _ => None,
        });
        children.collect()
    }

    /// The last state of each child session.
    fn states(&self) -> BTreeMap<String, s::StateUpdate> {
        let updates = self.updates().into_iter();
        let states = updates.filter_map(|update| match update.update {
            s::SessionUpdate::SubagentUpdate(child) => {
                Some((child.session_id.to_string(), child.state.value()?.clone()))
            }
            _ => None,
        });
        states.collect()
    }
}

/// Talks to an agent as a client that knows sessions of sub-agents, or not.
async fn talk<T>(
    agent: impl ConnectTo<Client> + 'static,
    subagents: bool,
    person: Person,
    talk: impl AsyncFnOnce(ConnectionTo<AgentRole>, Seen) -> Result<T, Error>,
) -> T {
    let seen = Seen::default();
    let (updates, questions) = (seen.clone(), seen.clone());
    let client = Client
        .v1()
        .on_receive_notification(
            async move |update: s::SessionNotification, _: ConnectionTo<AgentRole>| {
                updates.updates.lock().unwrap().push(update);
                updates.changed.notify_waiters();
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: s::RequestPermissionRequest, responder, cx: ConnectionTo<AgentRole>| {
                questions.questions.lock().unwrap().push(request);
                questions.changed.notify_waiters();
                let option = match person {
                    Person::Allows => Some("allow"),
                    Person::Denies => Some("reject"),
                    Person::Waits => None,
                };
                if let Some(option) = option {
                    let selected = s::SelectedPermissionOutcome::new(option);
                    return responder.respond(s::RequestPermissionResponse::new(
                        s::RequestPermissionOutcome::Selected(selected),
                    ));
                }
                let seen = questions.clone();
                cx.spawn(async move {
                    responder.cancellation().cancelled().await;
                    *seen.withdrawn.lock().unwrap() += 1;
                    seen.changed.notify_waiters();
                    responder
                        .respond(s::RequestPermissionResponse::new(s::RequestPermissionOutcome::Cancelled))
                })
            },
            on_receive_request!(),
        );
    let whole = client.connect_with(agent, async |cx: ConnectionTo<AgentRole>| {
        let mut capabilities = s::ClientCapabilities::new();
        if subagents {
            capabilities = capabilities.subagents(s::SubagentCapabilities::new());
        }
        let initialize = s::InitializeRequest::new(ProtocolVersion::V1).client_capabilities(capabilities);
        cx.send_request(initialize).block_task().await?;
        talk(cx, seen).await
    });
    tokio::time::timeout(PATIENCE, whole).await.expect("the conversation ends").expect("the connection holds")
}

/// An agent in this process.
fn in_process(make: impl Fn() -> Agent + Send + Sync + 'static) -> Channel {
    let (ours, theirs) = Channel::duplex();
    tokio::spawn(AcpServer::new(move |_| make()).serve(theirs));
    ours
}

async fn new_session(cx: &ConnectionTo<AgentRole>) -> Result<s::SessionId, Error> {
    let new = s::NewSessionRequest::new(TEMPORARY);
    Ok(cx.send_request(new).block_task().await?.session_id)
}

fn prompt(session: &s::SessionId) -> s::PromptRequest {
    s::PromptRequest::new(session.clone(), vec![s::ContentBlock::Text(s::TextContent::new("Go."))])
}

/// The demo's agent, with a folder of its own.
fn demo() -> Agent {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Plan::new().out(Path::new(TEMPORARY).join(format!("acp-{count}"))).agent()
}

/// What each agent of the demo says, by its name; the root's has none.
async fn said() -> BTreeMap<String, String> {
    let mut said = BTreeMap::<_, String>::new();
    let mut names = BTreeMap::new();
    let mut reply = demo().reply_stream("Go.");
    while let Some(Read::Event(admitted)) = reply.next().await {
        let event = &admitted.event;
        let child = event.scope.child().map(|child| child.child_session_id.to_string());
        if let EventKind::SpawnSessionStart(start) = &event.kind {
            names.insert(start.child_session_id.to_string(), start.source_name.to_string());
        } else if let EventKind::TextBlockDelta(delta) = &event.kind {
            assert_eq!(child.is_none(), event.scope == Scope::Root);
            let name = child.and_then(|child| names.get(&child).cloned()).unwrap_or_default();
            said.entry(name).or_default().push_str(&delta.delta);
        }
    }
    assert!(said.keys().eq(["", "n1", "n2", "n3"]), "{said:?}");
    said
}

/// A master that spawns a sub-agent for each of these tasks; `hang` never ends, `write` asks first.
fn master(tasks: &'static [&'static str]) -> Agent {
    let model = ScriptedModel::from_fn("scripted", move |request| {
        if request.results().next().is_some() {
            return Turn::new().text("Done.");
        }
        let spawn = |turn: Turn, task: &&str| turn.call("spawn_subagent", json!({ "task": task }));
        tasks.iter().fold(Turn::new().text("I ask."), spawn)
    });
    let worker = |arguments: &SpawnArguments| {
        let model = match arguments.task.as_str() {
            "hang" => ScriptedModel::new("scripted").turn(|_| Turn::new().text("I think.").hang()),
            "write" => ScriptedModel::new("scripted")
                .turn(|_| Turn::new().call("write", json!({})))
                .turn(|request| Turn::new().text(request.last_result_text())),
            _ => ScriptedModel::new("scripted").turn(|_| Turn::new().text("Worked.")),
        };
        let write =
            FunctionTool::new("write", "Writes.", |_: NoArguments, _| async { Ok::<_, String>("wrote") });
        Agent::builder("worker", model).tool(write).permissions(Permissions::new().ask("write")).build()
    };
    let spawn = SpawnSubagent::choosing(worker).named_by(|arguments| Some(arguments.task.clone()));
    Agent::builder("master", model).tool(spawn).build()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArguments {}

fn is_idle(state: &s::StateUpdate, reason: &s::IdleStopReason) -> bool {
    matches!(state, s::StateUpdate::Idle(idle) if idle.stop_reason.as_ref() == Some(reason))
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_say_what_the_sub_agents_of_the_demo_said() {
    let expected = said().await;
    talk(in_process(demo), false, Person::Allows, async |cx, seen| {
        let session = new_session(&cx).await?;
        let answer = cx.send_request(prompt(&session)).block_task().await?;
        assert_eq!(answer.stop_reason, s::StopReason::EndTurn);

        let mut names = BTreeMap::new();
        let mut said = BTreeMap::from([(String::new(), seen.texts()[&session.to_string()].clone())]);
        for update in seen.updates() {
            assert_eq!(update.session_id, session, "one session is all that this client knows");
            match update.update {
                s::SessionUpdate::ToolCall(call) => {
                    if let Some(name) = call.title.strip_prefix("Spawned: ") {
                        names.insert(call.tool_call_id.to_string(), name.to_owned());
                    }
                }
                s::SessionUpdate::ToolCallUpdate(update) => {
                    let (Some(name), Some(content)) =
                        (names.get(&update.tool_call_id.to_string()), update.fields.content)
                    else {
                        continue;
                    };
                    let pieces = content.iter().filter_map(|content| match content {
                        s::ToolCallContent::Content(content) if content.meta.is_none() => {
                            match &content.content {
                                s::ContentBlock::Text(text) => Some(text.text.as_str()),
                                _ => None,
                            }
                        }
                        _ => None,
                    });
                    said.insert(name.clone(), pieces.collect());
                }
                _ => {}
            }
        }
        assert_eq!(said, expected);
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_announced_before_their_traffic_and_idle_at_the_end() {
    let expected = said().await;
    talk(in_process(demo), true, Person::Allows, async |cx, seen| {
        let session = new_session(&cx).await?;
        let answer = cx.send_request(prompt(&session)).block_task().await?;
        assert_eq!(answer.stop_reason, s::StopReason::EndTurn);

        let mut known = vec![session.to_string()];
        for update in seen.updates() {
            assert!(known.contains(&update.session_id.to_string()), "traffic before its announcement");
            if let s::SessionUpdate::SubagentUpdate(child) = update.update {
                known.push(child.session_id.to_string());
            }
        }
        assert!(seen.states().values().all(|state| is_idle(state, &s::IdleStopReason::EndTurn)));

        let texts = seen.texts();
        let mut said = BTreeMap::from([(String::new(), texts[&session.to_string()].clone())]);
        said.extend(seen.children().into_iter().map(|(name, id)| (name, texts[&id].clone())));
        assert_eq!(said, expected);

        let listed = cx.send_request(s::ListSessionsRequest::new()).block_task().await?;
        let listed: Vec<_> = listed.sessions.into_iter().map(|info| info.session_id).collect();
        assert_eq!(listed, [session], "sub-agents are not listed");
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_prompt_is_answered_so_after_its_children_were_stopped() {
    let agent = in_process(|| master(&["hang", "work"]));
    talk(agent, true, Person::Allows, async |cx, seen| {
        let session = new_session(&cx).await?;
        let answer = cx.send_request(prompt(&session));
        let child = seen.until(|seen| seen.children().get("hang").cloned()).await;
        cx.send_notification(s::CancelNotification::new(session.clone()))?;
        assert_eq!(answer.block_task().await?.stop_reason, s::StopReason::Cancelled);
        assert!(is_idle(&seen.states()[&child], &s::IdleStopReason::Cancelled));

        // Even where nothing has begun yet.
        let answer = cx.send_request(prompt(&session));
        cx.send_notification(s::CancelNotification::new(session.clone()))?;
        assert_eq!(answer.block_task().await?.stop_reason, s::StopReason::Cancelled);
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_child_leaves_its_sibling_and_the_prompt_alone() {
    let agent = in_process(|| master(&["hang", "work"]));
    talk(agent, true, Person::Allows, async |cx, seen| {
        let session = new_session(&cx).await?;
        let answer = cx.send_request(prompt(&session));
        let child = seen.until(|seen| seen.children().get("hang").cloned()).await;
        cx.send_notification(s::CancelNotification::new(child.clone()))?;
        assert_eq!(answer.block_task().await?.stop_reason, s::StopReason::EndTurn);
        assert!(is_idle(&seen.states()[&child], &s::IdleStopReason::Cancelled));
        assert!(is_idle(&seen.states()[&seen.children()["work"]], &s::IdleStopReason::EndTurn));
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_or_not_granted_is_refused_and_says_why() {
    let agent = in_process(|| master(&["hang"]));
    talk(agent, true, Person::Allows, async |cx, seen| {
        let unknown = cx.send_request(prompt(&s::SessionId::new("ses_none"))).block_task().await.unwrap_err();
        assert_eq!(unknown.code, Error::invalid_params().code);
        assert!(unknown.message.contains("ses_none"), "{}", unknown.message);

        let session = new_session(&cx).await?;
        let answer = cx.send_request(prompt(&session));
        let child = seen.until(|seen| seen.children().get("hang").cloned()).await;
        let child = s::SessionId::new(child);
        let busy = cx.send_request(prompt(&session)).block_task().await.unwrap_err();
        let prompted = cx.send_request(prompt(&child)).block_task().await.unwrap_err();
        let close = s::CloseSessionRequest::new(child.clone());
        let closed = cx.send_request(close).block_task().await.unwrap_err();
        let load = s::LoadSessionRequest::new(child.clone(), TEMPORARY);
        let loaded = cx.send_request(load).block_task().await.unwrap_err();
        for error in [&busy, &prompted, &closed, &loaded] {
            assert_eq!(error.code, Error::invalid_params().code, "{}", error.message);
        }
        assert!(busy.message.contains("answering a prompt"), "{}", busy.message);
        assert!(prompted.message.contains("sub-agent"), "{}", prompted.message);

        // What is ours is closed, and what it had to answer is answered.
        cx.send_request(s::CloseSessionRequest::new(session.clone())).block_task().await?;
        answer.block_task().await.ok();
        let gone = cx.send_request(prompt(&session)).block_task().await.unwrap_err();
        assert_eq!(gone.code, Error::invalid_params().code);
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_childs_question_is_asked_in_its_session_and_its_answer_reaches_it() {
    let agent = in_process(|| master(&["write"]));
    talk(agent, true, Person::Allows, async |cx, seen| {
        let session = new_session(&cx).await?;
        let answer = cx.send_request(prompt(&session)).block_task().await?;
        assert_eq!(answer.stop_reason, s::StopReason::EndTurn);
        let child = &seen.children()["write"];
        assert_eq!(seen.questions()[0].session_id.to_string(), *child);
        assert_eq!(seen.texts()[child], "wrote");
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_answers_keeps_no_cancelled_prompt() {
    let agent = in_process(|| master(&["write"]));
    talk(agent, false, Person::Waits, async |cx, seen| {
        let session = new_session(&cx).await?;
        let answer = cx.send_request(prompt(&session));
        let asked = seen.until(|seen| seen.questions().first().cloned()).await;
        assert_eq!(asked.session_id, session, "a client of cards is asked in the root session");
        cx.send_notification(s::CancelNotification::new(session))?;
        assert_eq!(answer.block_task().await?.stop_reason, s::StopReason::Cancelled);
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_whose_request_is_cancelled_is_stopped() {
    let agent = in_process(|| master(&["hang"]));
    talk(agent, true, Person::Allows, async |cx, seen| {
        let session = new_session(&cx).await?;
        let answer = cx.send_request(prompt(&session));
        seen.until(|seen| seen.children().get("hang").cloned()).await;
        answer.cancel()?;
        assert_eq!(answer.block_task().await?.stop_reason, s::StopReason::Cancelled);
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_child_takes_its_question_along() {
    let agent = in_process(|| master(&["write", "work"]));
    talk(agent, true, Person::Waits, async |cx, seen| {
        let session = new_session(&cx).await?;
        let answer = cx.send_request(prompt(&session));
        let asked = seen.until(|seen| seen.questions().first().cloned()).await;
        cx.send_notification(s::CancelNotification::new(asked.session_id.clone()))?;
        assert_eq!(answer.block_task().await?.stop_reason, s::StopReason::EndTurn);
        assert!(is_idle(&seen.states()[&asked.session_id.to_string()], &s::IdleStopReason::Cancelled));
        seen.until(|seen| (*seen.withdrawn.lock().unwrap() == 1).then_some(())).await;
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_are_shown_to_everybody_where_they_are_asked_for() {
    let (ours, theirs) = Channel::duplex();
    tokio::spawn(AcpServer::new(|_| master(&["work"])).always_cards(true).serve(theirs));
    talk(ours, true, Person::Allows, async |cx, seen| {
        let session = new_session(&cx).await?;
        cx.send_request(prompt(&session)).block_task().await?;
        assert!(seen.children().is_empty());
        assert!(seen.updates().iter().all(|update| update.session_id == session));
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_what_was_done_for_it() {
    let (ours, theirs) = Channel::duplex();
    let ended = tokio::spawn(AcpServer::new(|_| master(&["hang", "write"])).serve(theirs));
    talk(ours, true, Person::Waits, async |cx, seen| {
        let session = new_session(&cx).await?;
        cx.send_request(prompt(&session)).detach();
        seen.until(|seen| seen.questions().first().cloned()).await;
        Ok(())
    })
    .await;
    tokio::time::timeout(PATIENCE, ended).await.expect("it ends").unwrap().unwrap();
}
