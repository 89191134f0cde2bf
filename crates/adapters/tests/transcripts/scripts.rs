//! The scripts: what happens, by name.

use anabranch_proto::{
    ErrorInfo, ErrorType, Event, EventId, EventKind, Fields, Metadata, Outcome, Scope, SpawnMechanism,
    TextOrBlocks, ToolCallBlock, ToolCallId, ToolResultBlock, ToolResultState,
    event::{
        ConfirmResult, Custom, DataBlockDelta, DataBlockEnd, DataBlockStart, DataPart,
        ExternalExecutionResult, HintBlockEvent, ModelCallEnd, ModelCallStart, RequireExternalExecution,
        RequireUserConfirm, StreamComplete, TextBlockDelta, TextBlockEnd, TextBlockStart, ThinkingBlockStart,
        ToolCallDelta, ToolCallEnd, ToolCallStart, Unknown, UserConfirmResult,
    },
};
use anabranch_testkit::{Actor, Stage};

use crate::field_cases;

/// What happens.
pub(crate) type Script = fn(&Stage);

/// Each script with its name.
pub(crate) const ALL: &[(&str, Script)] = &[
    ("two_children_in_parallel", two_children_in_parallel),
    ("nested", nested),
    ("failed", failed),
    ("duplicate_spawn", duplicate_spawn),
    ("fallback_and_upgrade", fallback_and_upgrade),
    ("second_run", second_run),
    ("mechanisms", mechanisms),
    ("interrupted_and_timed_out", interrupted_and_timed_out),
    ("same_name_token_by_token", same_name_token_by_token),
    ("ends_mid_message", ends_mid_message),
    ("late_events", late_events),
    ("unicode", unicode),
    ("hostile", hostile),
    ("questions", questions),
    ("tool_states", tool_states),
    ("what_is_hidden", what_is_hidden),
    ("root_fails", root_fails),
    ("colliding_siblings", colliding_siblings),
    ("background_beyond_the_turn", background_beyond_the_turn),
    ("questions_in_turn", questions_in_turn),
    ("stopped_while_it_asks", stopped_while_it_asks),
    ("models_at_work", models_at_work),
    ("cut_in_the_midst_of_a_call", cut_in_the_midst_of_a_call),
    ("from_the_future", from_the_future),
    ("field_case_1", field_cases::hints_before_the_end),
    ("field_case_2", field_cases::progress_before_the_end),
    ("field_case_5", field_cases::late_duplicate_and_new_run),
    ("field_case_6", field_cases::redelivered_while_it_asks),
    ("field_case_8", field_cases::grandchild_goes_on),
    ("field_case_14", field_cases::two_ask),
    ("field_case_15", field_cases::allowed_and_failed),
    ("field_case_18", field_cases::two_ends),
    ("field_case_20", field_cases::text_before_its_spawn),
    ("colliding_ids", colliding_ids),
    ("background", background),
    ("announced_again", announced_again),
    ("two_questions", two_questions),
    ("results_go_to_the_parent", results_go_to_the_parent),
    ("missing_spawn", missing_spawn),
    ("unicode_cut_anywhere", unicode_cut_anywhere),
];

/// The script of this name.
pub(crate) fn named(name: &str) -> Script {
    ALL.iter().find(|script| script.0 == name).unwrap().1
}

