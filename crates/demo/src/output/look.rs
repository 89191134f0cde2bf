//! What the place that is written to can show.

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal as _},
};

/// Colours that are legible on dark and on light. None is red, which means failure.
const COLOURS: [&str; 6] = ["\x1b[36m", "\x1b[33m", "\x1b[35m", "\x1b[32m", "\x1b[34m", "\x1b[96m"];
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// What the place that is written to can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Text and nothing else: a pipe, a file, a terminal that can no more.
    Plain,
    /// A terminal whose lines can be written anew.
    Terminal { colours: bool },
}

impl Look {
    /// What stdout can show. `is_text` says whether people are to read it at all.
    pub(crate) fn of_stdout(is_text: bool) -> Self {
        let is_terminal = is_text && io::stdout().is_terminal();
        Self::of(is_terminal, env::var_os("TERM"), env::var_os("NO_COLOR"))
    }

    fn of(is_terminal: bool, term: Option<OsString>, no_color: Option<OsString>) -> Self {
        // A terminal of Windows has no name and can do it all.
        let is_dumb = term.map_or(cfg!(unix), |term| term == "dumb" || term.is_empty());
        if !is_terminal || is_dumb {
            return Self::Plain;
        }
        // https://no-color.org: present and not empty, whatever its value.
        Self::Terminal { colours: no_color.is_none_or(|value| value.is_empty()) }
    }

    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Terminal { .. })
    }

    /// The text in the colour of the sub-agent at this place.
    pub(super) fn coloured(self, place: usize, text: &str) -> String {
        self.painted(COLOURS.iter().cycle().nth(place % COLOURS.len()).copied().unwrap_or_default(), text)
    }

    /// The text less bright than others.
    pub(super) fn dim(self, text: &str) -> String {
        self.painted(DIM, text)
    }

    fn painted(self, paint: &str, text: &str) -> String {
        match self {
            Self::Terminal { colours: true } => format!("{paint}{text}{RESET}"),
            Self::Terminal { colours: false } | Self::Plain => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_is_drawn_on_and_coloured_unless_told_not_to_be() {
        let of = |is_terminal, term: Option<&str>, no_color: Option<&str>| {
            Look::of(is_terminal, term.map(OsString::from), no_color.map(OsString::from))
        };
        assert_eq!(of(false, Some("xterm"), None), Look::Plain);
        assert_eq!(of(true, Some("dumb"), None), Look::Plain);
        assert_eq!(of(true, Some(""), None), Look::Plain);
        assert_eq!(
            of(true, None, None),
            if cfg!(unix) { Look::Plain } else { Look::Terminal { colours: true } }
        );
        assert_eq!(of(true, Some("xterm"), None), Look::Terminal { colours: true });
        assert_eq!(of(true, Some("xterm"), Some("")), Look::Terminal { colours: true });
        assert_eq!(of(true, Some("xterm"), Some("1")), Look::Terminal { colours: false });
    }
}
