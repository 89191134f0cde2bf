//! The layer that asks a person before a call runs.

use std::{sync::Arc, time::Duration};

use anabranch_pipeline::{
    ActingLayer, ActingStream, Arguments, CallItem, Next, ToolCall, ToolContext, Toolkit,
};
use anabranch_proto::{
    ContentBlock, Metadata, PermissionRule, TextBlock, ToolCallBlock, ToolCallState, ToolChunk, ToolResponse,
    ToolResultState,
    event::{ConfirmResult, RequireUserConfirm, UserConfirmResult},
};
use futures::{FutureExt, StreamExt, stream};

use super::{
    ASKED_OF_CODE, Answer, Permission, Permissions, Question, QuestionKind, permissions::by_rules,
    registry::Asked,
};
use crate::run::{Asking, Host};

/// Asks a person before calls run that may not run without.
pub(crate) struct Confirm {
    /// The agent's own and those of all above it.
    permissions: Arc<[Permissions]>,
    toolkit: Arc<Toolkit>,
}

impl Confirm {
    pub(crate) fn new(permissions: Arc<[Permissions]>, toolkit: Arc<Toolkit>) -> Self {
        Self { permissions, toolkit }
    }

    fn decide(&self, call: &ToolCall, host: &Host) -> Decision {
        // What cannot run says why by itself; nobody is bothered with it.
        if self.toolkit.get(&call.name).is_none() || Arguments::parse(&call.arguments).is_err() {
            return Decision::Run;
        }
        let decided = self.permissions.iter().map(|permissions| permissions.decide(call)).max();
        let decided = match decided.unwrap_or(Permission::Allow) {
            Permission::Ask => {
                let questions = &host.identity.shared.questions;
                questions.with_rules(|rules| by_rules(rules, call)).unwrap_or(Permission::Ask)
            }
            decided @ (Permission::Allow | Permission::Deny(_)) => decided,
        };
        match decided {
            Permission::Deny(why) => Decision::Deny(why),
            Permission::Ask => Decision::Ask(Asks::Person),
            Permission::Allow if self.permissions.iter().any(Permissions::is_afar) => {
                Decision::Ask(Asks::Code)
            }
            Permission::Allow => Decision::Run,
        }
    }
}

impl ActingLayer for Confirm {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let Some(host) = context.host::<Host>() else { return next.run(call, context) };
        match self.decide(&call, &host) {
            Decision::Run => next.run(call, context),
            Decision::Deny(why) => denied(format!("`{}` may not run: {why}", call.name)),
            Decision::Ask(asks) => ask(asks, &host, call, context, next),
        }
    }
}

/// What becomes of a call.
enum Decision {
    Run,
    Deny(String),
    Ask(Asks),
}

/// Who is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Person,
    /// The code of whoever gave the order of the run, where it is. It may ask a person in turn.
    Code,
}

/// Asks, then runs the call or not.
fn ask(asks: Asks, host: &Arc<Host>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
    let mut block = ToolCallBlock::new(&call.id, Arc::clone(&call.name), &*call.arguments);
    block.state = ToolCallState::Asking;
    block.suggested_rules = vec![PermissionRule::new(&*call.name, "allow", "user")];
    let require = RequireUserConfirm::new(&context.caller().reply_id, vec![block.clone()]);
    let question = Question {
        session_id: host.identity.session_id.clone(),
        call: block.clone(),
        kind: QuestionKind::Confirm,
    };
    // Known before the question can be seen, so that no answer comes too early.
    let asked = host.identity.shared.questions.ask(question);
    let asking = host.identity.control.ask();
    let mut event = context.event(require);
    if asks == Asks::Code {
        event.metadata = event.metadata.with(ASKED_OF_CODE, true);
    }
    let event = CallItem::Event(Arc::new(event));
    let limit = host.identity.shared.limits.request;
    let answered =
        answered(asked, asking, limit).map(move |answer| go_on(asks, answer, call, block, context, next));
    ActingStream::boxed(stream::iter([event]).chain(answered.into_stream().flatten()))
}

/// What a person answered, or how long nobody did.
async fn answered(asked: Asked, asking: Asking, limit: Duration) -> Result<Answer, Duration> {
    let answer = asked.answer(limit).await;
    drop(asking);
    answer.ok_or(limit)
}

fn go_on(
    asks: Asks,
    answer: Result<Answer, Duration>,
    mut call: ToolCall,
    mut block: ToolCallBlock,
    context: ToolContext,
    next: Next,
) -> ActingStream {
    let (is_confirmed, then, rules) = match answer {
        Ok(Answer::Allow { arguments, rules }) => {
            if let Some(arguments) = arguments {
                call.arguments = arguments;
            }
            block.input.clone_from(&call.arguments);
            block.state = ToolCallState::Allowed;
            (true, None, rules)
        }
        Ok(Answer::Deny { reason: Some(why) }) if asks == Asks::Code => {
            (false, Some(denied(format!("`{}` may not run: {why}", call.name))), Vec::new())
        }
        Ok(Answer::Deny { reason }) => {
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            (false, Some(denied(format!("the user did not allow `{}`{why}", call.name))), Vec::new())
        }
        // The registry lets no other through.
        Ok(Answer::Output(_)) => {
            (false, Some(denied(format!("`{}` was not allowed", call.name))), Vec::new())
        }
        Err(limit) => {
            return denied(format!(
                "nobody answered within {} s whether `{}` may run, so it was not run; the user has not refused it",
                limit.as_secs_f64(),
                call.name
            ));
        }
    };
    let mut result = ConfirmResult::new(is_confirmed, block);
    result.rules = (!rules.is_empty()).then_some(rules);
    let event = context.event(UserConfirmResult::new(&context.caller().reply_id, vec![result]));
    let event = CallItem::Event(Arc::new(event));
    let then = then.unwrap_or_else(|| next.run(call, context));
    ActingStream::boxed(stream::iter([event]).chain(then))
}

/// A call that does not run.
fn denied(text: String) -> ActingStream {
    let content: Vec<ContentBlock> = vec![TextBlock::new(text).into()];
    let chunk = ToolChunk::new(content.clone()).state(ToolResultState::Denied).last();
    let response = ToolResponse::new(ToolResultState::Denied, content, Metadata::default());
    ActingStream::boxed(stream::iter([CallItem::Chunk(chunk), CallItem::Response(response)]))
}
