//! Where children are shown.

use std::sync::Arc;

use agent_client_protocol_schema::v1::SessionId as WireSessionId;
use anabranch_proto::SpawnMechanism;

use super::{
    Mode,
    client::{Client, Shown},
};
use crate::intent::Child;

impl Client {
    /// How a child is shown.
    pub(super) fn how(&mut self, child: &Child, above: Option<&Arc<str>>) -> Shown {
        if self.mode == Mode::Sessions && self.place(child) {
            return Shown::Session;
        }
        // What belongs to a card that is closed cannot stay open behind it.
        let is_below_quiet =
            above.and_then(|above| self.runs.get(above)).is_some_and(|run| run.shown == Shown::Quiet);
        if child.mechanism == SpawnMechanism::AsyncWorker || is_below_quiet {
            Shown::Quiet
        } else {
            Shown::Card
        }
    }

    /// Finds the session that a child is announced on. There is none where its parent is not known: the protocol forbids
    /// to guess one, and to change it later.
    fn place(&mut self, child: &Child) -> bool {
        if self.announced.contains_key(&child.session) {
            return true;
        }
        let root = self.root();
        // One that is called as the root is, or not at all, can be no session beside it.
        let on = if child.session.as_str() == &*root.0 || child.session.as_str().is_empty() {
            None
        } else if self.announced.contains_key(&child.parent) {
            Some(WireSessionId::new(child.parent.as_str()))
        } else {
            (child.depth <= 1).then_some(root)
        };
        if let Some(on) = on {
            self.announced.insert(child.session.clone(), on);
            return true;
        }
        false
    }

    /// The card of a child's parent, where it is no session and not the root.
    pub(super) fn card_above(&self, child: &Child) -> Option<Arc<str>> {
        let above = self.sessions.get(&child.parent).filter(|_| child.parent != child.session)?;
        let is_card = !self.announced.contains_key(&child.parent);
        is_card.then(|| Arc::clone(&above.last))
    }
}
