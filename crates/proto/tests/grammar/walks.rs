//! Random streams, of events that the verifier lets pass.

use std::sync::Arc;

use anabranch_proto::{
    ChildScope, Event, EventKind, FinishedReason, Metadata, Outcome, Scope, SpawnMechanism, Timestamp,
    ToolCallBlock, ToolResultState,
    event::{
        MessageOrigin, ReplyEnd, ReplyStart, RequireUserConfirm, SessionUpdated, SpawnSessionStart,
        StreamComplete, TextBlockDelta, TextBlockEnd, TextBlockStart, ToolCallEnd, ToolCallStart,
        ToolResultEnd, ToolResultStart, UserMessage,
    },
    grammar::{Profile, Verifier},
};
use proptest::prelude::*;

/// Sessions by number; the root is 0.
fn scope(session: usize, run: u32, parent: usize) -> ChildScope {
    let depth = if parent == 0 { 1 } else { 2 };
    ChildScope::new(format!("s{session}"), format!("s{parent}"), format!("a{session}"), format!("n{session}"))
        .run(run)
        .depth(depth)
}

#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    session: usize,
    parent: usize,
    run: u32,
    id: u8,
}

impl Step {
    fn event(&self) -> Event {
        let own = scope(self.session, self.run, self.parent);
        let said_by_parent = self.kind < 3;
        let scope_of = |session: usize, parent: usize| match session {
            0 => Scope::Root,
            session => Scope::from(scope(session, self.run, parent)),
        };
        let event_scope =
            if said_by_parent { scope_of(self.parent, 0) } else { scope_of(self.session, self.parent) };
        let (block, call) = (format!("b{}", self.id), format!("c{}", self.id));
        let calling = own.clone().tool_call_id(Some(call.as_str().into()));
        let kind: EventKind = match self.kind {
            0 => SpawnSessionStart::new(&calling, SpawnMechanism::Sync, "").into(),
            1 => SpawnSessionStart::new(&own, SpawnMechanism::AsyncWorker, "").into(),
            2 => SessionUpdated::new(own.child_session_id, self.run)
                .spawn_mechanism(Some(SpawnMechanism::Sync))
                .into(),
            3 | 4 => UserMessage::new("m", [], MessageOrigin::Parent).into(),
            5 | 6 => ReplyStart::new(format!("s{}", self.session), "r", "n").into(),
            7 => ReplyEnd::new(format!("s{}", self.session), "r", FinishedReason::Completed).into(),
            8 | 9 => StreamComplete::new(Outcome::Completed).into(),
            10 => TextBlockStart::new("r", block).into(),
            11 => TextBlockDelta::new("r", block, "x").into(),
            12 => TextBlockEnd::new("r", block).into(),
            13 | 14 => ToolCallStart::new("r", call, "t").into(),
            15 | 16 => ToolCallEnd::new("r", call).into(),
            17 => ToolResultStart::new("r", call, "t").into(),
            18 => ToolResultEnd::new("r", call, ToolResultState::Success).into(),
            _ => RequireUserConfirm::new("r", vec![ToolCallBlock::new(call, "t", "{}")]).into(),
        };
        Event::new("e", Timestamp::from_unix(0, 0), event_scope, Metadata::default(), kind)
    }
}

fn step() -> impl Strategy<Value = Step> {
    (0..20_u8, 0..4_usize, 0..3_usize, 1..4_u32, 0..40_u8).prop_map(|(kind, session, parent, run, id)| Step {
        kind,
        session: if kind < 3 { session.max(1) } else { session },
        parent,
        run,
        id: id / 10,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What passes event by event passes as a stream, what is open is what the stream has opened, and a stream with
    /// nothing open is complete.
    #[test]
    fn what_passes_is_well_formed(steps in prop::collection::vec(step(), 0..400), ours in any::<bool>()) {
        let profile = if ours { Profile::Native } else { Profile::Agentscope };
        let mut verifier = Verifier::new(profile);
        let mut passed = Vec::new();
        for step in steps {
            let event = Arc::new(step.event());
            let mut next = verifier.clone();
            if next.check(&event).is_ok() {
                verifier = next;
                passed.push(event);
            }
        }
        let mut again = Verifier::new(profile);
        for event in &passed {
            prop_assert_eq!(again.check(event), Ok(()));
        }
        prop_assert_eq!(again.counts(), verifier.counts());
        prop_assert_eq!(again.open(), verifier.open());
        prop_assert_eq!(again.counts().events, passed.len() as u64);
        let is_complete = again.open() == 0;
        let finished = again.finish();
        prop_assert!(finished.is_ok() || !is_complete, "{finished:?}");
        prop_assert!(finished.is_err() || is_complete || !ours);
    }
}
