//! What is written is read back equal, in both spellings.

use std::collections::BTreeSet;

use anabranch_proto::{Event, EventKind, Fields, Metadata, Scope, flat, native};
use proptest::prelude::*;

use crate::generated::stream;

#[track_caller]
fn assert_equal(read: &Event, written: &Event, line: &str) {
    if read != written {
        let line: String = line.chars().take(2_000).collect();
        panic!("read    {read:?}\nwritten {written:?}\nas      {line}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_native_spelling_is_read_back_exactly(seed: u64) {
        let mut reader = native::Reader::default();
        for (seq, event) in (1..).zip(stream(seed)) {
            let mut line = Vec::new();
            native::write(Some(seq), &event, &mut line).unwrap();
            let line = String::from_utf8(line).unwrap();
            let read = reader.read(&line).unwrap();
            prop_assert_eq!(read.seq, Some(seq));
            assert_equal(&read.event, &event, &line);
            prop_assert_eq!(native::to_string(&read.event).unwrap(), native::to_string(&event).unwrap());
        }
    }

    #[test]
    fn the_flat_spelling_is_read_back_exactly(seed: u64) {
        let mut reader = flat::Reader::default();
        for event in stream(seed) {
            let line = flat::to_string(&event).unwrap();
            let read = reader.read(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            prop_assert!(!read.provisional, "{}", line);
            assert_equal(&read.event, &event, &line);
            prop_assert_eq!(flat::to_string(&read.event).unwrap(), line);
        }
    }

    #[test]
    fn a_flat_line_says_whose_it_is_and_what_agentscope_accepts(seed: u64) {
        for event in stream(seed) {
            let line: Fields = serde_json::from_str(&flat::to_string(&event).unwrap()).unwrap();
            let metadata = Metadata::try_from(line.get("metadata").unwrap().clone()).unwrap();
            let named = metadata.get_str("subagent_id");
            prop_assert_eq!(named.as_deref(), event.scope.child().map(|child| child.subagent_id.as_str()));
            let tag: String = line.get("type").unwrap().to().unwrap();
            let is_known = EventKind::TAGS[..28].contains(&&*tag);
            prop_assert!(is_known || matches!(event.kind, EventKind::Unknown(_)));
            if tag == "CUSTOM" {
                prop_assert_eq!(&line.get("value").unwrap().as_str()[..1], "{");
            }
        }
    }
}

#[test]
fn the_streams_hold_every_kind_at_every_depth_in_several_runs() {
    let (mut tags, mut depths, mut runs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut longest = 0;
    for event in (0..60).flat_map(stream) {
        tags.insert(event.kind.tag().to_owned());
        depths.insert(event.scope.depth());
        runs.extend(event.scope.child().map(|child| child.run));
        longest = longest.max(flat::to_string(&event).unwrap().len());
        assert!(matches!(event.scope, Scope::Root) == (event.scope.depth() == 0));
    }
    assert!(EventKind::TAGS.iter().all(|tag| tags.contains(*tag)), "{tags:?}");
    assert!(tags.contains("NEW_KIND"));
    assert_eq!(depths, (0..=5).collect());
    assert_eq!(runs, [1, 2].into());
    assert!(longest >= 1 << 20, "{longest}");
}
