//! What forbids a budget: experiments that do a part of the work and nothing else.
//!
//! A child is a number of events, whoever makes them. What these cost from their making to their reader, without an agent,
//! a model, a tool or a limit, is the least that a child can cost in a stream that has them all.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
};

use anabranch_proto::{Event, EventKind, SessionId, Stamp};
use anabranch_runtime::{Agent, Read, SpawnSubagent};
use anabranch_session::{EventLog as _, EventProcessor, Limits, MemoryLog};
use futures::StreamExt as _;

use crate::{
    floors,
    measure::{Case, Scale, Series, in_turn, per_item, runtime},
    report::short,
    tools::{hung, master, spawning, stamp},
};

/// How many children the experiments have.
const CHILDREN: usize = 1_000;

/// What is tried, told.
pub type Experiment = fn(Scale) -> String;

/// The rows whose budget has an experiment, and the experiment.
pub const EXPERIMENTS: &[(&str, Experiment)] = &[("cancel", cancel), ("spawn", spawn)];

/// The events of children that spawn, say a word and end.
fn spawn(scale: Scale) -> String {
    let events = recorded(&spawning(CHILDREN), |_, _| false);
    told("a child that says one word", &events, 0, 6.0, scale)
}

/// The events that end children whose models hang: the last of each, after the cancel.
fn cancel(scale: Scale) -> String {
    let hung = master("spawn_subagent", CHILDREN).tool(SpawnSubagent::new(hung())).build();
    let asked =
        |event: &Event| event.scope.depth() == 1 && matches!(event.kind, EventKind::ModelCallStart(_));
    let events = recorded(&hung, |event, seen| {
        *seen += usize::from(asked(event));
        *seen == CHILDREN
    });
    let begun = events.1.iter().rposition(|event| asked(event)).map_or(0, |last| last + 1);
    told("a child that is cancelled", &events, begun, 1.5, scale)
}

/// What the stages of `events` cost from `begun` on, beside what a child may cost, in microseconds.
fn told(
    what: &str,
    events: &(SessionId, Vec<Arc<Event>>),
    begun: usize,
    budget: f64,
    scale: Scale,
) -> String {
    let (session, all) = events;
    let late = &all[begun..];
    let names = [
        "made: an id, a time, the event",
        "made, and moved through one bounded channel",
        "processed",
        "processed, logged and read",
    ];
    let stamp = stamp();
    let mut made = || per_item(CHILDREN, || late.iter().for_each(|event| drop(again(event, &*stamp))));
    let mut moved = || {
        let left = Arc::new(Mutex::new(late.to_vec()));
        let stamp = Arc::clone(&stamp);
        per_item(CHILDREN, || {
            let next = move || {
                let event = left.lock().expect("nothing panics").pop().expect("there are as many");
                Arc::new(again(&event, &*stamp))
            };
            runtime().block_on(floors::through(1, late.len(), next))
        })
    };
    let mut processed = || pipeline(session, all, begun, false);
    let mut logged = || pipeline(session, all, begun, true);
    let cases: &mut [Case<'_>] = &mut [&mut made, &mut moved, &mut processed, &mut logged];
    let series: Series = in_turn(scale.rounds, cases);
    let mut text = String::new();
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let each = late.len() as f64 / CHILDREN as f64;
    let mut put = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("it is a string");
    put(format_args!("{what}, of {CHILDREN}: {} events; a budget of {budget} µs", short(each)));
    for (index, name) in names.iter().enumerate() {
        put(format_args!("  {name:<46} {:>8} µs", short(series.median(index) / 1e3)));
    }
    let least = series.median(0) + series.median(3);
    put(format_args!("  {:<46} {:>8} µs", "made, processed, logged and read", short(least / 1e3)));
    text
}

/// The same event, made anew.
fn again(event: &Event, stamp: &dyn Stamp) -> Event {
    Event::stamped(stamp, event.scope.clone(), event.metadata.clone(), event.kind.clone())
}

/// What the events cost from `begun` on, in a processor that has seen those before, and where `logged` in a log that is read
/// in the batches of a session's reader.
fn pipeline(session: &SessionId, events: &[Arc<Event>], begun: usize, logged: bool) -> f64 {
    let stamp = stamp();
    let limits = Limits::default().max_spawned(2 * CHILDREN);
    let mut processor = EventProcessor::new(session.clone(), limits);
    let mut admitted = Vec::new();
    for event in &events[..begun] {
        processor.process(Arc::clone(event), &*stamp, &mut admitted);
    }
    admitted.clear();
    let log = MemoryLog::with_retention(usize::MAX);
    per_item(CHILDREN, || {
        let mut read = processor.last_seq();
        for batch in events[begun..].chunks(64) {
            for event in batch {
                processor.process(Arc::clone(event), &*stamp, &mut admitted);
            }
            if logged {
                log.append(&admitted).expect("it has room");
                let batch = futures::executor::block_on(log.read(read, 64)).expect("it can be read");
                let anabranch_session::Batch::Events(batch) = batch else { panic!("nothing is forgotten") };
                read = batch.last().map_or(read, |admitted| admitted.seq);
            }
            admitted.clear();
        }
    })
}

/// All events of a reply, which is cancelled when `until` says so, and the root's session.
fn recorded(
    agent: &Agent,
    mut until: impl FnMut(&Event, &mut usize) -> bool,
) -> (SessionId, Vec<Arc<Event>>) {
    runtime().block_on(async {
        let session = agent.session();
        let mut reply = session.prompt("go").await.expect("the session is open");
        let (mut events, mut seen) = (Vec::new(), 0);
        while let Some(read) = reply.next().await {
            let Read::Event(admitted) = read else { panic!("nothing is forgotten") };
            if until(&admitted.event, &mut seen) {
                reply.cancel();
            }
            events.push(admitted.event);
        }
        (session.id().clone(), events)
    })
}
