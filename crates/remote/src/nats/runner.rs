//! Who gives orders.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch_proto::{ErrorInfo, ErrorType, Stamp as _};
use anabranch_runtime::{Heard, Instructions, Order, Runner, RunnerStream, SystemStamp};
use async_nats::jetstream::{Message, message::PublishMessage};
use bytes::Bytes;
use futures::{StreamExt, stream};
use serde_json::value::to_raw_value;
use tokio::{
    sync::{Notify, OnceCell, mpsc},
    task::AbortHandle,
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    NatsError, Queue,
    alive::{Alive, pulse},
    claim::{Claim, State, lost},
    fence::Fence,
    names::{Key, Names, Topic},
    parts::Part,
    publish::publish,
    queue::{FAILED, NUMBER, PART, Queued},
    tail::Tail,
};

/// How many events wait for the session: what is not taken waits at the broker.
const HEARD: usize = 32;

/// How long the broker may be away before an order is not given.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the broker may be away before a worker is not told that its child is not wanted any more. It stops with the
/// child's time then.
const ENDING: Duration = Duration::from_secs(60);

/// How often it is looked whether the worker lives.
const LOOK: Duration = Duration::from_secs(1);

/// Runs children on the workers of a [`Queue`].
///
/// ```no_run
/// use std::sync::Arc;
///
/// use anabranch_remote::nats::{NatsRunner, Queue};
/// use anabranch_runtime::{Agent, ScriptedModel, SpawnSubagent};
///
/// # async fn run(model: ScriptedModel) -> Result<(), Box<dyn std::error::Error>> {
/// let client = async_nats::connect("nats://127.0.0.1:4222").await?;
/// let runner = Arc::new(NatsRunner::new(Queue::new(client)));
/// let agent = Agent::builder("master", model).tool(SpawnSubagent::on(runner, "analyst")).task_tools().build();
/// # Ok(())
/// # }
/// ```
pub struct NatsRunner {
    shared: Arc<Shared>,
    attempts: u32,
}

struct Shared {
    queue: Queue,
    id: String,
    claims: Arc<Claims>,
    set_up: OnceCell<Listening>,
}

/// Hears who lives and who runs what, and is heard. Dropping it ends all of that.
struct Listening {
    alive: Alive,
    pulse: AbortHandle,
    claims: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.pulse.abort();
        self.claims.abort();
    }
}

impl NatsRunner {
    /// Gives orders to a queue. A child whose worker is lost has failed.
    #[must_use]
    pub fn new(queue: Queue) -> Self {
        let id = SystemStamp::new().event_id().to_string();
        let (claims, set_up) = (Arc::default(), OnceCell::new());
        Self { shared: Arc::new(Shared { queue, id, claims, set_up }), attempts: 1 }
    }

    /// How often a child may be run: where its worker is lost, the next one begins anew, until so many have. 1 by default.
    ///
    /// What the lost one did is done: for agents whose tools may be used twice. What it said stays in the stream.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }
}

impl Runner for NatsRunner {
    fn run(&self, order: Order, instructions: Instructions) -> RunnerStream {
        let (heard, receiver) = mpsc::channel(HEARD);
        let stopped = CancellationToken::new();
        let run = Run {
            shared: Arc::clone(&self.shared),
            key: Key::of(&self.shared.id, &order),
            attempts: self.attempts,
            heard,
            stopped: stopped.clone(),
        };
        tokio::spawn(run.drive(order, instructions));
        let unwanted: DropGuard = stopped.drop_guard();
        stream::unfold((receiver, unwanted), async |(mut receiver, unwanted)| {
            let heard = receiver.recv().await?;
            Some((heard, (receiver, unwanted)))
        })
        .boxed()
    }

    fn runs_again(&self) -> bool {
        self.attempts > 1
    }
}

/// Who waits for somebody to run what was ordered, by the subjects of claims.
#[derive(Default)]
struct Claims(Mutex<HashMap<String, Arc<Notify>>>);

/// One that waits.
struct Expected {
    claims: Arc<Claims>,
    subject: String,
    claimed: Arc<Notify>,
}

impl Claims {
    fn expect(self: &Arc<Self>, subject: String) -> Expected {
        let claimed = Arc::<Notify>::default();
        self.lock().insert(subject.clone(), Arc::clone(&claimed));
        Expected { claims: Arc::clone(self), subject, claimed }
    }

