//! A run as a tool in it sees it.

use std::sync::Arc;

use anabranch_pipeline::ToolContext;
use anabranch_proto::SessionId;

use super::Host;

/// The run that a tool's call belongs to: what a tool can do to it.
///
/// ```
/// use anabranch_pipeline::FunctionTool;
/// use anabranch_runtime::RunHandle;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Reason {
///     reason: String,
/// }
///
/// let give_up = FunctionTool::new("give_up", "Stops everything.", |args: Reason, context| async move {
///     let run = RunHandle::of(&context).ok_or("not in a session")?;
///     run.cancel_reply();
///     Ok::<_, &str>(args.reason)
/// });
/// ```
#[derive(Clone, Debug)]
pub struct RunHandle(Arc<Host>);

impl RunHandle {
    /// The run that a call belongs to; none where the tool runs in no session of this runtime.
    #[must_use]
    pub fn of(context: &ToolContext) -> Option<Self> {
        context.host::<Host>().map(Self)
    }

    /// The session of the run.
    #[must_use]
    pub fn session_id(&self) -> &SessionId {
        &self.0.identity.session_id
    }

    /// Stops the run, as interrupted: a sub-agent's call then has a result that says so, and its parent goes on; the root's
    /// reply ends.
    pub fn cancel(&self) {
        self.0.identity.control.cancel();
    }

    /// Stops all that is waited for together with the run: the reply of the session that it is a part of, or in a background
    /// child that child.
    pub fn cancel_reply(&self) {
        self.0.identity.control.uppermost().cancel();
    }

    /// Whether the run is being stopped.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.identity.control.is_stopping()
    }
}
