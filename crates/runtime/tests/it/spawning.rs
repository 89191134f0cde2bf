//! `spawn_subagent`: what the model is told, what a child gets, what is refused, what is left of it.

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use anabranch_pipeline::{FunctionTool, Tool};
use anabranch_proto::{Artifact, EventKind, Json, Outcome, ToolResultState};
use anabranch_runtime::{
    Agent, Limits, Model, ModelRequest, ModelStream, Prompt, ScriptedModel, SpawnSubagent, Turn,
};

use crate::support::{
    Nothing, echo, kind, master, master_with, metadata, node, of_child, own, reply_events, says,
};

#[test]
fn the_model_is_told_how_to_spawn() {
    let tool = SpawnSubagent::new(says("worker", ""));
    let definition = serde_json::to_value(tool.definition()).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&definition).unwrap());
}

/// A model that keeps its requests.
#[derive(Clone)]
struct Recorder {
    model: ScriptedModel,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Recorder {
    fn new(model: ScriptedModel) -> Self {
        Self { model, requests: Arc::default() }
    }
}

impl Model for Recorder {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        self.requests.lock().unwrap().push(request.clone());
        self.model.stream(request)
    }
}

#[tokio::test]
async fn a_child_gets_a_minimal_prompt_task_and_context_and_no_spawn_tool() {
    let recorder = Recorder::new(ScriptedModel::new("scripted").turn(|_| Turn::new().text("done")));
    let worker =
        Agent::builder("worker", recorder.clone()).system_prompt("You do one task.").tool(echo()).build();
    let call = serde_json::json!({ "task": "Count.", "context": "In file a.csv." });
    let agent = Agent::builder("master", master_script(call))
        .system_prompt("You are the master of many secrets.")
        .tool(SpawnSubagent::new(worker))
        .build();
    agent.reply_stream("A long conversation.").finished().await.unwrap();

    let requests = recorder.requests.lock().unwrap();
    let request = &requests[0];
    assert_eq!((requests.len(), request.turn), (1, 0));
    assert_eq!(&*request.system, "You do one task.");
    assert_eq!(request.tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["echo"]);
    let [message] = &*request.messages else { panic!("one message: {:?}", request.messages) };
    let content: Vec<_> = message.content.iter().map(|block| block.as_text().unwrap()).collect();
    assert_eq!(content, ["Count.", "Context:\nIn file a.csv."]);
}

fn master_script(call: serde_json::Value) -> ScriptedModel {
    ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("spawn_subagent", &call))
        .turn(|request| Turn::new().text(request.last_result_text()))
}

#[tokio::test]
async fn nothing_of_a_child_is_alive_after_its_end() {
    let alive: Arc<Mutex<Vec<Weak<()>>>> = Arc::default();
    let kept = Arc::clone(&alive);
    let spawn = SpawnSubagent::choosing(move |_| {
        let (in_model, in_tool) = (Arc::new(()), Arc::new(()));
        kept.lock().unwrap().extend([Arc::downgrade(&in_model), Arc::downgrade(&in_tool)]);
        let model = ScriptedModel::from_fn("scripted", move |_| {
            let _ = &in_model;
            Turn::new().text("done")
        });
        let tool = FunctionTool::new("tool", "", move |_: Nothing, _| {
            let in_tool = Arc::clone(&in_tool);
            async move { Ok::<_, String>(format!("{in_tool:?}")) }
        });
        Agent::builder("worker", model).tool(tool).build()
    });
    let agent = master_with(spawn, vec![node("a", "n1"), node("b", "n2")]);
    let session = agent.session();
    session.prompt("Go.").await.unwrap().finished().await.unwrap();
    let alive = alive.lock().unwrap();
    assert_eq!(alive.len(), 4);
    assert!(alive.iter().all(|weak| weak.upgrade().is_none()), "the session lives on, the children do not");
    assert_eq!(session.children_running(), 0);
}

