//! What the client was shown.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use agent_client_protocol_schema::v1::{SessionId as WireSessionId, ToolCall, ToolCallUpdateFields};
use anabranch_proto::SessionId;
use foldhash::HashMap;

use super::{
    Message, Mode, Requests,
    body::PartKind,
    card::{Card, CardState, End},
    clock::Clock,
    meta::About,
    text::Blocks,
};

/// Where messages go.
pub(super) type Out<'o> = dyn FnMut(Message) + 'o;

/// What the client was shown, and what it is still to be shown.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) mode: Mode,
    pub(super) requests: Requests,
    /// The child sessions that it knows, each with the session that it was announced on, for ever.
    pub(super) announced: HashMap<SessionId, WireSessionId>,
    /// The runs of each child.
    pub(super) sessions: HashMap<SessionId, Runs>,
    /// Who speaks, by card. The root is under the empty id, and is always there.
    pub(super) runs: BTreeMap<Arc<str>, Run>,
    /// What is not closed.
    pub(super) cards: BTreeMap<Arc<str>, Card>,
    pub(super) clock: Clock,
}

/// The runs of a child.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// The last one's card.
    pub(super) last: Arc<str>,
    /// How many of those that are shown in the session have not ended. More than one only where a run began before the one before had ended.
    pub(super) open: usize,
    /// How many questions of their calls are open.
    pub(super) questions: usize,
}

/// A run that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) shown: Shown,
    /// The session that its traffic goes to.
    pub(super) session: WireSessionId,
    /// The card that its text goes to, where it has no session.
    pub(super) card: Arc<str>,
    /// What its result's card is called.
    pub(super) result: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) depth: u32,
    /// Its calls that have not ended.
    pub(super) calls: BTreeSet<Arc<str>>,
    /// How many of these are its own.
    pub(super) questions: usize,
    pub(super) blocks: Blocks,
    pub(super) has_said: bool,
}

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// In a session of its own.
    Session,
    /// As a card of the root session.
    Card,
    /// As a card that says that it has begun, and one with its result once there is one.
    Quiet,
}

impl Client {
    pub(super) fn new(root: WireSessionId, mode: Mode) -> Self {
        let root = Run {
            shown: Shown::Session,
            session: root,
            card: Arc::default(),
            result: Arc::default(),
            name: Arc::default(),
            depth: 0,
            calls: BTreeSet::default(),
            questions: 0,
            blocks: Blocks::default(),
            has_said: false,
        };
        Self {
            mode,
            requests: Requests::Left,
            announced: HashMap::default(),
            sessions: HashMap::default(),
            runs: BTreeMap::from([(Arc::default(), root)]),
            cards: BTreeMap::default(),
            clock: Clock::default(),
        }
    }

    /// The root session.
    pub(super) fn root(&self) -> WireSessionId {
        // The root's run is there from the first moment and is never removed.
        self.runs.get("").map_or_else(|| WireSessionId::new(""), |root| root.session.clone())
    }

    /// Opens a card.
    pub(super) fn open(
        &mut self,
        id: &Arc<str>,
        mut card: Card,
        call: ToolCall,
        about: About,
        out: &mut Out<'_>,
    ) {
        out(card.opening(call, about));
        card.pace = self.clock.written();
        self.cards.insert(Arc::clone(id), card);
    }

    /// A card has something to show.
    pub(super) fn touch(&mut self, id: &Arc<str>) {
        if let Some(card) = self.cards.get_mut(id)
            && card.state == CardState::Open
        {
            self.clock.wait(id, &mut card.pace);
        }
    }

    /// Shows what waited until now.
    pub(super) fn progress(&mut self, out: &mut Out<'_>) {
        while let Some(id) = self.clock.next() {
            if let Some(card) = self.cards.get_mut(&id) {
                card.pace = self.clock.written();
                let fields = ToolCallUpdateFields::new().content(card.body.tail());
                out(card.changing(&id, fields, About::default()));
            }
        }
    }

    /// Ends a card; one that the client does not know is gone without a word.
    pub(super) fn end(&mut self, id: &Arc<str>, end: End, out: &mut Out<'_>) {
        if let Some(card) = self.take(id)
            && card.state == CardState::Open
        {
            out(card.ending(id, end));
        }
    }

    /// Takes a card away.
    pub(super) fn take(&mut self, id: &Arc<str>) -> Option<Card> {
        let card = self.cards.remove(id)?;
        self.clock.forget(id, card.pace);
        Some(card)
    }

    /// Ends calls whose results did not come.
    pub(super) fn end_calls(&mut self, calls: BTreeSet<Arc<str>>, out: &mut Out<'_>) {
        for id in calls {
            if let Some(card) = self.cards.get_mut(&id) {
                card.body.add(PartKind::Outcome, "no result");
            }
            self.end(&id, End::unfinished(), out);
        }
    }
}
