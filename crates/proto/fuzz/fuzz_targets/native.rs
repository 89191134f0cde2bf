//! Whatever the native reader accepts, it reads again from what the writer makes of it.
#![no_main]

use anabranch_proto::native::{self, Reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut reader = Reader::default();
    for line in text.lines() {
        let Ok(read) = reader.read(line) else { continue };
        let mut written = Vec::new();
        native::write(read.seq, &read.event, &mut written).expect("an event has a spelling");
        let written = std::str::from_utf8(&written).expect("JSON is UTF-8");
        assert!(!written.contains('\n'), "one event is one line");
        let again = Reader::default().read(written).expect("what was written is read");
        assert_eq!(again.event, read.event);
        assert_eq!(again.seq, read.seq);
        assert_eq!(native::to_string(&again.event).unwrap(), native::to_string(&read.event).unwrap());
    }
});
