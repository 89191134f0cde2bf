//! Tool calls as short lines.

use anabranch_proto::ToolResultState;

use super::{
    page::mark,
    width::{cut_at, shortened},
};

/// The most columns of a tool's name.
const LONGEST_NAME: usize = 40;
/// The most columns of arguments.
const LONGEST_ARGUMENTS: usize = 80;
/// The most columns of what went wrong.
pub(super) const LONGEST_PROBLEM: usize = 160;

/// What is kept of a call to describe it.
#[derive(Clone, Debug, Default)]
pub(super) struct CallLine {
    pub(super) arguments: Head,
    pub(super) output: Head,
}

/// The beginning of a text of any length.
#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    text: String,
    is_cut: bool,
}

impl Head {
    /// Bytes kept: several times what is shown, since white space is collapsed.
    const BYTES: usize = 1024;

    /// Takes the next piece.
    pub(super) fn push(&mut self, piece: &str) {
        let piece = if self.text.is_empty() { piece.trim_start() } else { piece };
        if self.is_cut {
            return;
        }
        let room = Self::BYTES.saturating_sub(self.text.len());
        if piece.len() <= room {
            self.text.push_str(piece);
        } else {
            // So much of it that it is known where the last character ends that fits.
            let more = piece.char_indices().map(|(at, c)| at + c.len_utf8()).find(|end| *end > room);
            self.text.push_str(piece.get(..more.unwrap_or(piece.len())).unwrap_or_default());
            self.text.truncate(cut_at(&self.text, Self::BYTES));
            self.is_cut = true;
        }
    }

    fn shortened(&self, most: usize) -> String {
        shortened(&self.text, most, self.is_cut)
    }

    fn first_line(&self, most: usize) -> String {
        let line = self.text.lines().next().unwrap_or_default();
        shortened(line, most, self.is_cut && line.len() == self.text.len())
    }
}

impl CallLine {
    /// `tool(arguments)`.
    pub(super) fn with_arguments(&self, name: &str) -> String {
        format!("{}({})", tool(name), self.arguments.shortened(LONGEST_ARGUMENTS))
    }

    /// What a call came to: a mark and a text.
    pub(super) fn ended(&self, name: &str, state: ToolResultState) -> (&'static str, String) {
        let name = tool(name);
        if matches!(state, ToolResultState::Success | ToolResultState::Running) {
            return (mark::DONE, name);
        }
        let problem = self.output.first_line(LONGEST_PROBLEM);
        // Of an error the text says enough, and so does a text that is the state's name.
        let says_enough = state == ToolResultState::Error || problem == state.as_str();
        let reason = if says_enough { String::new() } else { format!(": {}", state.as_str()) };
        let colon = if problem.is_empty() { "" } else { ": " };
        (mark::FAILED, format!("{name}{reason}{colon}{problem}"))
    }
}

/// A tool's name, harmless and not long.
pub(super) fn tool(name: &str) -> String {
    shortened(name, LONGEST_NAME, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_long_text_is_kept_however_it_comes() {
        let text = format!("\n  {}", "aü🚀 ".repeat(1_000));
        let mut whole = Head::default();
        whole.push(&text);
        let mut pieces = Head::default();
        for c in text.chars() {
            pieces.push(c.encode_utf8(&mut [0; 4]));
        }
        assert_eq!(whole.text, pieces.text);
        assert!(whole.is_cut && pieces.is_cut && whole.text.len() <= Head::BYTES);
        assert_eq!(whole.shortened(5), "aü🚀…");
    }

    #[test]
    fn a_problem_is_one_line() {
        let mut line = CallLine::default();
        line.output.push("\n no such file\nstack trace");
        assert_eq!(line.ended("read", ToolResultState::Error), ("✗ ", "read: no such file".to_owned()));
        assert_eq!(
            CallLine::default().ended("read", ToolResultState::Denied),
            ("✗ ", "read: denied".to_owned())
        );
        let mut line = CallLine::default();
        line.output.push("interrupted");
        assert_eq!(line.ended("read", ToolResultState::Interrupted), ("✗ ", "read: interrupted".to_owned()));
    }
}
