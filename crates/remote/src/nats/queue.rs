//! A queue of orders, as both sides know it.

use std::{fmt, time::Duration};

use async_nats::{
    Client,
    jetstream::{
        Context,
        consumer::{AckPolicy, Consumer, pull},
        context::ContextBuilder,
        message::PublishMessage,
        stream::{Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, StorageType},
    },
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    NatsError,
    claim::{Claim, Stored},
    names::{Key, Names},
    publish::publish,
};

/// How long an order may wait for a worker.
const ORDERS_AGE: Duration = Duration::from_secs(24 * 3_600);

/// How long what is said of a run is kept that nobody took away: longer than an order can wait and run.
const RUNS_AGE: Duration = Duration::from_secs(72 * 3_600);

/// For how long the broker knows a message again that comes twice.
const DUPLICATES: Duration = Duration::from_secs(300);

/// How long the broker may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How many messages may be on their way to the broker from this queue's users in one process.
const ON_THEIR_WAY: usize = 8_192;

/// What goes with a message beside the order, the number and the part: headers, and the names of ours.
pub(super) const NUMBER: &str = "Anabranch-Number";
pub(super) const PART: &str = "Anabranch-Part";
pub(super) const FAILED: &str = "Anabranch-Failed";

/// Room in a message for its headers.
const HEADERS: usize = 4 * 1024;

/// A queue of orders at a broker: those who give orders and those who take them have the same one.
///
/// ```no_run
/// use std::time::Duration;
///
/// use anabranch_remote::nats::Queue;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let client = async_nats::connect("nats://127.0.0.1:4222").await?;
/// let queue = Queue::new(client).named("analysts")?.lost_after(Duration::from_secs(15));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Queue {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) names: Names,
    pub(super) lost_after: Duration,
    max_bytes: i64,
}

/// An order as it lies in the queue.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Queued {
    #[serde(flatten)]
    pub(super) key: Key,
    /// How often it may be run.
    pub(super) attempts: u32,
    /// The order, read only by who runs it.
    pub(super) order: Box<RawValue>,
}

impl Queue {
    /// The queue `default` under the prefix `anabranch`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let context = ContextBuilder::new()
            .timeout(ANSWER)
            .ack_timeout(ANSWER)
            .max_ack_inflight(ON_THEIR_WAY)
            .build(client.clone());
        let names = Names::new();
        Self { client, context, names, lost_after: Duration::from_secs(30), max_bytes: -1 }
    }

    /// With other names for streams and subjects, so that several applications can share an account.
    ///
    /// # Errors
    /// When the prefix is not 1 to 64 of `a-z`, `A-Z`, `0-9`, `-` and `_`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Result<Self, NatsError> {
        self.names.prefix(prefix.into())?;
        Ok(self)
    }

    /// Another queue under the same prefix: for workers that have other agents, or other machines.
    ///
    /// # Errors
    /// When the name is not 1 to 64 of `a-z`, `A-Z`, `0-9`, `-` and `_`.
    pub fn named(mut self, queue: impl Into<String>) -> Result<Self, NatsError> {
        self.names.set_queue(queue.into())?;
        Ok(self)
    }

    /// After what time a worker that is not heard is taken for lost. 30 seconds by default, 1 at least. All who use the queue
    /// should have the same.
    #[must_use]
    pub fn lost_after(mut self, time: Duration) -> Self {
        self.lost_after = time.max(Duration::from_secs(1));
        self
    }

    /// How many bytes each of the two streams may have at the broker, where they are not there yet; the broker sets so much
    /// aside. By default as many as it gives the account. When they are full nothing more is taken, and what runs fails.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self
    }

    /// Sees to it that the streams are there.
    pub(super) async fn set_up(&self) -> Result<(), NatsError> {
        let config = |name: String, subject: String| Config {
            name,
            subjects: vec![subject],
            max_bytes: self.max_bytes,
            // Nothing that was taken is dropped to make room.
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            duplicate_window: DUPLICATES,
            num_replicas: 1,
            ..Config::default()
        };
        let mut orders = config(self.names.orders_stream(), self.names.all_orders());
        orders.retention = RetentionPolicy::WorkQueue;
        orders.max_age = ORDERS_AGE;
        let mut runs = config(self.names.runs_stream(), self.names.all_runs());
        runs.max_age = RUNS_AGE;
        for config in [orders, runs] {
            let stream = config.name.clone();
            let made = self.context.get_or_create_stream(config).await;
            made.map_err(|error| NatsError::Stream { stream, source: Box::new(error) })?;
        }
        Ok(())
    }

    /// The consumer that all workers of the queue share.
    pub(super) async fn consumer(&self) -> Result<Consumer<pull::Config>, NatsError> {
        let config = pull::Config {
            durable_name: Some(self.names.queue().to_owned()),
            filter_subject: self.names.orders(),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.lost_after,
            // How often an order is run is decided by claims; how often it is delivered says nothing of that.
            max_deliver: -1,
            max_ack_pending: -1,
            ..pull::Config::default()
        };
        let made = self.context.create_consumer_on_stream(config, self.names.orders_stream()).await;
        made.map_err(|error| NatsError::Consumer {
            queue: self.names.queue().to_owned(),
            source: Box::new(error),
        })
    }

    /// How many bytes of an event or an order a message has room for.
    pub(super) fn room(&self) -> usize {
        self.client.max_payload().saturating_sub(HEADERS).max(HEADERS)
    }

    /// The last claim of a run.
    pub(super) async fn last_claim(
        &self,
        key: &Key,
    ) -> Result<Option<Stored>, Box<dyn std::error::Error + Send + Sync>> {
        let stream = self.context.get_stream_no_info(self.names.runs_stream()).await?;
        match stream.get_last_raw_message_by_subject(&self.names.claim(key)).await {
            Ok(message) => {
                let claim: Claim = serde_json::from_slice(&message.payload)?;
                Ok(Some(Stored { claim, seq: message.sequence }))
            }
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores a claim, where `behind` is the last one or there is to be none; says where it lies if it is stored.
    pub(super) async fn claim(
        &self,
        key: &Key,
        claim: &Claim,
        behind: Option<u64>,
        within: Duration,
    ) -> Result<Option<u64>, Box<dyn std::error::Error + Send + Sync>> {
        let payload: Bytes = serde_json::to_vec(claim)?.into();
        let mut message = PublishMessage::build().payload(payload);
        if let Some(behind) = behind {
            message = message.expected_last_subject_sequence(behind);
        }
        match publish(&self.context, &self.names.claim(key), &message, within).await {
            Ok(stored) => Ok(Some(stored.sequence)),
            // It may be our own that was stored when we did not hear of it.
            Err(error) if super::publish::is_final(&error) && behind.is_some() => {
                let last = self.last_claim(key).await?;
                Ok(last.filter(|last| last.claim == *claim && Some(last.seq) > behind).map(|last| last.seq))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes away what is said of a run, but for who runs it: that a child has ended is known for as long as its order could
    /// come again.
    pub(super) async fn purge(&self, key: &Key) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let stream = self.context.get_stream_no_info(self.names.runs_stream()).await?;
        for subject in [self.names.all_events(key), self.names.say(key)] {
            stream.purge().filter(subject).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("names", &self.names)
            .field("lost_after", &self.lost_after)
            .finish_non_exhaustive()
    }
}
