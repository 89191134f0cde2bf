//! Whole lines from pieces of text.

use super::{stream::Stream, width::cut_at};

/// The longest line in bytes; a longer one is cut, so that what is kept is bounded.
pub(super) const LONGEST: usize = 8 * 1024;

/// The line that a speaker has begun.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    stream: Stream,
    /// Made harmless, without a line end.
    begun: String,
    /// A piece that had to be made harmless; kept for its memory.
    clean: String,
}

impl Lines {
    /// Takes a piece of text and gives the lines that it completes. Where pieces are cut makes no difference.
    pub(super) fn push(&mut self, piece: &str, line: &mut dyn FnMut(&str)) {
        if self.stream.passes(piece) {
            return self.push_clean(piece, line);
        }
        let mut clean = std::mem::take(&mut self.clean);
        clean.clear();
        self.stream.push(piece, &mut clean);
        self.push_clean(&clean, line);
        self.clean = clean;
    }

    /// Gives the line that was begun, where one was.
    pub(super) fn flush(&mut self, line: &mut dyn FnMut(&str)) {
        self.stream.end(&mut self.begun);
        if !self.begun.is_empty() {
            line(&self.begun);
            self.begun.clear();
        }
    }

    fn push_clean(&mut self, piece: &str, line: &mut dyn FnMut(&str)) {
        let mut pieces = piece.split('\n').peekable();
        while let Some(piece) = pieces.next() {
            self.push_within_line(piece, line);
            if pieces.peek().is_some() {
                line(&self.begun);
                self.begun.clear();
            }
        }
    }

    fn push_within_line(&mut self, mut piece: &str, line: &mut dyn FnMut(&str)) {
        while self.begun.len() + piece.len() > LONGEST {
            // So much of it that it is known where the last character ends that fits.
            let room = LONGEST.saturating_sub(self.begun.len());
            let more = piece.char_indices().map(|(at, c)| at + c.len_utf8()).find(|end| *end > room);
            let (taken, rest) = piece.split_at(more.unwrap_or(piece.len()));
            self.begun.push_str(taken);
            let cut = cut_at(&self.begun, LONGEST);
            line(self.begun.get(..cut).unwrap_or_default());
            self.begun.drain(..cut);
            piece = rest;
        }
        self.begun.push_str(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&str]) -> Vec<String> {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.push(piece, &mut |line| out.push(line.to_owned()));
        }
        lines.flush(&mut |line| out.push(line.to_owned()));
        out
    }

    #[test]
    fn lines_are_given_whole() {
        assert_eq!(lines(&["a", "b\nc", "\n", "\nd"]), ["ab", "c", "", "d"]);
        assert_eq!(lines(&["a\n"]), ["a"]);
        assert!(lines(&["", ""]).is_empty());
    }

    #[test]
    fn an_endless_line_is_cut_at_the_same_characters_however_it_comes() {
        let text = "aü🚀".repeat(3_000);
        let whole = lines(&[&text]);
        assert_eq!(whole.concat(), text);
        assert!(
            whole
                .iter()
                .all(|line| line.len() <= LONGEST && line.len() > LONGEST - 4
                    || line == &whole[whole.len() - 1])
        );
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(lines(&characters), whole);
    }

    #[test]
    fn an_endless_line_is_cut_between_characters() {
        let whole = lines(&[&format!("x{}", "e\u{301}".repeat(4_000))]);
        assert!(whole.len() > 1 && whole[1..].iter().all(|line| line.starts_with('e')));
        // One that never ends is cut all the same.
        assert!(lines(&["\u{301}".repeat(10_000).as_str()]).iter().all(|line| line.len() <= LONGEST));
    }

    #[test]
    fn a_line_of_the_longest_length_is_one_line() {
        let text = "x".repeat(LONGEST);
        assert_eq!(lines(&[&text, "\n", "y"]), [text.as_str(), "y"]);
    }
}
