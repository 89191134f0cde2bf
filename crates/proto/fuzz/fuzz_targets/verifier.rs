//! The verifier takes any events in any order: it names what is wrong, and what it accepts is closed at the end.
#![no_main]

use anabranch_proto::{
    grammar::{Profile, Verifier},
    native::Reader,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Each pair of bytes is a line's number in a fixed well-formed stream, so that most of what is tried is near one.
    const STREAM: &str = include_str!("../../tests/data/demo/fail.jsonl");
    let lines: Vec<&str> = STREAM.lines().collect();
    for profile in [Profile::Native, Profile::Agentscope] {
        let mut reader = Reader::default();
        let mut verifier = Verifier::new(profile);
        let mut is_well_formed = true;
        for pair in data.chunks_exact(2) {
            let line = lines[usize::from(u16::from_le_bytes([pair[0], pair[1]])) % lines.len()];
            let event = reader.read(line).expect("the stream is well-formed").event;
            if let Err(violation) = verifier.check(&event) {
                assert!(!violation.to_string().is_empty());
                is_well_formed = false;
                break;
            }
        }
        // In agentscope's own streams a reply that waits has no end, and so stays open.
        if is_well_formed && verifier.finish().is_ok() && matches!(profile, Profile::Native) {
            assert_eq!(verifier.open(), 0);
        }
    }
});
