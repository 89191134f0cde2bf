//! What tools may do without asking.

use std::{fmt, sync::Arc};

use anabranch_pipeline::ToolCall;
use anabranch_proto::PermissionRule;
use serde::{Deserialize, Serialize};

use crate::Policy;

/// What becomes of a call. The later wins where several speak of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Permission {
    /// It runs.
    Allow,
    /// A person is asked first.
    Ask,
    /// It does not run; the model reads why.
    Deny(String),
}

type Decide = dyn Fn(&ToolCall) -> Option<Permission> + Send + Sync;

/// What an agent's tools may do without asking.
///
/// Where several rules speak of a tool the strictest wins: deny, then ask, then allow. What nobody speaks of is allowed,
/// unless [`otherwise`](Self::otherwise) says more. A sub-agent has its parent's permissions and its own, of which the
/// stricter holds: so no child may do more than its parent.
///
/// A person who is asked can give rules with the answer; these hold from then on in the whole session, but only where
/// otherwise a person would be asked.
///
/// ```
/// use anabranch_runtime::{Permission, Permissions};
///
/// let permissions = Permissions::new()
///     .allow("read_file")
///     .ask("write_file")
///     .deny("delete_file", "files are never deleted here")
///     .otherwise(Permission::Ask);
/// ```
#[derive(Clone)]
pub struct Permissions(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    by_name: Vec<(String, Permission)>,
    decide: Vec<Arc<Decide>>,
    otherwise: Permission,
    /// Whether code on the side that gave the order of a run decides too.
    is_afar: bool,
}

impl Permissions {
    /// Everything is allowed.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            by_name: Vec::new(),
            decide: Vec::new(),
            otherwise: Permission::Allow,
            is_afar: false,
        }))
    }

    /// A tool may run.
    #[must_use]
    pub fn allow(self, tool: impl Into<String>) -> Self {
        self.rule(tool, Permission::Allow)
    }

    /// A person is asked before a tool runs.
    #[must_use]
    pub fn ask(self, tool: impl Into<String>) -> Self {
        self.rule(tool, Permission::Ask)
    }

    /// A tool does not run, and why, for the model.
    #[must_use]
    pub fn deny(self, tool: impl Into<String>, why: impl Into<String>) -> Self {
        self.rule(tool, Permission::Deny(why.into()))
    }

    /// The application decides by the call, where it has something to say. It should not wait: the whole session does.
    #[must_use]
    pub fn deciding(
        mut self,
        decide: impl Fn(&ToolCall) -> Option<Permission> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.0).decide.push(Arc::new(decide));
        self
    }

    /// What becomes of calls of which nothing else is said.
    #[must_use]
    pub fn otherwise(mut self, permission: Permission) -> Self {
        Arc::make_mut(&mut self.0).otherwise = permission;
        self
    }

    /// In a form that can be sent.
    pub(crate) fn policy(&self) -> Policy {
        let Inner { by_name, decide, otherwise, is_afar } = &*self.0;
        let code_decides = *is_afar || !decide.is_empty();
        Policy { by_name: by_name.clone(), otherwise: otherwise.clone(), code_decides }
    }

    /// What was sent.
    pub(crate) fn of_policy(policy: Policy) -> Self {
        let Policy { by_name, otherwise, code_decides } = policy;
        Self(Arc::new(Inner { by_name, decide: Vec::new(), otherwise, is_afar: code_decides }))
    }

    /// Whether code decides, here or afar.
    pub(crate) fn has_code(&self) -> bool {
        self.is_afar() || !self.0.decide.is_empty()
    }

    /// Whether code on the side that gave the order of a run decides too, which is asked what nothing else forbids.
    pub(crate) fn is_afar(&self) -> bool {
        self.0.is_afar
    }

    fn rule(mut self, tool: impl Into<String>, permission: Permission) -> Self {
        Arc::make_mut(&mut self.0).by_name.push((tool.into(), permission));
        self
    }

    /// What becomes of a call.
    #[must_use]
    pub fn decide(&self, call: &ToolCall) -> Permission {
        let named = self.0.by_name.iter().filter(|(tool, _)| **tool == *call.name);
        let named = named.map(|(_, permission)| permission.clone());
        let decided = self.0.decide.iter().filter_map(|decide| decide(call));
        named.chain(decided).max().unwrap_or_else(|| self.0.otherwise.clone())
    }
}

impl Default for Permissions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permissions")
            .field("by_name", &self.0.by_name)
            .field("decide", &self.0.decide.len())
            .field("otherwise", &self.0.otherwise)
            .finish()
    }
}

/// What a person's rules say of a call; the strictest wins.
pub(crate) fn by_rules(rules: &[PermissionRule], call: &ToolCall) -> Option<Permission> {
    let speaks = |rule: &&PermissionRule| {
        rule.tool_name == *call.name
            && rule.rule_content.as_ref().is_none_or(|content| *content == call.arguments)
    };
    let permission = |rule: &PermissionRule| match &*rule.behavior {
        "allow" => Some(Permission::Allow),
        "deny" => Some(Permission::Deny("a rule that a person gave forbids it".to_owned())),
        "ask" => Some(Permission::Ask),
        _ => None,
    };
    rules.iter().filter(speaks).filter_map(permission).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(permissions: &Permissions, tool: &str) -> Permission {
        permissions.decide(&ToolCall::new("call", tool, "{}"))
    }

    #[test]
    fn the_strictest_wins_and_what_nobody_speaks_of_is_as_otherwise() {
        let permissions = Permissions::new().deny("b", "no").ask("a").allow("a").allow("b").allow("c");
        assert_eq!(decide(&permissions, "a"), Permission::Ask);
        assert_eq!(decide(&permissions, "b"), Permission::Deny("no".to_owned()));
        assert_eq!(decide(&permissions, "c"), Permission::Allow);
        assert_eq!(decide(&permissions, "d"), Permission::Allow);
        let strict = permissions.otherwise(Permission::Ask).deciding(|call| {
            (call.arguments == "{}" && &*call.name == "c").then(|| Permission::Deny("empty".to_owned()))
        });
        assert_eq!(decide(&strict, "c"), Permission::Deny("empty".to_owned()));
        assert_eq!(decide(&strict, "d"), Permission::Ask);
    }

    #[test]
    fn rules_speak_of_a_tool_or_of_one_call_of_it() {
        let call = ToolCall::new("call", "write", "{\"a\":1}");
        let rule = |content: Option<&str>, behavior: &str| {
            PermissionRule::new("write", behavior, "user").content(content.map(str::to_owned))
        };
        assert_eq!(by_rules(&[rule(None, "allow")], &call), Some(Permission::Allow));
        assert_eq!(by_rules(&[rule(Some("{}"), "allow")], &call), None);
        assert_eq!(
            by_rules(&[rule(Some("{\"a\":1}"), "ask"), rule(None, "allow")], &call),
            Some(Permission::Ask)
        );
        assert_eq!(by_rules(&[rule(None, "whatever")], &call), None);
    }
}
