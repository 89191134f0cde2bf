//! Streams in, verdicts out.

use std::{borrow::Borrow, fs, path::Path, sync::Arc};

use anabranch_proto::{
    Event,
    grammar::{Profile, Rule, Verifier, Violation},
    native,
};

/// What a verifier says of a whole stream.
pub(crate) fn verdict<E: Borrow<Event>>(
    profile: Profile,
    events: impl IntoIterator<Item = E>,
) -> Result<(), Violation> {
    let mut verifier = Verifier::new(profile);
    events.into_iter().try_for_each(|event| verifier.check(event.borrow()))?;
    verifier.finish()
}

/// What it says of one of ours.
pub(crate) fn native(events: &[Arc<Event>]) -> Result<(), Violation> {
    verdict(Profile::Native, events.iter().map(|event| &**event))
}

/// The rule that one of ours breaks.
pub(crate) fn broken(events: &[Arc<Event>]) -> Option<Rule> {
    native(events).err().map(|violation| violation.rule)
}

/// The events of a file in `tests/data`, up to the first line that is none.
pub(crate) fn read(file: &Path) -> Vec<Arc<Event>> {
    let mut reader = native::Reader::default();
    let text = fs::read_to_string(file).unwrap();
    text.lines().map_while(|line| reader.read(line).ok()).map(|line| Arc::new(line.event)).collect()
}

/// The files of a folder in `tests/data`, in order.
pub(crate) fn files(folder: &str) -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    assert!(!files.is_empty());
    files
}
