//! Somebody else's stream of events.

use std::sync::Arc;

use anabranch_proto::{
    ChildScope, Event, EventId, EventKind, FinishedReason, Metadata, Outcome, Scope, SpawnMechanism,
    Timestamp,
    event::{
        MessageOrigin, ReplyEnd, ReplyStart, SpawnSessionStart, StreamComplete, TextBlockDelta, TextBlockEnd,
        TextBlockStart, UserMessage,
    },
};
use futures::Stream;

use super::{
    FORGED, foreign_name,
    script::{Script, Step, planned_panic},
};
use crate::{
    plan::{ForeignEnd, ForeignPlan},
    world::World,
};

/// A stream as the plan says, with ids and times of its own.
pub(super) fn stream(
    world: &Arc<World>,
    plan: &ForeignPlan,
) -> impl Stream<Item = Arc<Event>> + Send + use<> {
    let session = format!("foreign_{}", plan.number);
    let mut writer = Writer { number: plan.number, count: 0, steps: Vec::new() };
    writer.session(plan, &Scope::Root, &session);
    let script = Script::new(world, writer.steps);
    if plan.end == ForeignEnd::PanicInDrop { script.in_drop(|_| planned_panic()) } else { script }
}

struct Writer {
    number: u32,
    count: u32,
    steps: Vec<Step<Arc<Event>>>,
}

impl Writer {
    fn say(&mut self, scope: &Scope, metadata: Metadata, kind: impl Into<EventKind>) {
        self.count += 1;
        let id = EventId::new(format!("foreign-{}-{}", self.number, self.count));
        let event = Event::new(id, Timestamp::from_unix(1_767_225_600, 0), scope.clone(), metadata, kind);
        self.steps.push(Step::Item(Arc::new(event)));
    }

    /// What a session says, and what those say that it spawns.
    fn session(&mut self, plan: &ForeignPlan, scope: &Scope, session: &str) {
        let name = foreign_name(plan.number);
        let (reply, block) = (format!("{name}-reply"), format!("{name}-block"));
        let none = Metadata::default;
        if plan.prompt || *scope != Scope::Root {
            self.say(scope, none(), UserMessage::new(format!("{name}-prompt"), [], MessageOrigin::User));
        }
        self.say(scope, none(), ReplyStart::new(session, &*reply, &*name));
        self.say(scope, none(), TextBlockStart::new(&*reply, &*block));
        for word in 0..plan.words {
            self.say(scope, none(), TextBlockDelta::new(&*reply, &*block, format!("word {word} ")));
        }
        if let Some(nested) = &plan.nested {
            let child = format!("foreign_{}", nested.number);
            let child_scope = ChildScope::new(
                &*child,
                session,
                format!("sub_{}", nested.number),
                foreign_name(nested.number),
            )
            .depth(scope.depth() + 1);
            self.say(scope, none(), SpawnSessionStart::new(&child_scope, SpawnMechanism::Sync, "Do a part."));
            self.session(nested, &child_scope.into(), &child);
        }
        if plan.pause > 0 {
            self.steps.push(Step::Sleep(plan.pause));
        }
        self.end(plan, scope, session, &reply, &block);
    }

    fn end(&mut self, plan: &ForeignPlan, scope: &Scope, session: &str, reply: &str, block: &str) {
        let none = Metadata::default;
        match plan.end {
            ForeignEnd::Cut => {}
            ForeignEnd::Panic => self.steps.push(Step::Panic),
            ForeignEnd::Never => self.steps.push(Step::Hang),
            ForeignEnd::Terminal(outcome) => {
                self.say(scope, none(), TextBlockEnd::new(reply, block));
                self.say(scope, none(), ReplyEnd::new(session, reply, outcome.finished_reason()));
                self.say(scope, none(), StreamComplete::new(outcome));
                let forged = none().with(FORGED, true);
                self.say(scope, forged.clone(), TextBlockDelta::new(reply, block, "too late"));
                self.say(scope, forged, StreamComplete::new(Outcome::Completed));
            }
            ForeignEnd::Reply | ForeignEnd::PanicInDrop => {
                self.say(scope, none(), TextBlockEnd::new(reply, block));
                self.say(scope, none(), ReplyEnd::new(session, reply, FinishedReason::Completed));
            }
        }
    }
}