#[tokio::test]
async fn what_cannot_be_done_is_a_readable_error_and_nothing_is_announced() {
    for (call, text) in [
        (serde_json::json!({}), "invalid arguments: missing field `task` at line 1 column 2"),
        (serde_json::json!({ "task": " " }), "`task` is empty; say what the sub-agent is to do"),
        (serde_json::json!({ "task": "x", "timeout": 0 }), "`timeout` must be 1 to 86400 seconds, not 0"),
        (
            serde_json::json!({ "task": "x", "timeout": 86_401 }),
            "`timeout` must be 1 to 86400 seconds, not 86401",
        ),
        (
            serde_json::json!({ "task": "x", "metadata": { "node_id": "n1", "subagent_id": "sa_x" } }),
            "`metadata` may not have the key `subagent_id`, which is reserved; leave it out",
        ),
        (
            serde_json::json!({ "task": "x", "tasks": [] }),
            "invalid arguments: unknown field `tasks`, expected one of `task`, `context`, `fork`, `background`, \
             `timeout`, `metadata` at line 1 column 19",
        ),
    ] {
        let events =
            reply_events(master(says("worker", "done"), vec![call.clone()]).reply_stream("Go.")).await;
        assert!(events.iter().all(|event| !matches!(event.kind, EventKind::SpawnSessionStart(_))), "{call}");
        let ends =
            kind(
                &events,
                |kind| if let EventKind::ToolResultEnd(end) = kind { Some(end.state) } else { None },
            );
        assert_eq!(ends, [ToolResultState::Error]);
        let texts = kind(&events, |kind| {
            if let EventKind::ToolResultTextDelta(delta) = kind { Some(&*delta.delta) } else { None }
        });
        assert_eq!(texts, [text]);
    }
}

#[tokio::test]
async fn each_reserved_key_is_refused_from_a_model() {
    for key in anabranch_proto::Metadata::RESERVED {
        let call = serde_json::json!({ "task": "x", "metadata": { key: "y" } });
        let finished =
            master(says("worker", "done"), vec![call]).reply_stream("Go.").finished().await.unwrap();
        assert!(finished.text().contains(key), "{key}: {}", finished.text());
    }
}

/// An agent that spawns itself to the given depth.
fn nested(depth: u32) -> Agent {
    if depth == 0 {
        return says("leaf", "leaf");
    }
    let model = ScriptedModel::new("scripted")
        .turn(move |_| {
            let metadata = serde_json::json!({ "level": depth });
            Turn::new().call("spawn_subagent", serde_json::json!({ "task": "deeper", "metadata": metadata }))
        })
        .turn(|request| Turn::new().text(request.last_result_text()));
    Agent::builder(format!("at-{depth}"), model).tool(SpawnSubagent::new(nested(depth - 1))).build()
}