    /// Tells those whose orders are claimed, for ever.
    async fn listen(self: Arc<Self>, mut claims: Tail) {
        loop {
            let claim = claims.next().await;
            if let Some(claimed) = self.lock().get(claim.subject.as_str()) {
                claimed.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Expected {
    /// # Cancel safety
    /// Nothing is lost when dropped.
    async fn claimed(&self) {
        self.claimed.notified().await;
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.subject);
    }
}

/// A child that is being run.
struct Run {
    shared: Arc<Shared>,
    key: Key,
    attempts: u32,
    heard: mpsc::Sender<Result<Heard, ErrorInfo>>,
    /// Nobody wants it any more.
    stopped: CancellationToken,
}

impl Run {
    async fn drive(self, order: Order, instructions: Instructions) {
        // Before it can be claimed.
        let subject = self.shared.queue.names.claim(&self.key);
        let claimed = self.shared.claims.expect(subject);
        let given = self.stopped.run_until_cancelled(Box::pin(self.give(&order))).await;
        match given {
            Some(Ok(())) => {
                if let Some(Err(error)) =
                    self.stopped.run_until_cancelled(Box::pin(self.follow(instructions, &claimed))).await
                {
                    self.heard.send(Err(error)).await.ok();
                }
            }
            Some(Err(error)) => {
                self.heard.send(Err(error)).await.ok();
            }
            None => {}
        }
        // It may have been given even where we do not know of it.
        self.end().await;
    }

    /// Gives the order to the queue.
    async fn give(&self, order: &Order) -> Result<(), ErrorInfo> {
        let queue = &self.shared.queue;
        self.shared.listen().await.map_err(|error| unreachable(&error))?;
        let order = to_raw_value(order).map_err(|error| {
            ErrorInfo::new(ErrorType::INTERNAL, format!("the order cannot be written: {error}"))
        })?;
        let queued = Queued { key: self.key.clone(), attempts: self.attempts, order };
        let payload = serde_json::to_vec(&queued).map_err(|error| {
            ErrorInfo::new(ErrorType::INTERNAL, format!("the order cannot be written: {error}"))
        })?;
        let (bytes, room) = (payload.len(), queue.room());
        if bytes > room {
            let text = format!(
                "the order has {bytes} bytes and the broker takes {room}; give less context or less of the \
                 conversation, or raise the broker's `max_payload`"
            );
            return Err(ErrorInfo::new(ErrorType::INVALID_REQUEST, text));
        }
        let id = format!("{}.{}", self.key.session_id, self.key.run);
        let message = PublishMessage::build().payload(payload.into()).message_id(id);
        let published = publish(&queue.context, &queue.names.orders(), &message, PATIENCE).await;
        published.map(drop).map_err(|error| unreachable(&error))
    }

    /// Hears what is said of the child until it has ended.
    async fn follow(&self, mut instructions: Instructions, claims: &Expected) -> Result<(), ErrorInfo> {
        let queue = &self.shared.queue;
        let names = &queue.names;
        let run = names.run(&self.key);
        let mut tail = Tail::new(queue.client.clone(), queue.context.clone(), names.runs_stream(), run);
        let mut fence = Fence::default();
        // What waits for a worker has no reader at the broker, where each costs something for every event of all runs.
        let mut is_taken = false;
        let mut claimed = Instant::now();
        let mut place = 0;
        let mut ready: Option<Heard> = None;
        let mut ended: Option<Instant> = None;
        let mut said = 0_u64;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                permit = self.heard.reserve(), if ready.is_some() => match permit {
                    Ok(permit) => {
                        if let Some(heard) = ready.take() {
                            permit.send(Ok(heard));
                        }
                        if fence.is_complete() {
                            return Ok(());
                        }
                    }
                    Err(_) => return Ok(()),
                },
                () = claims.claimed(), if !is_taken => is_taken = true,
                message = tail.next(), if is_taken && ready.is_none() => {
                    if Names::topic(&message.subject) == Topic::Claim {
                        claimed = Instant::now();
                        place = message.info().map_or(0, |info| info.stream_sequence);
                    }
                    ready = take(&mut fence, &message)?;
                }
                Some(instruction) = instructions.next() => {
                    said += 1;
                    let payload: Bytes = serde_json::to_vec(&instruction).unwrap_or_default().into();
                    if payload.len() > queue.room() {
                        let text = format!("a message of {} bytes is more than the broker takes", payload.len());
                        return Err(ErrorInfo::new(ErrorType::INVALID_REQUEST, text));
                    }
                    let id = format!("{}.{}.say.{said}", self.key.session_id, self.key.run);
                    let message = PublishMessage::build().payload(payload).message_id(id);
                    let published = publish(&queue.context, &names.say(&self.key), &message, PATIENCE).await;
                    published.map_err(|error| unreachable(&error))?;
                }
                _ = look.tick() => {
                    if !fence.has_ended() {
                        ended = None;
                        self.look(&fence, claimed, place).await;
                    } else if ended.get_or_insert_with(Instant::now).elapsed() > queue.lost_after {
                        // What is missing before its terminal does not come any more; whoever reads says so.
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Where the child's worker is lost and nobody is to run it again, says so in its run, behind all that it said.
    async fn look(&self, fence: &Fence, claimed: Instant, place: u64) {
        let Some((worker, attempt)) = fence.running().filter(|(_, attempt)| *attempt >= self.attempts) else {
            return;
        };
        let Some(alive) = self.shared.set_up.get() else { return };
        if !alive.alive.is_lost(worker, claimed) {
            return;
        }
        let state = State::Lost { why: lost(worker, attempt) };
        let claim = Claim { attempt, worker: worker.to_owned(), state };
        // What is said in the stream counts, whoever said it.
        let said = self.shared.queue.claim(&self.key, &claim, Some(place), LOOK).await;
        if let Err(error) = said {
            tracing::debug!(%error, "a worker is lost, which cannot be said now");
        }
    }

    /// Nobody wants the child any more: says so, and takes away what was said of it.
    async fn end(&self) {
        let claim = Claim { attempt: 0, worker: String::new(), state: State::Ended };
        let queue = &self.shared.queue;
        let ended = async {
            queue.claim(&self.key, &claim, None, ENDING).await?;
            queue.purge(&self.key).await
        };
        if let Err(error) = ended.await {
            tracing::warn!(%error, child = %self.key.session_id, "the broker was not told that a child has ended");
        }
    }
}

impl Shared {
    /// Sees to it that the streams are there, and that this process hears and is heard.
    async fn listen(&self) -> Result<&Listening, NatsError> {
        let Queue { client, names, lost_after, .. } = &self.queue;
        let set_up = async {
            Box::pin(self.queue.set_up()).await?;
            let pulse = pulse(client.clone(), names.clone(), self.id.clone(), *lost_after);
            let alive = Alive::new(client.clone(), names, *lost_after);
            let (context, stream) = (self.queue.context.clone(), names.runs_stream());
            let claims = Tail::new(client.clone(), context, stream, names.claims(&self.id));
            let claims = Arc::clone(&self.claims).listen(claims);
            let (pulse, claims) = (tokio::spawn(pulse).abort_handle(), tokio::spawn(claims).abort_handle());
            Ok(Listening { alive, pulse, claims })
        };
        self.set_up.get_or_try_init(|| set_up).await
    }
}

/// What a message of the run says.
fn take(fence: &mut Fence, message: &Message) -> Result<Option<Heard>, ErrorInfo> {
    let header = |name: &str| message.headers.as_ref()?.get(name).map(async_nats::HeaderValue::as_str);
    match Names::topic(&message.subject) {
        Topic::Claim => match serde_json::from_slice(&message.payload) {
            Ok(claim) => fence.claim(claim),
            Err(error) => {
                let text = format!("somebody wrote a claim that cannot be read: {error}");
                Err(ErrorInfo::new(ErrorType::UPSTREAM, text))
            }
        },
        Topic::Event(attempt) if header(FAILED).is_some() => {
            fence.failed(attempt, &message.payload).map(|()| None)
        }
        Topic::Event(attempt) => {
            let number = header(NUMBER).and_then(|number| number.parse().ok());
            let part = header(PART).map_or(Some(Part { index: 1, of: 1 }), Part::read);
            fence.event(attempt, number, part, message.payload.clone())
        }
        Topic::Say | Topic::Other => Ok(None),
    }
}

fn unreachable(error: &dyn std::error::Error) -> ErrorInfo {
    let causes = std::iter::successors(error.source(), |error| error.source());
    let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    ErrorInfo::new(ErrorType::CONNECTION, format!("the broker took no order: {text}"))
}

impl fmt::Debug for NatsRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsRunner")
            .field("queue", &self.shared.queue)
            .field("attempts", &self.attempts)
            .finish()
    }
}
