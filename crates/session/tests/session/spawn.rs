//! Which spawn begins a run, and what happens without one.

use anabranch_proto::{ChildScope, Event, Metadata, Scope, SessionId, SpawnMechanism, Timestamp, event};
use anabranch_session::{Announcement, Limits, Status};

use crate::support::{Session, check, render, warnings};

/// A name, what is given, what is admitted.
const CASES: &[(&str, &str, &str)] = &[
    (
        "a spawn begins a child",
        "prompt root hi
         spawn c call=k1 task=read
         prompt c read it
         say c x
         end c",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync call=k1 "read"
           c#1 prompt parent "read it"
           c#1 say x
           c#1 end completed"#,
    ),
    (
        "the same run again is dropped, whatever it says, while it is open and after its end",
        "prompt root hi
         spawn c
         prompt c go
         spawn c call=k9 task=other
         end c
         spawn c call=k9 task=other",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync "work"
           c#1 prompt parent "go"
           c#1 end completed"#,
    ),
    (
        "the next run after the end is a new run",
        "prompt root hi
         spawn c call=k1
         prompt c go
         end c
         spawn c#2 call=k2
         prompt c#2 on
         say c late
         end c#2",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync call=k1 "work"
           c#1 prompt parent "go"
           c#1 end completed
           root spawn c#2<root@1 sync call=k2 "work"
           c#2 prompt parent "on"
           c#2 end completed"#,
    ),
    (
        "a run may skip numbers",
        "prompt root hi
         spawn c
         prompt c go
         end c
         spawn c#5
         prompt c#5 on",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync "work"
           c#1 prompt parent "go"
           c#1 end completed
           root spawn c#5<root@1 sync "work"
           c#5 prompt parent "on""#,
    ),
    (
        "the next run while one is open interrupts it, with all beneath it",
        "prompt root hi
         spawn c
         prompt c go
         spawn c/d
         spawn c#2",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync "work"
           c#1 prompt parent "go"
           c#1 spawn d#1<c@2 sync "work"
           d#1<c@2 prompt parent "" {"subagent_id":"sa d"}
           d#1<c@2 end interrupted {"subagent_id":"sa d"}
           c#1 end interrupted
           root spawn c#2<root@1 sync "work""#,
    ),
    (
        "without a run: dropped while the child is open",
        "prompt root hi
         spawn c run=none call=k1
         prompt c go
         spawn c run=none call=k2",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync call=k1 "work"
           c#1 prompt parent "go""#,
    ),
    (
        "without a run, after the end: the same call is the same run, another call or none the next",
        "prompt root hi
         spawn c run=none call=k1
         prompt c go
         end c
         spawn c run=none call=k1
         spawn c run=none call=k2
         prompt c on
         end c
         spawn c run=none
         end c",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync call=k1 "work"
           c#1 prompt parent "go"
           c#1 end completed
           root spawn c#2<root@1 sync call=k2 "work"
           c#2 prompt parent "on"
           c#2 end completed
           root spawn c#3<root@1 sync "work"
           c#3 prompt parent ""
           c#3 end completed"#,
    ),
    (
        "one call may spawn several children",
        "prompt root hi
         spawn c call=k1
         spawn d call=k1",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync call=k1 "work"
           root spawn d#1<root@1 sync call=k1 "work""#,
    ),
    (
        "an event without a spawn announces its child, and the late spawn updates it once",
        "prompt root hi
         say c x @subagent_id=sa @node=n1
         say c y
         spawn c call=k1 task=read @node=n1
         spawn c call=k1 task=read
         spawn c run=none call=k1
         end c
         spawn c",
        r#"root prompt user "hi"
           root spawn c#1<root@1 manual "Run c task" {"node":"n1"}
           c#1 prompt parent "" {"subagent_id":"sa","node":"n1"}
           c#1 say x {"subagent_id":"sa","node":"n1"}
           c#1 say y
           root update c#1 sync call=k1 "read" {"node":"n1"}
           c#1 end completed"#,
    ),
    (
        "a spawn that comes after the end of what it announces still updates it, once",
        "prompt root hi
         end c
         spawn c run=none task=read
         spawn c task=read",
        r#"root prompt user "hi"
           root spawn c#1<root@1 manual "Run c task"
           c#1 prompt parent ""
           c#1 end completed
           root update c#1 sync "read""#,
    ),
    (
        "a run that nobody announced is announced too, and ends the one before",
        "prompt root hi
         spawn c
         prompt c go
         say c#2 x
         spawn c#2 task=again",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync "work"
           c#1 prompt parent "go"
           c#1 end interrupted
           root spawn c#2<root@1 manual "Run c task"
           c#2 prompt parent ""
           c#2 say x
           root update c#2 sync "again""#,
    ),
    (
        "the prompt that is missing says what the spawn says",
        "prompt root hi
         spawn c @prompt=count_the_rows @node=n1
         say c x @node=n1",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync "work" {"prompt":"count the rows","node":"n1"}
           c#1 prompt parent "count the rows" {"node":"n1"}
           c#1 say x {"node":"n1"}"#,
    ),
    (
        "a child of an unknown parent goes under the root, and so do its events",
        "prompt root hi
         say x/c y @node=n1
         say x/c z",
        r#"root prompt user "hi"
           root spawn c#1<root@1 manual "Run c task" {"node":"n1","stated_parent_session_id":"x"}
           c#1 prompt parent "" {"node":"n1"}
           c#1 say y {"node":"n1"}
           c#1 say z"#,
    ),
    (
        "a child of a parent that has ended goes under the root",
        "prompt root hi
         spawn a
         prompt a go
         end a
         spawn a/b manual
         prompt a/b go",
        r#"root prompt user "hi"
           root spawn a#1<root@1 sync "work"
           a#1 prompt parent "go"
           a#1 end completed
           root spawn b#1<root@1 manual "work" {"stated_parent_session_id":"a"}
           b#1 prompt parent "go""#,
    ),
    (
        "a spawn by a parent that nobody announced announces the parent first",
        "prompt root hi
         spawn a/b",
        r#"root prompt user "hi"
           root spawn a#1<root@1 manual "Run a task"
           a#1 prompt parent "" {"subagent_id":"sa a"}
           a#1 spawn b#1<a@2 sync "work""#,
    ),
    (
        "a wrong depth is corrected on the spawn and on the events",
        "prompt root hi
         spawn c depth=4
         prompt c go depth=4
         say c x depth=4",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync "work"
           c#1 prompt parent "go"
           c#1 say x"#,
    ),
    (
        "a child whose next run states a parent below it ends that with its last run, and goes under the root",
        "prompt root hi
         spawn a
         prompt a go
         spawn a/b
         prompt a/b go
         spawn b/a#2",
        r#"root prompt user "hi"
           root spawn a#1<root@1 sync "work"
           a#1 prompt parent "go"
           a#1 spawn b#1<a@2 sync "work"
           b#1<a@2 prompt parent "go"
           b#1<a@2 end interrupted
           a#1 end interrupted
           root spawn a#2<root@1 manual "work" {"stated_parent_session_id":"b"}"#,
    ),
    (
        "what is learnt of a child whose parent has ended is said by the nearest one above that has not",
        "prompt root hi
         spawn a
         prompt a go
         spawn a/b
         prompt a/b go
         say a/b/c x
         end a/b
         spawn a/b/c task=dig",
        r#"root prompt user "hi"
           root spawn a#1<root@1 sync "work"
           a#1 prompt parent "go"
           a#1 spawn b#1<a@2 sync "work"
           b#1<a@2 prompt parent "go"
           b#1<a@2 spawn c#1<b@3 manual "Run c task" {"subagent_id":"sa b"}
           c#1<b@3 prompt parent ""
           c#1<b@3 say x
           c#1<b@3 end failed "ended with its parent"
           b#1<a@2 end completed
           a#1 update c#1 sync "dig""#,
    ),
    (
        "between the root's runs nobody waits for a child",
        "prompt root hi
         end root
         spawn c call=k",
        r#"root prompt user "hi"
           root end completed
           root spawn c#1<root@1 manual "work""#,
    ),
    (
        "a child's run begins with a prompt, whatever its producer calls it",
        "prompt root hi
         spawn c
         prompt c origin=steering go",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync "work"
           c#1 prompt parent "go""#,
    ),
    (
        "between the root's runs nobody begins to wait for a child",
        "prompt root hi
         spawn w async
         prompt w go
         end root
         update w mechanism=sync",
        r#"root prompt user "hi"
           root spawn w#1<root@1 async_worker "work"
           w#1 prompt parent "go"
           root end completed
           root update w#1 manual"#,
    ),
    (
        "an update of a child is passed on, one of nobody is not",
        "prompt root hi
         spawn c
         update c task=more
         update d task=more
         update c#2 task=more",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync "work"
           root update c#1 "more""#,
    ),
    (
        "run 0 is run 1: on the spawn, on the child's events, on a duplicate, on an update",
        "prompt root hi
         spawn c#0
         prompt c#0 go
         say c#0 x
         say c y
         spawn c
         spawn c#0
         update c#0 task=new
         spawn c/d under=0
         say c/d z
         end c#0",
        r#"root prompt user "hi"
           root spawn c#1<root@1 sync "work"
           c#1 prompt parent "go"
           c#1 say x
           c#1 say y
           root update c#1 "new"
           c#1 spawn d#1<c@2 sync "work"
           d#1<c@2 prompt parent ""
           d#1<c@2 say z
           d#1<c@2 end failed "ended with its parent"
           c#1 end completed"#,
    ),
    (
        "run 0 of a child that nobody announced is run 1, and its late spawn updates it",
        "prompt root hi
         say c#0 x
         say c#0 y
         spawn c#0 task=read
         end c#0
         say c#0 late
         spawn c#0
         say c#2 on
         say c#0 late",
        r#"root prompt user "hi"
           root spawn c#1<root@1 manual "Run c task"
           c#1 prompt parent ""
           c#1 say x
           c#1 say y
           root update c#1 sync "read"
           c#1 end completed
           root spawn c#2<root@1 manual "Run c task"
           c#2 prompt parent ""
           c#2 say on"#,
    ),
    (
        "a child that names the root as itself is nobody",
        "prompt root hi
         say x/root y
         spawn x/root
         spawn x/root#9",
        r#"root prompt user "hi""#,
    ),
];

