//! What the tests share: an encoder that writes what it is told, well-formed or not, and a set model.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "tests"
)]

use std::collections::BTreeSet;

use deletion_vectors::{Bitmap, FileInput, Merger, Verdict, max_merged_len, rows};

pub type Rows = BTreeSet<u64>;

/// A pseudo-random generator, so that failures can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Array,
    Bitset,
    Runs,
    /// Runs split in two wherever that is possible, so that they touch.
    TouchingRuns,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Portable,
    /// With an empty bucket for every absent high key below 16, as Delta's code writes.
    PortableWithEmptyBuckets,
    Native,
}

pub fn runs_of(values: &[u16]) -> Vec<(u16, u16)> {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for &value in values {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == value => *last = value,
            _ => runs.push((value, value)),
        }
    }
    runs
}

/// The kinds in which Roaring can store these values.
pub fn possible(kind: Kind, card: usize) -> bool {
    match kind {
        Kind::Array => card <= 4096,
        Kind::Bitset => card > 4096,
        Kind::Runs | Kind::TouchingRuns => true,
    }
}

pub fn container_payload(values: &[u16], kind: Kind) -> Vec<u8> {
    let mut out = Vec::new();
    match kind {
        Kind::Array => values.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
        Kind::Bitset => {
            out.resize(8192, 0);
            for v in values {
                out[usize::from(*v) / 8] |= 1 << (v % 8);
            }
        }
        Kind::Runs | Kind::TouchingRuns => {
            let mut runs = runs_of(values);
            if kind == Kind::TouchingRuns {
                let split = |(a, b): (u16, u16)| {
                    let middle = a + (b - a) / 2;
                    if a < b { vec![(a, middle), (middle + 1, b)] } else { vec![(a, b)] }
                };
                runs = runs.into_iter().flat_map(split).collect();
                if runs.len() > 0xffff {
                    runs = runs_of(values);
                }
            }
            out.extend_from_slice(&(runs.len() as u16).to_le_bytes());
            for (a, b) in runs {
                out.extend_from_slice(&a.to_le_bytes());
                out.extend_from_slice(&(b - a).to_le_bytes());
            }
        }
    }
    out
}

/// A 32-bit bitmap in which every container has the kind that `kind_of` wishes, where it can.
pub fn bitmap32(values: &[u32], mut kind_of: impl FnMut(u16) -> Kind) -> Vec<u8> {
    let containers: Vec<(u16, Vec<u16>)> = values
        .chunk_by(|a, b| a >> 16 == b >> 16)
        .map(|chunk| ((chunk[0] >> 16) as u16, chunk.iter().map(|v| *v as u16).collect()))
        .collect();
    let kinds: Vec<Kind> = containers
        .iter()
        .map(|(key, values)| {
            let kind = kind_of(*key);
            if possible(kind, values.len()) {
                kind
            } else if values.len() <= 4096 {
                Kind::Array
            } else {
                Kind::Bitset
            }
        })
        .collect();
    let is_runs = |kind: Kind| matches!(kind, Kind::Runs | Kind::TouchingRuns);
    let n = containers.len();
    let any_runs = kinds.iter().any(|kind| is_runs(*kind));
    let mut out = Vec::new();
    if any_runs {
        out.extend_from_slice(&(12347u32 | (n as u32 - 1) << 16).to_le_bytes());
        let mut flags = vec![0u8; n.div_ceil(8)];
        for (i, kind) in kinds.iter().enumerate() {
            flags[i / 8] |= u8::from(is_runs(*kind)) << (i % 8);
        }
        out.extend_from_slice(&flags);
    } else {
        out.extend_from_slice(&12346u32.to_le_bytes());
        out.extend_from_slice(&(n as u32).to_le_bytes());
    }
    for (key, values) in &containers {
        out.extend_from_slice(&key.to_le_bytes());
        out.extend_from_slice(&((values.len() - 1) as u16).to_le_bytes());
    }
    let payloads: Vec<Vec<u8>> = containers
        .iter()
        .zip(&kinds)
        .map(|((_, values), kind)| container_payload(values, *kind))
        .collect();
    if !any_runs || n >= 4 {
        let mut at = out.len() + 4 * n;
        for payload in &payloads {
            out.extend_from_slice(&(at as u32).to_le_bytes());
            at += payload.len();
        }
    }
    payloads.iter().for_each(|payload| out.extend_from_slice(payload));
    out
}

