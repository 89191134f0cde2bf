//! The layer around every call: it forwards, or does what the plan says.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_pipeline::{ActingLayer, ActingStream, CallItem, Next, ToolCall, ToolContext};
use anabranch_proto::{
    Event, EventKind, Metadata, Outcome,
    event::{StreamComplete, TextBlockDelta},
};
use futures::Stream;

use super::{FORGED, script::planned_panic, tool::forged};
use crate::{plan::Meddling, world::World};

/// The layer around every call.
pub(crate) struct Meddler(pub(crate) Arc<World>);

impl ActingLayer for Meddler {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let world = Arc::clone(&self.0);
        let meddling = number(&call.arguments)
            .and_then(|number| world.call(number))
            .map_or(Meddling::None, |plan| plan.meddling);
        let inner = world.in_call(|| next.run(call, context.clone()));
        ActingStream::boxed(Meddled {
            world,
            meddling,
            context,
            inner,
            ready: VecDeque::new(),
            has_forged: false,
        })
    }
}

/// Which call of the plan it is, where its arguments tell.
pub(crate) fn number(arguments: &str) -> Option<u32> {
    let value: serde_json::Value = serde_json::from_str(arguments).ok()?;
    let number = value.get("call").or_else(|| value.get("metadata")?.get("call"))?;
    u32::try_from(number.as_u64()?).ok()
}

struct Meddled {
    world: Arc<World>,
    meddling: Meddling,
    context: ToolContext,
    inner: ActingStream,
    ready: VecDeque<CallItem>,
    has_forged: bool,
}

impl Meddled {
    fn event(&mut self, event: &Arc<Event>) {
        if let Some(scope) = event.scope.child() {
            self.world.saw(scope);
        }
        let item = CallItem::Event(Arc::clone(event));
        let times = match (self.meddling, &event.kind) {
            // What is said after an end may be said where there is none.
            (Meddling::DropsTerminals, _) if event.metadata.get(FORGED).is_some() => 0,
            (Meddling::RepeatsAll, _) | (Meddling::RepeatsSpawns, EventKind::SpawnSessionStart(_)) => 2,
            (Meddling::DropsSpawns, EventKind::SpawnSessionStart(_))
            | (Meddling::DropsTerminals, EventKind::StreamComplete(_))
            | (Meddling::DropsEnds, EventKind::TextBlockEnd(_) | EventKind::ReplyEnd(_)) => 0,
            _ => 1,
        };
        self.ready.extend(std::iter::repeat_n(item, times));
        if self.meddling == Meddling::SpeaksLate && matches!(event.kind, EventKind::StreamComplete(_)) {
            self.speak_late(event);
        }
        if self.meddling == Meddling::Forges && !self.has_forged {
            let forged = forged(&self.world, &self.context);
            // Not before there is somebody to speak for.
            if forged.len() > 2 {
                self.has_forged = true;
                self.ready.extend(forged.into_iter().map(CallItem::Event));
            }
        }
    }

    /// In a child's name, after its end: words, and another end.
    fn speak_late(&mut self, end: &Event) {
        let kinds: [EventKind; 2] = [
            TextBlockDelta::new("late", "late", "late").into(),
            StreamComplete::new(Outcome::Completed).into(),
        ];
        for kind in kinds {
            let mut late = self.context.event(kind);
            late.scope = end.scope.clone();
            late.metadata = Metadata::default().with(FORGED, true);
            self.ready.push_back(CallItem::Event(Arc::new(late)));
        }
    }
}

impl Stream for Meddled {
    type Item = CallItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CallItem>> {
        let this = &mut *self;
        loop {
            if let Some(item) = this.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            let Self { world, inner, .. } = this;
            match std::task::ready!(world.in_call(|| Pin::new(inner).poll_next(cx))) {
                None => return Poll::Ready(None),
                Some(CallItem::Event(event)) => this.event(&event),
                Some(CallItem::Response(_)) if this.meddling == Meddling::Panics => planned_panic(),
                Some(CallItem::Response(_)) if this.meddling == Meddling::LosesResponse => {}
                Some(item @ (CallItem::Chunk(_) | CallItem::Response(_))) => return Poll::Ready(Some(item)),
            }
        }
    }
}
