//! Ids are compared within one run of one session.

use anabranch_session::Status;

use crate::support::{Session, check};

#[test]
fn children_that_count_their_events_alike_lose_none() {
    check(
        "two foreign children",
        "prompt root go id=1
         spawn a id=2
         spawn b id=3
         prompt a do id=1
         prompt b do id=1
         say a x id=2
         say b x id=2
         say b y id=3
         say a y id=3
         end b id=4
         end a id=4
         say root on id=4",
        r#"root prompt user "go"
           root spawn a#1<root@1 sync "work"
           root spawn b#1<root@1 sync "work"
           a#1 prompt parent "do"
           b#1 prompt parent "do"
           a#1 say x
           b#1 say x
           b#1 say y
           a#1 say y
           b#1 end completed
           a#1 end completed
           root say on"#,
    );
}

#[test]
fn children_that_nobody_announced_and_their_spawns_lose_none() {
    check(
        "foreign children without spawns, and one that spawns",
        "prompt root go id=1
         say a x id=1
         say b x id=1
         spawn a/c id=2
         say a/c x id=2
         say b y id=2
         spawn b/d id=3
         spawn a/e id=3",
        r#"root prompt user "go"
           root spawn a#1<root@1 manual "Run a task"
           a#1 prompt parent ""
           a#1 say x
           root spawn b#1<root@1 manual "Run b task"
           b#1 prompt parent ""
           b#1 say x
           a#1 spawn c#1<a@2 sync "work"
           c#1<a@2 prompt parent ""
           c#1<a@2 say x
           b#1 say y
           b#1 spawn d#1<b@2 sync "work"
           a#1 spawn e#1<a@2 sync "work""#,
    );
}

#[test]
fn a_child_that_counts_anew_in_each_run_loses_none() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn a\nprompt a do id=1\nsay a x id=2\nend a id=3\nspawn a#2");
    let second = session.play("prompt a#2 do id=1\nsay a#2 x id=2\nend a#2 id=3");
    assert_eq!(second, "a#2 prompt parent \"do\"\na#2 say x\na#2 end completed\n");
    assert_eq!(session.processor.counters().duplicates, 0);
}

#[test]
fn within_one_session_an_id_comes_once_whichever_scope_object_brings_it() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn a\nprompt a do");
    assert_eq!(session.play("say a x id=7").lines().count(), 1);
    // Every third event has a scope object of its own.
    assert_eq!(session.play("say a y id=7\nsay a z id=7\nsay a u id=7\nsay a v id=7"), "");
    assert_eq!(session.play("update a task=new id=7").lines().count(), 1, "an update is its parent's");
    assert_eq!(session.play("update a task=newer id=7\nsay root x id=7"), "");
    assert_eq!(session.processor.counters().duplicates, 6);
    assert_eq!(session.processor.tree().get(&"a".into()).unwrap().status, Status::Running);
}
