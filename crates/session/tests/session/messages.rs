//! What a stream of events adds up to.

use std::{fmt::Write as _, fs, path::Path};

use anabranch_proto::{
    ContentBlock, DataSource, Event, EventKind, FinishedReason, Json, Message, Metadata, Role, Scope,
    Timestamp, ToolCallState, ToolResultState, event, native,
};
use anabranch_session::MessageAccumulator;

use crate::support::Session;

/// The root's messages after a script.
fn messages(script: &str) -> Vec<Message> {
    let mut session = Session::new();
    session.play(script);
    let mut messages = session.processor.messages().to_vec();
    messages.extend(session.processor.open_message().cloned());
    messages
}

/// Messages in brief.
fn brief(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            _ => "system",
        };
        write!(text, "{role} {}:", message.id).unwrap();
        for block in &message.content {
            match block {
                ContentBlock::Text(block) => write!(text, " {:?}", block.text),
                ContentBlock::Thinking(block) => write!(text, " thinking {:?}", block.thinking),
                ContentBlock::Hint(block) => write!(text, " hint {:?}", block.hint.text()),
                ContentBlock::ToolCall(block) => write!(text, " {}({})", block.id, block.input),
                ContentBlock::ToolResult(block) => {
                    write!(text, " {}={:?}/{}", block.id, block.output.text(), block.state.as_str())
                }
                ContentBlock::Data(block) => write!(text, " {}", data(&block.source)),
                other => panic!("{other:?}"),
            }
            .unwrap();
        }
        text.push('\n');
    }
    text
}

