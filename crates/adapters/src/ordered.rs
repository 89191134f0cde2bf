//! Things in the order in which they came, each found by its key.

use std::{collections::BTreeMap, hash::Hash};

use foldhash::HashMap;
/// A map that remembers in which order its entries came. Whatever is done with one entry costs the same among many.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<K, V> {
    places: HashMap<K, u64>,
    entries: BTreeMap<u64, (K, V)>,
    next: u64,
}

impl<K: Clone + Eq + Hash, V> Ordered<K, V> {
    #[cfg(any(feature = "ag-ui", test))]
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.places.contains_key(key)
    }

    /// The entry that came last, where its key is the one that is looked for: mostly it is, and that is quicker seen than found.
    #[cfg(feature = "ag-ui")]
    pub(crate) fn last_mut(&mut self, is_it: impl FnOnce(&K) -> bool) -> Option<&mut V> {
        let last = self.entries.last_entry()?;
        if !is_it(&last.get().0) {
            return None;
        }
        Some(&mut last.into_mut().1)
    }

    #[cfg(any(feature = "ag-ui", test))]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (_, value) = self.entries.get(self.places.get(key)?)?;
        Some(value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (_, value) = self.entries.get_mut(self.places.get(key)?)?;
        Some(value)
    }

    /// Puts an entry behind all others. One with this key that was there is gone.
    pub(crate) fn push(&mut self, key: K, value: V) {
        self.remove(&key);
        self.places.insert(key.clone(), self.next);
        self.entries.insert(self.next, (key, value));
        self.next = self.next.saturating_add(1);
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (_, value) = self.entries.remove(&self.places.remove(key)?)?;
        Some(value)
    }

    /// Takes everything, in its order.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = V> + use<K, V> {
        self.places.clear();
        std::mem::take(&mut self.entries).into_values().map(|(_, value)| value)
    }

    /// Everything, in its order.
    #[cfg(any(feature = "tool-calls", test))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(_, value)| value)
    }
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Self { places: HashMap::default(), entries: BTreeMap::default(), next: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_in_their_order_and_are_found_by_their_keys() {
        let mut ordered = Ordered::default();
        for key in ["c", "a", "b", "a"] {
            ordered.push(key, format!("{key}!"));
        }
        assert_eq!(ordered.iter().collect::<Vec<_>>(), ["c!", "b!", "a!"]);
        assert_eq!(ordered.remove(&"b").as_deref(), Some("b!"));
        assert!(ordered.remove(&"b").is_none() && !ordered.contains(&"b"));
        ordered.get_mut(&"c").unwrap().push('?');
        assert_eq!(ordered.get(&"c").map(String::as_str), Some("c!?"));
        assert_eq!(ordered.take().collect::<Vec<_>>(), ["c!?", "a!"]);
        assert!(ordered.get(&"c").is_none() && ordered.iter().next().is_none());
    }
}