pub fn serialize(rows: &Rows, form: Form, mut kind_of: impl FnMut(u64) -> Kind) -> Vec<u8> {
    let all: Vec<u64> = rows.iter().copied().collect();
    let mut buckets: Vec<(u32, Vec<u32>)> = all
        .chunk_by(|a, b| a >> 32 == b >> 32)
        .map(|chunk| ((chunk[0] >> 32) as u32, chunk.iter().map(|v| *v as u32).collect()))
        .collect();
    if form != Form::Portable {
        let last = buckets.last().map_or(0, |(high, _)| *high);
        assert!(last < 1 << 16, "a dense form of this would be too large");
        for high in 0..last {
            if !buckets.iter().any(|(key, _)| *key == high) {
                buckets.push((high, Vec::new()));
            }
        }
        buckets.sort();
    }
    let mut out = Vec::new();
    if form == Form::Native {
        out.extend_from_slice(&1_681_511_376u32.to_le_bytes());
        out.extend_from_slice(&(buckets.len() as u32).to_le_bytes());
    } else {
        out.extend_from_slice(&1_681_511_377u32.to_le_bytes());
        out.extend_from_slice(&(buckets.len() as u64).to_le_bytes());
    }
    for (high, values) in buckets {
        let bytes = bitmap32(&values, |key| kind_of(u64::from(high) << 16 | u64::from(key)));
        let word = if form == Form::Native { bytes.len() as u32 } else { high };
        out.extend_from_slice(&word.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    out
}

/// What the merge of these sets must say, the length of a merged bitmap left open.
pub fn model(base: &Rows, cur: Option<&Rows>, win: &Rows, num_records: Option<u64>) -> Verdict {
    let Some(cur) = cur else {
        return match base.difference(win).next() {
            Some(row) => Verdict::NotAnExtension { first_row: *row },
            None => Verdict::UntouchedOk,
        };
    };
    let shared: Rows = cur.intersection(win).copied().collect();
    if let Some(&first_row) = shared.symmetric_difference(base).next() {
        return if !base.contains(&first_row) {
            Verdict::Overlap { first_row }
        } else if !cur.contains(&first_row) {
            Verdict::BaseNotInCurrent { first_row }
        } else {
            Verdict::NotAnExtension { first_row }
        };
    }
    if cur == base {
        return Verdict::NothingNew;
    }
    let cardinality = cur.union(win).count() as u64;
    if num_records == Some(cardinality) {
        Verdict::CoversFile { cardinality }
    } else {
        Verdict::Merged { len: 0, cardinality }
    }
}

pub fn bitmap<'a>(bytes: &'a [u8], rows: &Rows) -> Bitmap<'a> {
    Bitmap { bytes, cardinality: rows.len() as u64 }
}

/// Bytes of the smallest portable encoding in which each container takes as few as it can, as in what Delta's code writes.
pub fn smallest_len(rows: &Rows) -> usize {
    let all: Vec<u64> = rows.iter().copied().collect();
    let mut total = 12;
    for bucket in all.chunk_by(|a, b| a >> 32 == b >> 32) {
        let sizes: Vec<(usize, usize)> = bucket
            .chunk_by(|a, b| a >> 16 == b >> 16)
            .map(|chunk| {
                let values: Vec<u16> = chunk.iter().map(|v| *v as u16).collect();
                let plain = if values.len() <= 4096 { 2 * values.len() } else { 8192 };
                (plain, 2 + 4 * runs_of(&values).len())
            })
            .collect();
        let n = sizes.len();
        let plain_total = 8 + 8 * n + sizes.iter().map(|(plain, _)| plain).sum::<usize>();
        let header = 4 + n.div_ceil(8) + 4 * n + if n >= 4 { 4 * n } else { 0 };
        // Delta keeps a run container that is up to two bytes larger than the array, but turns nothing else into one.
        let runs_total = sizes.iter().any(|(plain, runs)| *runs <= plain + 2).then(|| {
            let best: usize = sizes.iter().map(|(plain, runs)| plain.min(runs)).sum();
            let forced = usize::from(!sizes.iter().any(|(plain, runs)| runs <= plain)) * 2;
            header + best + forced
        });
        total += 4 + match runs_total {
            // Also where that costs more of the header than it saves: a bit for each of many containers.
            Some(runs_total) if sizes.iter().any(|(plain, runs)| runs < plain) => runs_total,
            Some(runs_total) => runs_total.min(plain_total),
            None => plain_total,
        };
    }
    total
}

