//! What is open is closed, whatever ends it.

use std::sync::Arc;

use anabranch_proto::{
    Event, Metadata, Outcome, Scope, Timestamp, ToolResultBlock, ToolResultState,
    event::ExternalExecutionResult,
    grammar::{Profile, Verifier},
};
use anabranch_session::{Limits, Status};

use crate::support::{Session, check, render};

/// Everything that a run can have open, and a child in the same state.
const EVERYTHING: &str = "prompt root go @t=1
    start root @t=1
    model root @t=1
    text root t1 @t=1
    delta root t1 half @t=1
    thinking root h1 @t=1
    data root d1 @t=1
    call root k1 @t=1
    arguments root k1 { @t=1
    call root k2 @t=1
    call_end root k2 @t=1
    result root k2 @t=1
    output root k2 partly @t=1
    call root k3 @t=1
    call_end root k3 @t=1
    result root k3 @t=1
    result_end root k3 @t=1
    spawn a call=k1 @node=n1
    prompt a do @node=n1
    start a reply=r2 @node=n1
    model a reply=r2 @node=n1
    text a t1 reply=r2 @node=n1
    call a q1 reply=r2 @node=n1
    spawn a/b call=q1 @node=n2
    prompt a/b dig @node=n2
    spawn w async";

#[test]
fn a_stream_that_is_cut_anywhere_and_closed_is_well_formed() {
    let script = EVERYTHING
        .replace("spawn a call=k1", "call_end root k1 @t=1\nresult root k1 @t=1\nspawn a call=k1")
        .replace(
            "spawn a/b call=q1",
            "call_end a q1 reply=r2 @node=n1\nresult a q1 reply=r2 @node=n1\nspawn a/b call=q1",
        );
    let lines: Vec<_> = script.lines().collect();
    for cut in 1..=lines.len() {
        for close in
            ["close", "close failed error=broken", "end root interrupted\nclose", "close_reply\nclose"]
        {
            let mut session = Session::new();
            session.play(&lines[..cut].join("\n"));
            session.play(close);
            let mut verifier = Verifier::new(Profile::Native);
            for admitted in &session.admitted {
                let checked = verifier.check_numbered(admitted.seq, &admitted.event);
                assert_eq!(checked, Ok(()), "cut after {cut}, {close}\n{}", render(&session.admitted));
            }
            assert_eq!(verifier.finish(), Ok(()), "cut after {cut}, {close}\n{}", render(&session.admitted));
        }
    }
}

#[test]
fn a_result_that_has_begun_ends_on_the_stream_whoever_gives_it() {
    let mut session = Session::new();
    session.play(
        "prompt root go\nstart root\nmodel root\ncall root k\ncall_end root k\nmodel_end root\nresult root k",
    );
    let mut given = ToolResultBlock::new("k", "tool");
    given.state = ToolResultState::Success;
    let result = ExternalExecutionResult::new("r1", [given]);
    session.give(Arc::new(Event::new(
        "x",
        Timestamp::from_unix(9, 0),
        Scope::Root,
        Metadata::default(),
        result,
    )));
    assert!(session.play("close").contains("result_end k"), "{}", render(&session.admitted));
}

#[test]
fn a_second_prompt_steers_the_run_that_is_under_way() {
    let mut session = Session::new();
    assert_eq!(
        session.play("prompt root go\nprompt root message=m2 faster"),
        "root prompt user \"go\"\nroot prompt steering \"faster\"\n"
    );
}

#[test]
fn what_is_closed_before_an_event_is_not_later_than_it() {
    let mut session = Session::new();
    session.play(EVERYTHING);
    session.play("say nobody/announced x\n end a interrupted\n end root failed");
    let times: Vec<_> =
        session.admitted.iter().map(|admitted| admitted.event.created_at.unix_seconds()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_terminal_that_arrives_closes_everything_before_it() {
    let mut session = Session::new();
    session.play(EVERYTHING);
    assert_eq!(
        session.play("end a interrupted @node=n1"),
        r#"a#1 text_end t1 {"node":"n1"}
a#1 model_end interrupted {"node":"n1"}
a#1 call_end q1 {"node":"n1"}
b#1<a@2 end interrupted {"node":"n2"}
a#1 result q1 {"node":"n1"}
a#1 output q1 "interrupted" {"node":"n1"}
a#1 result_end q1 interrupted {"node":"n1"}
a#1 reply_end r2 interrupted {"node":"n1"}
a#1 end interrupted said="" {"node":"n1"}
"#
    );
    // The root's background child stays, and its run goes on.
    assert_eq!(
        session.play("end root failed error=out_of_memory @t=1"),
        r#"root text_end t1 {"t":"1"}
root thinking_end h1 {"t":"1"}
root data_end d1 {"t":"1"}
root model_end interrupted {"t":"1"}
root call_end k1 {"t":"1"}
root result k1 {"t":"1"}
root output k1 "out of memory" {"t":"1"}
root result_end k1 error {"t":"1"}
root result_end k2 error {"t":"1"}
root reply_end r1 error "out of memory" {"t":"1"}
root end failed "out of memory" said="" {"t":"1"}
"#
    );
    assert_eq!(session.play("prompt w go\nsay w still"), "w#1 prompt parent \"go\"\nw#1 say still\n");
}

#[test]
fn close_closes_the_tree_deepest_first_and_background_children_too() {
    let mut session = Session::new();
    session.play(EVERYTHING);
    assert_eq!(
        session.play("close interrupted"),
        r#"root text_end t1 {"t":"1"}
root thinking_end h1 {"t":"1"}
root data_end d1 {"t":"1"}
root model_end interrupted {"t":"1"}
root call_end k1 {"t":"1"}
a#1 text_end t1 {"node":"n1"}
a#1 model_end interrupted {"node":"n1"}
a#1 call_end q1 {"node":"n1"}
b#1<a@2 end interrupted {"node":"n2"}
a#1 result q1 {"node":"n1"}
a#1 output q1 "interrupted" {"node":"n1"}
a#1 result_end q1 interrupted {"node":"n1"}
a#1 reply_end r2 interrupted {"node":"n1"}
a#1 end interrupted said="" {"node":"n1"}
w#1 prompt parent "" {"subagent_id":"sa w"}
w#1 end interrupted {"subagent_id":"sa w"}
root result k1 {"t":"1"}
root output k1 "interrupted" {"t":"1"}
root result_end k1 interrupted {"t":"1"}
root result_end k2 interrupted {"t":"1"}
root reply_end r1 interrupted {"t":"1"}
root end interrupted said="" {"t":"1"}
"#
    );
    let counters = session.processor.counters();
    assert_eq!(session.play("close failed"), "");
    assert_eq!(session.processor.counters(), counters);
    assert_eq!(session.play("prompt root more\nsay w x\nspawn z\nend root"), "");
    assert_eq!(session.processor.counters().late, 4);
}

#[test]
fn what_is_beneath_a_failure_failed_with_its_parent() {
    check(
        "a failure",
        "prompt root go
         spawn a
         prompt a go
         spawn a/b
         prompt a/b go
         close failed error=panicked",
        r#"root prompt user "go"
           root spawn a#1<root@1 sync "work"
           a#1 prompt parent "go"
           a#1 spawn b#1<a@2 sync "work"
           b#1<a@2 prompt parent "go"
           b#1<a@2 end failed "ended with its parent"
           a#1 end failed "ended with its parent"
           root end failed "panicked""#,
    );
}

#[test]
fn close_reply_leaves_background_children_and_the_next_prompt_begins_a_run() {
    check(
        "a cancelled reply",
        "prompt root go
         start root
         spawn c call=k1
         spawn w async call=k2
         prompt w go
         close_reply interrupted
         close_reply interrupted
         say root late
         say w on
         prompt root again
         say root on
         end root
         say w on
         end w",
        r#"root prompt user "go"
           root start r1
           root spawn c#1<root@1 sync call=k1 "work"
           root spawn w#1<root@1 async_worker call=k2 "work"
           w#1 prompt parent "go"
           c#1 prompt parent "" {"subagent_id":"sa c"}
           c#1 end interrupted {"subagent_id":"sa c"}
           root reply_end r1 interrupted
           root end interrupted said=""
           w#1 say on
           root prompt user "again"
           root say on
           root end completed
           w#1 say on
           w#1 end completed"#,
    );
}

#[test]
fn a_sub_agents_background_children_end_with_it() {
    check(
        "a sub-agent",
        "prompt root go
         spawn a async
         prompt a go
         spawn a/b async
         prompt a/b go
         end a
         say a/b x",
        r#"root prompt user "go"
           root spawn a#1<root@1 async_worker "work"
           a#1 prompt parent "go"
           a#1 spawn b#1<a@2 async_worker "work"
           b#1<a@2 prompt parent "go"
           b#1<a@2 end failed "ended with its parent"
           a#1 end completed"#,
    );
}

#[test]
fn a_result_closes_the_children_that_its_call_waits_for_and_no_others() {
    check(
        "an ordinary result",
        "prompt root go
         call root k1
         call_end root k1
         result root k1
         spawn c call=k1
         prompt c go
         spawn d call=k1
         prompt d go
         end d
         spawn e call=k2
         prompt e go
         spawn w async call=k1
         prompt w go
         say f x call=k1
         result_end root k1 error",
        r#"root prompt user "go"
           root call k1
           root call_end k1
           root result k1
           root spawn c#1<root@1 sync call=k1 "work"
           c#1 prompt parent "go"
           root spawn d#1<root@1 sync call=k1 "work"
           d#1 prompt parent "go"
           d#1 end completed
           root spawn e#1<root@1 sync call=k2 "work"
           e#1 prompt parent "go"
           root spawn w#1<root@1 async_worker call=k1 "work"
           w#1 prompt parent "go"
           root spawn f#1<root@1 manual call=k1 "Run f task"
           f#1 prompt parent ""
           f#1 say x
           c#1 end failed "ended with its call"
           root result_end k1 error"#,
    );
    check(
        "an interrupted result, and a child that was learnt to be waited for",
        "prompt root go
         say c x
         spawn c call=k1
         result_end root k1 interrupted",
        r#"root prompt user "go"
           root spawn c#1<root@1 manual "Run c task"
           c#1 prompt parent ""
           c#1 say x
           root update c#1 sync call=k1 "work"
           c#1 end interrupted
           root result_end k1 interrupted"#,
    );
}

#[test]
fn a_replys_end_closes_what_is_open_in_it_but_not_the_run() {
    check(
        "a reply's end",
        "prompt root go
         start root
         model root
         text root t1
         call root k1
         call_end root k1
         spawn c call=k1
         prompt c go
         spawn w async
         reply_end root interrupted
         say root on",
        r#"root prompt user "go"
           root start r1
           root model
           root text t1
           root call k1
           root call_end k1
           root spawn c#1<root@1 sync call=k1 "work"
           c#1 prompt parent "go"
           root spawn w#1<root@1 async_worker "work"
           root text_end t1
           root model_end interrupted
           c#1 end interrupted
           root result k1
           root output k1 "interrupted"
           root result_end k1 interrupted
           root reply_end r1 interrupted
           root say on"#,
    );
}

#[test]
fn a_replys_end_closes_the_children_that_wait_for_nothing_else() {
    check(
        "sync children without an open call end; manual and background ones stay",
        "prompt root go
         start root
         call root k1
         call_end root k1
         result root k1
         result_end root k1
         spawn c
         prompt c go
         spawn c/d
         prompt c/d go
         spawn e call=k1
         prompt e go
         spawn m manual
         prompt m go
         spawn w async
         prompt w go
         say f x call=k1
         reply_end root
         say m on
         say w on
         end root",
        r#"root prompt user "go"
           root start r1
           root call k1
           root call_end k1
           root result k1
           root result_end k1 success
           root spawn c#1<root@1 sync "work"
           c#1 prompt parent "go"
           c#1 spawn d#1<c@2 sync "work"
           d#1<c@2 prompt parent "go"
           root spawn e#1<root@1 sync call=k1 "work"
           e#1 prompt parent "go"
           root spawn m#1<root@1 manual "work"
           m#1 prompt parent "go"
           root spawn w#1<root@1 async_worker "work"
           w#1 prompt parent "go"
           root spawn f#1<root@1 manual call=k1 "Run f task"
           f#1 prompt parent ""
           f#1 say x
           d#1<c@2 end failed "ended with its parent"
           c#1 end failed "ended with its parent's reply"
           e#1 end failed "ended with its parent's reply"
           root reply_end r1 completed
           m#1 say on
           w#1 say on
           m#1 end failed "ended with its parent"
           f#1 end failed "ended with its parent"
           root end completed said="""#,
    );
    check(
        "a sub-agent's reply, interrupted, and a child of an open call ends before its result",
        "prompt root go
         spawn a async
         prompt a go
         start a
         call a k1
         call_end a k1
         spawn a/b call=k1
         prompt a/b go
         spawn a/c
         prompt a/c go
         reply_end a interrupted",
        r#"root prompt user "go"
           root spawn a#1<root@1 async_worker "work"
           a#1 prompt parent "go"
           a#1 start r1
           a#1 call k1
           a#1 call_end k1
           a#1 spawn b#1<a@2 sync call=k1 "work"
           b#1<a@2 prompt parent "go"
           a#1 spawn c#1<a@2 sync "work"
           c#1<a@2 prompt parent "go"
           c#1<a@2 end interrupted
           b#1<a@2 end interrupted
           a#1 result k1
           a#1 output k1 "interrupted"
           a#1 result_end k1 interrupted
           a#1 reply_end r1 interrupted"#,
    );
    check(
        "the end of another reply than the open one ends no child of it",
        "prompt root go
         start root
         spawn c
         prompt c go
         reply_end root reply=r9",
        r#"root prompt user "go"
           root start r1
           root spawn c#1<root@1 sync "work"
           c#1 prompt parent "go"
           root reply_end r9 completed"#,
    );
}

#[test]
fn what_is_closed_has_the_metadata_of_the_runs_prompt() {
    check(
        "a tool's event colours nothing",
        "prompt root go @tenant=t
         start root @tenant=t
         say root progress @tool=x
         spawn c call=k @node=n @prompt=dig
         prompt c go @node=n
         start c @node=n reply=r2
         say c progress @tool=y
         close failed",
        r#"root prompt user "go" {"tenant":"t"}
           root start r1 {"tenant":"t"}
           root say progress {"tool":"x"}
           root spawn c#1<root@1 sync call=k "work" {"node":"n","prompt":"dig"}
           c#1 prompt parent "go" {"node":"n"}
           c#1 start r2 {"node":"n"}
           c#1 say progress {"tool":"y"}
           c#1 reply_end r2 error "ended with its parent" {"node":"n"}
           c#1 end failed "ended with its parent" said="" {"node":"n"}
           root reply_end r1 error {"tenant":"t"}
           root end failed said="" {"tenant":"t"}"#,
    );
    check(
        "a prompt that is made has what the first event has, and what is closed has it too",
        "start root @tenant=t
         say root progress @tool=x
         spawn c @node=n
         start c @own=o reply=r2
         say c progress @tool=y
         close failed",
        r#"root prompt user "" {"tenant":"t"}
           root start r1 {"tenant":"t"}
           root say progress {"tool":"x"}
           root spawn c#1<root@1 sync "work" {"node":"n"}
           c#1 prompt parent "" {"own":"o"}
           c#1 start r2 {"own":"o"}
           c#1 say progress {"tool":"y"}
           c#1 reply_end r2 error "ended with its parent" {"own":"o"}
           c#1 end failed "ended with its parent" said="" {"own":"o"}
           root reply_end r1 error {"tenant":"t"}
           root end failed said="" {"tenant":"t"}"#,
    );
}

#[test]
fn a_completed_run_with_a_call_open_gives_it_a_readable_result() {
    check(
        "completed",
        "prompt root go
         call root k1
         call_end root k1
         end root",
        r#"root prompt user "go"
           root call k1
           root call_end k1
           root result k1
           root output k1 "ended without a result"
           root result_end k1 error
           root end completed said="""#,
    );
}

#[test]
fn close_session_closes_one_child_with_all_beneath_it() {
    check(
        "one child",
        "prompt root go
         spawn a
         prompt a go
         spawn a/b
         prompt a/b go
         spawn c
         close_session a timed_out
         close_session a timed_out
         close_session nobody
         say a late
         say c on",
        r#"root prompt user "go"
           root spawn a#1<root@1 sync "work"
           a#1 prompt parent "go"
           a#1 spawn b#1<a@2 sync "work"
           b#1<a@2 prompt parent "go"
           root spawn c#1<root@1 sync "work"
           b#1<a@2 end failed "ended with its parent"
           a#1 end timed_out
           c#1 prompt parent ""
           c#1 say on"#,
    );
}

#[test]
fn between_its_runs_the_root_says_nothing() {
    let mut session = Session::new();
    session.play("prompt root go\nend root");
    assert_eq!(session.play("say root late\nend root failed\nstart root"), "");
    assert_eq!(session.processor.counters().late, 3);
    assert_eq!(session.processor.tree().root().status, Status::Ended(Outcome::Completed));
    assert_eq!(
        session.play("spawn w async\nprompt w go\nupdate w task=x\nprompt root again\nsay root on"),
        "root spawn w#1<root@1 async_worker \"work\"\nw#1 prompt parent \"go\"\nroot update w#1 \"x\"\n\
         root prompt user \"again\"\nroot say on\n"
    );
    assert_eq!(session.processor.tree().root().runs, 2);
}

#[test]
fn a_prompt_in_mid_run_begins_no_run() {
    let mut session = Session::new();
    session.play("prompt root go\nprompt root origin=steering left\nprompt root message=m2 right");
    assert_eq!(session.processor.tree().root().runs, 1);
    let late = session.play("end root\nprompt root origin=steering message=m3 on");
    assert_eq!(late, "root end completed\n", "what was to steer a run that has ended is late");
    assert_eq!(session.processor.tree().root().runs, 1);
    assert_eq!(session.processor.counters().late, 1);
}

#[test]
fn a_root_that_begins_without_a_prompt_gets_one() {
    check(
        "no prompt",
        "start root @t=1",
        r#"root prompt user "" {"t":"1"}
           root start r1 {"t":"1"}"#,
    );
    check(
        "only an end",
        "end root failed error=no_model",
        r#"root prompt user ""
           root end failed "no model""#,
    );
}

#[test]
fn the_tree_keeps_what_a_run_came_to() {
    let mut session = Session::new();
    session.play(
        "prompt root go
         spawn c
         prompt c go
         start c
         model c
         text c t1
         delta c t1 looking
         text_end c t1
         call c k1
         call_end c k1
         model_end c
         result c k1
         output c k1 42
         result_end c k1
         model c
         text c t2
         delta c t2 it is 42
         text_end c t2
         model_end c
         reply_end c
         end c",
    );
    let tree = session.processor.tree();
    let record = tree.get(&"c".into()).unwrap();
    let message = record.final_message.as_ref().unwrap();
    assert_eq!((message.text().as_str(), message.id.as_str(), &*message.name), ("it is 42", "r1", "agent"));
    assert_eq!(record.status, Status::Ended(Outcome::Completed));
    assert_eq!((record.tool_calls, record.usage.input_tokens), (1, 20));
    assert_eq!((tree.root().tool_calls, tree.root().subtree_tool_calls), (0, 1));
    assert_eq!(tree.root().subtree_usage.output_tokens, 10);
    assert!(record.started_at.unwrap().unix_seconds() < record.ended_at.unwrap().unix_seconds());
    assert_eq!(session.admitted.last().unwrap().event.scope.depth(), 1);
}

#[test]
fn a_deep_tree_is_closed_without_recursion() {
    let depth = 20_000;
    let mut session = Session::with_limits(Limits::default().max_depth(depth).max_spawned(depth as usize));
    session.play("prompt root go");
    // The path of each child is written by hand: a script of 20,000 such paths would be quadratic.
    let mut parent = anabranch_proto::Scope::Root;
    let mut parent_id = anabranch_proto::SessionId::from("root");
    for number in 1..=depth {
        let id = anabranch_proto::SessionId::new(format!("s{number}"));
        let child = anabranch_proto::ChildScope::new(id.clone(), parent_id, "sa", "deep").depth(number);
        let spawn = anabranch_proto::event::SpawnSessionStart::new(
            &child,
            anabranch_proto::SpawnMechanism::Sync,
            "dig",
        );
        session.give(std::sync::Arc::new(anabranch_proto::Event::stamped(
            &session.stamp,
            parent,
            anabranch_proto::Metadata::default(),
            spawn,
        )));
        parent = child.into();
        parent_id = id;
    }
    assert_eq!(session.processor.tree().len(), depth as usize + 1);
    let closed = session.play("close interrupted");
    assert_eq!(closed.matches(" end interrupted").count(), depth as usize + 1);
    assert!(closed.trim_end().ends_with("root end interrupted"));
    assert_eq!(Outcome::Interrupted.result_state(), ToolResultState::Interrupted);
}
