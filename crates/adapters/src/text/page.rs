//! Where the cursor is.

use super::label::Prefix;

/// Where text goes.
pub(super) type Out<'o> = dyn FnMut(&str) + 'o;

/// What is written to, as far as it matters: whether the cursor is in the middle of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    mid_line: bool,
    /// The piece that is being put together; kept for its memory.
    piece: String,
}

impl Page {
    /// Writes text as it is.
    pub(super) fn write(&mut self, text: &str, out: &mut Out<'_>) {
        if !text.is_empty() {
            self.mid_line = !text.ends_with('\n');
            out(text);
        }
    }

    /// Ends the line, where the cursor is in one.
    pub(super) fn break_line(&mut self, out: &mut Out<'_>) {
        if self.mid_line {
            self.write("\n", out);
        }
    }

    /// Writes a whole line of its own.
    pub(super) fn line(&mut self, prefix: &Prefix, mark: &str, text: &str, out: &mut Out<'_>) {
        let mut piece = std::mem::take(&mut self.piece);
        piece.clear();
        if self.mid_line {
            piece.push('\n');
        }
        piece.push_str(prefix.text());
        if !(mark.is_empty() && text.is_empty()) {
            piece.push_str(prefix.gap());
        }
        piece.push_str(if text.is_empty() { mark.trim_end() } else { mark });
        piece.push_str(text);
        piece.push('\n');
        self.write(&piece, out);
        self.piece = piece;
    }
}
