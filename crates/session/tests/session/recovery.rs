//! A session goes on from its log after the program that ran it has ended.

use anabranch_proto::{
    Admitted, ErrorInfo, ErrorType, EventKind, Message, Outcome, Role, TextBlock,
    grammar::{Profile, Verifier},
};
use anabranch_session::{
    Batch, EventLog, EventProcessor, Forgotten, Limits, LogError, MemoryLog, RecoverError, Recovered, Status,
    recover,
};
use futures::{FutureExt, future, future::BoxFuture};
use tokio::sync::watch;

use crate::support::{CountingStamp, Session, render};

/// A run in the middle of everything, with questions, children of every kind and one that has ended.
const STORY: &str = "prompt root go @t=1
    start root
    model root
    call root k0
    call_end root k0
    result root k0
    spawn done call=k0
    prompt done do
    start done reply=r4
    text done t1 reply=r4
    delta done t1 there reply=r4
    text_end done t1 reply=r4
    reply_end done reply=r4
    end done
    output root k0 there
    result_end root k0
    call root k1
    call_end root k1
    call root k2
    call_end root k2
    call root k3
    call_end root k3
    model_end root
    result root k1
    result root k2
    confirm root k2
    result root k3
    spawn a call=k1
    prompt a do
    start a reply=r2
    model a reply=r2
    text a t1 reply=r2
    delta a t1 half reply=r2
    text_end a t1 reply=r2
    call a q1 reply=r2
    call_end a q1 reply=r2
    model_end a reply=r2
    result a q1 reply=r2
    confirm a q1 reply=r2
    spawn w async
    prompt w do
    start w reply=r3
    text w t1 reply=r3
    output root k3 partly";

fn why() -> ErrorInfo {
    ErrorInfo::new(ErrorType::other("restart"), "the program ended while this ran")
}

async fn recovered(log: &dyn EventLog) -> Recovered {
    recover(log, "root".into(), Limits::default(), &CountingStamp::of_another(), &why(), &mut |_| {})
        .await
        .unwrap()
}

async fn all(log: &dyn EventLog) -> Vec<Admitted> {
    match log.read(0, usize::MAX).await.unwrap() {
        Batch::Events(events) => events,
        gap @ Batch::Gap { .. } => panic!("{gap:?}"),
    }
}

#[tokio::test]
async fn a_log_that_ends_anywhere_is_closed_once_and_the_conversation_goes_on() {
    let mut session = Session::new();
    session.play(STORY);
    for cut in 0..=session.admitted.len() {
        let log = MemoryLog::new();
        log.append(&session.admitted[..cut]).unwrap();
        let Recovered { mut processor, closed, forgotten, .. } = recovered(&log).await;
        assert_eq!((forgotten, processor.last_seq()), (0, log.last()));
        let events = all(&log).await;
        let mut verifier = Verifier::new(Profile::Native);
        for admitted in &events {
            let checked = verifier.check_numbered(admitted.seq, &admitted.event);
            assert_eq!(checked, Ok(()), "cut after {cut}\n{}", render(&events));
        }
        assert_eq!(verifier.finish(), Ok(()), "cut after {cut}\n{}", render(&events));
        for record in processor.tree().iter() {
            assert_ne!(record.status, Status::Running, "cut after {cut}");
        }
        for Admitted { event, .. } in &closed {
            if let EventKind::StreamComplete(end) = &event.kind {
                assert_eq!((end.outcome, end.error.as_ref()), (Outcome::Interrupted, Some(&why())));
            }
        }
        // As if nothing had happened.
        assert_eq!(recovered(&log).await.closed, [], "cut after {cut}");
        assert_eq!(log.last(), events.len() as u64);

        let mut more = Session::new();
        more.play("prompt root message=m9 again\nstart root reply=r9\nreply_end root reply=r9\nend root");
        let mut out = Vec::new();
        for admitted in &more.admitted {
            let mut event = anabranch_proto::Event::clone(&admitted.event);
            event.id = format!("again{}", admitted.seq).as_str().into();
            processor.process(event.into(), &CountingStamp::of_another(), &mut out);
        }
        log.append(&out).unwrap();
        let events = all(&log).await;
        let mut verifier = Verifier::new(Profile::Native);
        for admitted in &events {
            verifier.check_numbered(admitted.seq, &admitted.event).unwrap();
        }
        verifier.finish().unwrap();
        assert_eq!(processor.messages().last().map(|message| message.role), Some(Role::Assistant));
        assert_eq!(processor.messages(), recovered(&log).await.processor.messages());
    }
}