fn data(source: &DataSource) -> &str {
    match source {
        DataSource::Base64 { data, .. } => data,
        DataSource::Url { url, .. } => url,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reply_is_one_message_with_results_in_call_order_behind_all_calls_of_their_turn() {
    let script = "prompt root go
        start root
        model root
        thinking root h
        thinking_delta root h hm
        thinking_end root h
        text root t
        delta root t look
        call root k1
        arguments root k1 {}
        call root k2
        call root k3
        model_end root
        result root k3
        output root k3 three
        result root k2
        result_end root k3
        output root k2 tw
        result root k1
        output root k2 o
        output root k1 one
        result_end root k2 error
        result_end root k1
        model root
        text root t2
        delta root t2 done
        text_end root t2
        model_end root
        reply_end root";
    assert_eq!(
        brief(&messages(script)),
        "user m1: \"go\"\n\
         assistant r1: thinking \"hm\" \"look\" k1({}) k2() k3() k1=\"one\"/success k2=\"two\"/error \
         k3=\"three\"/success \"done\"\n"
    );
    let reply = &messages(script)[1];
    assert_eq!(reply.usage.unwrap().input_tokens, 20);
    assert_eq!(reply.finished_reason, Some(FinishedReason::Completed));
    assert_eq!(&*reply.name, "agent");
}

#[test]
fn a_result_that_begins_while_the_model_still_writes_stands_behind_its_later_calls() {
    assert_eq!(
        brief(&messages(
            "start root\nmodel root\ncall root k1\nresult root k1\noutput root k1 on\ntext root t\ncall root k2
             delta root t mid\noutput root k1 e\nresult_end root k1\nmodel_end root\nresult root k2\noutput root k2 two"
        )),
        "user 00000000000000000000000000:\n\
         assistant r1: k1() \"mid\" k2() k1=\"one\"/success k2=\"two\"/running\n"
    );
}

#[test]
fn a_prompt_in_mid_reply_stands_where_the_next_model_call_reads_it() {
    assert_eq!(
        brief(&messages(
            "prompt root go
             start root
             model root
             call root k1
             prompt root origin=steering message=m2 left
             call root k2
             model_end root
             result root k1
             prompt root origin=steering message=m3 right
             result root k2
             output root k1 one
             output root k2 two
             model root
             text root t
             delta root t turned
             model_end root
             reply_end root
             prompt root origin=steering message=m4 thanks"
        )),
        "user m1: \"go\"\n\
         assistant r1: k1() k2() k1=\"one\"/error k2=\"two\"/error hint \"left\" hint \"right\" \"turned\"\n\
         user m4: \"thanks\"\n"
    );
}

#[test]
fn what_follows_a_prompt_in_mid_reply_stands_behind_it_without_a_model_call_too() {
    assert_eq!(
        brief(&messages(
            "prompt root go\nstart root\nmodel root\ncall root k1\nprompt root origin=steering message=m2 left
             call root k2\nmodel_end root\ntext root t\ndelta root t ok\nresult root k1\noutput root k1 one"
        )),
        "user m1: \"go\"\nassistant r1: k1() k2() k1=\"one\"/running hint \"left\" \"ok\"\n"
    );
}

#[test]
fn results_of_calls_in_an_earlier_stream_stand_in_the_order_in_which_they_came() {
    assert_eq!(
        brief(&messages(
            "start root\nmodel root\ncall root k1\nprompt root origin=steering left\noutput root k8 eight
             call root k2\noutput root k9 nine"
        )),
        "user 00000000000000000000000000:\n\
         assistant r1: k1() k2() hint \"left\" k8=\"eight\"/running k9=\"nine\"/running\n"
    );
}

#[test]
fn a_hint_stands_behind_the_results_of_the_turn_before() {
    assert_eq!(
        brief(&messages(
            "start root\nmodel root\ncall root k1\nmodel_end root\nhint root h news\nresult root k1
             output root k1 one\nmodel root\ntext root t\ndelta root t ok"
        )),
        "user 00000000000000000000000000:\n\
         assistant r1: k1() k1=\"one\"/running hint \"news\" \"ok\"\n"
    );
}

#[test]
fn without_model_calls_a_turn_ends_where_its_results_begin() {
    assert_eq!(
        brief(&messages(
            "start root\ncall root k1\ncall root k2\nresult root k2\noutput root k2 two\nresult root k1
             output root k1 one\ntext root t\ndelta root t then\ncall root k3\noutput root k3 three"
        )),
        "user 00000000000000000000000000:\n\
         assistant r1: k1() k2() k1=\"one\"/running k2=\"two\"/running \"then\" k3() k3=\"three\"/running\n"
    );
}

#[test]
fn an_ends_text_replaces_the_deltas() {
    assert_eq!(
        brief(&messages("start root\ntext root t\ndelta root t secret\ntext_end root t text=hidden")),
        "user 00000000000000000000000000:\nassistant r1: \"hidden\"\n"
    );
}

#[test]
fn base64_that_comes_in_padded_pieces_adds_up() {
    assert_eq!(
        brief(&messages(
            "start root\ndata root d\ndata_delta root d data=aGVs\ndata_delta root d data=bA==\ndata_delta root d data=bw==\ndata_end root d
             call root k\noutput_data root k x data=aGk=\noutput root k and\noutput_data root k y data=eW91\noutput_data root k x data=IQ=="
        )),
        "user 00000000000000000000000000:\nassistant r1: aGVsbG8= k() k=\"and\"/running\n"
    );
    let last = messages(
        "start root\ncall root k\noutput_data root k x data=aGk=\noutput_data root k y data=eW91\noutput_data root k x data=IQ==",
    );
    let ContentBlock::ToolResult(result) = &last[1].content[1] else { panic!() };
    let anabranch_proto::TextOrBlocks::Blocks(blocks) = &result.output else { panic!() };
    let data = blocks.iter().map(|block| match block {
        ContentBlock::Data(block) => data(&block.source),
        other => panic!("{other:?}"),
    });
    let data: Vec<_> = data.collect();
    assert_eq!(data, ["aGkh", "eW91"]);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let before = "prompt root go\nstart root\ntext root t\ndelta root t x\ntext_end root t\nreply_end root";
    let expected = messages(before);
    for more in [
        "delta root t late",
        "text root t9 reply=r1",
        "reply_end root",
        "call root k reply=r1",
        "say root custom",
        "spawn c",
    ] {
        assert_eq!(messages(&format!("{before}\n{more}")), expected, "{more}");
    }
    assert_eq!(
        brief(&messages(&format!("{before}\nstart root reply=r2"))),
        format!("{}assistant r2:\n", brief(&expected))
    );
}

#[test]
fn the_final_message_is_the_runs_own() {
    let mut session = Session::new();
    session.play("prompt root go\nstart root\ntext root t\ndelta root t one\nreply_end root");
    assert!(session.play("end root").contains("said=\"one\""));
    // The next run has no reply, so it says nothing; least of all what the one before said.
    assert_eq!(
        session.play("prompt root message=m2 again\nend root failed"),
        "root prompt user \"again\"\nroot end failed\n"
    );
}

#[test]
fn a_run_that_begins_by_steering_says_nothing_of_the_run_before() {
    let mut session = Session::new();
    session.play("prompt root go\nstart root\ntext root t\ndelta root t one\nreply_end root\nend root");
    // A processor drops it as late; whoever has none builds from what came.
    session.play("prompt root origin=steering message=m2 on");
    let mut messages = MessageAccumulator::new();
    for event in &session.given {
        messages.apply(event);
    }
    assert_eq!(messages.final_message(), None);
}

#[test]
fn an_accumulator_that_sees_no_terminals_knows_its_runs_by_their_prompts() {
    let mut session = Session::new();
    session.play("prompt root go\nstart root\ntext root t\ndelta root t one\nreply_end root");
    let mut messages = MessageAccumulator::new();
    for event in &session.given {
        messages.apply(event);
    }
    assert_eq!(messages.final_message().unwrap().text(), "one");
    session.play("prompt root message=m2 again");
    messages.apply(session.given.last().unwrap());
    assert_eq!(messages.final_message(), None);
}

#[test]
fn a_terminal_that_brings_a_message_keeps_it() {
    use anabranch_proto::{Event, Metadata, Outcome, Scope, event::StreamComplete};
    let mut session = Session::new();
    session.play("prompt root go\nstart root\ntext root t\ndelta root t one\nreply_end root");
    let message = Message::new("r1", "agent", Role::Assistant, Vec::new());
    let end = StreamComplete::new(Outcome::Completed).message(message);
    let event = std::sync::Arc::new(Event::stamped(&session.stamp, Scope::Root, Metadata::default(), end));
    session.give(event.clone());
    assert!(std::sync::Arc::ptr_eq(&event, &session.admitted.last().unwrap().event));
}

/// Streams captured from agentscope (see the page beside them), with the message that it rebuilt at the end.
fn captured(name: &str) -> (Vec<native::Line>, Option<Message>) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/tests/data/agentscope/streams").join(name);
    let text = fs::read_to_string(path).unwrap();
    let mut reader = native::Reader::default();
    let mut events = Vec::new();
    let mut rebuilt = None;
    for line in text.lines() {
        match reader.read(line) {
            Ok(line) => events.push(line),
            Err(_) => rebuilt = Some(Json::parse(line).unwrap().to::<Message>().unwrap()),
        }
    }
    (events, rebuilt)
}

fn accumulated<'a>(events: impl IntoIterator<Item = &'a native::Line>) -> Vec<Message> {
    let mut messages = MessageAccumulator::new();
    for line in events {
        messages.apply(&line.event);
    }
    messages.into_messages()
}

