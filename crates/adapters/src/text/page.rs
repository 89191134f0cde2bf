//! Where the cursor is.

use std::borrow::Cow;

use super::{
    label::Prefix,
    width::{self, last_begins, pieces, sized, wrapped},
};

/// Where text goes.
pub(super) type Out<'o> = dyn FnMut(&str) + 'o;

/// What lines begin with that are no text.
pub(super) mod mark {
    /// Before a call.
    pub(in super::super) const CALL: &str = "→ ";
    /// Before what a call came to.
    pub(in super::super) const DONE: &str = "✓ ";
    /// Before what a call did not come to.
    pub(in super::super) const FAILED: &str = "✗ ";
    /// Before a question and its answer.
    pub(in super::super) const ASKED: &str = "? ";
    /// Before how a run ended.
    pub(in super::super) const END: &str = "■ ";
    /// Before what is put before a model.
    pub(in super::super) const PROMPT: &str = "» ";
    /// Before what a model thinks.
    pub(in super::super) const THOUGHT: &str = "· ";
    /// Before what was learnt of a child.
    pub(in super::super) const LEARNT: &str = "↻ ";
    /// Before a picture, a sound, a file.
    pub(in super::super) const DATA: &str = "◇ ";
    /// Before the name of a child that its parent waits for.
    pub(in super::super) const SYNC: &str = "🚀 ";
    /// Before the name of another child.
    pub(in super::super) const BACKGROUND: &str = "⚡ ";

    /// All of them.
    pub(super) const ALL: [&str; 11] =
        [CALL, DONE, FAILED, ASKED, END, PROMPT, THOUGHT, LEARNT, DATA, SYNC, BACKGROUND];
}

/// The longest character that is held back for more marks.
const LONGEST_CHARACTER: usize = 256;

/// What is written to.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// How many columns a line has at most, where that is given.
    pub(super) width: Option<usize>,
    mid_line: bool,
    /// How many columns of its line the text has that passes as it comes; only where lines have a width.
    column: usize,
    /// The last character of that text, which may get more marks; only where lines have a width.
    last: String,
    /// The piece that is being put together; kept for its memory.
    piece: String,
}

impl Page {
    /// Writes a piece of text of a speaker without a prefix as it comes, made harmless before. None of its lines can be
    /// taken for one of somebody else's, or for one that is no text.
    pub(super) fn flow(&mut self, text: &str, out: &mut Out<'_>) {
        let Some(most) = self.width else {
            return self.flow_without_width(text, out);
        };
        let mut all = std::mem::take(&mut self.last);
        all.push_str(text);
        let mut end = if all.ends_with('\n') { all.len() } else { last_begins(&all) };
        if all.len() - end > LONGEST_CHARACTER {
            end = all.len();
        }
        self.put(all.get(..end).unwrap_or_default(), most, out);
        all.drain(..end);
        self.last = all;
    }

    /// Writes what was held back of such text.
    pub(super) fn end_flow(&mut self, out: &mut Out<'_>) {
        let last = std::mem::take(&mut self.last);
        if let Some(most) = self.width {
            self.put(&last, most, out);
        }
    }

    /// Ends the line, where the cursor is in one.
    pub(super) fn break_line(&mut self, out: &mut Out<'_>) {
        if self.mid_line {
            self.write("\n", out);
        }
    }

    /// Writes a line of no speaker's, after an empty one or after the end of the line where the cursor is in one.
    pub(super) fn announce(&mut self, mark: &str, text: &str, out: &mut Out<'_>) {
        self.end_flow(out);
        let mut piece = std::mem::take(&mut self.piece);
        piece.clear();
        piece.push('\n');
        self.lines(&Prefix::default(), mark, text, &mut piece);
        self.write(&piece, out);
        self.piece = piece;
    }

    /// Writes a line of its own, or as many as it needs where lines have a width.
    pub(super) fn line(&mut self, prefix: &Prefix, mark: &str, text: &str, out: &mut Out<'_>) {
        // What was said before comes before, without the marks that it may still get.
        self.end_flow(out);
        let mut piece = std::mem::take(&mut self.piece);
        piece.clear();
        if self.mid_line {
            piece.push('\n');
        }
        self.lines(prefix, mark, text, &mut piece);
        self.write(&piece, out);
        self.piece = piece;
    }

