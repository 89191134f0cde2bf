//! Server-sent events from bytes, as they come.

use std::mem;

/// How long a frame may be. An event with a whole answer of a model in it is smaller.
const LONGEST: usize = 64 * 1024 * 1024;

/// A frame of a stream of server-sent events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its name; none for an event of the session.
    pub(super) name: Option<String>,
    pub(super) data: String,
    /// The position behind it.
    pub(super) id: Option<String>,
}

/// A stream that is none of server-sent events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadStream {
    #[error("a frame of more than {LONGEST} bytes")]
    TooLong,
    #[error("bytes that are no text")]
    NotText,
}

/// Puts frames together.
#[derive(Debug, Default)]
pub(super) struct Frames {
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
    /// Whether a line ended with a carriage return, which may be the first half of its end.
    after_return: bool,
}

impl Frames {
    /// Takes bytes up to the end of the next frame; gives it, where it is complete, and how many were taken.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<(Option<Frame>, usize), BadStream> {
        for (index, byte) in bytes.iter().enumerate() {
            let is_rest = mem::take(&mut self.after_return) && *byte == b'\n';
            match byte {
                b'\n' if is_rest => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    if let Some(frame) = self.end_line()? {
                        return Ok((Some(frame), index + 1));
                    }
                }
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.frame.data.len() > LONGEST {
                return Err(BadStream::TooLong);
            }
        }
        Ok((None, bytes.len()))
    }

    fn end_line(&mut self) -> Result<Option<Frame>, BadStream> {
        let line = mem::take(&mut self.line);
        let line = str::from_utf8(&line).map_err(|_| BadStream::NotText)?;
        if line.is_empty() {
            let frame = mem::take(&mut self.frame);
            return Ok(mem::take(&mut self.has_data).then_some(frame));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            "event" => self.frame.name = Some(value.to_owned()),
            "id" => self.frame.id = Some(value.to_owned()),
            // A comment, or nothing that we know.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames of a text that comes in pieces of this size.
    fn frames(text: &str, size: usize) -> Vec<Frame> {
        let mut frames = Frames::default();
        let mut all = Vec::new();
        for mut piece in text.as_bytes().chunks(size) {
            while !piece.is_empty() {
                let (frame, taken) = frames.next(piece).unwrap();
                all.extend(frame);
                piece = &piece[taken..];
            }
        }
        all
    }

    #[test]
    fn frames_are_the_same_however_their_bytes_come_and_however_lines_end() {
        let text = ": hello\n\ndata: {\"a\":1}\nid: e-1\n\nevent: gap\ndata: x\ndata:  y\n\nid: e-9\n\nretry: 5\ndata\n\ndata: cut";
        let frame = |name: Option<&str>, data: &str, id: Option<&str>| Frame {
            name: name.map(str::to_owned),
            data: data.to_owned(),
            id: id.map(str::to_owned),
        };
        let expected =
            [frame(None, "{\"a\":1}", Some("e-1")), frame(Some("gap"), "x\n y", None), frame(None, "", None)];
        for size in [1, 2, 3, 7, 1_000] {
            for end in ["\n", "\r\n", "\r"] {
                assert_eq!(frames(&text.replace('\n', end), size), expected, "{size} {end:?}");
            }
        }
    }

    #[test]
    fn what_is_no_stream_of_events_is_refused() {
        assert_eq!(Frames::default().next(b"data: \xff\n"), Err(BadStream::NotText));
        let mut frames = Frames::default();
        let piece = vec![b'x'; 1024 * 1024];
        let refused = (0..70).map(|_| frames.next(&piece)).find(Result::is_err);
        assert_eq!(refused, Some(Err(BadStream::TooLong)));
    }
}
