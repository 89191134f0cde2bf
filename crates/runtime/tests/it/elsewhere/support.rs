//! Runners that run nothing elsewhere, and do to the stream what networks and faulty peers do.

use std::{
    cell::RefCell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_proto::{ErrorInfo, ErrorType, Event, EventKind, Outcome};
use anabranch_runtime::{
    Agent, Heard, Instructions, Limits, Order, Read, Runner, RunnerStream, ScriptedModel, Session,
    SpawnSubagent, Turn,
};
use futures::{StreamExt, stream};
use serde_json::json;

use crate::support::{assert_well_formed, events_as_they_are, kind, of_child};

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) type Item = Result<Heard, ErrorInfo>;
type Say = dyn Fn(&Order) -> Vec<Item> + Send + Sync;
type Mangle = dyn Fn(RunnerStream) -> RunnerStream + Send + Sync;

/// Runs orders in this process, through their JSON, each in a session of its own.
pub(super) struct Here {
    agent: Agent,
    mangle: Box<Mangle>,
    pub(super) orders: Mutex<Vec<Order>>,
    /// How many streams were made and are not dropped.
    pub(super) open: Arc<AtomicUsize>,
    is_deaf: bool,
    takes_messages: bool,
    runs_again: bool,
}

impl Here {
    pub(super) fn new(agent: Agent) -> Arc<Self> {
        Self::mangled(agent, |stream| stream)
    }

    /// With something between the two sides.
    pub(super) fn mangled(
        agent: Agent,
        mangle: impl Fn(RunnerStream) -> RunnerStream + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (orders, open) = (Mutex::default(), Arc::default());
        Arc::new(Self {
            agent,
            mangle: Box::new(mangle),
            orders,
            open,
            is_deaf: false,
            takes_messages: true,
            runs_again: false,
        })
    }

    /// Carries no instructions.
    pub(super) fn deaf(agent: Agent) -> Arc<Self> {
        let (orders, open) = (Mutex::default(), Arc::default());
        Arc::new(Self {
            agent,
            mangle: Box::new(|stream| stream),
            orders,
            open,
            is_deaf: true,
            takes_messages: true,
            runs_again: false,
        })
    }

    /// Carries answers and stops, and no messages.
    pub(super) fn without_messages(agent: Agent) -> Arc<Self> {
        let (orders, open) = (Mutex::default(), Arc::default());
        let mangle = Box::new(|stream| stream);
        Arc::new(Self {
            agent,
            mangle,
            orders,
            open,
            is_deaf: false,
            takes_messages: false,
            runs_again: false,
        })
    }

