//! Names of which none is given twice.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};
/// All names that were given out.
///
/// Grows with their number. Giving one costs the same however many wanted the same one before.
#[derive(Clone, Debug)]
pub(crate) struct Unique {
    separator: &'static str,
    taken: HashSet<Arc<str>>,
    /// How often a name was tried that somebody has.
    tried: HashMap<Arc<str>, u64>,
}

impl Unique {
    /// Names that are told apart by a number behind this.
    pub(crate) fn new(separator: &'static str) -> Self {
        Self { separator, taken: HashSet::default(), tried: HashMap::default() }
    }

    /// The wanted name, or where somebody has it, the first free one of `…#2`, `…#3`.
    pub(crate) fn take(&mut self, wanted: &str) -> Arc<str> {
        let wanted: Arc<str> = wanted.into();
        if self.taken.insert(Arc::clone(&wanted)) {
            return wanted;
        }
        let count = self.tried.entry(Arc::clone(&wanted)).or_insert(1);
        loop {
            *count = count.saturating_add(1);
            let name: Arc<str> = format!("{wanted}{}{count}", self.separator).into();
            if self.taken.insert(Arc::clone(&name)) {
                return name;
            }
        }
    }
}

impl Default for Unique {
    fn default() -> Self {
        Self::new("#")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_given_twice_whatever_is_wanted() {
        let mut names = Unique::default();
        let given = ["a", "a", "a#2", "a#3", "a", "a#2"].map(|wanted| names.take(wanted));
        assert_eq!(given.each_ref().map(|name| &**name), ["a", "a#2", "a#2#2", "a#3", "a#4", "a#2#3"]);
    }
}
