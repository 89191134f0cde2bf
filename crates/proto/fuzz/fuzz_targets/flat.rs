//! Whatever stream the flat reader accepts, it reads again from what the writer makes of it.
#![no_main]

use anabranch_proto::flat::{self, Reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut reader = Reader::default();
    let read: Vec<_> = text.lines().filter_map(|line| reader.read(line).ok()).collect();
    let mut again = Reader::default();
    for line in &read {
        let written = flat::to_string(&line.event).expect("an event has a spelling");
        assert!(!written.contains('\n'), "one event is one line");
        let reread = again.read(&written).expect("what was written is read");
        assert_eq!(flat::to_string(&reread.event).unwrap(), written);
        // In a whole stream the scopes are the same; in a cut one they may be learnt from other lines.
        if !line.provisional && !reread.provisional {
            assert_eq!(reread.event, line.event);
        }
    }
});
