//! Reading, and holding what was read to the rules.

use std::io::{ErrorKind, Read};

use anabranch_proto::{
    EventKind,
    grammar::{Counts, Verifier},
    lines::{EventLines, LineError, LineSplitter, Numbered},
};

use crate::{
    cli::Cli,
    finding::Finding,
    spelling::{self, Reader},
};

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;

/// What a well-formed stream had.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) counts: Counts,
    /// How many events of each known kind, in the order of `EventKind::TAGS`, then of all others.
    pub(crate) kinds: Vec<u64>,
}

struct Check {
    verifier: Verifier,
    kinds: Vec<u64>,
    last_line: u64,
}

/// Checks all that an input has.
pub(crate) fn check(mut input: impl Read, cli: &Cli) -> Result<Checked, Finding> {
    let splitter = LineSplitter::new().max_line(cli.max_line);
    let mut lines = EventLines::with_splitter(splitter, Reader::new(cli.spelling));
    let mut check = Check {
        verifier: Verifier::new(cli.profile.into()).max_depth(cli.max_depth),
        kinds: vec![0; EventKind::TAGS.len() + 1],
        last_line: 0,
    };
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(source) => return Err(Finding::Input { input: cli.input.display().to_string(), source }),
        };
        let mut chunk = buffer.get(..read).unwrap_or_default();
        while let Some(line) = lines.next_event(&mut chunk) {
            check.take(line)?;
        }
    }
    if let Some(line) = lines.finish() {
        check.take(line)?;
    }
    check.finish()
}

impl Check {
    fn take(&mut self, line: Result<Numbered<spelling::Read>, LineError>) -> Result<(), Finding> {
        let Numbered { line, read, .. } =
            line.map_err(|error| Finding::Line { error, before: self.verifier.counts().events })?;
        let verdict = match read.seq {
            Some(seq) => self.verifier.check_numbered(seq, &read.event),
            None => self.verifier.check(&read.event),
        };
        verdict.map_err(|violation| Finding::Violation { line, violation })?;
        self.last_line = line;
        let tag = read.event.kind.tag();
        let known = EventKind::TAGS.iter().position(|known| *known == tag).unwrap_or(EventKind::TAGS.len());
        if let Some(count) = self.kinds.get_mut(known) {
            *count += 1;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Checked, Finding> {
        if self.verifier.counts().events == 0 {
            return Err(Finding::Nothing);
        }
        let finished = self.verifier.finish();
        finished.map_err(|violation| Finding::Violation { line: self.last_line, violation })?;
        Ok(Checked { counts: self.verifier.counts(), kinds: self.kinds })
    }
}