#[test]
fn captured_streams_of_agentscope_add_up_to_what_it_rebuilt() {
    for name in [
        "01_text_only.jsonl",
        "02_two_concurrent_tools.jsonl",
        "03_one_tool_raises.jsonl",
        "04_invalid_args_unknown_tool.jsonl",
        "05_cancelled.jsonl",
    ] {
        let (events, rebuilt) = captured(name);
        let rebuilt = rebuilt.expect("a message at the end");
        let mut messages = MessageAccumulator::new();
        for line in &events {
            messages.apply(&line.event);
        }
        let [message] = messages.messages() else { panic!("{name}: not one message") };
        assert_eq!(message.id, rebuilt.id, "{name}");
        assert_eq!(message.name, rebuilt.name, "{name}");
        assert_eq!(message.role, rebuilt.role, "{name}");
        assert_eq!(message.usage, rebuilt.usage, "{name}");
        assert_eq!(message.finished_reason, rebuilt.finished_reason, "{name}");
        assert_eq!(message.error, rebuilt.error, "{name}");
        // The text of the cancelled reply is in none of its events.
        if name != "05_cancelled.jsonl" {
            let said = messages.final_message().expect("a reply");
            assert_eq!(said.text(), rebuilt.text(), "{name}");
        }
    }
    let (events, rebuilt) = captured("01_text_only.jsonl");
    let thought = |message: &Message| match &message.content[0] {
        ContentBlock::Thinking(block) => block.thinking.clone(),
        other => panic!("{other:?}"),
    };
    let message = &accumulated(&events)[0];
    assert_eq!(thought(message), thought(&rebuilt.unwrap()));
    assert_eq!(message.content.len(), 2);
}