#[tokio::test]
async fn the_deepest_ends_first_and_who_was_asked_has_not_refused() {
    let mut session = Session::new();
    session.play(STORY);
    let log = MemoryLog::new();
    log.append(&session.admitted).unwrap();
    let closed = render(&recovered(&log).await.closed);
    let asked = "the program ended while this ran: nobody had answered whether `tool` may run, so it was not run; \
                 the user has not refused it";
    let expected = format!(
        "a#1 output q1 {asked:?}
        a#1 result_end q1 denied
        a#1 reply_end r2 interrupted \"the program ended while this ran\"
        a#1 end interrupted \"the program ended while this ran\" said=\"\"
        w#1 text_end t1
        w#1 reply_end r3 interrupted \"the program ended while this ran\"
        w#1 end interrupted \"the program ended while this ran\" said=\"\"
        root output k1 \"the program ended while this ran\" {{\"t\":\"1\"}}
        root result_end k1 interrupted {{\"t\":\"1\"}}
        root output k2 {asked:?} {{\"t\":\"1\"}}
        root result_end k2 denied {{\"t\":\"1\"}}
        root result_end k3 interrupted {{\"t\":\"1\"}}
        root reply_end r1 interrupted \"the program ended while this ran\" {{\"t\":\"1\"}}
        root end interrupted \"the program ended while this ran\" said=\"\" {{\"t\":\"1\"}}"
    );
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(&closed), lines(&expected), "{closed}");
}

#[tokio::test]
async fn a_log_that_is_none_of_a_processors_is_refused() {
    let mut session = Session::new();
    session.play(STORY);
    let refused = async |events: Vec<Admitted>| {
        let log = MemoryLog::new();
        for (seq, Admitted { event, .. }) in (1..).zip(events) {
            log.append(&[Admitted::new(seq, event)]).unwrap();
        }
        let stamp = CountingStamp::of_another();
        match recover(&log, "root".into(), Limits::default(), &stamp, &why(), &mut |_| {}).await {
            Err(RecoverError::Replay(error)) => error.seq,
            other => panic!("{other:?}"),
        }
    };
    // Without its spawn a child would have to be announced.
    let mut events = session.admitted.clone();
    events.remove(6);
    assert_eq!(refused(events).await, 7);
    let mut events = session.admitted.clone();
    events.insert(9, events[8].clone());
    assert_eq!(refused(events).await, 10);
}

/// A log that knows what it has forgotten.
#[derive(Debug)]
struct Forgetful(MemoryLog, Option<Forgotten>);

impl EventLog for Forgetful {
    fn append(&self, batch: &[Admitted]) -> Result<(), anabranch_session::AppendError> {
        self.0.append(batch)
    }

    fn read(&self, after: u64, max: usize) -> BoxFuture<'_, Result<Batch, LogError>> {
        match &self.1 {
            Some(forgotten) if after < forgotten.upto => {
                future::ready(Ok(Batch::Gap { from: after + 1, to: forgotten.upto })).boxed()
            }
            Some(_) | None => self.0.read(after, max),
        }
    }

    fn appended(&self) -> watch::Receiver<u64> {
        self.0.appended()
    }

    fn forgotten(&self) -> BoxFuture<'_, Result<Option<Forgotten>, LogError>> {
        future::ready(Ok(self.1.clone())).boxed()
    }
}

#[tokio::test]
async fn a_conversation_is_whole_where_the_log_kept_what_it_forgot() {
    let mut session = Session::new();
    let run = |number: u32| {
        format!(
            "prompt root message=m{number} go\nspawn c{number}\nprompt c{number} do\nend c{number}\n\
             start root reply=r{number}\ntext root t{number} reply=r{number}\n\
             delta root t{number} hi reply=r{number}\ntext_end root t{number} reply=r{number}\n\
             reply_end root reply=r{number}\nend root"
        )
    };
    session.play(&run(1));
    let (upto, conversation) = (session.processor.last_seq(), session.processor.messages().to_vec());
    session.play(&run(2));
    let messages: Vec<Message> = session.processor.messages().to_vec();
    let log = Forgetful(MemoryLog::new(), Some(Forgotten::new(upto, conversation)));
    log.append(&session.admitted).unwrap();
    let recovered = recovered(&log).await;
    assert_eq!((recovered.forgotten, recovered.closed.len()), (upto, 0));
    assert_eq!(recovered.processor.last_seq(), session.processor.last_seq());
    assert_eq!(recovered.processor.messages(), messages);
    // The same child has a further run, whether it is remembered or not.
    let mut processor = recovered.processor;
    let before = session.admitted.len();
    session.play("prompt root message=m3 go\nspawn c1#2\nprompt c1#2 do\nend c1#2\nend root");
    let mut out = Vec::new();
    for admitted in &session.admitted[before..] {
        processor.process(admitted.event.clone(), &CountingStamp::of_another(), &mut out);
    }
    assert_eq!(render(&out), render(&session.admitted[before..]));
}

#[tokio::test]
async fn a_log_that_has_forgotten_begins_no_session_that_does_not_know() {
    let mut session = Session::new();
    session.play(STORY);
    let log = MemoryLog::with_retention(2_000);
    log.append(&session.admitted).unwrap();
    let stamp = CountingStamp::of_another();
    let recovered = recover(&log, "root".into(), Limits::default(), &stamp, &why(), &mut |_| {}).await;
    assert!(matches!(recovered, Err(RecoverError::Forgotten { upto }) if upto > 1), "{recovered:?}");
}

#[test]
fn limits_hold_for_what_comes_and_not_for_what_was() {
    let mut session = Session::new();
    session.play("prompt root go\nspawn a\nprompt a do\nspawn a/b\nprompt a/b dig\nend a/b\nend a\nend root");
    let mut processor = EventProcessor::new("root".into(), Limits::default().max_depth(1).max_spawned(1));
    for admitted in &session.admitted {
        processor.replay(admitted).unwrap();
    }
    let before = session.admitted.len();
    session.play("prompt root message=m2 go\nspawn c\nprompt c do");
    let mut out = Vec::new();
    for admitted in &session.admitted[before..] {
        processor.process(admitted.event.clone(), &CountingStamp::of_another(), &mut out);
    }
    assert_eq!(render(&out), "root prompt user \"go\"\n");
}

#[test]
fn a_conversation_goes_on_behind_messages_that_were_kept() {
    let mut messages = anabranch_session::MessageAccumulator::from(vec![Message::new(
        "m0",
        "user",
        Role::User,
        vec![TextBlock::new("hello").into()],
    )]);
    let mut session = Session::new();
    session.play(
        "prompt root go\nstart root\ntext root t\ndelta root t hi\ntext_end root t\nreply_end root\nend root",
    );
    session.admitted.iter().for_each(|admitted| messages.apply(&admitted.event));
    let texts: Vec<_> = messages.messages().iter().map(Message::text).collect();
    assert_eq!(texts, ["hello", "go", "hi"]);
    assert_eq!(messages.final_message().unwrap().text(), "hi");
}