#[test]
fn spawns_duplicates_fallbacks_and_runs() {
    for (name, script, expected) in CASES {
        check(name, script, expected);
    }
}

#[test]
fn spawn_session_start_comes_before_content() {
    let mut session = Session::new();
    session.play("prompt root hi\nspawn c call=k1\nprompt c go\nsay c x\nsay d y");
    for child in ["c", "d"] {
        let is_spawn = |event: &Event| matches!(&event.kind, anabranch_proto::EventKind::SpawnSessionStart(spawn) if spawn.child_session_id.as_str() == child);
        let is_content =
            |event: &Event| event.scope.child().is_some_and(|scope| scope.child_session_id.as_str() == child);
        let spawn = session.admitted.iter().position(|admitted| is_spawn(&admitted.event)).unwrap();
        let content = session.admitted.iter().position(|admitted| is_content(&admitted.event)).unwrap();
        assert!(spawn < content, "{child}");
    }
}

#[test]
fn a_duplicate_spawn_is_dropped() {
    let mut session = Session::new();
    session.play("prompt root hi\nspawn c task=first\nprompt c go");
    let before = session.processor.tree().get(&"c".into()).unwrap().clone();
    assert_eq!(session.play("spawn c task=second id=other\nspawn c run=none"), "");
    let after = session.processor.tree().get(&"c".into()).unwrap();
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    assert_eq!(session.processor.counters().duplicates, 2);
    assert_eq!(session.processor.tree().len(), 2);
}