    /// Loses whoever runs the child after so many events, and has somebody else run it again, so often.
    pub(super) fn losing(agent: Agent, after: usize, times: u32) -> Arc<Self> {
        let again = agent.clone();
        let mangle = move |first: RunnerStream| {
            let again = again.clone();
            let rest = stream::iter(2..2 + times).flat_map(move |attempt| {
                let again = again.clone();
                let run = async move {
                    let mut order = LAST.with(|last| last.borrow().clone().unwrap());
                    order.attempt = attempt;
                    let run = order.start(&again).await.unwrap().map(|event| event.map(Heard::from));
                    let count = if attempt < 1 + times { after } else { usize::MAX };
                    stream::iter([Ok(Heard::again("its worker was lost"))]).chain(run.take(count))
                };
                stream::once(run).flatten().boxed()
            });
            first.take(after).chain(rest).boxed()
        };
        let (orders, open) = (Mutex::default(), Arc::default());
        let mangle = Box::new(mangle);
        Arc::new(Self { agent, mangle, orders, open, is_deaf: false, takes_messages: true, runs_again: true })
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

thread_local! {
    /// The order that was given last: each test has a thread of its own.
    static LAST: RefCell<Option<Order>> = const { RefCell::new(None) };
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Runner for Here {
    fn run(&self, order: Order, mut instructions: Instructions) -> RunnerStream {
        let order: Order = serde_json::from_str(&serde_json::to_string(&order).unwrap()).unwrap();
        self.orders.lock().unwrap().push(order.clone());
        LAST.with(|last| *last.borrow_mut() = Some(order.clone()));
        self.open.fetch_add(1, Ordering::SeqCst);
        let open = Open(Arc::clone(&self.open));
        let (agent, is_deaf) = (self.agent.clone(), self.is_deaf);
        let run = async move {
            let run = order.start(&agent).await.unwrap();
            let handle = run.handle();
            if !is_deaf {
                tokio::spawn(async move {
                    while let Some(instruction) = instructions.next().await {
                        let text = serde_json::to_string(&instruction).unwrap();
                        handle.follow(serde_json::from_str(&text).unwrap());
                    }
                });
            }
            run.map(|event| event.map(Heard::from))
        };
        let stream = stream::once(run).flatten().map(move |item| {
            let _kept = &open;
            item
        });
        (self.mangle)(stream.boxed())
    }

    fn takes_messages(&self) -> bool {
        self.takes_messages
    }

    fn runs_again(&self) -> bool {
        self.runs_again
    }
}

/// Says what it is told to say, whatever the order.
pub(super) struct Says(pub(super) Box<Say>);

impl Runner for Says {
    fn run(&self, order: Order, instructions: Instructions) -> RunnerStream {
        let says = stream::iter((self.0)(&order));
        says.map(move |item| {
            let _heard = &instructions;
            item
        })
        .boxed()
    }
}

pub(super) fn failure(text: &str) -> Item {
    Err(ErrorInfo::new(ErrorType::CONNECTION, text))
}

/// A master that starts one background child with these arguments, waits for its end and repeats its result.
pub(super) fn waits_for(spawn: SpawnSubagent, arguments: serde_json::Value) -> Agent {
    waits_within(Limits::default(), spawn, arguments)
}

/// The same with other limits.
pub(super) fn waits_within(limits: Limits, spawn: SpawnSubagent, mut arguments: serde_json::Value) -> Agent {
    arguments["background"] = true.into();
    let model = ScriptedModel::new("scripted")
        .turn(move |_| Turn::new().call("spawn_subagent", &arguments))
        .turn(|_| Turn::new().call("check_task", json!({ "task_id": "task_1", "wait": 600 })))
        .turn(|request| Turn::new().text(request.last_result_text()));
    let spawn = spawn.named_by(|args| args.metadata_str("node_id"));
    Agent::builder("master", model).tool(spawn).task_tools().limits(limits).build()
}

pub(super) fn task() -> serde_json::Value {
    json!({ "task": "Do it.", "metadata": { "node_id": "n1" } })
}

/// All that a session says to its end, once it has answered "Go.". It is well-formed and leaves nothing behind.
pub(super) async fn all(session: &Session) -> Vec<Arc<Event>> {
    events_as_they_are(session.prompt("Go.").await.unwrap()).await;
    closed(session).await
}

pub(super) async fn closed(session: &Session) -> Vec<Arc<Event>> {
    session.close().await;
    let mut events = Vec::new();
    let mut reader = session.subscribe(0);
    while let Some(read) = reader.next().await {
        let Read::Event(admitted) = read else { panic!("a gap") };
        events.push(admitted.event);
    }
    assert_well_formed(&events);
    assert_eq!(session.children_running(), 0);
    assert_eq!(session.counters().late, 0);
    events
}

/// How the runs of a child ended, and what with.
pub(super) fn ends(events: &[Arc<Event>], name: &str) -> Vec<(Outcome, String)> {
    kind(of_child(events, name), |kind| {
        let EventKind::StreamComplete(end) = kind else { return None };
        Some((end.outcome, end.error.as_ref().map(|error| error.message.clone()).unwrap_or_default()))
    })
}

/// What a session came to, in text.
pub(super) fn last_text(session: &Session) -> String {
    session.messages().last().unwrap().text()
}
