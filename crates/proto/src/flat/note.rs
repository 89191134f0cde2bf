//! What a flat line cannot say in agentscope's own fields.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{ErrorType, Metadata};

/// What is missing in a line for the event to be read back exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Note {
    /// The event's metadata, where the line shows another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Metadata>,
    /// Whether a `CUSTOM` with one of our names is the application's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) application: bool,
    /// The kind of an error, where agentscope does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error_type: Option<ErrorType>,
    /// Whether the value of a `CUSTOM` is wrapped in an object.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) value: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Note {
    /// The note that a field is, if it is one.
    pub(super) fn of(field: &RawValue) -> Option<Self> {
        serde_json::from_str(field.get()).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
