//! A conversation with an agent: one task that runs it, a log, any number of readers.

mod attach;
mod driver;
mod handle;
mod manual;
mod reader;
mod reply;
mod resume;
mod window;

pub use attach::{Attached, AttachedWith};
pub use handle::{Session, SessionBuilder};
pub use manual::ManualChild;
pub use reader::{Read, Reader};
pub use reply::Reply;
