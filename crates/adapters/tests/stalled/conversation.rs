//! What is offered.

use std::{collections::BTreeMap, sync::Arc};

use anabranch_proto::{
    BlockId, Event, EventKind, Outcome, ToolResultState,
    event::{ThinkingBlockDelta, ThinkingBlockEnd, ThinkingBlockStart},
};
use anabranch_testkit::{Actor, Stage};

/// What is offered next.
pub(crate) enum Offer {
    Event(Arc<Event>),
    /// So many pieces, these again and again.
    Pieces(Vec<Arc<Event>>, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Text,
    Thinking,
}

/// Who says or thinks something.
pub(crate) type Voice = (&'static str, Kind);

/// The root and two children of one name, who speak and think token by token. One calls a tool between.
pub(crate) struct Conversation {
    pub(crate) offers: Vec<Offer>,
    /// All that each says, by block.
    pub(crate) said: BTreeMap<Voice, Vec<String>>,
}

const TURNS: usize = 10;

/// How many events `turn` writes down in the midst of which the pieces belong.
const POOL: usize = 64;

impl Conversation {
    pub(crate) fn of(pieces: usize) -> Self {
        let stage = Stage::new();
        let mut this = Self { offers: Vec::new(), said: BTreeMap::new() };
        let root = stage.root().with("tenant_id", "t");
        root.begin("Go");
        let call = root.call("spawn_subagent", "{}");
        let (left, right) = (root.spawning("n1").call(&call).now(), root.spawn("n1"));
        left.begin("Left");
        right.begin("Right");
        let mut taken = this.take(&stage, 0);
        for turn in 0..TURNS {
            taken = this.turn(turn, pieces / TURNS, &stage, taken, [&root, &left, &right]);
        }
        right.end(Outcome::Completed);
        left.end(Outcome::Interrupted);
        root.result(&call, "spawn_subagent", ToolResultState::Interrupted, "");
        root.end(Outcome::Completed);
        this.take(&stage, taken);
        this
    }

    /// All four blocks of a turn begin, grow piece by piece, and end.
    fn turn(
        &mut self,
        turn: usize,
        pieces: usize,
        stage: &Stage,
        taken: usize,
        actors: [&Actor; 3],
    ) -> usize {
        let left = actors[1];
        let thought = BlockId::new(format!("thought_{turn}"));
        left.emit(ThinkingBlockStart::new(left.reply(), &thought));
        let blocks = actors.map(Actor::open_text);
        let before = self.take(stage, taken);

        for count in 0..POOL / 4 {
            let end = if count == 7 { "\n" } else { " " };
            for (actor, block) in actors.iter().zip(&blocks) {
                actor.delta(block, &format!("größer{turn}.{count}{end}"));
            }
            left.emit(ThinkingBlockDelta::new(left.reply(), &thought, format!("Hm {turn}.{count} ")));
        }
        let pool = stage.events().split_off(before);
        for (voice, text) in told(pool.iter().cycle().take(pieces)) {
            self.said.entry(voice).or_default().push(text);
        }
        self.offers.push(Offer::Pieces(pool, pieces));

        let before = before + POOL;
        left.emit(ThinkingBlockEnd::new(left.reply(), &thought));
        for (actor, block) in actors.iter().zip(&blocks) {
            actor.close_text(block);
        }
        left.use_tool("read", r#"{"path":"a"}"#, "a");
        self.take(stage, before)
    }

    /// Offers what has been written down since; gives how much that is in all.
    fn take(&mut self, stage: &Stage, since: usize) -> usize {
        let events = stage.events();
        self.offers.extend(events[since..].iter().cloned().map(Offer::Event));
        events.len()
    }

    /// The same, with all pieces of a block between two other events in one.
    pub(crate) fn in_one_piece(&self) -> Vec<Arc<Event>> {
        let mut events = Vec::new();
        for offer in &self.offers {
            match offer {
                Offer::Event(event) => events.push(Arc::clone(event)),
                Offer::Pieces(pool, count) => {
                    let mut texts = told(pool.iter().cycle().take(*count));
                    for piece in pool {
                        let Some(text) = texts.remove(&voice(piece)) else { continue };
                        let mut whole = Event::clone(piece);
                        if let EventKind::TextBlockDelta(delta) = &mut whole.kind {
                            delta.delta = text;
                        } else if let EventKind::ThinkingBlockDelta(delta) = &mut whole.kind {
                            delta.delta = text;
                        }
                        events.push(Arc::new(whole));
                    }
                }
            }
        }
        events
    }
}

/// What each says in these pieces.
fn told<'e>(pieces: impl Iterator<Item = &'e Arc<Event>>) -> BTreeMap<Voice, String> {
    let mut told = BTreeMap::<_, String>::new();
    for piece in pieces {
        let text = if let EventKind::TextBlockDelta(delta) = &piece.kind {
            &delta.delta
        } else if let EventKind::ThinkingBlockDelta(delta) = &piece.kind {
            &delta.delta
        } else {
            panic!("{} is no piece", piece.kind.tag());
        };
        told.entry(voice(piece)).or_default().push_str(text);
    }
    told
}

fn voice(piece: &Event) -> Voice {
    let who = match piece.scope.child().map(|child| child.child_session_id.as_str()) {
        None => "root",
        Some("ses_1") => "left",
        Some(_) => "right",
    };
    let kind =
        if matches!(piece.kind, EventKind::ThinkingBlockDelta(_)) { Kind::Thinking } else { Kind::Text };
    (who, kind)
}
