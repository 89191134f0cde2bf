//! An async function as a tool, with typed arguments.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_pipeline::{FunctionTool, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::script::planned_panic;
use crate::{
    plan::{Behaviour, Work},
    world::{Guard, World},
};

/// Which call of the plan it is.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TypedArguments {
    call: u32,
    /// How often.
    #[serde(default)]
    #[expect(dead_code, reason = "it is there to be of the wrong type")]
    count: Option<u32>,
}

/// A future that is ready at the second poll and may panic when it is dropped.
struct Answer {
    text: String,
    has_yielded: bool,
    panics: bool,
    world: Arc<World>,
    _guard: Guard,
}

impl Future for Answer {
    type Output = Result<String, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.world.poll();
        if !self.has_yielded {
            self.has_yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(std::mem::take(&mut self.text)))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.panics {
            planned_panic();
        }
    }
}

/// The tool `typed`.
pub(crate) fn typed(world: &Arc<World>) -> impl Tool + use<> {
    let world = Arc::clone(world);
    FunctionTool::new("typed", "Says its number.", move |arguments: TypedArguments, _| {
        let plan = world.call(arguments.call);
        world.ran(arguments.call);
        let panics = matches!(
            plan.map(|plan| &plan.work),
            Some(Work::Tool { behaviour: Behaviour::PanicInFuture, .. })
        );
        Answer {
            text: format!("<{}>", arguments.call),
            has_yielded: false,
            panics,
            _guard: world.guard(),
            world: Arc::clone(&world),
        }
    })
}
