//! Events that are not ours to name.

use std::sync::Arc;

use super::payload;
use crate::{Fields, Json};

payload! {
    /// An application's own event.
    pub struct Custom {
        /// What the application calls it.
        name: Arc<str>,
        /// Whatever belongs to it.
        value: Json,
    }
}

/// An event of a kind that this crate does not know; kept unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unknown {
    /// The event's `type`.
    pub kind: Arc<str>,
    /// Everything else in it but id, time and metadata.
    pub fields: Fields,
}

impl Unknown {
    /// An event of a kind, with its fields.
    pub fn new(kind: impl Into<Arc<str>>, fields: Fields) -> Self {
        Self { kind: kind.into(), fields }
    }
}
