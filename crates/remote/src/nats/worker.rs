//! Who takes orders.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_proto::{Admitted, Stamp as _};
use anabranch_runtime::{Agent, Order, SystemStamp};
use async_nats::jetstream::{
    AckKind, Message,
    consumer::{Consumer, pull},
};
use futures::StreamExt;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    NatsError, Queue,
    alive::{Alive, pulse},
    names::Key,
    publish::Pauses,
    work,
};

/// How long a request for an order lasts; a worker that is to end waits for it.
const REQUEST: Duration = Duration::from_secs(2);

/// How long a worker that is to end at last may take to say so of what it still runs.
const RELEASE: Duration = Duration::from_secs(10);

type Choose = dyn Fn(&Order) -> Result<Agent, String> + Send + Sync;

/// Told of each event of a child before it is sent.
pub type Produced = Box<dyn FnMut(&Admitted) + Send>;

type Watched = dyn Fn(&Order) -> Produced + Send + Sync;

/// Takes orders from a [`Queue`] and runs their children here.
///
/// ```no_run
/// use anabranch_remote::nats::{Queue, Worker};
/// use anabranch_runtime::{Agent, ScriptedModel};
///
/// # async fn run(model: ScriptedModel) -> Result<(), Box<dyn std::error::Error>> {
/// let client = async_nats::connect("nats://127.0.0.1:4222").await?;
/// let analyst = Agent::builder("analyst", model).build();
/// let worker = Worker::new(Queue::new(client), [analyst]).concurrency(16);
/// worker.run(async { drop(tokio::signal::ctrl_c().await) }).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a worker does nothing unless it is run"]
pub struct Worker {
    queue: Queue,
    choose: Arc<Choose>,
    concurrency: usize,
    drain: Duration,
    produced: Option<Arc<Watched>>,
}

impl Worker {
    /// Has these agents, each under its name.
    pub fn new(queue: Queue, agents: impl IntoIterator<Item = Agent>) -> Self {
        let agents: BTreeMap<_, _> =
            agents.into_iter().map(|agent| (Arc::clone(agent.name()), agent)).collect();
        Self::choosing(queue, move |order| {
            let known = || agents.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let agent = agents.get(&order.agent).cloned();
            agent.ok_or_else(|| format!("the worker knows no agent `{}`; it has: {}", order.agent, known()))
        })
    }

    /// Chooses the agent by the order. An error is what its child fails with.
    pub fn choosing(
        queue: Queue,
        choose: impl Fn(&Order) -> Result<Agent, String> + Send + Sync + 'static,
    ) -> Self {
        let drain = Duration::from_secs(30);
        Self { queue, choose: Arc::new(choose), concurrency: 8, drain, produced: None }
    }

    /// How many children run at once. 8 by default, 1 at least.
    pub fn concurrency(mut self, children: usize) -> Self {
        self.concurrency = children.max(1);
        self
    }

    /// For how long children may go on when the worker is to end. 30 seconds by default. What then still runs is
    /// [run again](super::NatsRunner::attempts) by another worker, or has failed.
    pub fn drain(mut self, time: Duration) -> Self {
        self.drain = time;
        self
    }

    /// Tells somebody of every event that children say here, before it is sent.
    pub fn watched_by(mut self, watch: impl Fn(&Order) -> Produced + Send + Sync + 'static) -> Self {
        self.produced = Some(Arc::new(watch));
        self
    }

    /// Takes orders until `stop` is ready, then none, and waits for what runs, for at most the time to drain.
    ///
    /// Where the broker goes away, what runs goes on, for two minutes; what it says is sent when the broker is back.
    ///
    /// # Errors
    /// When the broker has no JetStream for us.
    ///
    /// # Cancel safety
    /// Dropping the future stops all at once, as the end of the process does: others take what runs here for lost after a
    /// while.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), NatsError> {
        let Self { queue, choose, concurrency, drain, produced } = self;
        queue.set_up().await?;
        let consumer = queue.consumer().await?;
        let id = SystemStamp::new().event_id().to_string();
        let alive = Alive::new(queue.client.clone(), &queue.names, queue.lost_after);
        let (running, released) = (Mutex::default(), CancellationToken::new());
        let shared = Arc::new(Shared { queue, id, alive, released, choose, running, produced });
        let mut tasks = JoinSet::new();
        let Queue { client, names, lost_after, .. } = shared.queue.clone();
        let mut pulse = pin!(pulse(client, names, shared.id.clone(), lost_after));
        let orders = orders(Arc::clone(&shared), &consumer, concurrency, &mut tasks, stop);
        tokio::select! {
            () = &mut pulse => {}
            () = orders => {}
        }
        let ended = async { while tasks.join_next().await.is_some() {} };
        let drained = tokio::select! {
            () = &mut pulse => Ok(()),
            drained = tokio::time::timeout(drain, ended) => drained,
        };
        if drained.is_err() {
            shared.released.cancel();
            let ended = async { while tasks.join_next().await.is_some() {} };
            if tokio::time::timeout(RELEASE, ended).await.is_err() {
                tracing::warn!("a worker ends without a word of some of its children");
            }
        }
        // What was said last is to reach the broker, where there is one.
        tokio::time::timeout(REQUEST, shared.queue.client.flush()).await.ok();
        Ok(())
    }
}

