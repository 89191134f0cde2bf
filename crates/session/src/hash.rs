//! A fast hash for keys of our own: event ids and addresses.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, Hasher, RandomState},
    sync::OnceLock,
};

/// A map by ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, Seeded>;

/// A set of ids.
pub(crate) type IdSet<K> = HashSet<K, Seeded>;

/// Hashes with a seed that differs in every process, so that nobody can prepare ids that collide.
#[derive(Clone, Debug)]
pub(crate) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Self(*SEED.get_or_init(|| RandomState::new().hash_one(0_u8)))
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding(self.0)
    }
}

/// Multiplies each word to twice its width and folds the halves.
#[derive(Debug)]
pub(crate) struct Folding(u64);

impl Hasher for Folding {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let last = rest.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte));
            self.write_u64(last);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the halves of the product are what is wanted")]
    fn write_u64(&mut self, word: u64) {
        // An odd constant with no pattern in its bits: the golden ratio's.
        let product = u128::from(self.0 ^ word) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word.cast_unsigned() as u64);
    }
}
