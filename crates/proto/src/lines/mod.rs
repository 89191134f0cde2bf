//! Lines of a stream from bytes as they come, without doing I/O.
//!
//! The caller reads chunks from wherever they come; [`EventLines`] gives each event as soon as its line is complete,
//! and every error with the number of its line. A line that lies within one chunk is not copied, and of a line that is
//! longer than allowed nothing is kept.
//!
//! ```
//! use anabranch_proto::{flat, lines::EventLines};
//!
//! let bytes = br#"{"id":"1","created_at":"2026-11-30T10:00:00Z","type":"USER_INTERRUPT","reply_id":"r"}
//! {"id":"2","created_at":"2026-11-30T10:00:00Z","type":"USER_INTERRUPT","reply_id":null}
//! "#;
//! let mut lines = EventLines::new(flat::Reader::default());
//! for mut chunk in bytes.chunks(50) {
//!     while let Some(read) = lines.next_event(&mut chunk) {
//!         match read {
//!             Ok(read) => assert_eq!(read.line, 1),
//!             Err(error) => assert_eq!(error.line(), 2),
//!         }
//!     }
//! }
//! assert!(lines.finish().is_none(), "the last line was complete");
//! ```

mod events;
mod splitter;

pub use events::{EventLines, EventReader, LineError, Numbered};
pub use splitter::{LineSplitter, SplitError, TextLine};

/// The longest line that is read where nothing else is said: 16 MiB.
pub const MAX_LINE: usize = 16 * 1024 * 1024;
