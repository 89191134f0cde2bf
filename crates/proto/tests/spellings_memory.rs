//! A line that is too long costs no more memory than the longest that is allowed. In a program of its own, because it
//! measures the whole process.
#![cfg(target_os = "linux")]

use std::fs;

use anabranch_proto::{
    flat,
    lines::{EventLines, LineError, MAX_LINE, SplitError},
};

/// The most memory that the process has had at a time, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1024
}

#[test]
fn a_line_over_the_bound_is_refused_without_being_kept() {
    let piece = vec![b'x'; 64 * 1024];
    let mut lines = EventLines::new(flat::Reader::default());
    let before = peak();
    let mut errors = Vec::new();
    for _ in 0..4 * MAX_LINE / piece.len() {
        let mut chunk = &piece[..];
        while let Some(line) = lines.next_event(&mut chunk) {
            errors.push(line.unwrap_err());
        }
    }
    assert_eq!(errors, [LineError::Split(SplitError::TooLong { number: 1, max_line: MAX_LINE })]);
    let grown = peak() - before;
    assert!(grown < 2 * MAX_LINE, "{grown}");
    assert!(grown > MAX_LINE / 2, "it measures nothing: {grown}");

    let good = b"\n{\"id\":\"1\",\"created_at\":\"2026-11-30T10:00:00Z\",\"type\":\"USER_INTERRUPT\",\"reply_id\":\"r\"}\n";
    let read = lines.next_event(&mut &good[..]).unwrap().unwrap();
    assert_eq!(read.line, 2);
}
