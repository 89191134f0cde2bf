//! Lines into events, in either spelling.

use super::{LineSplitter, SplitError};
use crate::{
    flat,
    native::{self, ReadError},
};

/// Reads events from texts that are a line each: [`native::Reader`] and [`flat::Reader`].
pub trait EventReader {
    /// What a line is read as.
    type Line;

    /// Reads one line.
    ///
    /// # Errors
    /// When the line is no event. The reader can go on with the next one.
    fn read_line(&mut self, text: &str) -> Result<Self::Line, ReadError>;
}

impl EventReader for native::Reader {
    type Line = native::Line;

    fn read_line(&mut self, text: &str) -> Result<native::Line, ReadError> {
        self.read(text)
    }
}

impl EventReader for flat::Reader {
    type Line = flat::Line;

    fn read_line(&mut self, text: &str) -> Result<flat::Line, ReadError> {
        self.read(text)
    }
}

/// What a line was read as, with its number.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Numbered<T> {
    /// The line's number, from 1.
    pub line: u64,
    /// What was read.
    pub read: T,
}

/// A line that gave no event. Every line before it was given, and the next can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line itself cannot be had.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The line is no event.
    #[error("line {line} is no event; correct or remove it")]
    Event {
        /// The line's number, from 1.
        line: u64,
        /// What is wrong with it.
        source: ReadError,
    },
}

impl LineError {
    /// The line's number, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        match self {
            Self::Split(error) => error.line(),
            Self::Event { line, .. } => *line,
        }
    }
}

/// Reads the events of a stream from chunks of bytes. The [module's page](super) has an example.
#[derive(Debug, Default)]
pub struct EventLines<R> {
    splitter: LineSplitter,
    reader: R,
}

impl<R: EventReader> EventLines<R> {
    /// Lines of at most [`MAX_LINE`](super::MAX_LINE) bytes, each read by `reader`.
    pub fn new(reader: R) -> Self {
        Self::with_splitter(LineSplitter::new(), reader)
    }

    /// Lines as `splitter` gives them.
    pub fn with_splitter(splitter: LineSplitter, reader: R) -> Self {
        Self { splitter, reader }
    }

    /// The next event whose line ends in `chunk`, of which what was used is taken off.
    ///
    /// None when no further line ends in it: the chunk is then empty, and its rest is kept for the next one.
    pub fn next_event(&mut self, chunk: &mut &[u8]) -> Option<Result<Numbered<R::Line>, LineError>> {
        let line = self.splitter.next_line(chunk)?;
        Some(line.map_err(LineError::from).and_then(|line| read(&mut self.reader, line.number, line.text)))
    }

    /// The event of the last line, where that has no end. Called once, when no chunk will follow.
    pub fn finish(&mut self) -> Option<Result<Numbered<R::Line>, LineError>> {
        let line = self.splitter.finish()?;
        Some(line.map_err(LineError::from).and_then(|line| read(&mut self.reader, line.number, line.text)))
    }
}

fn read<R: EventReader>(reader: &mut R, line: u64, text: &str) -> Result<Numbered<R::Line>, LineError> {
    match reader.read_line(text) {
        Ok(read) => Ok(Numbered { line, read }),
        Err(source) => Err(LineError::Event { line, source }),
    }
}
