//! What a judge has to find, and what it has to be content with.

use anabranch_proto::{Admitted, ErrorInfo, ErrorType};
use anabranch_runtime::SystemStamp;
use anabranch_session::{
    EventLog as _, Limits, MemoryLog,
    conformance::{ROOT, conversation},
    recover,
};

use super::*;
use crate::{plant::planted, seen::Frame};

fn lines(events: &[Admitted]) -> Vec<String> {
    let line = |admitted: &Admitted| {
        let mut line = Vec::new();
        native::write(Some(admitted.seq), &admitted.event, &mut line).unwrap();
        String::from_utf8(line).unwrap()
    };
    events.iter().map(line).collect()
}

fn stories(lines: &[String]) -> Stories {
    Stories::from([(ROOT.to_owned(), Story { forgotten: 0, lines: lines.to_vec() })])
}

fn frame((seq, line): (u64, &String)) -> Frame {
    Frame {
        server: 1,
        session: ROOT.to_owned(),
        name: None,
        id: Some(format!("e-{seq}")),
        data: line.clone(),
    }
}

/// A server that was killed in its third run, of which a reader had seen all but the last three events.
async fn case() -> Case {
    let log = MemoryLog::new();
    log.append(&conversation(3)[..120]).unwrap();
    let why = ErrorInfo::new(ErrorType::other("restart"), "the server was restarted");
    let stamp = SystemStamp::new();
    let recovered = recover(&log, ROOT.into(), Limits::default(), &stamp, &why, &mut |_| {}).await.unwrap();
    let left = lines(&conversation(3)[..120]);
    let closing = lines(&recovered.closed);
    let frames = (1..).zip(&left[..117]).map(frame).collect();
    Case {
        promise: Promise::All,
        left: vec![stories(&left)],
        found: stories(&[left, closing].concat()),
        seen: Seen { sessions: [(ROOT.to_owned(), frames)].into() },
        durable: [(ROOT.to_owned(), 118)].into(),
        held: Some((1, ROOT.to_owned(), 118)),
        killed: true,
    }
}

fn findings(case: &Case) -> String {
    judge(case).map(|checked| format!("{checked:?}")).unwrap_err().join("; ")
}

fn frames(case: &mut Case) -> &mut Vec<Frame> {
    case.seen.sessions.get_mut(ROOT).unwrap()
}

fn story(case: &mut Case) -> &mut Story {
    case.found.get_mut(ROOT).unwrap()
}

#[tokio::test]
async fn what_is_well_is_counted() {
    let checked = judge(&case().await).unwrap();
    // The root's run and the child's.
    assert_eq!((checked.seen, checked.closed, checked.sessions, checked.lost), (117, 2, 1, 0));
    assert_eq!(checked.events, 120 + checked.closing);
}

#[tokio::test]
async fn every_fault_that_is_planted_is_found() {
    let case = case().await;
    let all = planted(&case);
    assert_eq!(all.len(), 13);
    for (what, spoilt) in all {
        assert!(judge(&spoilt).is_err(), "{what}");
    }
}

#[tokio::test]
async fn what_a_reader_saw_is_there_once_in_order_and_the_same() {
    let well = case().await;
    let mut lost = well.clone();
    let next = frames(&mut lost)[116].clone();
    frames(&mut lost).push(Frame { id: Some("e-118".to_owned()), ..next });
    lost.held = None;
    assert_eq!(findings(&lost), "ses_root: event 118 was seen and is not there, or is another");
    lost.promise = Promise::UptoBarriers;
    assert_eq!(judge(&lost).unwrap().lost, 1, "no barrier");
    lost.promise = Promise::Durable;
    assert!(findings(&lost).contains("event 118 was seen and is not there"));
    lost.durable.clear();
    assert_eq!(judge(&lost).unwrap().lost, 1);

    let mut another = well.clone();
    another.promise = Promise::Durable;
    another.durable.clear();
    frames(&mut another)[50].data.push(' ');
    assert!(findings(&another).contains("event 52 is there, and one before it that was seen is not"));

    let mut twice = well.clone();
    let again = frames(&mut twice)[9].clone();
    frames(&mut twice).insert(10, again);
    assert!(findings(&twice).contains("event 10 was seen after event 10"));

    let mut held = well.clone();
    held.held = Some((1, ROOT.to_owned(), 117));
    assert!(findings(&held).contains("event 117 was seen, though the server was killed before"));
    held.held = Some((2, ROOT.to_owned(), 117));
    assert!(judge(&held).is_ok(), "another server has shown it");

    let mut anew = well.clone();
    let notice = Frame { name: Some("resync".to_owned()), ..frames(&mut anew)[0].clone() };
    frames(&mut anew).push(notice);
    assert!(findings(&anew).contains("resync"));
}

#[tokio::test]
async fn what_was_open_is_closed_once_and_nothing_else_is_done() {
    let well = case().await;
    let mut open = well.clone();
    story(&mut open).lines.truncate(120);
    assert!(findings(&open).contains("was not closed"));

    let mut otherwise = well.clone();
    let last = story(&mut otherwise).lines.last_mut().unwrap();
    *last = last.replace(r#""outcome":"interrupted""#, r#""outcome":"completed""#);
    assert!(findings(&otherwise).contains("was closed as Completed"));

    let mut went_on = well.clone();
    let before = stories(&lines(&conversation(3)[..118]));
    went_on.left.insert(0, before);
    went_on.durable.clear();
    assert!(findings(&went_on).contains("made by a restart"), "{}", findings(&went_on));

    let mut in_part = well.clone();
    let part = story(&mut in_part).lines[..121].to_vec();
    in_part.left.push(stories(&part));
    assert!(findings(&in_part).contains("after kill 1 of a restart it was closed in part"));

    let mut changed = well.clone();
    changed.left[0].get_mut(ROOT).unwrap().lines[70].push(' ');
    assert!(findings(&changed).contains("event 71 was in the file and is not, or is another"));

    let mut gone = well.clone();
    gone.found.clear();
    assert_eq!(findings(&gone), "ses_root: the session is gone");

    let mut durable = well.clone();
    durable.durable.insert(ROOT.to_owned(), 121);
    assert!(findings(&durable).contains("event 121 was said to be durable, and 120 is the last"));
}
