//! Values that many lines of a stream repeat, read once and shared.

use std::collections::HashMap;

/// How many texts are remembered. A stream repeats one for each run under way; more than this is no repetition.
const MOST: usize = 1_024;

/// The longest text that is remembered, in bytes.
const LONGEST: usize = 1_024;

/// What was read from texts that may come again. Holds at most [`MOST`] texts of at most [`LONGEST`] bytes.
#[derive(Debug)]
pub(crate) struct Shared<T>(HashMap<Box<str>, T>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Clone> Shared<T> {
    /// What `text` was read as before, else what `read` makes of it.
    pub(crate) fn get_or_read<E>(&mut self, text: &str, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if let Some(known) = self.0.get(text) {
            return Ok(known.clone());
        }
        let value = read()?;
        if text.len() <= LONGEST {
            if self.0.len() >= MOST {
                self.0.clear();
            }
            self.0.insert(text.into(), value.clone());
        }
        Ok(value)
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
        assert!(shared.0.len() <= MOST && shared.0.keys().all(|text| text.len() <= LONGEST));
        assert_eq!(reads, 2 + 10 * MOST);
        assert_eq!(shared.get_or_read("bad", || Err(())), Err(()));
        assert_eq!(shared.get_or_read("bad", || Ok::<_, ()>(3)), Ok(3));
    }
}
