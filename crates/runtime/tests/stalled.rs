//! A reader that stands still while 200,000 updates are offered: what grows meanwhile stays within what is configured. A
//! program of its own, since its allocator counts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use allocation_counter::{AllocationInfo, measure};
use anabranch_proto::EventKind;
use anabranch_runtime::{
    Agent, Limits, Model, ModelItem, ModelRequest, ModelStream, Read, Reader, ScriptedModel, Session,
    SpawnSubagent, Turn,
};
use anabranch_session::MemoryLog;
use futures::{StreamExt, stream};
use serde_json::json;
use tokio::{runtime::Runtime, time::sleep};

const UPDATES: usize = 200_000;
const WORD: &str = "word ";

/// What a reader may be behind.
const WINDOW: usize = 256 * 1024;
/// What the log keeps.
const RETENTION: usize = 1024 * 1024;
const STALL: Duration = Duration::from_secs(7);

/// One more turn of the driver, the queues of children that are not in its task, and the session itself.
const BATCH: usize = 128 * 1024;

/// Says a word again and again, and counts how often it was asked to.
#[derive(Clone, Default)]
struct Talkative(Arc<AtomicUsize>);

impl Talkative {
    fn offered(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Model for Talkative {
    fn name(&self) -> &'static str {
        "talkative"
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        let offered = Arc::clone(&self.0);
        let pieces = stream::iter(0..UPDATES).map(move |_| {
            offered.fetch_add(1, Ordering::Relaxed);
            Ok(ModelItem::Text(WORD.to_owned()))
        });
        pieces.boxed()
    }
}

/// How a child runs.
#[derive(Clone, Copy, Debug)]
enum Runs {
    InTask,
    OnItsOwn,
    InTheBackground,
}

/// A session whose agent has a child that talks.
fn session(talkative: &Talkative, runs: Runs) -> Session {
    let background = matches!(runs, Runs::InTheBackground);
    let model = ScriptedModel::new("scripted")
        .turn(move |_| {
            Turn::new().call("spawn_subagent", json!({ "task": "Talk.", "background": background }))
        })
        .turn(|_| Turn::new().text("Done."));
    let worker = Agent::builder("worker", talkative.clone()).build();
    let spawn = SpawnSubagent::new(worker);
    let spawn = if matches!(runs, Runs::OnItsOwn) { spawn.on_own_tasks() } else { spawn };
    let limits = Limits::default().reader_window(WINDOW).stall(STALL);
    let agent = Agent::builder("master", model).tool(spawn).limits(limits).build();
    agent.session_builder().log(Arc::new(MemoryLog::with_retention(RETENTION))).start().unwrap()
}

/// Bytes in use since the begin of a test, and the most that were.
#[derive(Clone, Copy, Debug, Default)]
struct Grown {
    now: usize,
    peak: usize,
}

impl Grown {
    fn by(&mut self, info: AllocationInfo) {
        self.peak = self.peak.max(self.now + usize::try_from(info.bytes_max).unwrap());
        let now = i64::try_from(self.now).unwrap() + info.bytes_current;
        self.now = now.try_into().unwrap_or_default();
    }
}

/// A session that was prompted, and a reader of it that has read nothing.
struct Stalled {
    runtime: Runtime,
    session: Session,
    reader: Reader,
    talkative: Talkative,
    grown: Grown,
}

impl Stalled {
    fn new(runs: Runs) -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let talkative = Talkative::default();
        let (session, reader) = runtime.block_on(async {
            let session = session(&talkative, runs);
            let reader = session.subscribe_lossless(0);
            (session, reader)
        });
        Self { runtime, session, reader, talkative, grown: Grown::default() }
    }

    /// Lets time pass, in which all is done that nobody has to be waited for.
    fn after(&mut self, time: Duration) -> Grown {
        self.grown.by(measure(|| self.runtime.block_on(async { sleep(time).await })));
        self.grown
    }

    fn prompt(&mut self) {
        self.grown.by(measure(|| {
            drop(self.runtime.block_on(self.session.prompt("Go.")).unwrap());
        }));
    }
}

/// The words that are read from here to the end of the session, and how many events are missing.
fn read_on(stalled: &mut Stalled) -> (usize, u64) {
    let Stalled { runtime, reader, .. } = stalled;
    let (mut said, mut missing, mut seq, mut ends) = (0, 0, 0, 0);
    runtime.block_on(async {
        // To the root's end and the child's, or to the session's.
        while ends < 2
            && let Some(read) = reader.next().await
        {
            match read {
                Read::Event(admitted) => {
                    assert_eq!(admitted.seq, seq + 1);
                    seq = admitted.seq;
                    if let EventKind::TextBlockDelta(delta) = &admitted.event.kind {
                        said += usize::from(admitted.event.scope.child().is_some() && delta.delta == WORD);
                    }
                    ends += usize::from(matches!(admitted.event.kind, EventKind::StreamComplete(_)));
                }
                Read::Gap { from, to } => {
                    assert_eq!(from, seq + 1);
                    missing += to - from + 1;
                    seq = to;
                }
            }
        }
    });
    (said, missing)
}

const WAYS: [Runs; 3] = [Runs::InTask, Runs::OnItsOwn, Runs::InTheBackground];

#[test]
fn what_grows_behind_a_reader_that_stands_still_is_its_window_and_afterwards_nothing_is_lost() {
    for runs in WAYS {
        let mut stalled = Stalled::new(runs);
        stalled.prompt();
        let half = stalled.after(STALL / 2);
        let later = stalled.after(STALL / 4);
        assert!(later.peak <= WINDOW + BATCH, "{runs:?}: {later:?}");
        assert!(later.now <= half.now + 1024, "{runs:?}: {half:?} became {later:?}");
        // What is offered is not asked for.
        let offered = stalled.talkative.offered();
        assert!(offered > 100 && offered < (WINDOW + BATCH) / 256, "{runs:?}: {offered}");
        assert_eq!(read_on(&mut stalled), (UPDATES, 0), "{runs:?}");
    }
}

#[test]
fn what_grows_behind_a_reader_that_is_not_waited_for_is_what_the_log_keeps() {
    let text = UPDATES * WORD.len();
    for runs in WAYS {
        let mut stalled = Stalled::new(runs);
        stalled.prompt();
        let later = stalled.after(STALL * 2);
        assert_eq!(stalled.talkative.offered(), UPDATES, "{runs:?}");
        // The child's text is in its message, which is its result: in its parent's messages and in what the parent's
        // model is asked. A text that grows has up to as much room again, and is there twice where it has none.
        assert!(later.now <= RETENTION + BATCH + 4 * text, "{runs:?}: {later:?}");
        assert!(later.peak <= RETENTION + BATCH + 8 * text, "{runs:?}: {later:?}");
        stalled.runtime.block_on(stalled.session.close());
        let (said, missing) = read_on(&mut stalled);
        assert!(
            missing > 100_000 && said as u64 + missing >= UPDATES as u64,
            "{runs:?}: {said} and {missing}"
        );
    }
}
