//! Whole bitmaps to and from row indexes: for oracles, tests and small inputs, not for merging.

use crate::cursor::{Container, Cursor, END, Kind};
use crate::error::BitmapError;
use crate::format::{BITSET_BYTES, u16_at};
use crate::kernels::{Portable, portable};
use crate::merge::Bitmap;
use crate::writer::{NoSpace, Writer};

/// Checks a serialized bitmap to its last byte without keeping anything of it.
///
/// # Errors
/// The first defect found; rows not below `num_records` are one.
pub fn validate(bitmap: Bitmap<'_>, num_records: Option<u64>) -> Result<(), BitmapError> {
    for_each_interval(bitmap, num_records, |_, _| ())
}

/// The rows of a serialized bitmap, ascending. Allocates 8 bytes a row, however few bytes encode it.
///
/// # Errors
/// The first defect found.
///
/// # Example
/// ```
/// use deletion_vectors::{Bitmap, encode, rows};
///
/// let bytes = encode(&[3, 5, 1 << 40])?;
/// assert_eq!(rows(Bitmap { bytes: &bytes, cardinality: 3 }, None)?, [3, 5, 1 << 40]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rows(bitmap: Bitmap<'_>, num_records: Option<u64>) -> Result<Vec<u64>, BitmapError> {
    let mut rows = Vec::new();
    for_each_interval(bitmap, num_records, |first, last| rows.extend(first..=last))?;
    Ok(rows)
}

/// Calls `sink(first, last)` for intervals of rows, ascending, that may touch one another.
///
/// # Errors
/// The first defect found; intervals in front of it have been handed out by then.
pub fn for_each_interval(
    bitmap: Bitmap<'_>,
    num_records: Option<u64>,
    mut sink: impl FnMut(u64, u64),
) -> Result<(), BitmapError> {
    let limit = num_records.unwrap_or(u64::MAX);
    let mut cursor = Cursor::open(bitmap.bytes, bitmap.cardinality, limit)?;
    while cursor.key != END {
        let start = (cursor.key >> 32 << 32) | (cursor.key & 0xffff) << 16;
        let container = cursor.read(Portable)?;
        for_each_run_of(&container, |first, last| {
            sink(start + u64::from(first), start + u64::from(last));
        });
    }
    Ok(())
}

fn for_each_run_of(container: &Container<'_>, mut sink: impl FnMut(u16, u16)) {
    match container.kind {
        Kind::Array => {
            for value in container.bytes.as_chunks::<2>().0 {
                let value = u16::from_le_bytes(*value);
                sink(value, value);
            }
        }
        Kind::Runs => {
            for run in container.bytes.as_chunks::<4>().0 {
                let first = u16_at(run, 0);
                sink(first, first.saturating_add(u16_at(run, 2)));
            }
        }
        Kind::Bitset => {
            if let Some(bits) = container.bits() {
                portable::for_each_run(bits, sink);
            }
        }
    }
}

/// Why rows could not be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("row {row} is not above the one before it, or not below 2^63")]
pub struct EncodeError {
    /// The row.
    pub row: u64,
}

/// The smallest portable form of strictly ascending rows below 2^63.
///
/// # Errors
/// The first row that breaks that rule.
pub fn encode(rows: &[u64]) -> Result<Vec<u8>, EncodeError> {
    let mut least = 0;
    for row in rows {
        if *row < least || *row >> 63 != 0 {
            return Err(EncodeError { row: *row });
        }
        least = *row + 1;
    }
    let mut out = vec![0; 1 << 12];
    loop {
        match write_rows(rows, &mut out) {
            Ok(len) => {
                out.truncate(len);
                return Ok(out);
            }
            Err(NoSpace { needed_at_least }) => {
                let len = needed_at_least.max(2 * out.len());
                out.resize(len, 0);
            }
        }
    }
}

fn write_rows(rows: &[u64], out: &mut [u8]) -> Result<usize, NoSpace> {
    let mut writer = Writer::new(out)?;
    for bucket in rows.chunk_by(|a, b| a >> 32 == b >> 32) {
        let containers = || bucket.chunk_by(|a, b| a >> 16 == b >> 16);
        let high = bucket.first().map_or(0, |row| row >> 32);
        writer.begin_bucket(u32::try_from(high).unwrap_or(0), containers().count(), false)?;
        for container in containers() {
            write_container(container, &mut writer)?;
        }
        writer.end_bucket();
    }
    Ok(writer.finish())
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "keeps the low 16 bits of keys and rows on purpose"
)]
fn write_container(rows: &[u64], writer: &mut Writer<'_>) -> Result<(), NoSpace> {
    let mut bits = [0u8; BITSET_BYTES];
    let mut runs = 0;
    let mut last: Option<u64> = None;
    for row in rows {
        portable::set_values(&(*row as u16).to_le_bytes(), &mut bits);
        runs += u32::from(last.is_none_or(|last| last + 1 != *row));
        last = Some(*row);
    }
    let key = rows.first().map_or(0, |row| (row >> 16) as u16);
    writer.copy_bits(key, &bits, u32::try_from(rows.len()).unwrap_or(0), runs)
}
