//! A turn's calls on one stream.

use std::{sync::Arc, task::Poll, time::Duration};

use anabranch_pipeline::{
    Acting, ExecuteToolCalls, Executed, FunctionTool, Tool, ToolContext, ToolDefinition, ToolInvocation,
    ToolStream, Toolkit,
};
use anabranch_proto::{Json, ToolCallId};
use futures::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Notify;

use crate::support::{
    Journal, Script, Step, acting, call, custom, lines, poll, root_caller, run_calls, text,
};

#[test]
fn calls_that_are_ready_take_turns() {
    let tools = [
        Script::new("n1", ["1", "2", "3", "4"].map(text)),
        Script::new("n2", [text("1"), Step::Event(custom("n2")), text("2")]),
    ];
    let items = run_calls([call("n1"), call("n2")], &root_caller(), &acting(tools));
    assert_eq!(
        lines(&items),
        [
            "n1 start",
            "n2 start",
            "n1 text \"1\"",
            "n2 text \"1\"",
            "n1 text \"2\"",
            "custom n2",
            "n1 text \"3\"",
            "n2 text \"2\"",
            "n1 text \"4\"",
            "n2 end success",
            "n1 end success",
            "n2 response success \"12\"",
            "n1 response success \"1234\""
        ]
    );
}

#[test]
fn a_result_ends_as_soon_as_its_call_does() {
    let long = (0..100).map(|_| text("x"));
    let tools = [Script::new("long", long), Script::new("short", [text("1")])];
    let items = run_calls([call("long"), call("short")], &root_caller(), &acting(tools));
    let at = |line: &str| lines(&items).iter().position(|known| known == line).unwrap();
    let told =
        lines(&items)[..at("short end success")].iter().filter(|line| line.starts_with("long text")).count();
    assert!(told <= 2, "{told}");
    assert!(at("short response success \"1\"") < at("long end success"));
}

#[test]
fn no_calls_are_an_empty_stream() {
    assert!(run_calls([], &root_caller(), &acting([])).is_empty());
}

/// A run of calls, each named after its tool; those whose name begins with `x` are exclusive.
fn groups(calls: &[&str]) -> Vec<String> {
    let journal = Journal::default();
    let tool = |name: &&str| {
        let tool = Script::new(name, [text("1"), Step::Yield, text("2")]).journal(&journal);
        if name.starts_with('x') { tool.exclusive() } else { tool }
    };
    let acting = acting(calls.iter().map(tool));
    let items = run_calls(calls.iter().map(|name| call(name)), &root_caller(), &acting);
    let responses = items.iter().filter(|item| matches!(item, Executed::Response(..))).count();
    assert_eq!(responses, calls.len());
    journal.lines()
}

#[test]
fn an_exclusive_call_runs_alone_between_groups() {
    assert_eq!(
        groups(&["a", "b", "x", "c", "d"]),
        [
            "start a", "start b", "drop a", "drop b", "start x", "drop x", "start c", "start d", "drop c",
            "drop d"
        ]
    );
}

#[test]
fn exclusive_calls_run_one_after_another() {
    assert_eq!(
        groups(&["x1", "x2", "a", "x3"]),
        ["start x1", "drop x1", "start x2", "drop x2", "start a", "drop a", "start x3", "drop x3"]
    );
}

#[test]
fn an_unknown_tool_runs_beside_others() {
    let tools = [Script::new("a", [text("1"), Step::Yield, text("2")])];
    let items = run_calls([call("a"), call("unknown")], &root_caller(), &acting(tools));
    assert_eq!(lines(&items)[..2], ["a start", "unknown start"]);
}

/// A tool that nobody may ask anything.
struct Touchy(ToolDefinition);

impl Tool for Touchy {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn is_exclusive(&self) -> bool {
        panic!("do not ask")
    }

    fn call(&self, _invocation: ToolInvocation, _context: ToolContext) -> ToolStream {
        panic!("do not call")
    }
}