#[test]
fn content_without_a_spawn_falls_back_once_with_one_warning() {
    let mut session = Session::new();
    session.play("prompt root hi");
    let (admitted, warned) = warnings(|| session.play("say c x\nsay c y\nsay c z"));
    assert_eq!(admitted.matches("spawn c#1").count(), 1);
    assert_eq!(warned, 1);
    assert_eq!(session.processor.counters().fallbacks, 1);
    assert_eq!(session.processor.tree().get(&"c".into()).unwrap().announcement, Announcement::Fallback);

    let (admitted, warned) = warnings(|| session.play("say c#2 x\nsay c#2 y"));
    assert_eq!(admitted.matches("spawn c#2").count(), 1);
    assert_eq!(warned, 1, "one for each run");
}

#[test]
fn a_late_spawn_upgrades_the_fallback() {
    let mut session = Session::new();
    session.play("prompt root hi\nsay c x");
    let admitted = session.play("spawn c async call=k1 task=read name=reader @node=n1");
    assert_eq!(admitted, "root update c#1 async_worker call=k1 \"read\" {\"node\":\"n1\"}\n");
    let record = session.processor.tree().get(&"c".into()).unwrap();
    assert_eq!(record.announcement, Announcement::Upgraded);
    assert_eq!(&*record.source_name, "reader");
    assert_eq!(record.description, "read");
    assert_eq!(record.mechanism, Some(SpawnMechanism::AsyncWorker));
    assert_eq!(record.tool_call_id, Some("k1".into()));
    assert_eq!(session.processor.counters().upgrades, 1);
    // What was learnt counts: a background child survives the root's run.
    assert_eq!(session.play("end root"), "root end completed\n");
    assert_eq!(session.play("spawn c async call=k1"), "");
}

