//! Constants of the serialized form, and the few helpers that both reading and writing need.
//!
//! Source: the section "Deletion Vector Format" of Delta's `PROTOCOL.md`, the Roaring format specification it
//! refers to, and `RoaringBitmapArray.scala` of Delta 4.4.0 for the older native form.

/// Magic number of the portable form, the only one that is ever written.
pub const PORTABLE_MAGIC: u32 = 1_681_511_377;
/// Magic number of the native form, which Spark still reads.
pub const NATIVE_MAGIC: u32 = 1_681_511_376;

/// Cookie of a 32-bit bitmap without run containers; the container count follows in its own word.
pub(crate) const COOKIE_NO_RUNS: u32 = 12_346;
/// Cookie of a 32-bit bitmap with run containers, in the low half; the high half is the container count less one.
pub(crate) const COOKIE_RUNS: u32 = 12_347;
/// With [`COOKIE_RUNS`], bitmaps of fewer containers than this carry no offset header.
pub(crate) const NO_OFFSET_THRESHOLD: usize = 4;
/// The largest cardinality that is stored as an array.
pub(crate) const ARRAY_MAX: u32 = 4096;
/// Bytes of a bitmap container.
pub(crate) const BITSET_BYTES: usize = 8192;
/// Values that a container can hold.
pub(crate) const CONTAINER_VALUES: u32 = 65_536;
/// The largest number of runs whose encoding is smaller than a bitmap container.
pub(crate) const USEFUL_RUNS_MAX: u32 = 2047;
/// The key of a bucket must be below this.
pub(crate) const BUCKET_KEY_LIMIT: u32 = 1 << 31;
/// Bytes of the portable preamble: magic and bucket count.
pub(crate) const PORTABLE_PREAMBLE: usize = 12;
/// The least number of bytes of a bucket: its key or size, a cookie and one more word.
pub(crate) const BUCKET_MIN_BYTES: usize = 12;

/// Bits of one container, least significant bit of byte 0 first.
pub(crate) type Bits = [u8; BITSET_BYTES];

/// Bytes that `runs` runs take as a run container, their count included.
#[inline]
pub(crate) const fn run_bytes(runs: u32) -> usize {
    2 + 4 * runs as usize
}

/// Bytes that `card` values take without runs.
#[inline]
pub(crate) const fn plain_bytes(card: u32) -> usize {
    if card <= ARRAY_MAX { 2 * card as usize } else { BITSET_BYTES }
}

/// The little endian word at `at`, which the caller has checked to lie inside `data`; zero otherwise.
#[inline]
pub(crate) fn u32_at(data: &[u8], at: usize) -> u32 {
    match data.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        Some(bytes) => u32::from_le_bytes(*bytes),
        None => 0,
    }
}

/// As [`u32_at`], for 16 bits.
#[inline]
pub(crate) fn u16_at(data: &[u8], at: usize) -> u16 {
    match data.get(at..).and_then(|rest| rest.first_chunk::<2>()) {
        Some(bytes) => u16::from_le_bytes(*bytes),
        None => 0,
    }
}

/// As [`u32_at`], for 64 bits.
#[inline]
pub(crate) fn u64_at(data: &[u8], at: usize) -> u64 {
    match data.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}
