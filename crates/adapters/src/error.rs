//! What can go wrong in writing frames.

/// A frame could not be written.
///
/// Nothing of the event's frames is in the output then; the encoder can go on with the next event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A frame has no JSON spelling: a map whose keys are not strings, or a `Serialize` that fails.
    #[error("a frame has no JSON spelling")]
    Json(#[from] serde_json::Error),
}
