//! One call: what it makes of what its tool does.

use std::sync::Arc;

use anabranch_pipeline::{Acting, Executed, FunctionTool, ToolCall, ToolContext, ToolYield, Toolkit};
use anabranch_proto::{Artifact, EventKind, Metadata, ToolChunk, ToolResultState, event::ReplyEnd};
use futures::stream::{self, StreamExt};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::support::{
    Script, Step, StreamTool, acting, call, check_call, child_caller, custom, event, last, lines, response,
    root_caller, run_call, run_calls, run_script, text,
};

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn add() -> Acting {
    let add = FunctionTool::new("add", "Adds.", |args: Add, _context| async move {
        args.a.checked_add(args.b).map(|sum| sum.to_string()).ok_or("the sum is too large")
    });
    Acting::new(Toolkit::new().with(add))
}

/// Runs a call that must fail, and gives the text for the model.
fn failure(acting: &Acting, call: ToolCall) -> String {
    let items = run_call(call, &root_caller(), acting);
    let response = check_call(&items);
    assert_eq!(response.state, ToolResultState::Error);
    response.text()
}

#[test]
fn a_call_is_a_start_its_parts_an_end_and_a_response() {
    let caller = child_caller();
    let items = run_script([text("x"), Step::Yield, text(""), last("y")], &caller);
    assert_eq!(
        lines(&items),
        ["a start", "a text \"x\"", "a text \"y\"", "a end success", "a response success \"xy\""]
    );
    check_call(&items);
    for item in &items {
        if let Executed::Event(event) = item {
            assert_eq!(event.scope, caller.scope);
            assert!(event.metadata.shares_with(&caller.metadata));
        }
    }
}

#[test]
fn chunks_and_events_of_one_tool_keep_their_order() {
    let items = run_script(
        [
            Step::Event(custom("1")),
            text("a"),
            Step::Emit(custom("2")),
            Step::Emit(custom("3")),
            Step::Event(custom("4")),
            Step::Send(ToolChunk::text("b")),
            Step::Emit(custom("5")),
            text("c"),
        ],
        &root_caller(),
    );
    assert_eq!(
        lines(&items),
        [
            "a start",
            "custom 1",
            "a text \"a\"",
            "custom 2",
            "custom 3",
            "custom 4",
            "a text \"b\"",
            "custom 5",
            "a text \"c\"",
            "a end success",
            "a response success \"abc\""
        ]
    );
}

#[test]
fn events_do_not_touch_the_response() {
    let without = run_script([text("a"), last("b")], &root_caller());
    let with =
        run_script([Step::Event(custom("1")), text("a"), Step::Emit(custom("2")), last("b")], &root_caller());
    assert_eq!(response(&without), response(&with));
}

#[test]
fn a_tool_without_a_chunk_is_a_success_without_content() {
    let items = run_script([], &root_caller());
    let response = check_call(&items);
    assert_eq!((response.state, response.content.len()), (ToolResultState::Success, 0));
    assert_eq!(lines(&items), ["a start", "a end success", "a response success \"\""]);
}

#[test]
fn arguments_that_do_not_fit_are_refused_with_a_readable_text() {
    let add = add();
    let text = |arguments: &str| failure(&add, ToolCall::new("1", "add", arguments));
    assert_eq!(
        text("{\"a\":"),
        "`add`: invalid arguments: not valid JSON: EOF while parsing a value at line 1 column 5"
    );
    assert_eq!(text("[1,2]"), "`add`: invalid arguments: not a JSON object");
    assert_eq!(text("null"), "`add`: invalid arguments: not a JSON object");
    assert_eq!(text("{\"a\":1}"), "`add`: invalid arguments: missing field `b` at line 1 column 7");
    assert_eq!(text(" "), "`add`: invalid arguments: missing field `a` at line 1 column 2");
    assert_eq!(
        text("{\"a\":1,\"b\":\"two\"}"),
        "`add`: invalid arguments: invalid type: string \"two\", expected i64 at line 1 column 16"
    );
}

#[test]
fn arguments_nested_without_end_are_refused() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let text = failure(&add(), ToolCall::new("1", "add", deep));
    assert!(text.starts_with("`add`: invalid arguments: "), "{text}");
}

#[test]
fn an_unknown_tool_is_told_the_known_ones() {
    let acting = acting([Script::new("read", []), Script::new("write", [])]);
    assert_eq!(failure(&acting, call("raed")), "there is no tool `raed`; the tools are: `read`, `write`");
    assert_eq!(failure(&Acting::new(Toolkit::new()), call("read")), "there is no tool `read`, nor any other");
}

