//! Values that many lines of a stream repeat, read once and shared.

use std::{collections::HashMap, sync::Arc};

/// How many texts are remembered. A stream repeats one for each run under way; more than this is no repetition.
const MOST: usize = 1_024;

/// The longest text that is remembered, in bytes.
const LONGEST: usize = 1_024;

/// What was read from texts that may come again. Holds at most [`MOST`] texts of at most [`LONGEST`] bytes,
/// and one.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    known: HashMap<Arc<str>, T>,
    /// The one that came last, which mostly comes next.
    last: Option<(Arc<str>, T)>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { known: HashMap::new(), last: None }
    }
}

impl<T: Clone> Shared<T> {
    /// What `text` was read as before.
    pub(crate) fn get(&mut self, text: &str) -> Option<T> {
        if let Some((last, value)) = &self.last
            && **last == *text
        {
            return Some(value.clone());
        }
        let (known, value) = self.known.get_key_value(text)?;
        self.last = Some((Arc::clone(known), value.clone()));
        Some(value.clone())
    }

    /// What the text that came last was read as, where `text` begins with it; and what follows in `text`.
    pub(crate) fn of_prefix<'t>(&self, text: &'t str) -> Option<(T, &'t str)> {
        let (last, value) = self.last.as_ref()?;
        Some((value.clone(), text.strip_prefix(&**last)?))
    }

    /// What `text` was read as before, else what `read` makes of it.
    pub(crate) fn get_or_read<E>(&mut self, text: &str, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if let Some(known) = self.get(text) {
            return Ok(known);
        }
        let value = read()?;
        self.learn(text, &value);
        Ok(value)
    }

    /// Remembers what `text` is read as.
    pub(crate) fn learn(&mut self, text: &str, value: &T) {
        if text.len() <= LONGEST {
            if self.known.len() >= MOST {
                self.known.clear();
            }
            let text: Arc<str> = text.into();
            self.known.insert(Arc::clone(&text), value.clone());
            self.last = Some((text, value.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_once_and_memory_is_bounded() {
        let mut shared = Shared::default();
        let mut reads = 0;
        let mut read = |shared: &mut Shared<usize>, text: &str| {
            shared.get_or_read(text, || {
                reads += 1;
                Ok::<_, ()>(text.len())
            })
        };
        assert_eq!(read(&mut shared, "a"), Ok(1));
        assert_eq!(read(&mut shared, "a"), Ok(1));
        for number in 0..10 * MOST {
            assert!(read(&mut shared, &number.to_string()).is_ok());
        }
        assert!(read(&mut shared, &"x".repeat(LONGEST + 1)).is_ok());
        assert!(shared.known.len() <= MOST && shared.known.keys().all(|text| text.len() <= LONGEST));
        assert_eq!(reads, 2 + 10 * MOST);
        assert_eq!(shared.get_or_read("bad", || Err(())), Err(()));
        assert_eq!(shared.get_or_read("bad", || Ok::<_, ()>(3)), Ok(3));
    }
}
