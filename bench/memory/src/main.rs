//! Prints rows as a line of JSON: what is held, and what is allocated. With the argument `points` it prints what the plot of
//! what is held shows instead.

use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use anabranch_bench::{
    measure::runtime,
    report::{Budget, Row, Unit},
    rows,
    tools::{StreamTool, hung, master, spawning},
};
use anabranch_pipeline::{ToolStream, ToolYield};
use anabranch_proto::EventKind;
use anabranch_runtime::{Agent, Limits, Read, SpawnSubagent};
use anabranch_session::MemoryLog;
use futures::{StreamExt as _, stream};

fn main() {
    if std::env::args().any(|argument| argument == "points") {
        println!("{}", serde_json::to_string(&points()).expect("points have a spelling"));
        return;
    }
    let mut all = vec![duplicates()];
    all.extend([64, 1_000, 10_000].map(idle));
    all.extend(idle_sessions());
    all.extend(stalled());
    all.extend(allocations());
    println!("{}", serde_json::to_string(&all).expect("rows have a spelling"));
}

#[expect(clippy::cast_precision_loss, reason = "a few gibibytes at most")]
fn kib(bytes: i64) -> f64 {
    bytes as f64 / 1024.0
}

#[expect(clippy::cast_precision_loss, reason = "a few millions at most")]
fn each(count: u64, items: usize) -> f64 {
    count as f64 / items as f64
}

/// What work leaves allocated while what it gives is alive.
fn held<T>(work: impl FnOnce() -> T) -> i64 {
    let mut kept = None;
    let info = measure(|| kept = Some(work()));
    drop(kept);
    info.bytes_current
}

fn duplicates() -> Row {
    let bytes = held(rows::duplicates::full);
    Row::new("duplicates", "the guard against duplicates, held", kib(bytes), Unit::Kib, Budget::AtMost(256.0))
        .source("per root session, after 20,000 ids")
}

/// What each holds, by how many there are: KiB.
fn points() -> Vec<(&'static str, Vec<(f64, f64)>)> {
    let points = |counts: &[u16], held: fn(u16) -> f64| {
        counts.iter().map(|count| (f64::from(*count), held(*count))).collect()
    };
    vec![
        ("idle child", points(&[4, 16, 64, 256, 1_000, 4_000, 10_000], |count| child(usize::from(count)))),
        ("idle session", points(&[4, 16, 64, 256, 1_000, 4_000, 10_000], session)),
    ]
}

/// What a child of so many holds whose model does not answer, in task: KiB.
fn child(children: usize) -> f64 {
    let agent = master("spawn_subagent", children).tool(SpawnSubagent::new(hung())).build();
    let without = master("nothing", 0).build();
    let base = held(|| waiting(&without, 0));
    let bytes = held(|| waiting(&agent, children)) - base;
    #[expect(clippy::cast_precision_loss, reason = "10,000 at most")]
    let children = children as f64;
    kib(bytes) / children
}

fn idle(children: usize) -> Row {
    let each = child(children);
    Row::new("idle", format!("an idle child in task, of {children}"), each, Unit::Kib, Budget::AtMost(2.0))
        .source("all that the session holds for it: call, agent, run, record, its 3 events in the log")
}

/// A session whose children have all asked their models, or that has replied where it has none.
fn waiting(agent: &Agent, children: usize) -> impl Sized {
    let runtime = runtime();
    let reply = runtime.block_on(async {
        let mut reply = agent.reply_stream("go");
        let mut asked = 0;
        while asked < children {
            let Some(Read::Event(admitted)) = reply.next().await else { panic!("the reply ended") };
            let is_childs = admitted.event.scope.depth() == 1;
            asked += usize::from(is_childs && matches!(admitted.event.kind, EventKind::ModelCallStart(_)));
        }
        reply
    });
    (reply, runtime)
}

/// What a session of so many holds that waits for its first prompt: KiB.
fn session(sessions: u16) -> f64 {
    let agent = spawning(1);
    let open = |sessions: u16| {
        let runtime = runtime();
        let open = runtime.block_on(async {
            let open: Vec<_> = (0..sessions).map(|_| agent.session()).collect();
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            open
        });
        (open, runtime)
    };
    let base = held(|| open(0));
    kib(held(|| open(sessions)) - base) / f64::from(sessions)
}

fn idle_sessions() -> Vec<Row> {
    [10, 1_000]
        .into_iter()
        .map(|sessions| {
            let each = session(sessions);
            Row::new("idle", format!("an idle session, of {sessions}"), each, Unit::Kib, Budget::Shown)
                .source("a session that waits for its first prompt, its driver's task included")
        })
        .collect()
}