/// Takes orders as there is room for their children.
async fn orders(
    shared: Arc<Shared>,
    consumer: &Consumer<pull::Config>,
    concurrency: usize,
    tasks: &mut JoinSet<()>,
    stop: impl Future<Output = ()>,
) {
    let room = Arc::new(Semaphore::new(concurrency));
    let mut stop = pin!(stop);
    let mut pauses = Pauses::new();
    loop {
        let permit = tokio::select! {
            biased;
            () = &mut stop => return,
            permit = Arc::clone(&room).acquire_owned() => permit,
        };
        let Ok(permit) = permit else { return };
        while tasks.try_join_next().is_some() {}
        // A request is never given up: an order that comes for it would be nobody's for a while.
        let mut request = pin!(next(consumer));
        let (order, is_stopped) = tokio::select! {
            order = &mut request => (order, false),
            () = &mut stop => (request.await, true),
        };
        match order {
            Ok(Some(order)) if is_stopped => {
                order.ack_with(AckKind::Nak(None)).await.ok();
            }
            Ok(Some(order)) => {
                pauses = Pauses::new();
                let shared = Arc::clone(&shared);
                tasks.spawn(async move {
                    work::take(shared, order).await;
                    drop(permit);
                });
            }
            Ok(None) => pauses = Pauses::new(),
            Err(error) => {
                tracing::debug!(%error, "no order can be had; trying again");
                tokio::time::sleep(pauses.next()).await;
            }
        }
        if is_stopped {
            return;
        }
    }
}

/// The next order, where there is one.
async fn next(
    consumer: &Consumer<pull::Config>,
) -> Result<Option<Message>, Box<dyn std::error::Error + Send + Sync>> {
    // Where the broker is gone nothing ends the request.
    let next = tokio::time::timeout(REQUEST * 2, async {
        let mut batch = consumer.batch().max_messages(1).expires(REQUEST).messages().await?;
        batch.next().await.transpose()
    });
    next.await?
}

/// What all children of a worker share.
pub(super) struct Shared {
    pub(super) queue: Queue,
    pub(super) id: String,
    pub(super) alive: Alive,
    /// The worker is at its end: what still runs is given up.
    pub(super) released: CancellationToken,
    choose: Arc<Choose>,
    running: Mutex<HashMap<Key, watch::Sender<Arc<Message>>>>,
    produced: Option<Arc<Watched>>,
}

/// A run is under way here until this is dropped.
pub(super) struct Running {
    shared: Arc<Shared>,
    key: Key,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl Shared {
    /// Takes note that a run is under way, and gives its order as it is delivered last. Where it is under way already, it has
    /// this delivery from now on.
    pub(super) fn begin(
        self: &Arc<Self>,
        key: &Key,
        message: &Arc<Message>,
    ) -> Option<(Running, watch::Receiver<Arc<Message>>)> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(delivered) = running.get(key) {
            delivered.send_replace(Arc::clone(message));
            return None;
        }
        let (sender, delivered) = watch::channel(Arc::clone(message));
        running.insert(key.clone(), sender);
        Some((Running { shared: Arc::clone(self), key: key.clone() }, delivered))
    }

    pub(super) fn agent(&self, order: &Order) -> Result<Agent, String> {
        (self.choose)(order)
    }

    pub(super) fn watch(&self, order: &Order) -> Produced {
        match &self.produced {
            Some(produced) => produced(order),
            None => Box::new(|_| {}),
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queue", &self.queue)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
