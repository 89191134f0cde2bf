//! Tools that somebody else runs.

use std::{fmt, sync::Arc};

use anabranch_pipeline::{Tool, ToolContext, ToolDefinition, ToolInvocation, ToolStream, ToolYield};
use anabranch_proto::{
    TextOrBlocks, ToolCallBlock, ToolCallState, ToolChunk, ToolResultBlock, ToolResultState,
    event::{ExternalExecutionResult, RequireExternalExecution},
};
use futures::{FutureExt, StreamExt, stream};

use super::{Answer, Question, QuestionKind};
use crate::run::Host;

/// A tool that somebody else runs: a frontend, a person, another program.
///
/// A call of it asks for its result with `REQUIRE_EXTERNAL_EXECUTION` and waits for
/// [`Session::answer`](crate::Session::answer), for as long as a request to a person may take; then it has failed. Nobody
/// but the call waits, and no sub-agent's time runs meanwhile.
///
/// ```
/// use anabranch_pipeline::ToolDefinition;
/// use anabranch_runtime::ExternalTool;
///
/// #[derive(schemars::JsonSchema)]
/// struct Page {
///     /// The address.
///     url: String,
/// }
///
/// let browse = ExternalTool::new(ToolDefinition::typed::<Page>("browse", "Opens a page in the user's browser."));
/// ```
pub struct ExternalTool {
    definition: ToolDefinition,
}

impl ExternalTool {
    /// A tool with this name, description and arguments.
    #[must_use]
    pub fn new(definition: ToolDefinition) -> Self {
        Self { definition }
    }
}

impl Tool for ExternalTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call(&self, invocation: ToolInvocation, context: ToolContext) -> ToolStream {
        let Some(host) = context.host::<Host>() else {
            let text = format!("`{}` can be called only in an anabranch session", invocation.name);
            return stream::iter([ToolYield::Chunk(ToolChunk::error(text))]).boxed();
        };
        let mut block =
            ToolCallBlock::new(&invocation.id, Arc::clone(&invocation.name), invocation.arguments.as_str());
        block.state = ToolCallState::Submitted;
        let require = RequireExternalExecution::new(&context.caller().reply_id, vec![block.clone()]);
        let session_id = host.identity.session_id.clone();
        // Known before the question can be seen, so that no answer comes too early.
        let asked = host.identity.shared.questions.ask(Question {
            session_id,
            call: block,
            kind: QuestionKind::External,
        });
        let asking = host.identity.control.ask();
        let limit = host.identity.shared.limits.request;
        let event = ToolYield::Event(Arc::new(context.event(require)));
        let result = async move {
            let answer = asked.answer(limit).await;
            drop(asking);
            stream::iter(match answer {
                Some(Answer::Output(chunk)) => given(chunk, &invocation, &context),
                // The registry lets no other through.
                Some(Answer::Allow { .. } | Answer::Deny { .. }) | None => {
                    let text = format!(
                        "nobody gave the result of `{}` within {} s",
                        invocation.name,
                        limit.as_secs_f64()
                    );
                    vec![ToolYield::Chunk(ToolChunk::error(text))]
                }
            })
        };
        stream::iter([event]).chain(result.into_stream().flatten()).boxed()
    }
}

/// The result as it was given, then as the call's own.
fn given(chunk: ToolChunk, invocation: &ToolInvocation, context: &ToolContext) -> Vec<ToolYield> {
    let mut result = ToolResultBlock::new(&invocation.id, Arc::clone(&invocation.name));
    result.state = chunk.state.worse(ToolResultState::Success);
    result.output = TextOrBlocks::Blocks(chunk.content.clone());
    result.metadata = chunk.metadata.clone();
    let event = ExternalExecutionResult::new(&context.caller().reply_id, vec![result]);
    vec![ToolYield::Event(Arc::new(context.event(event))), ToolYield::Chunk(chunk.last())]
}

impl fmt::Debug for ExternalTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalTool").field("name", &self.definition.name).finish()
    }
}
