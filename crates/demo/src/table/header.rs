//! The names of a table's columns.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hasher as _},
};

use super::{Cell, Problem};
use crate::shown::one_line;

/// The names of a table's columns, each once and on one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header(Vec<String>);

impl Header {
    /// Reads the fields of the first line. A column without a name is named by its place, and one whose name came
    /// before gets a number.
    pub(crate) fn read<'a>(fields: impl Iterator<Item = &'a str> + Clone) -> Result<Self, Problem> {
        if fields.clone().all(|field| matches!(Cell::read(field), Cell::Number(_))) {
            return Err(Problem::NoHeader);
        }
        let mut taken = HashSet::new();
        let names = fields.enumerate().map(|(index, field)| {
            let name = bounded(one_line(field));
            let name = if name.is_empty() { format!("column {}", index + 1) } else { name };
            let numbered = (2_u32..).map(|count| format!("{name} ({count})"));
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
            let free = free.unwrap_or(name);
            taken.insert(free.clone());
            free
        });
        Ok(Self(names.collect()))
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|known| known == name)
    }
}

/// A name of at most 200 characters. Of a longer one the beginning and a hash of the whole, so that the same name in two
/// files stays the same and others stay apart.
fn bounded(name: String) -> String {
    const LONGEST: usize = 200;
    if name.chars().count() <= LONGEST {
        return name;
    }
    // The same in every process: its keys are zero.
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    let hash = format!("…{:016x}", hasher.finish());
    name.chars().take(LONGEST - hash.chars().count()).chain(hash.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_a_name_of_its_own() {
        let header = Header::read(["", "a", " a\nb ", "a", "a (2)", ""].into_iter()).unwrap();
        assert_eq!(header.names(), ["column 1", "a", "a b", "a (2)", "a (2) (2)", "column 6"]);
    }

    #[test]
    fn numbers_alone_are_no_header() {
        assert!(matches!(Header::read(["1", "2.5"].into_iter()), Err(Problem::NoHeader)));
        assert!(Header::read(["name", "1990"].into_iter()).is_ok());
    }

    #[test]
    fn a_name_is_bounded_and_long_names_stay_apart() {
        let (one, other) = ("x".repeat(70_000), "x".repeat(70_001));
        let read = |fields: &[&str]| Header::read(fields.iter().copied()).unwrap().names().to_vec();
        let names = read(&[&one, &other]);
        assert!(names[0] != names[1] && names.iter().all(|name| name.chars().count() == 200), "{names:?}");
        assert_eq!(read(&[&other])[0], names[1]);
    }
}