#[test]
fn an_error_of_a_function_is_a_failure_with_its_text() {
    let arguments = format!("{{\"a\":{},\"b\":1}}", i64::MAX);
    assert_eq!(failure(&add(), ToolCall::new("1", "add", arguments)), "the sum is too large");
}

#[test]
fn what_a_function_gave_before_its_error_is_kept() {
    let tool = FunctionTool::new("a", "", |_: Nothing, context: ToolContext| async move {
        context.send(ToolChunk::text("half; ")).await.unwrap();
        Err::<(), _>("then it broke")
    });
    let text = failure(&Acting::new(Toolkit::new().with(tool)), call("a"));
    assert_eq!(text, "half; then it broke");
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[test]
fn a_panic_is_a_failure_with_its_text() {
    type Outcome = Result<String, String>;
    fn at_once(_args: Nothing, _context: ToolContext) -> std::future::Ready<Outcome> {
        panic!("at once")
    }
    let in_call = Acting::new(Toolkit::new().with(FunctionTool::new("a", "", at_once)));
    assert_eq!(failure(&in_call, call("a")), "`a` panicked: at once");

    let items = run_script([text("half"), Step::Yield, Step::Panic("in the stream")], &root_caller());
    assert_eq!(
        lines(&items),
        [
            "a start",
            "a text \"half\"",
            "a text \"\\n`a` panicked: in the stream\"",
            "a end error",
            "a response error \"half\\n`a` panicked: in the stream\""
        ]
    );
    check_call(&items);
}

#[test]
fn what_was_emitted_before_a_panic_is_kept() {
    let items = run_script(
        [Step::Emit(custom("1")), Step::Send(ToolChunk::text("half")), Step::Panic("boom")],
        &root_caller(),
    );
    assert_eq!(lines(&items)[..3], ["a start", "custom 1", "a text \"half\""]);
    assert_eq!(check_call(&items).text(), "half\n`a` panicked: boom");
}

/// Panics when it is dropped.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("when dropped");
    }
}

fn panics_when_dropped() -> Acting {
    let tool = StreamTool::new("a", |_context| {
        let guard = PanicsWhenDropped;
        stream::iter([ToolYield::Chunk(ToolChunk::text("x"))]).inspect(move |_| {
            let _ = &guard;
        })
    });
    Acting::new(Toolkit::new().with(tool).with(Script::new("b", [text("y"), Step::Yield, text("z")])))
}

#[test]
fn a_panic_when_the_tool_is_dropped_is_a_failure_too() {
    assert_eq!(failure(&panics_when_dropped(), call("a")), "x\n`a` panicked: when dropped");
}

#[test]
fn a_failing_call_leaves_its_siblings_alone() {
    let script = |name: &str, step: Step| Script::new(name, [text("1"), step, text("2")]);
    let alone = run_script([text("1"), Step::Yield, text("2")], &root_caller());
    let kit = Toolkit::new()
        .with(script("a", Step::Yield))
        .with(script("panics", Step::Panic("boom")))
        .with(script("fails", Step::Chunk(ToolChunk::error("no"))));
    let calls = [call("panics"), call("a"), call("fails"), call("unknown")];
    let items = run_calls(calls, &root_caller(), &Acting::new(kit));
    let of = |id: &str| {
        let lines = lines(&items).into_iter();
        lines.filter(|line| line.split(' ').next() == Some(id)).collect::<Vec<_>>()
    };
    assert_eq!(of("a"), lines(&alone));
    for id in ["panics", "fails", "unknown"] {
        let of = of(id);
        assert_eq!(of.iter().filter(|line| line.ends_with("end error")).count(), 1, "{of:?}");
        assert!(of.last().unwrap().contains("response error"), "{of:?}");
    }
}

#[test]
fn a_tool_that_panics_when_it_is_stopped_takes_nobody_with_it() {
    let caller = root_caller();
    let mut calls = anabranch_pipeline::ExecuteToolCalls::new(
        [call("a"), call("b")],
        Arc::clone(&caller),
        &panics_when_dropped(),
    );
    assert!(crate::support::poll(&mut calls).is_ready());
    drop(calls);
}

#[test]
fn output_up_to_the_limit_is_kept_and_beyond_it_the_call_fails() {
    let steps = [text("abc"), Step::Emit(custom("1")), text("de"), Step::Hang];
    let limited = |steps: &[Step], limit| {
        let acting = acting([Script::new("a", steps.to_vec())]).output_limit(limit);
        run_call(call("a"), &root_caller(), &acting)
    };
    let items = limited(&steps, 4);
    let response = check_call(&items);
    assert_eq!(response.state, ToolResultState::Error);
    assert_eq!(response.text(), "abc\nthe output of `a` is over 4 bytes and was cut");
    assert!(lines(&items).contains(&"custom 1".to_owned()));

    let items = limited(&steps[..3], 5);
    assert_eq!(check_call(&items).text(), "abcde");
    assert_eq!(check_call(&items).state, ToolResultState::Success);
}