#[test]
fn an_admitted_spawn_always_has_a_run_and_a_sub_agent() {
    let mut session = Session::new();
    session.play("prompt root hi\nspawn c run=none\nsay c x");
    let scope = session.admitted.last().unwrap().event.scope.child().unwrap().clone();
    let anabranch_proto::EventKind::SpawnSessionStart(spawn) = &session.admitted[1].event.kind else {
        panic!("no spawn")
    };
    assert_eq!(spawn.run, Some(1));
    assert_eq!(spawn.subagent_id.as_ref(), Some(&scope.subagent_id));
}

#[test]
fn a_run_has_one_scope_and_the_hot_path_copies_no_event() {
    let mut session = Session::new();
    session.play("prompt root hi\nspawn c\nprompt c go");
    let scope = Scope::from(ChildScope::new("c", "root", "sa c", "c"));
    let make = |id: &str, scope: &Scope| {
        let delta = event::TextBlockDelta::new("r", "b", "x");
        std::sync::Arc::new(Event::new(
            id,
            Timestamp::from_unix(0, 0),
            scope.clone(),
            Metadata::default(),
            delta,
        ))
    };
    for id in ["x1", "x2"] {
        let event = make(id, &scope);
        session.give(event.clone());
        assert!(std::sync::Arc::ptr_eq(&event, &session.admitted.last().unwrap().event));
    }
    assert_eq!(session.processor.counters().rewritten, 0);

    let wrong = Scope::from(ChildScope::new("c", "elsewhere", "sa c", "c").depth(3));
    session.give(make("x3", &wrong));
    let admitted = session.admitted.last().unwrap().event.clone();
    assert_eq!(admitted.scope, scope);
    assert_eq!(admitted.id, "x3".into());
    assert_eq!(session.processor.counters().rewritten, 1);
}

#[test]
fn a_child_beyond_the_depth_is_refused_with_all_below_it() {
    let mut session = Session::with_limits(Limits::default().max_depth(2));
    session.play("prompt root hi\nspawn a\nspawn a/b");
    let (admitted, warned) = warnings(|| {
        session.play(
            "spawn a/b/c
             say a/b/c x
             say a/b/c y
             spawn a/b/c/d depth=1
             say a/b/c/d z
             say q/r/s x",
        )
    });
    assert_eq!(admitted, "");
    assert_eq!(warned, 3, "one for each refused child");
    assert_eq!(session.processor.tree().len(), 3);
    let counters = session.processor.counters();
    assert_eq!((counters.refused, counters.fallbacks), (3, 0));
}

#[test]
fn a_child_beyond_the_total_is_refused_and_the_others_live_on() {
    let mut session = Session::with_limits(Limits::default().max_spawned(2));
    session.play("prompt root hi\nspawn a\nspawn b\nend a");
    assert_eq!(session.play("spawn c\nsay c x\nsay d y"), "");
    let counters = session.processor.counters();
    assert_eq!((counters.refused, counters.refused_events), (2, 1));
    let admitted = session.play("say b x\nspawn a#2");
    assert!(admitted.contains("b#1 say x") && admitted.contains("spawn a#2"), "{admitted}");
}

#[test]
fn a_second_run_may_be_another_parents() {
    let mut session = Session::new();
    session.play("prompt root hi\nspawn a\nspawn a/b\nend a/b\nend a");
    session.play("spawn d\nspawn d/b#2\ncall d/b#2 k\nmodel_end d/b#2");
    let tree = session.processor.tree();
    let names = |parent: &str| -> Vec<String> {
        tree.children(&SessionId::from(parent)).map(|record| record.id.to_string()).collect()
    };
    assert_eq!(names("root"), ["a", "d"]);
    assert!(names("a").is_empty());
    assert_eq!(names("d"), ["b"]);
    assert_eq!(tree.get(&"d".into()).unwrap().subtree_tool_calls, 1);
    assert_eq!(tree.get(&"d".into()).unwrap().tool_calls, 0);
    assert_eq!(tree.root().subtree_usage.input_tokens, 10);
    assert_eq!(tree.get(&"a".into()).unwrap().subtree_tool_calls, 0);
    assert_eq!(tree.get(&"b".into()).unwrap().status, Status::Running);
    assert_eq!(render(&session.admitted).matches("spawn b#2<d@2").count(), 1);
}

#[test]
fn an_update_of_run_0_teaches_the_tree() {
    let mut session = Session::new();
    session.play("prompt root hi\nspawn c\nupdate c#0 task=new");
    assert_eq!(session.processor.tree().get(&"c".into()).unwrap().description, "new");
}
