//! What a reader saw, as its file has it.

use std::collections::BTreeMap;

/// A server-sent event that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Which of the servers said it, one after another.
    pub(crate) server: u64,
    pub(crate) session: String,
    /// Its name, where it is no event of the session's.
    pub(crate) name: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

impl Frame {
    /// Reads a frame; none where it is a comment.
    pub(crate) fn read(server: u64, session: &str, text: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(field, _)| *field == name).map(|(_, value)| value.to_owned())
        };
        let data = field("data")?;
        Some(Self { server, session: session.to_owned(), name: field("event"), id: field("id"), data })
    }

    /// Appends the frame as a line.
    pub(crate) fn write(&self, out: &mut String) {
        let Self { server, session, name, id, data } = self;
        let [name, id] = [name, id].map(|text| text.as_deref().unwrap_or("-"));
        let parts = [&server.to_string(), session.as_str(), name, id, data];
        out.push_str(&parts.join("\t"));
        out.push('\n');
    }

    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(5, '\t');
        let server = parts.next()?.parse().ok()?;
        let session = parts.next()?.to_owned();
        let mut some = || parts.next().map(|text| (text != "-").then(|| text.to_owned()));
        let (name, id) = (some()?, some()?);
        Some(Self { server, session, name, id, data: parts.next()?.to_owned() })
    }

    /// The epoch and the number in its id.
    pub(crate) fn position(&self) -> Option<(&str, u64)> {
        let (epoch, number) = self.id.as_deref()?.rsplit_once('-')?;
        Some((epoch, number.parse().ok()?))
    }
}

/// All that was seen, by session, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) sessions: BTreeMap<String, Vec<Frame>>,
}

impl Seen {
    /// Reads a file; its last line may have been cut off.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut seen = Self::default();
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
        for line in whole.lines() {
            let frame = Frame::parse(line).ok_or_else(|| format!("a line that no reader writes: {line}"))?;
            seen.sessions.entry(frame.session.clone()).or_default().push(frame);
        }
        Ok(seen)
    }

    /// The id behind which a session is read on.
    pub(crate) fn last_id(&self, session: &str) -> Option<String> {
        self.sessions.get(session)?.iter().rev().find_map(|frame| frame.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_back_as_it_was_written_and_a_line_that_was_cut_off_is_none() {
        let frame = Frame::read(3, "ses_1", "data: {\"a\":\"b: c\"}\nid: e-7").unwrap();
        assert_eq!(frame.position(), Some(("e", 7)));
        let notice = Frame::read(3, "ses_1", "event: end\ndata: {}").unwrap();
        assert_eq!(Frame::read(3, "ses_1", ": still here"), None);
        let mut text = String::new();
        frame.write(&mut text);
        notice.write(&mut text);
        let seen = Seen::parse(&format!("{text}3\tses_1\t-\te-8\t{{\"cu")).unwrap();
        assert_eq!(seen.sessions["ses_1"], [frame, notice]);
        assert_eq!(seen.last_id("ses_1"), Some("e-7".to_owned()));
        assert!(Seen::parse("nonsense\n").is_err());
    }
}
