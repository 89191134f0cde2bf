//! The last lines of a terminal, which are written anew.

/// Back to the begin of the line, and clears it.
const CLEAR: &str = "\r\x1b[K";
const UP: &str = "\x1b[1A";
const WRAP_OFF: &str = "\x1b[?7l";
const WRAP_ON: &str = "\x1b[?7h";

/// Keeps a status line below the output.
///
/// Whole lines are written once and stay. A line that is not complete and the status are drawn below them, cut at the
/// terminal's edge so that each takes one row, and drawn anew each time.
#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    /// The line that is not complete.
    begun: String,
    /// How many rows are drawn below the whole lines.
    rows: usize,
}

impl Live {
    /// What to write so that `text` stands after what was written before, and `status` below it.
    pub(super) fn draw(&mut self, text: &str, status: &str) -> String {
        let mut out = self.erase();
        self.begun.push_str(text);
        if let Some(end) = self.begun.rfind('\n') {
            out.extend(self.begun.drain(..=end));
        }
        out.push_str(WRAP_OFF);
        if !self.begun.is_empty() {
            out.push_str(&self.begun);
            out.push('\n');
            self.rows += 1;
        }
        out.push_str(status);
        out.push_str(WRAP_ON);
        // What the terminal itself shows, as `^C` for a Ctrl-C, then begins no new row, however long the status is.
        out.push('\r');
        self.rows += 1;
        out
    }

    /// What to write so that only the text stays.
    pub(super) fn end(&mut self) -> String {
        let mut out = self.erase();
        out.push_str(&std::mem::take(&mut self.begun));
        out
    }

    fn erase(&mut self) -> String {
        let rows = std::mem::take(&mut self.rows);
        let mut out = String::new();
        if rows > 0 {
            out.push_str(CLEAR);
        }
        for _ in 1..rows {
            out.push_str(UP);
            out.push_str(CLEAR);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal of endless width shows.
    fn shown(written: &str) -> Vec<String> {
        let (mut rows, mut row, mut column) = (vec![Vec::new()], 0_usize, 0_usize);
        let mut rest = written;
        while let Some(c) = rest.chars().next() {
            let step = |code: &str| rest.strip_prefix(code);
            if let Some(after) = step(CLEAR) {
                rows[row].clear();
                column = 0;
                rest = after;
            } else if let Some(after) = step(UP) {
                row -= 1;
                rest = after;
            } else if let Some(after) = step(WRAP_OFF).or_else(|| step(WRAP_ON)) {
                rest = after;
            } else if let Some(after) = rest.strip_prefix('\r') {
                column = 0;
                rest = after;
            } else {
                if c == '\n' {
                    (row, column) = (row + 1, 0);
                    rows.resize(rows.len().max(row + 1), Vec::new());
                } else {
                    if column < rows[row].len() {
                        rows[row][column] = c;
                    } else {
                        rows[row].push(c);
                    }
                    column += 1;
                }
                rest = &rest[c.len_utf8()..];
            }
        }
        rows.into_iter().map(String::from_iter).collect()
    }

    /// The same without the empty rows at its end.
    fn trimmed(written: &str) -> Vec<String> {
        let mut rows = shown(written);
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    #[test]
    fn the_status_is_always_last_and_leaves_nothing() {
        let mut live = Live::default();
        let mut written = live.draw("one\ntw", "status 1");
        assert_eq!(shown(&written), ["one", "tw", "status 1"]);
        written += &live.draw("o", "status 2");
        assert_eq!(shown(&written), ["one", "two", "status 2"]);
        written += &live.draw("\n", "status 3");
        assert_eq!(trimmed(&written), ["one", "two", "status 3"]);
        written += &live.draw("three", "status 4");
        written += &live.end();
        assert_eq!(trimmed(&written), ["one", "two", "three"]);
    }

    #[test]
    fn a_ctrl_c_that_the_terminal_shows_leaves_nothing() {
        let mut live = Live::default();
        let written = live.draw("one\n", "   status") + "^C";
        assert_eq!(shown(&written), ["one", "^C status"]);
        assert_eq!(trimmed(&(written + &live.draw("two\n", "   done") + &live.end())), ["one", "two"]);
    }
}