#[tokio::test]
async fn scopes_are_flat_and_keys_are_inherited_at_every_depth() {
    let session = nested(5).session();
    let prompt = Prompt::new("Go.").metadata(metadata(r#"{"tenant_id":"acme","level":0}"#));
    let events = reply_events(session.prompt(prompt).await.unwrap()).await;
    for event in &events {
        assert_eq!(event.metadata.get_str("tenant_id").as_deref(), Some("acme"), "{event:?}");
        let child = event.scope.child().map(|child| child.subagent_id.to_string());
        assert_eq!(
            event.metadata.get_str("subagent_id"),
            child,
            "an announcement is its parent's event: {event:?}"
        );
    }
    let leaf: Vec<_> = of_child(&events, "leaf").collect();
    assert_eq!(leaf.len(), 9);
    for event in &leaf {
        let scope = event.scope.child().unwrap();
        assert_eq!(scope.depth, 5);
        assert_eq!(event.metadata.get("level"), Some(&Json::parse("1").unwrap()), "own keys over inherited");
    }
    // Every child's parent is the session one level up, by its own announcement.
    let spawns =
        kind(&events, |kind| if let EventKind::SpawnSessionStart(spawn) = kind { Some(spawn) } else { None });
    assert_eq!(spawns.iter().map(|spawn| spawn.depth).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(&spawns[0].parent_session_id, session.id());
    for pair in spawns.windows(2) {
        assert_eq!(pair[1].parent_session_id, pair[0].child_session_id);
        assert!(pair[0].child_session_id.as_str() < pair[1].child_session_id.as_str(), "ids ascend");
    }
    assert_eq!(session.with_tree(anabranch_session::SessionTree::len), 6);
}

#[tokio::test]
async fn a_child_beyond_the_depth_is_refused_and_its_parent_told() {
    let events = reply_events(nested(6).reply_stream("Go.")).await;
    assert!(of_child(&events, "leaf").next().is_none());
    let complete = kind(own(&events), |kind| {
        if let EventKind::StreamComplete(complete) = kind { complete.message.as_ref() } else { None }
    });
    assert_eq!(
        complete[0].text(),
        "a sub-agent here would be at depth 6, and the limit is 5; do the work yourself"
    );
}

#[tokio::test]
async fn running_at_once_and_in_total_are_bounded_and_slots_come_back() {
    let limits = Limits::default().max_running(2).max_spawned(3);
    let calls = [node("a", "n1"), node("b", "n2"), node("c", "n3")];
    let model = ScriptedModel::from_fn("scripted", move |request| match request.turn {
        0 | 1 => calls.iter().fold(Turn::new(), |turn, call| turn.call("spawn_subagent", call)),
        _ => Turn::new().text("end"),
    });
    let agent = Agent::builder("master", model)
        .tool(SpawnSubagent::new(says("worker", "done")))
        .limits(limits)
        .build();
    let session = agent.session();
    let events = reply_events(session.prompt("Go.").await.unwrap()).await;
    let texts = kind(own(&events), |kind| {
        if let EventKind::ToolResultTextDelta(delta) = kind { Some(&*delta.delta) } else { None }
    });
    let mut refused: Vec<_> = texts.into_iter().filter(|text| *text != "done").collect();
    refused.sort_unstable();
    assert_eq!(
        refused,
        [
            "2 sub-agents are running, which is the limit; wait for one to end",
            "3 sub-agents have been spawned in this session, which is the limit; do the work yourself",
            "3 sub-agents have been spawned in this session, which is the limit; do the work yourself",
        ]
    );
    assert_eq!(session.children_running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_takes_too_long_is_stopped_and_keeps_what_it_said() {
    let model = ScriptedModel::new("scripted").turn(|_| Turn::new().text("half done").hang());
    let call = serde_json::json!({ "task": "x", "timeout": 2, "metadata": { "node_id": "n1" } });
    let start = tokio::time::Instant::now();
    let agent = master(Agent::builder("worker", model).build(), vec![call]);
    let events = reply_events(agent.reply_stream("Go.")).await;
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    let complete = kind(of_child(&events, "n1"), |kind| {
        if let EventKind::StreamComplete(complete) = kind { Some(complete) } else { None }
    });
    assert_eq!(complete.len(), 1);
    assert_eq!(complete[0].outcome, Outcome::TimedOut);
    let ends = kind(own(&events), |kind| {
        if let EventKind::ToolResultEnd(end) = kind {
            Some((end.state, end.response.get_str("outcome")))
        } else {
            None
        }
    });
    assert_eq!(ends, [(ToolResultState::Error, Some("timed_out".to_owned()))]);
    let texts: String = kind(own(&events), |kind| {
        if let EventKind::ToolResultTextDelta(delta) = kind { Some(&*delta.delta) } else { None }
    })
    .concat();
    assert_eq!(texts, "timed out after 2 s\n\nBefore that, the sub-agent said:\nhalf done");
}

#[tokio::test]
async fn files_of_a_child_and_of_its_child_are_in_the_result() {
    let file = |name: &'static str| {
        FunctionTool::new("write", "", move |_: Nothing, context| async move {
            context.artifact(Artifact::new(name, format!("out/{name}"), "text/csv"));
            Ok::<_, String>("written")
        })
    };
    let writes = |turn: Turn| turn.call("write", serde_json::json!({}));
    let inner =
        ScriptedModel::new("scripted").turn(move |_| writes(Turn::new())).turn(|_| Turn::new().text("inner"));
    let inner = Agent::builder("inner", inner).tool(file("inner.csv")).build();
    let outer = ScriptedModel::new("scripted")
        .turn(move |_| writes(Turn::new()).call("spawn_subagent", serde_json::json!({ "task": "x" })))
        .turn(|_| Turn::new().text("outer"));
    let outer =
        Agent::builder("outer", outer).tool(file("outer.csv")).tool(SpawnSubagent::new(inner)).build();
    let events = reply_events(master(outer, vec![node("x", "n1")]).reply_stream("Go.")).await;
    let ends = kind(own(&events), |kind| {
        if let EventKind::ToolResultEnd(end) = kind { end.response.get("files") } else { None }
    });
    let mut files: Vec<Artifact> = ends[0].to().unwrap();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(files.iter().map(|file| &*file.path).collect::<Vec<_>>(), ["out/inner.csv", "out/outer.csv"]);
}