/// A tool offers 200,000 updates to a reader that does not read, and to none at all while the log forgets.
fn stalled() -> Vec<Row> {
    const WINDOW: usize = 256 * 1024;
    const UPDATES: u64 = 200_000;
    let offer = || {
        let tool = StreamTool::new("offer", |context| -> ToolStream {
            let update = move |number: u64| {
                let custom = anabranch_proto::event::Custom::new("progress", serde_json::Value::from(number));
                ToolYield::Event(Arc::new(context.event(custom)))
            };
            Box::pin(stream::iter(0..UPDATES).map(update))
        });
        master("offer", 1).limits(Limits::default().reader_window(WINDOW)).tool(tool).build()
    };
    let grown = |retention: usize, reads: bool| {
        let agent = offer();
        let peak = measure(|| {
            let runtime = runtime();
            runtime.block_on(async {
                let log = Arc::new(MemoryLog::with_retention(retention));
                let session = agent.session_builder().log(log).start().expect("the log is empty");
                let reply = session.prompt("go").await.expect("the session is open");
                if reads {
                    // It is not read: the producers are held back. All that can happen has happened soon.
                    for _ in 0..10_000 {
                        tokio::task::yield_now().await;
                    }
                    assert_eq!(session.children_running(), 0, "the tool is no child");
                    drop(reply);
                } else {
                    let mut late = session.subscribe(0);
                    drop(reply);
                    while session
                        .with_tree(|tree| !matches!(tree.root().status, anabranch_session::Status::Ended(_)))
                    {
                        tokio::task::yield_now().await;
                    }
                    assert!(
                        matches!(late.next().await, Some(Read::Gap { .. })),
                        "what was forgotten is a gap"
                    );
                }
            });
        });
        peak.bytes_max
    };
    let base = {
        let agent = master("nothing", 0).build();
        measure(|| {
            runtime().block_on(async { agent.reply_stream("go").finished().await.expect("it ends") });
        })
        .bytes_max
    };
    let row = |what: &str, bytes: u64, configured: usize, batch: usize| {
        #[expect(clippy::cast_precision_loss, reason = "some mebibytes")]
        let (grown, most) =
            (bytes.saturating_sub(base) as f64 / 1024.0, (configured + batch) as f64 / 1024.0);
        #[expect(clippy::cast_precision_loss, reason = "some mebibytes")]
        let configured = configured as f64 / 1024.0;
        Row::new("stalled", what, grown, Unit::Kib, Budget::AtMost(most))
            .source("200,000 CUSTOM events offered; the most that was allocated at once, over a reply without any")
            .beside("configured", configured, Unit::Kib)
    };
    // A batch is 64 events, and a quarter of the window at most.
    let batch = WINDOW / 4;
    vec![
        row("a reply that nobody reads", grown(64 << 20, true), WINDOW, batch),
        row("no reply, and a log of 1 MiB", grown(1 << 20, false), 1 << 20, batch),
    ]
}

/// What is allocated for an event and for a child.
fn allocations() -> Vec<Row> {
    const EVENTS: usize = 20_000;
    let count = |work: &dyn Fn()| -> AllocationInfo { measure(work) };
    let difference = |work: &dyn Fn(usize)| {
        // Twice as many events cost as much more as the events cost.
        let (few, many) = (count(&|| work(EVENTS)), count(&|| work(2 * EVENTS)));
        each(many.count_total.saturating_sub(few.count_total), EVENTS)
    };
    let making = difference(&|events| _ = rows::depth::nested(1, events));
    let deep = difference(&|events| _ = rows::depth::nested(5, events));
    let session = difference(&|events| _ = rows::depth::in_session(1, events));
    let deep_session = difference(&|events| _ = rows::depth::in_session(5, events));
    let child = {
        let (few, many) = (spawning(64), spawning(128));
        let run = |agent: &Agent| {
            count(&|| {
                runtime().block_on(async { agent.reply_stream("go").finished().await.expect("it ends") });
            })
        };
        each(run(&many).count_total.saturating_sub(run(&few).count_total), 64)
    };
    vec![
        Row::new(
            "allocations",
            "passing an event through depth 5",
            deep - making,
            Unit::Allocations,
            Budget::AtMost(0.001),
        )
        .source("beyond what making it allocates")
        .beside("made and passed at depth 1", making, Unit::Allocations)
        .beside("at depth 5", deep, Unit::Allocations),
        Row::new(
            "allocations",
            "a text delta, model to reader, 5 deep",
            deep_session,
            Unit::Allocations,
            Budget::Shown,
        )
        .source(
            "its text, its event; and what a batch of readers and of the log takes, spread over its events",
        )
        .beside("at depth 1", session, Unit::Allocations),
        Row::new("allocations", "a child: spawn, one turn, end", child, Unit::Allocations, Budget::Shown)
            .source("all that a child more costs a reply, its 12 events included"),
    ]
}
