//! `docs/metadata.md`: each row of the table of uses, from where it is set, through both spellings.

use anabranch_proto::{Event, Metadata, Scope, flat, native};
use anabranch_runtime::{Agent, Prompt, ScriptedModel, SpawnSubagent, Turn};

use crate::support::{events, metadata};

/// A master with a worker that spawns a helper, each with keys of its own.
fn agent(agent_keys: &str, worker_keys: &str, helper_keys: &str) -> Agent {
    let spawning = |keys: &str| {
        let call = serde_json::json!({ "task": "x", "metadata": serde_json::from_str::<serde_json::Value>(keys).unwrap() });
        ScriptedModel::new("scripted")
            .turn(move |_| Turn::new().call("spawn_subagent", &call))
            .turn(|_| Turn::new().text("done"))
    };
    let helper = ScriptedModel::new("scripted").turn(|_| Turn::new().text("done"));
    let helper = Agent::builder("helper", helper).build();
    let worker = Agent::builder("worker", spawning(helper_keys)).tool(SpawnSubagent::new(helper)).build();
    Agent::builder("master", spawning(worker_keys))
        .tool(SpawnSubagent::new(worker))
        .metadata(metadata(agent_keys))
        .build()
}

/// The events of a run, written and read again in both spellings.
async fn through_both(agent: &Agent, prompt: &str) -> [Vec<Event>; 2] {
    let events = events(agent.reply_stream(Prompt::new("Go.").metadata(metadata(prompt)))).await;
    let mut reader = native::Reader::default();
    let natively =
        events.iter().map(|event| reader.read(&native::to_string(event).unwrap()).unwrap().event).collect();
    let mut reader = flat::Reader::default();
    let flatly =
        events.iter().map(|event| reader.read(&flat::to_string(event).unwrap()).unwrap().event).collect();
    [natively, flatly]
}

fn of<'a>(events: &'a [Event], name: &'a str) -> impl Iterator<Item = &'a Metadata> {
    let of_name = move |event: &&Event| match &event.scope {
        Scope::Root => name == "master",
        Scope::Child(child) => &*child.source_name == name,
    };
    events.iter().filter(of_name).map(|event| &event.metadata)
}

#[track_caller]
fn assert_all(events: &[Event], name: &str, key: &str, value: Option<&str>) {
    assert!(of(events, name).count() > 5, "{name}");
    for metadata in of(events, name) {
        assert_eq!(metadata.get_str(key).as_deref(), value, "{key} of {name}: {metadata}");
    }
}

#[tokio::test]
async fn tenancy_is_on_every_event_of_the_tree() {
    for events in through_both(&agent("{}", "{}", "{}"), r#"{"tenant_id":"acme","user_id":"u1"}"#).await {
        for name in ["master", "worker", "helper"] {
            assert_all(&events, name, "tenant_id", Some("acme"));
            assert_all(&events, name, "user_id", Some("u1"));
        }
    }
}

#[tokio::test]
async fn tracing_has_one_trace_and_a_span_per_spawn() {
    let agent = agent("{}", r#"{"span_id":"s1"}"#, r#"{"span_id":"s2"}"#);
    for events in through_both(&agent, r#"{"trace_id":"t","span_id":"s0"}"#).await {
        // An announcement has its child's keys: it is what the child's span begins with.
        assert_all(&events, "helper", "span_id", Some("s2"));
        for (name, span) in [("master", "s0"), ("worker", "s1")] {
            let spans: Vec<_> =
                of(&events, name).map(|metadata| metadata.get_str("span_id").unwrap()).collect();
            assert_eq!(spans.iter().filter(|other| *other != span).count(), 1, "{spans:?}");
        }
        for name in ["master", "worker", "helper"] {
            assert_all(&events, name, "trace_id", Some("t"));
        }
    }
}

#[tokio::test]
async fn a_plugin_says_which_it_is_on_all_that_its_agent_causes() {
    let agent = agent(r#"{"plugin_id":"p","source":"marketplace"}"#, "{}", "{}");
    for events in through_both(&agent, "{}").await {
        for name in ["master", "worker", "helper"] {
            assert_all(&events, name, "plugin_id", Some("p"));
            assert_all(&events, name, "source", Some("marketplace"));
        }
    }
}

#[tokio::test]
async fn an_experiment_of_the_prompt_stands_above_that_of_the_agent() {
    let agent = agent(r#"{"experiment_id":"e","variant":"control"}"#, "{}", "{}");
    for events in through_both(&agent, r#"{"variant":"b"}"#).await {
        for name in ["master", "worker", "helper"] {
            assert_all(&events, name, "experiment_id", Some("e"));
            assert_all(&events, name, "variant", Some("b"));
        }
    }
}

#[tokio::test]
async fn a_node_of_a_graph_is_on_its_spawn_and_its_children_and_not_on_the_root() {
    let agent = agent("{}", r#"{"graph_id":"g","node_id":"n1"}"#, "{}");
    for events in through_both(&agent, "{}").await {
        for name in ["worker", "helper"] {
            assert_all(&events, name, "graph_id", Some("g"));
            assert_all(&events, name, "node_id", Some("n1"));
        }
        let on_root: Vec<_> = of(&events, "master").filter(|metadata| !metadata.is_empty()).collect();
        assert_eq!(on_root.len(), 1, "the announcement alone");
        assert_eq!(on_root[0].get_str("node_id").as_deref(), Some("n1"));
        // The instance, beside the node.
        let instances: std::collections::BTreeSet<_> = ["worker", "helper"]
            .map(|name| of(&events, name).next().unwrap().get_str("subagent_id").unwrap())
            .into();
        assert_eq!(instances.len(), 2);
    }
}