#[test]
fn data_counts_towards_the_limit() {
    use anabranch_proto::{DataBlock, DataSource};
    let source = DataSource::Base64 { data: "aGVsbG8=".to_owned(), media_type: "text/plain".into() };
    let chunk = ToolChunk::new(vec![DataBlock::new(source).into()]);
    let run = |limit| {
        let acting = acting([Script::new("a", [Step::Chunk(chunk.clone())])]).output_limit(limit);
        check_call(&run_call(call("a"), &root_caller(), &acting)).state
    };
    assert_eq!((run(8), run(7)), (ToolResultState::Success, ToolResultState::Error));
}

#[test]
fn what_comes_after_the_last_chunk_is_ignored_and_counted() {
    let caller = root_caller();
    let steps = [last("x"), text("y"), Step::Event(custom("1")), Step::Send(ToolChunk::error("z"))];
    let items = run_script(steps, &caller);
    assert_eq!(
        lines(&items),
        ["a start", "a text \"x\"", "custom 1", "a end success", "a response success \"x\""]
    );
    assert_eq!(caller.counters.chunks_ignored(), 2);
}

#[test]
fn a_panic_after_the_last_chunk_changes_nothing() {
    let items = run_script([last("x"), Step::Panic("too late")], &root_caller());
    assert_eq!(lines(&items).last().unwrap(), "a response success \"x\"");
}

#[test]
fn a_tool_that_never_ends_is_done_with_its_last_chunk() {
    let items = run_script([last("x"), Step::Hang], &root_caller());
    assert_eq!(check_call(&items).text(), "x");

    let caller = root_caller();
    let endless = StreamTool::new("a", |_context| {
        stream::repeat_with(|| ToolYield::Chunk(ToolChunk::text("x").last()))
    });
    let items = run_call(call("a"), &caller, &Acting::new(Toolkit::new().with(endless)));
    assert_eq!(check_call(&items).text(), "x");
    assert!(caller.counters.chunks_ignored() > 0);
}

#[test]
fn the_worst_state_wins() {
    use ToolResultState::{Denied, Error, Interrupted, Running, Success};
    let run = |states: &[ToolResultState]| {
        let steps = states.iter().map(|&state| Step::Chunk(ToolChunk::new(vec![]).state(state)));
        check_call(&run_script(steps, &root_caller())).state
    };
    assert_eq!(run(&[Running]), Success);
    assert_eq!(run(&[Success, Denied, Success]), Denied);
    assert_eq!(run(&[Interrupted, Denied, Running]), Interrupted);
    assert_eq!(run(&[Error, Interrupted, Success]), Error);
}

#[test]
fn artifacts_are_the_files_of_the_response() {
    let tool = FunctionTool::new("a", "", |_: Nothing, context: ToolContext| async move {
        context.artifact(Artifact::new("b.csv", "out/b.csv", "text/csv"));
        let files = serde_json::json!([{"name": "a.csv", "path": "a.csv", "mime_type": "text/csv"}]);
        let metadata = Metadata::default().with("rows", 2).with("files", files);
        Ok::<_, String>(ToolChunk::text("done").metadata(metadata))
    });
    let items = run_call(call("a"), &root_caller(), &Acting::new(Toolkit::new().with(tool)));
    let expected = concat!(
        r#"{"rows":2,"files":[{"name":"a.csv","path":"a.csv","mime_type":"text/csv"},"#,
        r#"{"name":"b.csv","path":"out/b.csv","mime_type":"text/csv"}]}"#
    );
    assert_eq!(check_call(&items).metadata.to_string(), expected);
}

#[test]
fn artifacts_of_a_call_that_fails_are_kept() {
    let tool = FunctionTool::new("a", "", |_: Nothing, context: ToolContext| async move {
        context.artifact(Artifact::new("b.csv", "out/b.csv", "text/csv"));
        assert!(context.call_id().as_str().is_empty(), "boom");
        Ok::<_, String>(())
    });
    let items = run_call(call("a"), &root_caller(), &Acting::new(Toolkit::new().with(tool)));
    let response = check_call(&items);
    assert_eq!(response.state, ToolResultState::Error);
    assert!(response.metadata.get("files").is_some());
}