#[test]
fn captured_results_keep_their_states_and_outputs_in_call_order() {
    let cases = [
        (
            "02_two_concurrent_tools.jsonl",
            "c1({\"q\":\"a\"}) c2({\"q\":\"b\"}) c1=\"a0 a1 \"/success c2=\"b0 b1 \"/success \"end\"",
        ),
        (
            "03_one_tool_raises.jsonl",
            "c1({\"q\": \"x\"}) c2({\"q\": \"x\"}) c1=\"x0 x1 \"/success c2=\"partial boom!\"/error \"end\"",
        ),
        (
            "04_invalid_args_unknown_tool.jsonl",
            "c1({\"z\":1}) c2({\"q\": \"x\"}) c1=\"Input validation failed for tool 'ok': 'q' is a required property \
             (at $)\"/error c2=\"ToolNotFoundError: The tool named 'nope' doesn't exist.\"/error \"end\"",
        ),
        (
            "05_cancelled.jsonl",
            "c1({\"q\": \"x\"}) c2({\"q\": \"x\"}) c1=\"started <system-reminder>The tool call has been interrupted by \
             the user.</system-reminder>\"/interrupted c2=\"x0 x1 \"/success",
        ),
    ];
    for (name, expected) in cases {
        let (events, _) = captured(name);
        assert_eq!(brief(&accumulated(&events)), format!("assistant id0007: {expected}\n"), "{name}");
    }
}

#[test]
fn a_captured_reply_that_was_parked_goes_on_where_it_stopped() {
    let (parked, _) = captured("06a_user_confirm_parked.jsonl");
    let (input, _) = captured("06b_user_confirm_input.jsonl");
    let (resumed, _) = captured("06c_user_confirm_resumed.jsonl");
    let messages = accumulated(parked.iter().chain(&input).chain(&resumed));
    assert_eq!(
        brief(&messages),
        "assistant id0007: c1({\"q\": \"x\"}) c2({\"q\":\"y\"}) c1=\"<system-reminder>The execution of tool \"ask\" is \
         denied by user!</system-reminder>\"/denied\n"
            .replace("\"ask\"", "\\\"ask\\\"")
    );
    let states: Vec<_> = messages[0]
        .content
        .iter()
        .filter_map(|block| if let ContentBlock::ToolCall(call) = block { Some(call.state) } else { None })
        .collect();
    assert_eq!(states, [ToolCallState::Finished, ToolCallState::Asking]);

    // Without what was parked, the result still has its place.
    assert!(brief(&accumulated(&resumed)).contains("/denied"));
    assert!(resumed.iter().any(|line| matches!(&line.event.kind,
        EventKind::ToolResultEnd(end) if end.state == ToolResultState::Denied)));
}

/// A reply that made some calls, in one model call.
fn with_calls(count: usize) -> MessageAccumulator {
    let mut messages = MessageAccumulator::new();
    apply(&mut messages, event::ReplyStart::new("root", "r1", "agent"));
    apply(&mut messages, event::ModelCallStart::new("r1", "model"));
    for call in 0..count {
        apply(&mut messages, event::ToolCallStart::new("r1", format!("k{call}"), "tool"));
    }
    messages
}

fn apply(messages: &mut MessageAccumulator, kind: impl Into<EventKind>) {
    let at = Timestamp::from_unix(0, 0);
    messages.apply(&Event::new("e", at, Scope::Root, Metadata::default(), kind));
}

fn give_result(messages: &mut MessageAccumulator, call: usize) {
    let id = format!("k{call}");
    apply(messages, event::ToolResultStart::new("r1", &*id, "tool"));
    apply(messages, event::ToolResultTextDelta::new("r1", &*id, call.to_string()));
    apply(messages, event::ToolResultEnd::new("r1", &*id, ToolResultState::Success));
}

fn results(message: &Message) -> Vec<String> {
    let result = |block: &ContentBlock| match block {
        ContentBlock::ToolResult(result) => Some(result.output.text()),
        _ => None,
    };
    message.content.iter().filter_map(result).collect()
}

/// So many that what is quadratic does not come to an end.
const MANY: usize = 100_000;

