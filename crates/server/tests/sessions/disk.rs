//! Sessions whose events are kept on disk.

use std::sync::Arc;

use anabranch_proto::SessionId;
use anabranch_server::{Epoch, NewSession, OpenLog, SessionLogs};
use anabranch_session::LogError;
use anabranch_store::Store;
use futures::{FutureExt as _, future::BoxFuture};

/// The logs of a store.
#[derive(Debug)]
pub(crate) struct OnDisk(pub(crate) Store);

impl SessionLogs for OnDisk {
    fn open<'a>(&'a self, new: &'a NewSession) -> BoxFuture<'a, Result<OpenLog, LogError>> {
        async move {
            let log = self.0.create_for(new.tenant.as_str(), &new.id).await.map_err(LogError::new)?;
            let epoch = Epoch::new(log.epoch()).map_err(LogError::new)?;
            Ok(OpenLog::new(Arc::new(log), epoch))
        }
        .boxed()
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        async move {
            self.0.delete(session).await.unwrap();
        }
        .boxed()
    }
}
