//! What a parent allows, in a form that can be sent.

use serde::{Deserialize, Serialize};

use crate::Permission;

/// One agent's [`Permissions`](crate::Permissions), in a form that can be sent.
///
/// Code cannot be sent. Where code decides ([`Permissions::deciding`](crate::Permissions::deciding)), the other side asks
/// for each call that nothing else forbids, and the code answers from where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Policy {
    /// What becomes of calls of these tools; the strictest wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_name: Vec<(String, Permission)>,
    /// What becomes of calls of which nothing else is said.
    pub otherwise: Permission,
    /// Whether code decides too, on the side that gave the order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub code_decides: bool,
}