#[test]
fn results_of_many_calls_in_any_order_cost_no_more_than_in_call_order() {
    let orders: [Box<dyn Iterator<Item = usize>>; 2] = [
        Box::new((0..MANY).rev()),
        // From both ends inwards.
        Box::new((0..MANY).map(|number| if number % 2 == 0 { number / 2 } else { MANY - 1 - number / 2 })),
    ];
    for order in orders {
        let mut messages = with_calls(MANY);
        apply(&mut messages, event::ModelCallEnd::new("r1", 1_u64, 1_u64));
        for call in order {
            give_result(&mut messages, call);
        }
        apply(&mut messages, event::TextBlockStart::new("r1", "t"));
        let results = results(&messages.messages()[0]);
        assert!(results.iter().eq((0..MANY).map(|call| call.to_string()).collect::<Vec<_>>().iter()));
        assert!(matches!(messages.messages()[0].content.last(), Some(ContentBlock::Text(_))));
    }
}

#[test]
fn results_that_come_while_the_model_writes_or_behind_a_prompt_cost_no_more() {
    // Each call's result right behind the call.
    let mut messages = with_calls(0);
    for call in 0..MANY {
        apply(&mut messages, event::ToolCallStart::new("r1", format!("k{call}"), "tool"));
        give_result(&mut messages, call);
    }
    let content = &messages.messages()[0].content;
    assert_eq!(content.len(), 2 * MANY);
    assert!(matches!(&content[MANY - 1], ContentBlock::ToolCall(call) if call.id.as_str() == "k99999"));
    assert!(matches!(&content[MANY], ContentBlock::ToolResult(result) if result.id.as_str() == "k0"));

    // Results in reverse, and the reply has gone on before the first of them.
    let mut messages = with_calls(MANY);
    let steer = event::UserMessage::new("m", Vec::new(), event::MessageOrigin::Steering);
    apply(&mut messages, steer);
    apply(&mut messages, event::ToolCallStart::new("r1", "last", "tool"));
    apply(&mut messages, event::ModelCallEnd::new("r1", 1_u64, 1_u64));
    for call in (0..MANY).rev() {
        give_result(&mut messages, call);
    }
    apply(&mut messages, event::ReplyEnd::new("root", "r1", FinishedReason::Completed));
    let content = &messages.messages()[0].content;
    assert_eq!(results(&messages.messages()[0]).first().unwrap(), "0");
    assert_eq!(content.len(), 2 * MANY + 2);
    assert!(matches!(content.last(), Some(ContentBlock::Hint(_))));
}

#[test]
fn what_comes_of_a_reply_that_ended_costs_no_look_at_each_message() {
    let mut messages = MessageAccumulator::new();
    for reply in 0..MANY {
        apply(&mut messages, event::ReplyStart::new("root", format!("r{reply}"), "agent"));
    }
    for reply in 0..MANY {
        apply(&mut messages, event::TextBlockDelta::new(format!("r{reply}"), "t", "late"));
    }
    assert_eq!(messages.messages().len(), MANY);

    let mut session = Session::new();
    session.play("prompt root go");
    for reply in 0..20_000 {
        session.play(&format!("start root reply=r{reply}"));
    }
    for reply in 0..20_000 {
        session.play(&format!("delta root t late reply=r{reply}\nreply_end root reply=r{reply}"));
    }
    assert_eq!(session.processor.messages().len(), 20_001);
}

#[test]
fn reading_in_mid_turn_shows_results_in_call_order_and_changes_nothing() {
    let mut read = with_calls(4);
    let mut unread = with_calls(4);
    let mut seen = Vec::new();
    for call in [2, 0, 3, 1] {
        for messages in [&mut read, &mut unread] {
            give_result(messages, call);
        }
        seen.push(results(&read.messages()[0]).join(""));
        assert_eq!(read.open_message(), read.messages().last());
        assert_eq!(read.clone().into_messages(), read.messages());
        assert_eq!(read.messages(), unread.clone().messages());
    }
    assert_eq!(seen, ["2", "02", "023", "0123"]);
    for messages in [&mut read, &mut unread] {
        apply(messages, event::ReplyEnd::new("root", "r1", FinishedReason::Completed));
    }
    assert_eq!(read.completed(), unread.completed());
    assert_eq!(results(&read.completed()[0]).join(""), "0123");
}