    fn lines(&self, prefix: &Prefix, mark: &str, text: &str, piece: &mut String) {
        let lead = if mark.is_empty() { room_before } else { |_: &str| "" };
        let Some(most) = self.width else {
            return one_line(prefix, mark, lead(text), text, piece);
        };
        let taken = prefix.columns() + prefix.gap().len() + width::width(mark);
        // Of what goes over several lines it is to be seen that it is a thought or a prompt, in each of them.
        let is_repeated = [mark::THOUGHT, mark::PROMPT].contains(&mark);
        let indent = " ".repeat(width::width(mark));
        let mut next = mark;
        wrapped(text, most.saturating_sub(taken).max(2), lead, &mut |text| {
            one_line(prefix, next, "", text, piece);
            next = if is_repeated { mark } else { &indent };
        });
    }

    fn flow_without_width(&mut self, text: &str, out: &mut Out<'_>) {
        let mut at_start = !self.mid_line;
        let is_plain = !text.split('\n').any(|line| {
            let leads = std::mem::replace(&mut at_start, true);
            line.contains(is_bar) || (leads && !room_before(line).is_empty())
        });
        if is_plain {
            return self.write(text, out);
        }
        let mut piece = std::mem::take(&mut self.piece);
        piece.clear();
        let mut at_start = !self.mid_line;
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                piece.push('\n');
            }
            if std::mem::replace(&mut at_start, true) {
                piece.push_str(room_before(line));
            }
            piece.push_str(&without_bars(line));
        }
        self.write(&piece, out);
        self.piece = piece;
    }

    /// Writes text of whole characters.
    fn put(&mut self, text: &str, most: usize, out: &mut Out<'_>) {
        let mut piece = std::mem::take(&mut self.piece);
        piece.clear();
        let mut column = if self.mid_line { self.column } else { 0 };
        let mut at_start = !self.mid_line;
        pieces(text, most, &mut |character| {
            if character == "\n" {
                piece.push('\n');
                (column, at_start) = (0, true);
                return;
            }
            let (_, wide) = sized(character, column, most);
            if !at_start && column + wide > most {
                piece.push('\n');
                (column, at_start) = (0, true);
            }
            if at_start {
                let lead = room_before(character);
                piece.push_str(lead);
                (column, at_start) = (lead.len(), false);
            }
            let (shown, wide) = sized(character, column, most);
            piece.push_str(&without_bars(&shown));
            column += wide;
        });
        self.write(&piece, out);
        (self.column, self.piece) = (column, piece);
    }

    fn write(&mut self, text: &str, out: &mut Out<'_>) {
        if !text.is_empty() {
            self.mid_line = !text.ends_with('\n');
            out(text);
        }
    }
}

fn one_line(prefix: &Prefix, mark: &str, lead: &str, text: &str, piece: &mut String) {
    piece.push_str(prefix.text());
    if !(mark.is_empty() && text.is_empty()) {
        piece.push_str(prefix.gap());
    }
    piece.push_str(if text.is_empty() { mark.trim_end() } else { mark });
    piece.push_str(lead);
    piece.push_str(text);
    piece.push('\n');
}

/// A space where a line of text would else begin as one that is no text, or with what has no width and would hide that.
pub(super) fn room_before(text: &str) -> &'static str {
    let first = text.get(..text.chars().next().map_or(0, char::len_utf8)).unwrap_or_default();
    let is_mark = mark::ALL.iter().any(|mark| mark.trim_end() == first);
    let is_unseen = !first.is_empty() && first != "\t" && width::width(first) == 0;
    if is_mark || is_unseen { " " } else { "" }
}

/// Whether a character is the line that ends a child's prefix, or looks like it.
pub(super) fn is_bar(c: char) -> bool {
    matches!(
        c,
        '│' | '┃' | '￨' | 'ǀ' | '∣' | '❘' | '❙' | '⏐' | '▏' | '▕' | '╎' | '╏' | '┆' | '┇' | '┊' | '┋' | '╽' | '╿'
            // Pieces of tall brackets.
            | '⎜' | '⎟' | '⎢' | '⎥' | '⎪' | '⎮' | '⎸' | '⎹'
    )
}

/// A line without what could make it look like a child's.
fn without_bars(line: &str) -> Cow<'_, str> {
    if line.contains(is_bar) { Cow::Owned(line.replace(is_bar, "|")) } else { Cow::Borrowed(line) }
}