/// Merges with every instruction set of this machine and into memory of every useful size, compares all answers with
/// the model, and gives the merged bytes if there are any.
pub fn check(
    base: Option<(&[u8], &Rows)>,
    cur: Option<(&[u8], &Rows)>,
    win: Option<(&[u8], &Rows)>,
    num_records: Option<u64>,
) -> Option<Vec<u8>> {
    let empty = Rows::new();
    let rows_of = |one: Option<(&[u8], &Rows)>| one.map_or(empty.clone(), |(_, rows)| rows.clone());
    let (base_rows, cur_rows, win_rows) = (rows_of(base), rows_of(cur), rows_of(win));
    let expected = model(&base_rows, cur.map(|_| &cur_rows), &win_rows, num_records);
    let file = FileInput {
        base: base.map(|(bytes, rows)| bitmap(bytes, rows)),
        current: cur.map(|(bytes, rows)| bitmap(bytes, rows)),
        winner: win.map(|(bytes, rows)| bitmap(bytes, rows)),
        num_records,
    };
    let len_of = |one: Option<(&[u8], &Rows)>| one.map_or(0, |(bytes, _)| bytes.len());
    let bound = max_merged_len(len_of(cur), len_of(win));
    let mut result: Option<Vec<u8>> = None;
    for (level, mut merger) in Merger::all_levels() {
        let mut out = vec![0xa5; bound];
        let verdict = merger.merge(&file, &mut out).unwrap_or_else(|e| panic!("{level}: {e}"));
        match (verdict, expected) {
            (Verdict::Merged { len, cardinality }, Verdict::Merged { cardinality: right, .. }) => {
                assert_eq!(cardinality, right, "{level}");
                out.truncate(len);
                let union: Vec<u64> = cur_rows.union(&win_rows).copied().collect();
                let found = rows(Bitmap { bytes: &out, cardinality }, num_records);
                assert_eq!(found.as_ref(), Ok(&union), "{level}");
                assert!(len <= smallest_len(&union.into_iter().collect()), "{level}: {len} bytes");
                // The same bytes come out of just enough memory and a little more: room to write whole vectors, and for
                // the header that both sides would have if they had no container key in common.
                let heads = |rows: &Rows| rows.iter().map(|row| row >> 16).collect::<Rows>().len();
                let enough = 64 + 8 * (heads(&cur_rows) + heads(&win_rows));
                for more in [0, 1, 7, 63, 64, 65, enough] {
                    let mut tight = vec![0x5a; len + more];
                    match merger.merge(&file, &mut tight) {
                        Ok(Verdict::Merged { len: again, .. }) => {
                            assert_eq!(&tight[..again], &out[..], "{level}");
                        }
                        Ok(other) => panic!("{level}: {other:?}"),
                        Err(e) => assert!(more < enough, "{level}: {e} with {} bytes", tight.len()),
                    }
                }
                if let Some(other) = &result {
                    assert_eq!(other, &out, "{level} writes other bytes");
                }
                result = Some(out);
            }
            (verdict, expected) => assert_eq!(verdict, expected, "{level}"),
        }
        let common = cur_rows.difference(&base_rows).filter(|row| win_rows.contains(row)).count();
        assert_eq!(merger.overlap_count(&file), Ok(common as u64), "{level}");
    }
    result
}
