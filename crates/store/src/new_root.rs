//! What is said of a root session that is made.

use anabranch_proto::{Json, SessionId, Timestamp};

/// A root session that is to be [made](crate::Store::make).
///
/// ```
/// use anabranch_proto::Json;
/// use anabranch_store::{NewRoot, SessionQuery, Store, StoreOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("sessions.db");
/// let store = Store::open(&path, StoreOptions::new()).await?;
/// let origin = Json::parse(r#"{"model":"small"}"#)?;
/// store.make(NewRoot::new("ses_1").owner("alice").label("thread 7").origin(origin.clone())).await?;
///
/// // Another program, which has to make the session's agent again.
/// let wanted = SessionQuery::new().owner("alice").label("thread 7");
/// let found = store.reader().roots(wanted).await?;
/// assert_eq!(store.reader().origin(found[0].id.clone()).await?, Some(origin));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct NewRoot {
    pub(crate) id: SessionId,
    pub(crate) owner: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) origin: Option<Json>,
    pub(crate) created_at: Option<Timestamp>,
}

impl NewRoot {
    /// A session with this id.
    pub fn new(id: impl Into<SessionId>) -> Self {
        Self { id: id.into(), owner: None, label: None, origin: None, created_at: None }
    }

    /// For whom it is kept, such as a tenant: [`SessionQuery::owner`](crate::SessionQuery::owner) finds it.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// What the application calls it, such as the id of somebody's thread: [`SessionQuery::label`](crate::SessionQuery::label)
    /// finds it. An owner has each label once.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// What the application makes it of, so that it can make it again; kept as it is.
    pub fn origin(mut self, origin: Json) -> Self {
        self.origin = Some(origin);
        self
    }

    /// When it was made. By default when the store makes it.
    pub fn created_at(mut self, at: Timestamp) -> Self {
        self.created_at = Some(at);
        self
    }
}