#[test]
fn blocks_that_no_result_can_hold_are_left_out_and_counted() {
    use anabranch_proto::{TextBlock, ThinkingBlock};
    let caller = root_caller();
    let content = vec![ThinkingBlock::new("hm").into(), TextBlock::new("x").into()];
    let items = run_script([Step::Chunk(ToolChunk::new(content))], &caller);
    assert_eq!(check_call(&items).content, [TextBlock::new("x").into()]);
    assert_eq!(caller.counters.chunks_ignored(), 1);
}

#[test]
fn data_is_told_piece_by_piece_and_adds_up() {
    use anabranch_proto::{ContentBlock, DataBlock, DataSource, event::DataPart};
    let piece = |data: &str| {
        let source = DataSource::Base64 { data: data.to_owned(), media_type: "text/plain".into() };
        Step::Chunk(ToolChunk::new(vec![DataBlock::new(source).id("d").into()]))
    };
    let items = run_script([piece("aGVs"), piece("bA=="), piece("bw==")], &root_caller());
    let mut parts = Vec::new();
    for item in &items {
        if let Executed::Event(event) = item
            && let EventKind::ToolResultDataDelta(delta) = &event.kind
        {
            parts.push((delta.block_id.clone(), delta.part.clone()));
        }
    }
    assert_eq!(parts, ["aGVs", "bA==", "bw=="].map(|part| ("d".into(), DataPart::Base64(part.to_owned()))));
    let ContentBlock::Data(block) = &check_call(&items).content[0] else { panic!("{items:?}") };
    assert_eq!(block.source.to_part(), DataPart::Base64("aGVsbG8=".to_owned()));
}

#[test]
fn data_that_another_form_replaces_is_counted() {
    use anabranch_proto::{ContentBlock, DataBlock, DataSource, event::DataPart};
    let base64 = |data: &str| DataSource::Base64 { data: data.to_owned(), media_type: "text/plain".into() };
    let url = |url: &str| DataSource::Url { url: url.to_owned(), media_type: "text/plain".into() };
    let run = |sources: Vec<DataSource>| {
        let piece = |source| Step::Chunk(ToolChunk::new(vec![DataBlock::new(source).id("d").into()]));
        let caller = root_caller();
        let items = run_script(sources.into_iter().map(piece), &caller);
        let ContentBlock::Data(block) = &check_call(&items).content[0] else { panic!("{items:?}") };
        (block.source.to_part(), caller.counters.chunks_ignored())
    };
    let address = || DataPart::Url("http://x".to_owned());
    assert_eq!(run(vec![base64("aGVs"), url("http://x")]), (address(), 1));
    assert_eq!(run(vec![url("http://x"), base64("aGVs")]), (DataPart::Base64("aGVs".to_owned()), 1));
    // Nothing is lost: there was nothing, or it is the newer address.
    assert_eq!(run(vec![base64(""), url("http://x")]), (address(), 0));
    assert_eq!(run(vec![url("http://y"), url("http://x")]), (address(), 0));
}

#[test]
fn a_tool_whose_every_event_is_dropped_does_not_hold_up_the_others() {
    let caller = root_caller();
    let end = event(
        anabranch_proto::Scope::Root,
        ReplyEnd::new("ses_root", "reply", anabranch_proto::FinishedReason::Completed),
    );
    let forbidden = StreamTool::new("a", move |_context| stream::repeat(ToolYield::Event(Arc::clone(&end))));
    let silent = StreamTool::new("b", |_context| stream::repeat(ToolYield::Chunk(ToolChunk::text(""))));
    let kit = Toolkit::new().with(forbidden).with(silent).with(Script::new("c", [text("x")]));
    let mut calls = anabranch_pipeline::ExecuteToolCalls::new(
        [call("a"), call("b"), call("c")],
        Arc::clone(&caller),
        &Acting::new(kit),
    );
    let mut items = Vec::new();
    for _ in 0..20 {
        if let std::task::Poll::Ready(item) = crate::support::poll(&mut calls) {
            items.extend(item);
        }
    }
    assert_eq!(lines(&items).last().unwrap(), "c response success \"x\"");
    assert!(caller.counters.events_dropped() > 0);
}

#[test]
fn a_host_is_found_by_its_type() {
    let tool = FunctionTool::new("a", "", |_: Nothing, context: ToolContext| async move {
        let number = context.host::<u32>().map(|number| *number);
        Ok::<_, String>(format!("{number:?} {:?}", context.host::<String>()))
    });
    let caller = anabranch_pipeline::Caller::clone(&root_caller()).host(Arc::new(7_u32));
    let items = run_call(call("a"), &Arc::new(caller), &Acting::new(Toolkit::new().with(tool)));
    assert_eq!(check_call(&items).text(), "Some(7) None");
}
