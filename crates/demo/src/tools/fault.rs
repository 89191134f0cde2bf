//! Failing on request.

use crate::plan::Node;

/// Makes the tools of a node fail where `--fail` names it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fault(Option<Node>);

impl Fault {
    /// The tools fail, as `--fail` with that node asks.
    pub(crate) fn of(node: Node) -> Self {
        Self(Some(node))
    }

    /// Lets a tool go on, or says why it fails.
    pub(super) fn check(self) -> Result<(), String> {
        match self.0 {
            None => Ok(()),
            Some(node) => Err(format!("this tool was told to fail by `--fail {node}`")),
        }
    }
}
