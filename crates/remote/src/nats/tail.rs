//! Reading a part of a stream as it grows, from wherever it was when a connection is lost.

use std::{sync::atomic::Ordering, time::Duration};

use async_nats::{
    Client,
    jetstream::{
        Context, Message,
        consumer::{AckPolicy, DeliverPolicy, pull},
    },
};
use futures::StreamExt;

use super::publish::Pauses;

/// How many messages are fetched ahead; the broker's bound on a message bounds their bytes.
const AHEAD: usize = 16;

/// How often the broker says that it has nothing, while it has nothing. Who hears nothing for twice that time asks anew.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long a request for messages lasts.
const REQUEST: Duration = Duration::from_secs(30);

/// After what time the broker forgets a reader that does not ask.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// How often it is looked whether the connection is another one.
const LOOK: Duration = Duration::from_millis(500);

/// The messages of a stream with certain subjects, each once and in order.
pub(super) struct Tail {
    client: Client,
    context: Context,
    stream: String,
    filter: String,
    /// Where the last message lies that was read.
    after: u64,
    /// What the broker numbers for this consumer of ours.
    read: u64,
    messages: Option<pull::Stream>,
    connects: u64,
    pauses: Pauses,
}

impl Tail {
    pub(super) fn new(client: Client, context: Context, stream: String, filter: String) -> Self {
        let pauses = Pauses::new();
        Self { client, context, stream, filter, after: 0, read: 0, messages: None, connects: 0, pauses }
    }

    /// The next message. While the broker is away there is none.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(super) async fn next(&mut self) -> Message {
        loop {
            let connects = self.client.statistics().connects.load(Ordering::Relaxed);
            if connects != self.connects {
                // What the broker kept for us in memory went with the connection, or soon will.
                self.messages = None;
            }
            if self.messages.is_none() {
                match self.open().await {
                    Ok(messages) => {
                        self.messages = Some(messages);
                        self.connects = connects;
                        self.read = 0;
                        self.pauses = Pauses::new();
                    }
                    Err(error) => {
                        tracing::debug!(%error, filter = self.filter, "cannot read; trying again");
                        tokio::time::sleep(self.pauses.next()).await;
                        continue;
                    }
                }
            }
            let Some(messages) = &mut self.messages else { continue };
            let message = tokio::select! {
                message = messages.next() => message,
                () = tokio::time::sleep(LOOK) => continue,
            };
            match message {
                Some(Ok(message)) => {
                    if self.is_next(&message) {
                        return message;
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, filter = self.filter, "reading broke off; going on");
                    self.messages = None;
                }
                None => self.messages = None,
            }
        }
    }

    /// Whether a message is one that was not read. Where one before it is missing, it is asked for anew.
    fn is_next(&mut self, message: &Message) -> bool {
        let Ok(info) = message.info() else { return false };
        let (number, place) = (info.consumer_sequence, info.stream_sequence);
        if number != self.read + 1 {
            self.messages = None;
            return false;
        }
        self.read = number;
        let is_new = place > self.after;
        self.after = self.after.max(place);
        is_new
    }

    async fn open(&self) -> Result<pull::Stream, Box<dyn std::error::Error + Send + Sync>> {
        let deliver_policy = if self.after == 0 {
            DeliverPolicy::All
        } else {
            DeliverPolicy::ByStartSequence { start_sequence: self.after + 1 }
        };
        let config = pull::Config {
            deliver_policy,
            ack_policy: AckPolicy::None,
            filter_subject: self.filter.clone(),
            inactive_threshold: FORGOTTEN,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer = self.context.create_consumer_on_stream(config, &self.stream).await?;
        let messages =
            consumer.stream().max_messages_per_batch(AHEAD).expires(REQUEST).heartbeat(HEARTBEAT).messages();
        Ok(messages.await?)
    }
}
