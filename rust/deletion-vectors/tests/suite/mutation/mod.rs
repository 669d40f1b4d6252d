//! Seeds of the fuzz targets, and mutations of them that are the same in every run.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use std::fs;
use std::path::Path;

/// The seeds of a target, in the order of their names.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut files: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds in {}", folder.display());
    files.into_iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Numbers at which lengths and counts turn over.
const EDGES: [u64; 12] =
    [0, 1, 2, 0x7f, 0xff, 0xfff, 0x1000, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX >> 1, u64::MAX];

/// Mutations without end: a few changes to a seed each.
#[derive(Debug)]
pub struct Mutations<'a> {
    seeds: &'a [Vec<u8>],
    state: u64,
}

impl<'a> Mutations<'a> {
    pub fn new(seeds: &'a [Vec<u8>]) -> Self {
        Mutations { seeds, state: 0x9e37_79b9_7f4a_7c15 }
    }

    fn below(&mut self, limit: usize) -> usize {
        // xorshift64*
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        ((self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize) % limit.max(1)
    }

    /// A place in bytes of this length, more often in front, where the headers are.
    fn place(&mut self, len: usize) -> usize {
        if self.below(2) == 0 { self.below(len) } else { self.below(len.min(48)) }
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.place(bytes.len());
        match self.below(8) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
            2 => bytes.truncate(at),
            3 => {
                let number = EDGES[self.below(EDGES.len())].to_le_bytes();
                let width = [2, 4, 8][self.below(3)];
                for (place, byte) in bytes.iter_mut().skip(at).zip(&number[..width]) {
                    *place = *byte;
                }
            }
            4 => {
                let extra = self.below(9);
                let byte = self.below(256) as u8;
                bytes.splice(at..at, std::iter::repeat_n(byte, extra));
            }
            5 => {
                let end = (at + self.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            6 => {
                let end = (at + self.below(64)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let other = self.seeds[self.below(self.seeds.len())].clone();
                let from = self.place(other.len()).min(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
}

impl Iterator for Mutations<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut bytes = self.seeds[self.below(self.seeds.len())].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes);
        }
        Some(bytes)
    }
}
