//! Publishing until the broker has it.

use std::time::Duration;

use async_nats::jetstream::{
    Context,
    context::{PublishError, PublishErrorKind},
    message::PublishMessage,
    publish::PublishAck,
};
use tokio::time::Instant;

/// The first pause before something is tried again, and the longest.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Pauses that grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(PAUSE)
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// Whether the broker would say the same again.
pub(super) fn is_final(error: &PublishError) -> bool {
    matches!(
        error.kind(),
        PublishErrorKind::WrongLastSequence
            | PublishErrorKind::WrongLastMessageId
            | PublishErrorKind::MaxPayloadExceeded
    )
}

/// Publishes a message, again and again until the broker has stored it or it will not. The message has an id or may be stored
/// twice.
pub(super) async fn publish(
    context: &Context,
    subject: &str,
    message: &PublishMessage,
    within: Duration,
) -> Result<PublishAck, PublishError> {
    let begun = Instant::now();
    let mut pauses = Pauses::new();
    loop {
        let published = match context.send_publish(subject.to_owned(), message.clone()).await {
            Ok(acknowledged) => acknowledged.await,
            Err(error) => Err(error),
        };
        match published {
            Err(error) if !is_final(&error) && begun.elapsed() < within => {
                tracing::debug!(%error, subject, "not published; trying again");
                tokio::time::sleep(pauses.next()).await;
            }
            published => return published,
        }
    }
}