#[test]
fn a_tool_that_panics_when_it_is_asked_whether_it_is_exclusive_fails_alone() {
    let touchy = Touchy(ToolDefinition::new("touchy", "", Json::from(serde_json::json!({}))));
    let kit = Toolkit::new().with(touchy).with(Script::new("a", [text("1")]));
    let items = run_calls([call("touchy"), call("a")], &root_caller(), &Acting::new(kit));
    let ends: Vec<_> = lines(&items).into_iter().filter(|line| line.contains(" response ")).collect();
    assert_eq!(
        ends,
        ["touchy response error \"`touchy` panicked: do not call\"", "a response success \"1\""]
    );
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[test]
fn calls_that_wait_are_woken_and_complete_in_any_order() {
    let bells = [Arc::new(Notify::new()), Arc::new(Notify::new())];
    let tool = |name: &'static str, bell: &Arc<Notify>| {
        let bell = Arc::clone(bell);
        FunctionTool::new(name, "", move |_: Nothing, _context| {
            let bell = Arc::clone(&bell);
            async move {
                bell.notified().await;
                Ok::<_, String>(name)
            }
        })
    };
    let kit = Toolkit::new().with(tool("a", &bells[0])).with(tool("b", &bells[1]));
    let mut calls = ExecuteToolCalls::new([call("a"), call("b")], root_caller(), &Acting::new(kit));
    let mut items = Vec::new();
    let mut take = |calls: &mut ExecuteToolCalls| {
        while let Poll::Ready(Some(item)) = poll(calls) {
            items.push(item);
        }
    };
    take(&mut calls);
    bells[1].notify_one();
    take(&mut calls);
    bells[0].notify_one();
    take(&mut calls);
    assert_eq!(poll(&mut calls), Poll::Ready(None));
    let ends: Vec<_> = items
        .iter()
        .filter_map(|item| match item {
            Executed::Response(id, _) => Some(id.clone()),
            Executed::Event(_) => None,
        })
        .collect();
    assert_eq!(ends, [ToolCallId::from("b"), ToolCallId::from("a")]);
}

#[test]
fn dropping_the_stream_midway_drops_the_tools_and_starts_no_other() {
    let journal = Journal::default();
    let hangs = |name| Script::new(name, [text("1"), Step::Hang]).journal(&journal);
    let acting = acting([hangs("a"), hangs("b"), hangs("x").exclusive(), hangs("c")]);
    let mut calls = ExecuteToolCalls::new(["a", "b", "x", "c"].map(call), root_caller(), &acting);
    while poll(&mut calls).is_ready() {}
    assert_eq!(journal.lines(), ["start a", "start b"]);
    drop(calls);
    assert_eq!(journal.lines(), ["start a", "start b", "drop a", "drop b"]);
}

#[test]
fn nothing_starts_before_the_stream_is_polled() {
    let journal = Journal::default();
    let acting = acting([Script::new("a", []).journal(&journal)]);
    drop(ExecuteToolCalls::new([call("a")], root_caller(), &acting));
    assert!(journal.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_calls_that_wait_wait_together() {
    let tool = FunctionTool::new("wait", "", |_: Nothing, _: ToolContext| async {
        #[expect(clippy::disallowed_methods, reason = "on paused time, and the test is the runtime")]
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok::<_, String>("done")
    });
    let acting = Acting::new(Toolkit::new().with(tool));
    let calls = ["1", "2"].map(|id| anabranch_pipeline::ToolCall::new(id, "wait", ""));
    let began = tokio::time::Instant::now();
    let items: Vec<_> = ExecuteToolCalls::new(calls, root_caller(), &acting).collect().await;
    assert_eq!(began.elapsed(), Duration::from_millis(100));
    assert_eq!(items.iter().filter(|item| matches!(item, Executed::Response(..))).count(), 2);
}
