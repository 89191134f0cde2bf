//! Faults that people reported in other products, as sequences of events.

use anabranch_proto::Outcome;
use anabranch_session::Status;

use crate::support::{Session, check};

/// Row 1: hints that were held back and shown behind the end.
#[test]
fn hints_stand_in_production_order_and_never_behind_the_end() {
    check(
        "row 1",
        "prompt root go
         spawn c call=k1
         prompt c go
         hint c h1 one
         hint c h2 two
         end c
         result_end root k1
         hint c h3 late",
        r#"root prompt user "go"
           root spawn c#1<root@1 sync call=k1 "work"
           c#1 prompt parent "go"
           c#1 hint h1 "one"
           c#1 hint h2 "two"
           c#1 end completed said=""
           root result_end k1 success"#,
    );
}

/// Row 5: a late duplicate reopened a child that had ended.
#[test]
fn a_late_duplicate_leaves_a_child_ended_and_another_call_reopens_it() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn c run=none call=k1\nprompt c go\nend c");
    assert_eq!(session.play("spawn c run=none call=k1"), "");
    let status = |session: &Session| session.processor.tree().get(&"c".into()).unwrap().status;
    assert_eq!(status(&session), Status::Ended(Outcome::Completed));
    assert!(session.play("spawn c run=none call=k2").contains("spawn c#2"));
    assert_eq!(status(&session), Status::Running);
}

/// Row 6: a spawn that was delivered again cleared a question.
#[test]
fn a_duplicate_spawn_changes_nothing_while_a_question_is_open() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn c\nprompt c go\nstart c\ncall c k\ncall_end c k\nconfirm c k");
    assert_eq!(session.play("spawn c\nspawn c run=none"), "");
    // The call is still open: its end has a result to give.
    assert!(session.play("end c interrupted").contains("c#1 result_end k interrupted"));
}

/// Row 7: a cancelled child was shown as failed, a queued one as cancelled.
#[test]
fn a_cancelled_child_is_interrupted_whether_it_had_begun_or_not() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn c\nprompt c go\nstart c\ncall c k\nspawn queued");
    let closed = session.play("close_session c interrupted\nclose_session queued interrupted");
    assert_eq!(
        closed,
        r#"c#1 call_end k
c#1 result k
c#1 output k "interrupted"
c#1 result_end k interrupted
c#1 reply_end r1 interrupted
c#1 end interrupted said=""
queued#1 prompt parent "" {"subagent_id":"sa queued"}
queued#1 end interrupted {"subagent_id":"sa queued"}
"#
    );
}

/// Row 8: a grandchild's result went to the root, and its parent waited for ever.
#[test]
fn a_grandchild_ends_in_its_parents_scope_in_every_run() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn a\nprompt a go\nspawn a/b\nprompt a/b go\nend a/b");
    session.play("spawn a/b#2\nprompt a/b#2 go\nend a/b#2");
    let ends: Vec<_> = session
        .admitted
        .iter()
        .filter(|admitted| matches!(admitted.event.kind, anabranch_proto::EventKind::StreamComplete(_)))
        .map(|admitted| admitted.event.scope.child().unwrap().parent_session_id.to_string())
        .collect();
    assert_eq!(ends, ["a", "a"]);
    assert_eq!(session.processor.tree().get(&"a".into()).unwrap().status, Status::Running);
}

/// Row 10: what a background child did was dropped once its parent's turn was over.
#[test]
fn a_background_child_is_heard_until_its_own_end() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn c async\nprompt c go\nend root");
    for number in 0..92 {
        assert!(session.play(&format!("say c x{number}")).contains("c#1 say"));
    }
    session.play("prompt root again");
    assert!(session.play("say c on\nend c").contains("c#1 end completed"));
    assert_eq!(session.play("say c late"), "");
    assert_eq!(session.processor.counters().late, 1);
}

/// Row 18: idle and then error made two entries.
#[test]
fn the_first_terminal_of_a_run_wins() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn c\nprompt c go\nend c completed");
    assert_eq!(session.play("end c failed error=x"), "");
    assert_eq!(session.processor.tree().get(&"c".into()).unwrap().status, Status::Ended(Outcome::Completed));
    assert!(session.play("spawn c#2\nend c#2 failed").contains("c#2 end failed"));
}

/// Row 20: text before the spawn made two cards.
#[test]
fn text_before_the_spawn_makes_one_card() {
    check(
        "row 20",
        "prompt root go
         say c x
         spawn c task=the_title",
        r#"root prompt user "go"
           root spawn c#1<root@1 manual "Run c task"
           c#1 prompt parent ""
           c#1 say x
           root update c#1 sync "the title""#,
    );
}

/// What a producer that shares a run's scope sends behind its end comes to nothing, as anything else does.
#[test]
fn the_scope_of_a_run_that_ended_is_forgotten() {
    let mut session = Session::new();
    session.play(
        "prompt root go\nspawn c\nprompt c go\nsay c x\nsay c y\nend c\nsay c 1\nsay c 2\nsay c 3\nend c",
    );
    assert_eq!(session.processor.counters().late, 4);
    assert_eq!(session.processor.last_seq(), 6);
}
