//! The shapes that are measured, and the peer they are measured against.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "shared by benches"
)]

use deletion_vectors::{Bitmap, FileInput, encode};
use roaring::RoaringTreemap;

/// The three bitmaps of one file, as bytes.
#[derive(Debug, Clone)]
pub struct Owned {
    pub base: Option<(Vec<u8>, u64)>,
    pub cur: (Vec<u8>, u64),
    pub win: (Vec<u8>, u64),
    pub num_records: u64,
}

impl Owned {
    fn new(base: &[u64], own: &[u64], won: &[u64], num_records: u64) -> Self {
        let bytes = |rows: &[u64]| (encode(rows).unwrap(), rows.len() as u64);
        Owned {
            base: (!base.is_empty()).then(|| bytes(base)),
            cur: bytes(&union(base, own)),
            win: bytes(&union(base, won)),
            num_records,
        }
    }

    /// The bytes of all three.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        let base = self.base.as_ref().map(|(bytes, _)| &bytes[..]);
        base.into_iter().chain([&self.cur.0[..], &self.win.0[..]])
    }

    pub fn input(&self) -> FileInput<'_> {
        FileInput {
            base: self
                .base
                .as_ref()
                .map(|(bytes, cardinality)| Bitmap { bytes, cardinality: *cardinality }),
            current: Some(Bitmap { bytes: &self.cur.0, cardinality: self.cur.1 }),
            winner: Some(Bitmap { bytes: &self.win.0, cardinality: self.win.1 }),
            num_records: Some(self.num_records),
        }
    }
}

fn union(a: &[u64], b: &[u64]) -> Vec<u64> {
    let mut all: Vec<u64> = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// One question asked of every resolution.
#[derive(Debug, Clone)]
pub struct Shape {
    pub name: &'static str,
    /// Goal of issue 5 relative to the JVM divided by what the port on `roaring` reached: the factor over the port
    /// that the goal amounts to.
    pub goal_over_port: f64,
    pub files: Vec<Owned>,
    pub conflict: bool,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// `counts` different random rows below `rows`, split into disjoint ascending sets.
    fn sets(&mut self, rows: u64, counts: [usize; 3]) -> [Vec<u64>; 3] {
        let total: usize = counts.iter().sum();
        let mut seen = std::collections::HashSet::with_capacity(total);
        let mut all = Vec::with_capacity(total);
        while all.len() < total {
            let row = self.next() % rows;
            if seen.insert(row) {
                all.push(row);
            }
        }
        let mut rest = all.into_iter();
        counts.map(|count| {
            let mut set: Vec<u64> = rest.by_ref().take(count).collect();
            set.sort_unstable();
            set
        })
    }
}

/// Runs of about `len` rows, dealt to base, own and won in turn, with gaps of about the same length.
fn runs(random: &mut Random, rows: u64, len: u64, with_base: bool) -> [Vec<u64>; 3] {
    let mut sets = [Vec::new(), Vec::new(), Vec::new()];
    let mut at = 0;
    loop {
        at += 1 + random.next() % len;
        let end = at + 1 + random.next() % (2 * len - 1);
        if end >= rows {
            return sets;
        }
        let whose = random.next() % 3;
        if whose > 0 || with_base {
            sets[whose as usize].extend(at..end);
        }
        at = end;
    }
}

/// All shapes; `with_base` for rows that were deleted before both sides.
pub fn shapes(with_base: bool) -> Vec<Shape> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut shapes = Vec::new();
    let b = |n: usize| if with_base { n } else { 0 };
    let mut one = |name, goal_over_port, [base, own, won]: [Vec<u64>; 3], rows: u64| {
        let files = vec![Owned::new(&base, &own, &won, rows)];
        shapes.push(Shape { name, goal_over_port, files, conflict: false });
    };
    one("100 deletes in 1M rows", 9.5, random.sets(1_000_000, [b(100), 100, 100]), 1_000_000);
    one("10,000 in 1M", 6.1, random.sets(1_000_000, [b(10_000), 10_000, 10_000]), 1_000_000);
    let dense = random.sets(10_000_000, [b(500_000), 500_000, 500_000]);
    one("5% of 10M, random", 9.5, dense.clone(), 10_000_000);
    one("long runs", 18.0, runs(&mut random, 10_000_000, 5_000, with_base), 10_000_000);
    one("short runs", 20.0, runs(&mut random, 10_000_000, 20, with_base), 10_000_000);
    let far = random.sets(2_000_000, [b(10_000), 10_000, 10_000]);
    let far = far.map(|set| set.into_iter().map(|row| row + (1 << 32) - 1_000_000).collect());
    one("across 2^32", 5.0, far, 1 << 33);
    let sets = random.sets(5_000_000_000, [b(500_000), 500_000, 500_000]);
    one("5e9 rows, 500k deletes", 17.4, sets, 5_000_000_000);
    let sets = random.sets(200_000_000, [b(2_000_000), 2_000_000, 2_000_000]);
    one("200M rows, 1%", 5.2, sets, 200_000_000);
    let sets = random.sets(10_000_000, [2_000_000, 100, 100]);
    one("base 20%, 100 new", 14.0, sets, 10_000_000);
    let files = (0..1_000).map(|_| {
        let [base, own, won] = random.sets(1_000_000, [b(50), 50, 50]);
        Owned::new(&base, &own, &won, 1_000_000)
    });
    let files = files.collect();
    shapes.push(Shape {
        name: "1,000 files with 50 each",
        goal_over_port: 13.5,
        files,
        conflict: false,
    });
    for (name, goal_over_port, last) in [
        ("conflict in the last container", 9.6, true),
        ("conflict in the first container", 580.0, false),
    ] {
        let [base, own, mut won] = dense.clone();
        let shared = if last { own.last().copied() } else { own.first().copied() };
        won.extend(shared);
        won.sort_unstable();
        let files = vec![Owned::new(&base, &own, &won, 10_000_000)];
        shapes.push(Shape { name, goal_over_port, files, conflict: true });
    }
    shapes
}

/// What Delta's JVM code does, on the `roaring` crate: read three, subtract, intersect, unite, optimise, write.
pub fn peer(file: &Owned, out: &mut Vec<u8>) -> bool {
    let read = |bytes: &[u8]| RoaringTreemap::deserialize_from(&bytes[4..]).unwrap();
    let base = file.base.as_ref().map(|(bytes, _)| read(bytes)).unwrap_or_default();
    let (cur, mut win) = (read(&file.cur.0), read(&file.win.0));
    let own = cur - base;
    if !(&own & &win).is_empty() {
        return false;
    }
    win |= own;
    win.optimize();
    out.clear();
    out.extend_from_slice(&1_681_511_377u32.to_le_bytes());
    win.serialize_into(&mut *out).unwrap();
    true
}
