//! How children are called on their lines.

use std::sync::Arc;

use anabranch_proto::SessionId;
use foldhash::HashMap;

use super::{
    page::{is_bar, room_before},
    width::{shortened, width},
};
use crate::{intent::Child, unique::Unique};

/// The most columns of a name.
const LONGEST_NAME: usize = 24;
/// The most columns of a path.
const LONGEST_PATH: usize = 60;

/// Colours that are legible on dark and on light, in the order in which children appear. None is red: that means
/// failure.
const COLOURS: [&str; 6] = ["\x1b[36m", "\x1b[33m", "\x1b[35m", "\x1b[32m", "\x1b[34m", "\x1b[96m"];
const RESET: &str = "\x1b[0m";

/// What stands before each line of a speaker; nothing for the root.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefix {
    text: String,
    columns: usize,
}

impl Prefix {
    /// The prefix.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// How many columns it takes.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// What separates it from a text.
    pub(super) fn gap(&self) -> &'static str {
        if self.text.is_empty() { "" } else { " " }
    }
}

/// The names that were given, each to one session.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    by_session: HashMap<SessionId, Label>,
    given: Unique,
}

impl Default for Labels {
    fn default() -> Self {
        Self { by_session: HashMap::default(), given: Unique::new("·") }
    }
}

#[derive(Clone, Debug)]
struct Label {
    text: Arc<str>,
    /// What the session was called by its source when it got the text.
    name: String,
    colour: &'static str,
}

impl Labels {
    /// The prefix of a child's lines, which also names its run from the second on.
    ///
    /// Where lines have a width it leaves at least half of it to what is said.
    pub(super) fn prefix(&mut self, child: &Child, colours: bool, columns: Option<usize>) -> Prefix {
        let known = self.by_session.get(&child.session);
        let label = match known {
            Some(label) if *label.name == *child.name => label.clone(),
            Some(_) | None => {
                let label = Label {
                    colour: known.map_or_else(|| self.next_colour(), |label| label.colour),
                    text: self.given.take(&self.path(child, columns)),
                    name: child.name.to_string(),
                };
                self.by_session.insert(child.session.clone(), label.clone());
                label
            }
        };
        let run = if child.run > 1 { format!("#{}", child.run) } else { String::new() };
        let text = format!("{}{run} │", label.text);
        Prefix {
            columns: width(&text),
            text: if colours { format!("{}{text}{RESET}", label.colour) } else { text },
        }
    }

    fn next_colour(&self) -> &'static str {
        COLOURS.iter().cycle().nth(self.by_session.len() % COLOURS.len()).copied().unwrap_or_default()
    }

    /// The parent's label and the child's name.
    fn path(&self, child: &Child, columns: Option<usize>) -> String {
        // What tells two of a name and two runs apart comes behind it.
        let room = columns.map_or(LONGEST_PATH, |columns| (columns / 2).saturating_sub(8).min(LONGEST_PATH));
        let name = short_name(&child.name, room.min(LONGEST_NAME));
        let Some(parent) = self.by_session.get(&child.parent) else {
            return name;
        };
        let path = format!("{}/{name}", parent.text);
        if width(&path) <= room {
            return path;
        }
        let path = format!("…/{name}");
        if width(&path) <= room { path } else { name }
    }
}

/// A name for prefixes: harmless, not long, without the line that ends a prefix, and none of the marks at its begin.
fn short_name(name: &str, most: usize) -> String {
    let name = shortened(name, most, false).replace(is_bar, "|");
    match room_before(&name) {
        _ if name.is_empty() => "_".to_owned(),
        "" => name,
        _ => shortened(&format!("_{name}"), most, false),
    }
}
