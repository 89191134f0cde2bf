//! A run's messages to the broker, in order and each at least once.

use std::{collections::VecDeque, time::Duration};

use async_nats::jetstream::{
    Context,
    context::{PublishError, PublishErrorKind},
    message::PublishMessage,
    publish::PublishAck,
};
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::publish::{Pauses, is_final};

/// How many messages may be on their way, and how many bytes they have. One passes whatever its size.
const MESSAGES: usize = 256;
const BYTES: usize = 4 * 1024 * 1024;

/// How long the broker may be away before a run is given up: who was not heard for so long is taken for lost by others.
const PATIENCE: Duration = Duration::from_secs(120);

/// Publishes messages that have ids, several at once. What was not stored is sent again, with all that came after it, so that
/// the order in which they are stored is at worst that of a later time; the broker drops those that it has.
pub(super) struct Writer {
    context: Context,
    on_their_way: VecDeque<Sent>,
    bytes: usize,
    trouble: Option<Trouble>,
}

struct Sent {
    subject: String,
    message: PublishMessage,
    bytes: usize,
    stored: Option<BoxFuture<'static, Result<PublishAck, PublishError>>>,
}

/// The broker did not store something.
struct Trouble {
    since: Instant,
    pauses: Pauses,
}

impl Writer {
    pub(super) fn new(context: Context) -> Self {
        Self { context, on_their_way: VecDeque::new(), bytes: 0, trouble: None }
    }

    pub(super) fn has_room(&self) -> bool {
        self.trouble.is_none()
            && self.on_their_way.len() < MESSAGES
            && (self.bytes < BYTES || self.on_their_way.is_empty())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.on_their_way.is_empty()
    }

    /// Takes a message. It is sent at once, but for one that comes while others are in trouble.
    pub(super) async fn send(&mut self, subject: String, message: PublishMessage, bytes: usize) {
        self.bytes += bytes;
        let stored =
            if self.trouble.is_some() { None } else { send(&self.context, &subject, &message).await };
        self.on_their_way.push_back(Sent { subject, message, bytes, stored });
    }

    /// Waits until the message that was taken first is stored.
    ///
    /// # Errors
    /// When the broker refuses it, or was away for too long.
    ///
    /// # Cancel safety
    /// Nothing is lost when dropped.
    pub(super) async fn settle(&mut self) -> Result<(), PublishError> {
        loop {
            if let Some(trouble) = &mut self.trouble {
                tokio::time::sleep(trouble.pauses.next()).await;
                for sent in &mut self.on_their_way {
                    sent.stored = send(&self.context, &sent.subject, &sent.message).await;
                }
            }
            let Some(first) = self.on_their_way.front_mut() else { return Ok(()) };
            let stored = match &mut first.stored {
                Some(stored) => stored.await,
                None => Err(PublishError::new(PublishErrorKind::BrokenPipe)),
            };
            match stored {
                Ok(_) => {
                    self.trouble = None;
                    self.bytes -= first.bytes;
                    self.on_their_way.pop_front();
                    return Ok(());
                }
                Err(error) => {
                    first.stored = None;
                    let trouble = self
                        .trouble
                        .get_or_insert_with(|| Trouble { since: Instant::now(), pauses: Pauses::new() });
                    if is_final(&error) || trouble.since.elapsed() > PATIENCE {
                        return Err(error);
                    }
                    tracing::debug!(%error, "events were not stored; sending them again");
                }
            }
        }
    }
}

async fn send(
    context: &Context,
    subject: &str,
    message: &PublishMessage,
) -> Option<BoxFuture<'static, Result<PublishAck, PublishError>>> {
    let sent = context.send_publish(subject.to_owned(), message.clone()).await;
    sent.ok().map(|stored| Box::pin(async move { stored.await }) as BoxFuture<'static, _>)
}