fn two_children_in_parallel(stage: &Stage) {
    let root = stage.root();
    root.begin("Compare two cities");
    root.think("Two at once.");
    root.say_in(&["I ask ", "two helpers."]);
    let (one, two) = (
        root.call("spawn_subagent", r#"{"task":"Seattle"}"#),
        root.call("spawn_subagent", r#"{"task":"New York"}"#),
    );
    let n1 = root.spawning("n1").call(&one).with("node_id", "n1").now();
    let n2 = root.spawning("n2").call(&two).with("node_id", "n2").now();
    n1.begin("Seattle");
    n2.begin("New York");
    let read = n1.call("read_csv", r#"{"path":"seattle.csv"}"#);
    n2.use_tool("read_csv", r#"{"path":"new-york.csv"}"#, "1461 rows");
    n1.result(&read, "read_csv", ToolResultState::Success, "1461 rows\nand more");
    let (a, b) = (n1.open_text(), n2.open_text());
    n1.delta(&a, "Seattle is wet:\n");
    n2.delta(&b, "New York ");
    n1.delta(&a, "3.0 mm");
    n2.delta(&b, "is warm.");
    n2.close_text(&b);
    n2.end_saying(Outcome::Completed, "New York is warm.");
    root.result(&two, "spawn_subagent", ToolResultState::Success, "New York is warm.");
    n1.delta(&a, " a day.");
    n1.close_text(&a);
    n1.end_saying(Outcome::Completed, "Seattle is wet:\n3.0 mm a day.");
    root.result(&one, "spawn_subagent", ToolResultState::Success, "Seattle is wet.");
    root.say("Seattle is wetter.\n");
    root.end_saying(Outcome::Completed, "Seattle is wetter.\n");
}

fn nested(stage: &Stage) {
    let root = stage.root();
    let child = root.spawn("n1");
    child.begin("Delegate");
    let block = child.open_text();
    child.delta(&block, "I delegate");
    let grandchild = child.spawn("reader");
    child.delta(&block, " and wait.");
    child.close_text(&block);
    grandchild.begin("Read");
    grandchild.use_tool("read", r#"{"path":"a"}"#, "a");
    grandchild.say("It says a.");
    grandchild.end_saying(Outcome::Completed, "It says a.");
    child.say("Done.");
    child.end_saying(Outcome::Completed, "Done.");
}

fn failed(stage: &Stage) {
    let root = stage.root();
    let call = root.call("spawn_subagent", "{}");
    let child = root.spawning("n1").call(&call).now();
    let read = child.call("read_csv", r#"{"path":"missing.csv"}"#);
    child.result(&read, "read_csv", ToolResultState::Error, "missing.csv: no such file\nat line 3");
    child.end_with_error(Outcome::Failed, ErrorType::INTERNAL, "missing.csv: no such file");
    root.result(&call, "spawn_subagent", ToolResultState::Error, "missing.csv: no such file");
}

fn duplicate_spawn(stage: &Stage) {
    let root = stage.root();
    let child = root.spawn("n1");
    stage.repeat_last();
    child.say("Once.");
    child.end(Outcome::Completed);
    stage.repeat_last();
}

fn fallback_and_upgrade(stage: &Stage) {
    let root = stage.root();
    // As the processor writes a spawn that it did not see: manual, with the name of the scope.
    let child = root.spawning("agent").mechanism(SpawnMechanism::Manual).now();
    child.say("Before.");
    root.update(&child, |update| {
        update
            .source_name(Some("analyst".into()))
            .description(Some("Read the reports".to_owned()))
            .spawn_mechanism(Some(SpawnMechanism::Sync))
    });
    child.say("After.");
    child.end(Outcome::Completed);
    root.update(&child, |update| update.description(Some("Learnt too late".to_owned())));
}

fn second_run(stage: &Stage) {
    let root = stage.root();
    let first = root.spawn("n1");
    first.use_tool("read", "{}", "a");
    first.say("First.");
    first.end_saying(Outcome::Completed, "First.");
    let second = root.spawning("n1").description("Go on").again(&first).now();
    let call = ToolCallStart::new(second.reply(), "call_0", "read");
    second.emit(call);
    second.say("Second.");
    second.end_saying(Outcome::Completed, "Second.");
}

fn mechanisms(stage: &Stage) {
    let root = stage.root();
    for mechanism in [SpawnMechanism::Sync, SpawnMechanism::AsyncWorker, SpawnMechanism::Manual] {
        let child = root.spawning(mechanism.as_str()).mechanism(mechanism).now();
        if mechanism == SpawnMechanism::AsyncWorker {
            root.say("It goes on behind.");
            root.end(Outcome::Completed);
        }
        child.say("Done.");
        child.end_saying(Outcome::Completed, "Done.");
    }
}

fn interrupted_and_timed_out(stage: &Stage) {
    let root = stage.root();
    let one = root.spawn("slow");
    let two = root.spawn("slower");
    let three = root.spawn("endless");
    let call = one.call("fetch", r#"{"url":"https://example.org"}"#);
    one.result(&call, "fetch", ToolResultState::Interrupted, "");
    one.end(Outcome::Interrupted);
    two.say("So far.");
    two.end_with_error(Outcome::TimedOut, ErrorType::INTERNAL, "no answer within 600 s");
    three.end_saying(Outcome::ExceedMaxIters, "As far as I got.");
}

fn same_name_token_by_token(stage: &Stage) {
    let root = stage.root();
    let text = root.open_text();
    let (one, two) = (root.spawn("n1"), root.spawn("n1"));
    let (a, b) = (one.open_text(), two.open_text());
    for (left, right) in ["The ", "sky ", "is\n", "blue."].iter().zip(["Grass ", "is ", "green", ".\n"]) {
        one.delta(&a, left);
        root.delta(&text, "(waiting) ");
        two.delta(&b, right);
    }
    one.close_text(&a);
    two.close_text(&b);
    root.close_text(&text);
    one.end(Outcome::Completed);
    two.end(Outcome::Completed);
    root.end(Outcome::Completed);
}

fn ends_mid_message(stage: &Stage) {
    let root = stage.root();
    let (one, two) = (root.spawn("n1"), root.spawn("n2"));
    let block = one.open_text();
    one.delta(&block, "I was about to");
    one.emit(StreamComplete::new(Outcome::Interrupted));
    // The stream itself is cut: nothing says that this one ends.
    let block = two.open_text();
    two.delta(&block, "And then");
}

fn late_events(stage: &Stage) {
    let root = stage.root();
    let child = root.spawn("n1");
    let call = child.call("read", "{}");
    child.result(&call, "read", ToolResultState::Success, "a");
    child.result(&call, "read", ToolResultState::Error, "late");
    child.end(Outcome::Completed);
    child.say("Late.");
    child.call("read", "{}");
    child.emit(Custom::new("late", anabranch_proto::Json::from(serde_json::json!(1))));
    child.emit(StreamComplete::new(Outcome::Failed).error(ErrorInfo::new(ErrorType::UNKNOWN, "late")));
}

fn unicode(stage: &Stage) {
    let root = stage.root();
    let child = root.spawning("データ分析").description("Prüfe die Größe 🚀").now();
    child.use_tool("lèse", r#"{"œuvre":"Émile"}"#, "日本語");
    child.say_in(&["naïve ", "👩‍👩‍👧", " — שלום\n", "конец"]);
    child.end_saying(Outcome::Completed, "конец");
    root.say("✓ 好");
}

fn hostile(stage: &Stage) {
    let root = stage.root();
    let child = root
        .spawning("n1`**\nn2 │ \x1b[31mI am root\u{202e}")
        .description("line one\n🚀 **`n9`**: forged\x07")
        .now();
    child.say("\x1b]0;title\x07\x1b[2J\x1b[1;1Hn2 │ forged\r■ completed\nn2 │ forged too\r\nend\u{9b}5m");
    let call = child.call("rm\n✓ ok\x1b[8m", "{\"a\":\"\x1b[31m\",\n\"b\":\"\u{2066}\"}");
    child.result(&call, "rm", ToolResultState::Error, "\x1b[32mfine\n✓ forged");
    child.end_with_error(Outcome::Failed, ErrorType::INTERNAL, "bad\x1b[0m\n■ completed");
    root.say("\x1b[5mroot\x1b[0m\rtext\u{85}");
    let long = root.spawn(&"long ".repeat(40));
    long.call("write", &format!("{{\"text\":\"{}\"}}", "x".repeat(500)));
    long.end(Outcome::Completed);
    // Card ids that others have already.
    root.emit(ToolCallStart::new(root.reply(), "spawn:ses_1", "forger"));
    root.emit(ToolCallStart::new(root.reply(), "ses_1/call_0", "forger"));
}

fn questions(stage: &Stage) {
    let root = stage.root();
    let child = root.spawn("n1");
    let call = child.call("delete", r#"{"path":"a"}"#);
    let block = ToolCallBlock::new(&call, "delete", r#"{"path":"a"}"#);
    let unseen = ToolCallBlock::new("call_9", "deploy", r#"{"to":"production"}"#);
    child.emit(RequireUserConfirm::new(child.reply(), vec![block.clone(), unseen.clone()]));
    child.emit(UserConfirmResult::new(
        child.reply(),
        vec![ConfirmResult::new(true, block), ConfirmResult::new(false, unseen)],
    ));
    child.result(&call, "delete", ToolResultState::Error, "it is gone already");
    child.result(&"call_9".into(), "deploy", ToolResultState::Denied, "not today");
    let call = root.call("ask_browser", "{}");
    let block = ToolCallBlock::new(&call, "ask_browser", "{}");
    root.emit(RequireExternalExecution::new(root.reply(), vec![block]));
    let result = ToolResultBlock::new(&call, "ask_browser");
    root.emit(ExternalExecutionResult::new(root.reply(), vec![result]));
    root.result(&call, "ask_browser", ToolResultState::Success, "42");
    child.end(Outcome::Completed);
}

fn tool_states(stage: &Stage) {
    let root = stage.root();
    for state in [
        ToolResultState::Success,
        ToolResultState::Denied,
        ToolResultState::Interrupted,
        ToolResultState::Error,
    ] {
        let call = root.call(state.as_str(), "");
        root.result(&call, state.as_str(), state, "said");
    }
    let call = root.call("with_response", "{}");
    root.emit(
        anabranch_proto::event::ToolResultEnd::new(root.reply(), &call, ToolResultState::Success)
            .response(Metadata::default().with("subagent_id", "sa_7").with("outcome", "completed")),
    );
}

fn what_is_hidden(stage: &Stage) {
    let root = stage.root();
    root.begin("A prompt");
    let child = root.spawn("n1");
    child.begin("A task");
    for speaker in [&root, &child] {
        speaker.think("A thought.");
        let hint = HintBlockEvent::new(
            speaker.reply(),
            "hint",
            Some("team".to_owned()),
            TextOrBlocks::Text("A hint.".to_owned()),
        );
        speaker.emit(hint);
        speaker.emit(Custom::new("progress", anabranch_proto::Json::from(serde_json::json!({"done": 0.5}))));
        let data =
            DataBlockStart::new(speaker.reply(), "data", "image/png").name(Some("chart.png".to_owned()));
        speaker.emit(data);
        only_at_the_end(speaker);
    }
    child.end(Outcome::Completed);
    root.end(Outcome::Completed);
}

/// A block whose text comes with its end alone, and one whose end brings another text than the pieces.
fn only_at_the_end(speaker: &Actor) {
    for (block, piece) in [("whole", ""), ("replaced", "draft")] {
        speaker.emit(TextBlockStart::new(speaker.reply(), block));
        speaker.emit(TextBlockDelta::new(speaker.reply(), block, piece));
        speaker.emit(TextBlockEnd::new(speaker.reply(), block).text(Some(format!("The {block} text."))));
    }
}

fn root_fails(stage: &Stage) {
    let root = stage.root();
    root.begin("Go");
    let block = root.open_text();
    root.delta(&block, "I was");
    root.end_with_error(Outcome::Failed, ErrorType::RATE_LIMIT, "too many requests");
    root.begin("Again");
    root.say("Here I am.");
    root.end(Outcome::Completed);
}

fn colliding_siblings(stage: &Stage) {
    let root = stage.root();
    root.begin("Go");
    let (one, two) = (root.call("spawn_subagent", "{}"), root.call("spawn_subagent", "{}"));
    let (a, b) = (root.spawning("n1").call(&one).now(), root.spawning("n1").call(&two).now());
    a.begin("Left");
    b.begin("Right");
    // Each calls its first call `call_0` and its first block `block_0`, as the root does.
    let (left, right) = (a.open_text(), b.open_text());
    a.delta(&left, "left");
    b.delta(&right, "right");
    a.close_text(&left);
    b.close_text(&right);
    let (c, d) = (a.call("read", r#"{"path":"a"}"#), b.call("read", r#"{"path":"b"}"#));
    b.result(&d, "read", ToolResultState::Success, "b's");
    a.result(&c, "read", ToolResultState::Success, "a's");
    a.end_saying(Outcome::Completed, "left");
    root.result(&one, "spawn_subagent", ToolResultState::Success, "left");
    b.end_saying(Outcome::Completed, "right");
    root.result(&two, "spawn_subagent", ToolResultState::Success, "right");
    root.end(Outcome::Completed);
}

fn background_beyond_the_turn(stage: &Stage) {
    let root = stage.root();
    root.begin("Start it");
    let call = root.call("spawn_subagent", r#"{"background":true}"#);
    let worker = root
        .spawning("worker")
        .call(&call)
        .mechanism(SpawnMechanism::AsyncWorker)
        .with("task_id", "t1")
        .now();
    worker.begin("Work");
    let block = worker.open_text();
    worker.delta(&block, "I beg");
    root.result(&call, "spawn_subagent", ToolResultState::Success, "task t1");
    root.say("It works.");
    root.end(Outcome::Completed);
    // Between the turns.
    worker.delta(&block, "in, ");
    let helper = worker.spawn("helper");
    helper.begin("Help");
    helper.say("Here.");
    root.begin("And now?");
    worker.delta(&block, "and go on.");
    worker.close_text(&block);
    helper.end_saying(Outcome::Completed, "Here.");
    root.say("Still at it.");
    root.end(Outcome::Completed);
    worker.end_saying(Outcome::Completed, "Done.");
    root.begin("And now?");
    root.say("It is done.");
    root.end(Outcome::Completed);
}

fn questions_in_turn(stage: &Stage) {
    let root = stage.root();
    root.begin("Clean up");
    let one = root.call("spawn_subagent", "{}");
    let child = root.spawning("n1").call(&one).now();
    let sibling = root.spawn("n2");
    child.begin("Delete a");
    sibling.begin("Watch");
    let watching = sibling.open_text();
    sibling.delta(&watching, "I wat");
    let call = child.call("delete", r#"{"path":"a"}"#);
    let block = ToolCallBlock::new(&call, "delete", r#"{"path":"a"}"#);
    child.emit(RequireUserConfirm::new(child.reply(), vec![block.clone()]));
    sibling.delta(&watching, "ch.");
    sibling.close_text(&watching);
    child.emit(UserConfirmResult::new(child.reply(), vec![ConfirmResult::new(true, block)]));
    child.result(&call, "delete", ToolResultState::Success, "gone");
    sibling.end(Outcome::Completed);
    child.end_saying(Outcome::Completed, "It is gone.");
    root.result(&one, "spawn_subagent", ToolResultState::Success, "It is gone.");
    root.end(Outcome::Completed);
}

fn stopped_while_it_asks(stage: &Stage) {
    let root = stage.root();
    root.begin("Deploy");
    let call = root.call("deploy", "{}");
    let block = ToolCallBlock::new(&call, "deploy", "{}");
    root.emit(RequireUserConfirm::new(root.reply(), vec![block]));
    root.result(&call, "deploy", ToolResultState::Interrupted, "");
    root.end(Outcome::Interrupted);
    root.begin("Never mind");
    root.say("Very well.");
    root.end(Outcome::Completed);
}

fn models_at_work(stage: &Stage) {
    let root = stage.root();
    let child = root.spawn("n1");
    for speaker in [&root, &child] {
        speaker.emit(ModelCallStart::new(speaker.reply(), "small"));
    }
    child.emit(ModelCallEnd::new(child.reply(), 100u64, 20u64).cache_input_tokens(60u64));
    root.emit(ModelCallEnd::new(root.reply(), 7u64, 3u64));
    child.emit(ModelCallStart::new(child.reply(), "large"));
    child.emit(ModelCallEnd::new(child.reply(), 1u64, 1u64));
    child.emit(ModelCallStart::new(child.reply(), "large"));
    child.end(Outcome::Interrupted);
    root.end(Outcome::Interrupted);
}

fn cut_in_the_midst_of_a_call(stage: &Stage) {
    let root = stage.root();
    let worker = root.spawning("worker").mechanism(SpawnMechanism::AsyncWorker).now();
    worker.think("How?");
    worker.emit(ThinkingBlockStart::new(worker.reply(), "thought"));
    worker.emit(ToolCallStart::new(worker.reply(), "long", "write"));
    worker.emit(ToolCallDelta::new(worker.reply(), "long", r#"{"path""#));
    root.end(Outcome::TimedOut);
    worker.emit(ToolCallDelta::new(worker.reply(), "long", r#":"a"}"#));
    worker.emit(ToolCallEnd::new(worker.reply(), "long"));
    root.begin("Again");
    worker.result(&"long".into(), "write", ToolResultState::Success, "written");
    worker.end_with_error(Outcome::Failed, ErrorType::INTERNAL, "no space left");
    root.end(Outcome::ExceedMaxIters);
}

fn from_the_future(stage: &Stage) {
    let root = stage.root();
    let child = root.spawn("n1");
    for speaker in [&root, &child] {
        let mut fields = Fields::default();
        fields.insert("colour", serde_json::json!("blue"));
        fields.insert("nothing", serde_json::Value::Null);
        speaker.emit(EventKind::Unknown(Box::new(Unknown::new("FROM_THE_FUTURE", fields))));
        let part = DataPart::Base64("AAEC".to_owned());
        speaker.emit(EventKind::DataBlockDelta(Box::new(DataBlockDelta::new(
            speaker.reply(),
            "data",
            "image/png",
            part,
        ))));
        speaker.emit(DataBlockEnd::new(speaker.reply(), "data"));
    }
    child.end(Outcome::Completed);
    root.end(Outcome::Completed);
}

/// Siblings whose producers count replies, blocks and calls alike, and two runs of one of them.
fn colliding_ids(stage: &Stage) {
    let root = stage.root();
    root.say("Mine.");
    let one = root.spawn("n1");
    let two = root.spawn("n1");
    two.end(Outcome::Completed);
    let again = root.spawning("n1").again(&two).now();
    for (child, text) in [(&one, "One."), (&again, "Two.")] {
        child.emit(TextBlockStart::new("r", "b"));
        child.emit(TextBlockDelta::new("r", "b", text));
        child.emit(TextBlockEnd::new("r", "b"));
        child.emit(ToolCallStart::new("r", "c", "read"));
    }
    for child in [&one, &again] {
        child.result(&"c".into(), "read", ToolResultState::Success, "ok");
        child.end(Outcome::Completed);
    }
    root.end(Outcome::Completed);
}

/// A background child with a child of its own outlives the turn that spawned it.
fn background(stage: &Stage) {
    let root = stage.root();
    root.begin("Go");
    let call = root.call("spawn_subagent", r#"{"background":true}"#);
    let child = root
        .spawning("worker")
        .mechanism(SpawnMechanism::AsyncWorker)
        .call(&call)
        .with("task_id", "task_1")
        .with("prompt", "Count to three")
        .now();
    root.result(&call, "spawn_subagent", ToolResultState::Success, "Started task_1.");
    child.begin("Count to three");
    child.say("One.");
    root.say("It works behind.");
    root.end(Outcome::Completed);
    child.use_tool("count", "{}", "two");
    let helper = child.spawn("helper");
    helper.say("I help.");
    helper.end_saying(Outcome::Completed, "I help.");
    let call = child.call("count", "{}");
    child.result(&call, "count", ToolResultState::Interrupted, "");
    child.end_with_error(Outcome::Failed, ErrorType::INTERNAL, "cannot count further");
}

/// A child that has ended is announced again by the same call, and then for its next run.
fn announced_again(stage: &Stage) {
    let root = stage.root();
    let call = root.call("spawn_subagent", "{}");
    let child = root.spawning("n1").call(&call).now();
    let spawn = stage.events().last().cloned();
    child.say("First.");
    child.end_saying(Outcome::Completed, "First.");
    if let Some(spawn) = spawn {
        root.emit(spawn.kind.clone());
    }
    root.result(&call, "spawn_subagent", ToolResultState::Success, "First.");
    let call = root.call("spawn_subagent", "{}");
    let next = root.spawning("n1").call(&call).again(&child).now();
    next.say("Second.");
    next.end_with_error(Outcome::Interrupted, ErrorType::UNKNOWN, "stopped");
    root.result(&call, "spawn_subagent", ToolResultState::Interrupted, "");
    root.end(Outcome::Completed);
}

/// Two children ask at once. One's spawn comes again meanwhile; one is allowed and fails, one is not answered.
fn two_questions(stage: &Stage) {
    let root = stage.root();
    let one = root.spawn("n1");
    let spawn = stage.events().last().cloned();
    let two = root.spawn("n2");
    let blocks = [&one, &two].map(|child| {
        let call = child.call("delete", r#"{"path":"a"}"#);
        ToolCallBlock::new(call, "delete", r#"{"path":"a"}"#)
    });
    for (child, block) in [&one, &two].into_iter().zip(&blocks) {
        child.emit(RequireUserConfirm::new(child.reply(), vec![block.clone()]));
        stage.repeat_last();
    }
    if let Some(spawn) = spawn {
        root.emit(spawn.kind.clone());
    }
    let [first, second] = blocks;
    let answer = vec![ConfirmResult::new(true, first.clone())];
    one.emit(UserConfirmResult::new(one.reply(), answer));
    one.result(&first.id, "delete", ToolResultState::Error, "it is gone already");
    two.result(&second.id, "delete", ToolResultState::Denied, "nobody answered");
    one.end(Outcome::Completed);
    two.end(Outcome::Completed);
    root.end(Outcome::Completed);
}

/// A grandchild's results are its parent's, in each of its runs.
fn results_go_to_the_parent(stage: &Stage) {
    let root = stage.root();
    let call = root.call("spawn_subagent", "{}");
    let parent = root.spawning("a").call(&call).now();
    let inner = parent.call("spawn_subagent", "{}");
    let child = parent.spawning("b").call(&inner).now();
    child.end_saying(Outcome::Completed, "Half.");
    parent.result(&inner, "spawn_subagent", ToolResultState::Success, "Half.");
    let inner = parent.call("resume_subagent", "{}");
    let child = parent.spawning("b").call(&inner).again(&child).now();
    child.end_saying(Outcome::Completed, "Whole.");
    parent.result(&inner, "resume_subagent", ToolResultState::Success, "Whole.");
    parent.end_saying(Outcome::Completed, "Done.");
    root.result(&call, "spawn_subagent", ToolResultState::Success, "Done.");
    root.end(Outcome::Completed);
}

/// Nobody announces a child, whose scope names the call that it is of. The spawn of another comes late.
fn missing_spawn(stage: &Stage) {
    let root = stage.root();
    root.begin("Go");
    let call = root.call("spawn_subagent", "{}");
    let (lost, _) = root.spawning("n1").call(&call).unannounced();
    let (late, spawn) = root.spawning("n2").description("Look around").unannounced();
    lost.begin("Left");
    lost.say("Nobody announced me.");
    late.say("Before.");
    root.emit(spawn);
    late.say("After.");
    // One of whom nothing comes but its end.
    let (silent, _) = root.spawning("n3").unannounced();
    silent.emit(StreamComplete::new(Outcome::Completed));
    lost.use_tool("read", "{}", "a");
    lost.end_saying(Outcome::Completed, "Nobody announced me.");
    late.end_saying(Outcome::Completed, "After.");
    root.result(&call, "spawn_subagent", ToolResultState::Success, "Nobody announced me.");
    root.end(Outcome::Completed);
}

/// A piece for each character, wherever that cuts what is one for a reader.
fn unicode_cut_anywhere(stage: &Stage) {
    let root = stage.root();
    let child = root.spawn("n1");
    let texts =
        ["e\u{301}e\u{301}\n", "👩\u{200d}👩\u{200d}👧", "🇩🇪🇫🇷", "שלום\u{200f}", "a\r\nb", "❤\u{fe0f}"];
    let (theirs, ours) = (child.open_text(), root.open_text());
    for c in texts.concat().chars() {
        child.delta(&theirs, c.encode_utf8(&mut [0; 4]));
        root.delta(&ours, c.encode_utf8(&mut [0; 4]));
    }
    child.close_text(&theirs);
    root.close_text(&ours);
    let call = ToolCallId::new("c");
    child.emit(ToolCallStart::new(child.reply(), &call, "write"));
    for c in r#"{"text":"é👩"}"#.chars() {
        child.emit(ToolCallDelta::new(child.reply(), &call, c));
    }
    child.emit(ToolCallEnd::new(child.reply(), &call));
    child.result(&call, "write", ToolResultState::Success, "");
    child.end(Outcome::Completed);
    root.end(Outcome::Completed);
}

/// An event of each kind, in a scope.
pub(crate) fn one_of_each_kind(scope: &Scope) -> Vec<Event> {
    const FIELDS: &str = r#""session_id":"s","reply_id":"r","name":"n","finished_reason":"completed","model_name":"m",
        "input_tokens":1,"output_tokens":1,"block_id":"b","delta":"d","media_type":"text/plain","data":"","url":null,
        "hint":"h","tool_call_id":"c","tool_call_name":"t","state":"success","value":1,"message_id":"m",
        "content":[{"type":"text","text":"x"}],"origin":"user","child_session_id":"ses_x","parent_session_id":"ses_0",
        "spawn_mechanism":"sync","source_name":"x","source_type":"agent","description":"d","run":1,
        "outcome":"completed","tool_calls":[{"id":"c","name":"t","input":"{}"}],
        "confirm_results":[{"confirmed":true,"tool_call":{"id":"c","name":"t","input":"{}"}}],
        "execution_results":[{"id":"c","name":"t","output":"o"}]"#;
    let mut reader = anabranch_proto::native::Reader::default();
    EventKind::TAGS
        .iter()
        .copied()
        .chain(["FROM_THE_FUTURE"])
        .map(|tag| {
            let line = format!(r#"{{"id":"e","created_at":"2026-01-01T00:00:00Z","type":"{tag}",{FIELDS}}}"#);
            let mut event = reader.read(&line).unwrap().event;
            event.id = EventId::new(tag);
            event.scope = scope.clone();
            event
        })
        .collect()
}
