//! The question a commit asks about one file, answered on the serialized bitmaps.
//!
//! Given the rows deleted when the losing transaction read the file (`base`), the rows deleted by what it wants to
//! commit (`current`) and the rows deleted now (`winner`), two statements can be put in sequence exactly when
//!
//! - `base ⊆ current` and `base ⊆ winner`: both sides only took rows away, and
//! - `(current \ base) ∩ winner = ∅`: no row was taken by both.
//!
//! Given the first, the two are one equation, `current ∩ winner = base`, and the result is `current ∪ winner`, of
//! cardinality `|current| + |winner| - |base|`. That is what is checked container by container, three cursors moving in
//! step, with the result written behind them.
//!
//! **Soundness rule**: every positive verdict ([`Verdict::is_positive`]) is given only after every byte of all three
//! inputs has been checked. A conflict is reported at once, without looking at the rest: it makes the commit fail,
//! which is always safe.

use crate::cursor::{Container, Cursor, END, Kind, NO_KEY, SPARSE_BYTES, Stretch, first_row_of};
use crate::error::BitmapError;
use crate::format::{
    ARRAY_MAX, BITSET_BYTES, Bits, CONTAINER_VALUES, plain_bytes, run_bytes, u16_at, u32_at,
};
use crate::kernels::{FlatRuns, Kernels, Level, MAP_VALUES, Map, Portable, SLACK, Work, portable};
use crate::writer::{
    NoSpace, SMALL_HEADER, Slots, Writer, Written, count_word, head_word, offset_word,
    smallest_kind,
};

/// A serialized bitmap and the cardinality its descriptor declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bitmap<'a> {
    /// Magic number, buckets and nothing else: the data of a deletion vector without size and checksum.
    pub bytes: &'a [u8],
    /// The number of rows it must turn out to hold.
    pub cardinality: u64,
}

/// What is known about one file. An absent bitmap is the empty set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileInput<'a> {
    /// Rows already deleted when the losing transaction read the file.
    pub base: Option<Bitmap<'a>>,
    /// Rows deleted in the version of the file that the losing transaction wants to commit, those of `base` included.
    /// Absent when it does not touch the file.
    pub current: Option<Bitmap<'a>>,
    /// Rows deleted in the version of the file that the last winner left.
    pub winner: Option<Bitmap<'a>>,
    /// Number of records in the file, deleted ones included; absent when it is not known.
    pub num_records: Option<u64>,
}

/// Which of the three bitmaps of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Role {
    /// [`FileInput::base`].
    Base = 1,
    /// [`FileInput::current`].
    Current = 2,
    /// [`FileInput::winner`].
    Winner = 3,
}

/// A bitmap that was refused, and which one it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{role:?} bitmap: {error}")]
pub struct Malformed {
    /// The bitmap.
    pub role: Role,
    /// What is wrong with it.
    #[source]
    pub error: BitmapError,
}

/// The answer for one file.
///
/// Of several conflicts the one at the smallest row index is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The union has been written.
    Merged {
        /// Bytes written.
        len: usize,
        /// Rows deleted in the union; below the number of records where that is known.
        cardinality: u64,
    },
    /// The losing transaction does not touch the file, and the winners only took rows away.
    UntouchedOk,
    /// As [`Verdict::Merged`], but no row of the file is left. Nothing to write.
    CoversFile {
        /// Rows deleted in the union: the number of records.
        cardinality: u64,
    },
    /// A row was deleted by both sides.
    Overlap {
        /// The first such row.
        first_row: u64,
    },
    /// A row deleted in `base` is not deleted in `winner`.
    NotAnExtension {
        /// The first such row.
        first_row: u64,
    },
    /// A row deleted in `base` is not deleted in `current`.
    BaseNotInCurrent {
        /// The first such row.
        first_row: u64,
    },
    /// `current` is there but deletes nothing that `base` does not.
    NothingNew,
    /// A bitmap is not what the format allows, or not what was declared about it.
    Malformed(Malformed),
}

impl Verdict {
    /// Whether the commit may go on as far as this file is concerned.
    pub const fn is_positive(&self) -> bool {
        matches!(self, Verdict::Merged { .. } | Verdict::UntouchedOk | Verdict::CoversFile { .. })
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The memory for the result is too small. [`max_merged_len`] bytes are always enough.
    #[error("no space for the merged bitmap: at least {needed_at_least} bytes are needed")]
    NoSpace {
        /// More than was given; not necessarily enough.
        needed_at_least: usize,
    },
    /// A result failed its own check. This is a defect of this library; nothing may be concluded from it.
    #[error("internal check failed: {0}")]
    Internal(&'static str),
}

/// Bytes that always suffice for the result of merging bitmaps of these lengths.
///
/// Each container of the result takes at most twice the payload of the containers it comes from: it is the smallest
/// of the three kinds, so for two arrays at most the sum of both, with a bitset at most the bitset, for two run
/// containers at most the sum, and for runs and an array at most the runs and four bytes instead of two for each value.
/// An entry in the header takes 8 bytes and one bit, against at least 4 bytes of header and 2 of payload that the container
/// had before, and there are at most as many as both sides have; a bucket takes 13 bytes besides, against at least 8; magic and count take 12, against at least 8.
/// Twice the input covers each of these. The constant leaves the inner loops room to write whole vectors.
pub const fn max_merged_len(current_len: usize, winner_len: usize) -> usize {
    current_len.saturating_add(winner_len).saturating_mul(2).saturating_add(SLACK)
}

/// Merges files, one after the other, with scratch memory kept in between.
#[derive(Debug, Default)]
pub struct Merger {
    level: Level,
    scratch: Scratch,
}

impl Merger {
    /// A merger that has allocated nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A merger that uses one of the instruction sets named by [`Self::all_levels`], if this machine has it. For tests
    /// and benches.
    #[doc(hidden)]
    pub fn with_level(name: &str) -> Option<Self> {
        let (_, level) = Level::all().find(|(known, _)| *known == name)?;
        Some(Merger { level, scratch: Scratch::default() })
    }

    /// One merger for each instruction set that this machine has. For tests and benches.
    #[doc(hidden)]
    pub fn all_levels() -> Vec<(&'static str, Self)> {
        let of = |(name, level)| (name, Merger { level, scratch: Scratch::default() });
        Level::all().map(of).collect()
    }

    /// Answers for one file, writing the union to the start of `out` if there is one.
    ///
    /// `out`: [`max_merged_len`] bytes are always enough; what it holds behind the result, or without one, is
    /// unspecified. O(bytes of the three inputs); allocates 176 KiB at most, once per merger.
    ///
    /// # Errors
    /// [`MergeError::NoSpace`] when `out` is too small. A malformed input is not an error but a verdict.
    pub fn merge(&mut self, file: &FileInput<'_>, out: &mut [u8]) -> Result<Verdict, MergeError> {
        let scratch = &mut self.scratch;
        let outcome = match self.level {
            Level::Portable => Portable.run(Merge { scratch, file, out }),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(kernels) => kernels.run(Merge { scratch, file, out }),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(kernels) => kernels.run(Merge { scratch, file, out }),
        };
        match outcome {
            Ok(verdict) | Err(Stop::Verdict(verdict)) => Ok(verdict),
            Err(Stop::NoSpace(NoSpace { needed_at_least })) => {
                Err(MergeError::NoSpace { needed_at_least })
            }
            Err(Stop::Internal(what)) => Err(MergeError::Internal(what)),
        }
    }

    /// Number of rows deleted by both sides, `|(current \ base) ∩ winner|`, for reporting an overlap.
    ///
    /// # Errors
    /// The first defect found in any of the three bitmaps.
    pub fn overlap_count(&mut self, file: &FileInput<'_>) -> Result<u64, Malformed> {
        let scratch = &mut self.scratch;
        count_with(Portable, scratch, file)
    }
}

/// Why the walk ends early.
enum Stop {
    Verdict(Verdict),
    NoSpace(NoSpace),
    Internal(&'static str),
}

impl From<NoSpace> for Stop {
    fn from(no_space: NoSpace) -> Self {
        Stop::NoSpace(no_space)
    }
}

impl From<Malformed> for Stop {
    fn from(malformed: Malformed) -> Self {
        Stop::Verdict(Verdict::Malformed(malformed))
    }
}

/// Memory for intermediate results, allocated when first needed: 48 KiB for bits, up to 128 KiB for values and runs.
#[derive(Debug, Default)]
struct Scratch {
    bits: Option<Box<BitBuffers>>,
    lists: Option<Box<[u8]>>,
}

/// One bitset for each input, and one for the result.
#[derive(Debug)]
struct BitBuffers {
    base: Bits,
    cur: Bits,
    win: Bits,
    out: Bits,
    /// Always zero in between.
    map: Map,
}

impl BitBuffers {
    #[cold]
    #[inline(never)]
    fn allocate() -> Box<BitBuffers> {
        Box::new(BitBuffers {
            base: [0; BITSET_BYTES],
            cur: [0; BITSET_BYTES],
            win: [0; BITSET_BYTES],
            out: [0; BITSET_BYTES],
            map: [0; MAP_VALUES],
        })
    }
}

/// Memory for lists of values or runs. Each part holds those of two containers and [`SLACK`] bytes more.
struct Lists<'m> {
    /// Both inputs in order.
    merged: &'m mut [u8],
    union: &'m mut [u8],
    ends: &'m mut [u8],
    /// Arrays turned into runs.
    base: &'m mut [u8],
    cur: &'m mut [u8],
    win: &'m mut [u8],
}

/// Bytes of two containers together up to which lists are kept on the stack.
const FEW_BYTES: usize = 256;

/// Bytes of memory for `parts` lists, each for containers of `bytes` bytes together.
const fn memory_for(parts: usize, bytes: usize) -> usize {
    parts * (bytes + SLACK)
}

impl<'m> Lists<'m> {
    const PARTS: usize = 6;

    fn new(memory: &'m mut [u8]) -> Self {
        let part = memory.len() / Self::PARTS;
        let mut parts = memory.chunks_exact_mut(part);
        let mut next = || parts.next().unwrap_or(&mut []);
        Lists {
            merged: next(),
            union: next(),
            ends: next(),
            base: next(),
            cur: next(),
            win: next(),
        }
    }
}

impl Scratch {
    #[inline]
    fn bits(&mut self) -> &mut BitBuffers {
        self.bits.get_or_insert_with(BitBuffers::allocate)
    }

    /// Memory for `parts` lists, each for containers of `bytes` bytes together.
    #[inline]
    fn lists(&mut self, parts: usize, bytes: usize) -> &mut [u8] {
        self.memory(memory_for(parts, bytes.next_power_of_two()))
    }

    /// At least `needed` bytes. They grow with what is asked for: filling them with zeros is no small part of a small
    /// merge.
    #[inline]
    fn memory(&mut self, needed: usize) -> &mut [u8] {
        let memory = self.lists.get_or_insert_default();
        if memory.len() < needed {
            *memory = vec![0; needed].into_boxed_slice();
        }
        memory
    }
}

/// The three cursors of a file.
struct Cursors<'a> {
    base: Cursor<'a>,
    cur: Cursor<'a>,
    win: Cursor<'a>,
}

fn in_role(role: Role) -> impl Fn(BitmapError) -> Malformed {
    move |error| Malformed { role, error }
}

impl<'a> Cursors<'a> {
    const fn absent() -> Self {
        Cursors { base: Cursor::absent(), cur: Cursor::absent(), win: Cursor::absent() }
    }

    /// Turns cursors over nothing into cursors over the bitmaps of `file`, without moving them.
    #[inline(always)]
    fn open(&mut self, file: &FileInput<'a>) -> Result<(), Malformed> {
        let num_records = file.num_records.unwrap_or(u64::MAX);
        for (cursor, bitmap, role) in [
            (&mut self.base, &file.base, Role::Base),
            (&mut self.cur, &file.current, Role::Current),
            (&mut self.win, &file.winner, Role::Winner),
        ] {
            if let Some(Bitmap { bytes, cardinality }) = bitmap {
                cursor.begin(bytes, *cardinality, num_records).map_err(in_role(role))?;
            }
        }
        Ok(())
    }

    /// The smallest key that is still to be read.
    #[inline]
    fn key(&self) -> u64 {
        self.base.key.min(self.cur.key).min(self.win.key)
    }

    /// Reads the containers with this key; that of a cursor that does not stand on it is empty.
    #[inline(always)]
    fn read<K: Kernels>(&mut self, kernels: K, key: u64) -> Result<Three<'a>, Malformed> {
        let mut three =
            Three { base: Container::EMPTY, cur: Container::EMPTY, win: Container::EMPTY };
        if self.base.key == key {
            three.base = self.base.read(kernels).map_err(in_role(Role::Base))?;
        }
        if self.cur.key == key {
            three.cur = self.cur.read(kernels).map_err(in_role(Role::Current))?;
        }
        if self.win.key == key {
            three.win = self.win.read(kernels).map_err(in_role(Role::Winner))?;
        }
        Ok(three)
    }
}

/// The containers of base, current and winner with the same key.
#[derive(Debug, Clone, Copy)]
struct Three<'a> {
    base: Container<'a>,
    cur: Container<'a>,
    win: Container<'a>,
}

/// The low half of a container key.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "keeps 16 bits on purpose")]
const fn low_key(key: u64) -> u16 {
    (key & 0xffff) as u16
}

/// The arguments of [`Merger::merge`].
struct Merge<'a> {
    scratch: &'a mut Scratch,
    file: &'a FileInput<'a>,
    out: &'a mut [u8],
}

impl Work for Merge<'_> {
    type Done = Result<Verdict, Stop>;

    #[inline(always)]
    fn on<K: Kernels>(self, kernels: K) -> Self::Done {
        merge_with(kernels, self.scratch, self.file, self.out)
    }
}

#[inline(always)]
fn merge_with<K: Kernels>(
    kernels: K,
    scratch: &mut Scratch,
    file: &FileInput<'_>,
    out: &mut [u8],
) -> Result<Verdict, Stop> {
    let mut cursors = Cursors::absent();
    cursors.open(file)?;
    if file.current.is_none() {
        return check_untouched(kernels, scratch, &mut cursors);
    }
    let mut writer = Writer::new(out)?;
    let mut bucket = END;
    let mut sparse = false;
    // From which key on containers are united many at a time.
    let mut flat_from = 0;
    loop {
        let key = cursors.key();
        if key == END {
            break;
        }
        if key >> 32 != bucket {
            if bucket != END {
                writer.end_bucket();
            }
            bucket = key >> 32;
            begin_bucket(&mut writer, &cursors, bucket)?;
            sparse = bucket_is_sparse::<K>(&cursors, bucket);
            flat_from = 0;
        }
        if sparse {
            let (writer, cursors) = (&mut writer, &mut cursors);
            let rows = file.num_records.map_or(u64::MAX, |rows| rows.saturating_sub(bucket << 32));
            if u32::from(low_key(key)) >= flat_from {
                match unite_flat(kernels, scratch, writer, cursors, bucket, rows)? {
                    Flat::United => continue,
                    Flat::NotUntil(key) => flat_from = key,
                }
            }
        }
        if unite_bitsets(kernels, &mut writer, &mut cursors, key)? {
            continue;
        }
        unite_next(kernels, scratch, &mut writer, &mut cursors, key)?;
    }
    if bucket != END {
        writer.end_bucket();
    }
    let own = cursors.cur.seen - cursors.base.seen;
    if own == 0 {
        return Ok(Verdict::NothingNew);
    }
    let cardinality = cursors.win.seen + own;
    if writer.rows != cardinality {
        return Err(Stop::Internal("the union has the wrong cardinality"));
    }
    let len = writer.finish();
    if file.num_records == Some(cardinality) {
        return Ok(Verdict::CoversFile { cardinality });
    }
    Ok(Verdict::Merged { len, cardinality })
}

/// Whether the bucket that begins is one to be united many containers at a time.
#[inline(always)]
fn bucket_is_sparse<K: Kernels>(cursors: &Cursors<'_>, high: u64) -> bool {
    let all = [&cursors.base, &cursors.cur, &cursors.win];
    let any_runs = all.iter().any(|one| one.in_bucket(high) && one.bucket_has_runs());
    let bytes = if any_runs { SPARSE_BYTES } else { K::SPARSE_ARRAY_BYTES };
    all.iter().all(|one| !one.in_bucket(high) || one.bucket_is_sparse(bytes))
}

/// Begins the bucket of the result: its containers are those of `current` and `winner` together.
fn begin_bucket(writer: &mut Writer<'_>, cursors: &Cursors<'_>, high: u64) -> Result<(), Stop> {
    let (cur, win) = (&cursors.cur, &cursors.win);
    let (cur_heads, win_heads) = (cur.heads_of_bucket(high), win.heads_of_bucket(high));
    let expect_runs = (!cur_heads.is_empty() && cur.bucket_has_runs())
        || (!win_heads.is_empty() && win.bucket_has_runs());
    let key = u32::try_from(high).unwrap_or(u32::MAX);
    writer.begin_bucket(key, bound_of_keys(cur_heads, win_heads), expect_runs)?;
    Ok(())
}

/// A number of containers that is enough for two strictly ascending lists of container heads, and more than
/// [`SMALL_HEADER`] only if the right one is. As a rule it is the right one, with every key in between there.
#[inline]
fn bound_of_keys(left: &[[u8; 4]], right: &[[u8; 4]]) -> usize {
    let key = |&[low, high, ..]: &[u8; 4]| usize::from(u16::from_le_bytes([low, high]));
    let ends = |heads: &[[u8; 4]]| Some((key(heads.first()?), key(heads.last()?)));
    let (Some((first, last)), Some((other_first, other_last))) = (ends(left), ends(right)) else {
        return left.len() + right.len();
    };
    let first = first.min(other_first);
    let span = last.max(other_last) - first + 1;
    let longer = left.len().max(right.len());
    if longer == span {
        return span;
    }
    // With few keys that is less work than laying the header out again.
    if span <= 64 {
        let bits = |heads: &[[u8; 4]]| {
            heads.iter().fold(0u64, |bits, head| bits | 1 << ((key(head) - first) & 63))
        };
        return (bits(left) | bits(right)).count_ones() as usize;
    }
    let bound = span.min(left.len() + right.len());
    if bound > SMALL_HEADER && longer <= SMALL_HEADER {
        return count_keys(left, right);
    }
    bound
}

/// Number of different keys in two strictly ascending lists of container heads.
#[cold]
fn count_keys(left: &[[u8; 4]], right: &[[u8; 4]]) -> usize {
    let key = |&[low, high, ..]: &[u8; 4]| u16::from_le_bytes([low, high]);
    let (mut lefts, mut rights) = (left, right);
    let mut shared = 0;
    while let (Some((l, more_left)), Some((r, more_right))) =
        (lefts.split_first(), rights.split_first())
    {
        let (l, r) = (key(l), key(r));
        shared += usize::from(l == r);
        if l <= r {
            lefts = more_left;
        }
        if r <= l {
            rights = more_right;
        }
    }
    left.len() + right.len() - shared
}

/// Containers of each side that [`unite_flat`] unites at once: as many as the values of fit into the fastest cache.
const FLAT_CONTAINERS: usize = 128;

/// Memory of [`unite_flat`] at most: sparse containers never need as much on average.
const FLAT_BYTES: usize = 128 << 10;

/// What came of [`unite_flat`].
enum Flat {
    United,
    /// The containers up to this key have anything wrong about them, or there is something among them or in their union
    /// that is not best kept in a few values or runs.
    NotUntil(u32),
}

/// Unites the next containers of a sparse bucket as if they were one list of rows, or of runs. With few of them in a
/// container that is less work than what each container takes by itself.
#[inline(always)]
fn unite_flat<K: Kernels>(
    kernels: K,
    scratch: &mut Scratch,
    writer: &mut Writer<'_>,
    cursors: &mut Cursors<'_>,
    high: u64,
    rows: u64,
) -> Result<Flat, Stop> {
    let until = [&cursors.base, &cursors.cur, &cursors.win]
        .map(|one| one.key_behind(high, FLAT_CONTAINERS))
        .into_iter()
        .fold(NO_KEY, u32::min);
    let stretches = [&cursors.base, &cursors.cur, &cursors.win].map(|one| one.stretch(high, until));
    let done = match flat_arrays(kernels, scratch, writer, &stretches, rows) {
        None => kernels.run(FlatRunsWork { scratch, writer, stretches: &stretches, rows }),
        done => done,
    };
    let Some((written, passed)) = done else { return Ok(Flat::NotUntil(until)) };
    writer.skip(written);
    let (cursors, roles) = (
        [&mut cursors.base, &mut cursors.cur, &mut cursors.win],
        [Role::Base, Role::Current, Role::Winner],
    );
    for (((cursor, role), stretch), (bytes, rows)) in
        cursors.into_iter().zip(roles).zip(&stretches).zip(passed)
    {
        cursor.pass(stretch, bytes, rows).map_err(in_role(role))?;
    }
    Ok(Flat::United)
}

/// What was written, and of each stretch the bytes and the rows that it has.
type FlatUnion = (Written, [(usize, u64); 3]);

/// Writes the union of arrays behind what has been written. None, with nothing that counts as written, if it is not as
/// simple.
#[inline(always)]
fn flat_arrays<K: Kernels>(
    kernels: K,
    scratch: &mut Scratch,
    writer: &mut Writer<'_>,
    [base, cur, win]: &[Stretch<'_>; 3],
    rows: u64,
) -> Option<FlatUnion> {
    let (base, cur, win) = (&base.arrays()?, &cur.arrays()?, &win.arrays()?);
    let pairs = |stretch: &Stretch<'_>| 2 * stretch.payload.len();
    let most = 4 * (cur.heads.len() + win.heads.len());
    let both = pairs(cur) + pairs(win);
    let needed = pairs(base) + 2 * both + both / 2 + 2 * most + 7 * SLACK;
    if needed > FLAT_BYTES {
        return None;
    }
    let mut memory = scratch.memory(needed.next_power_of_two());
    let mut next = |len: usize| memory.split_off_mut(..len + SLACK);
    let (base_pairs, cur_pairs, win_pairs) =
        (next(pairs(base))?, next(pairs(cur))?, next(pairs(win))?);
    let (merged, keys, starts) = (next(both)?, next(most)?, next(most)?);
    let common = next(both / 2)?;
    for (stretch, pairs) in [(base, &mut *base_pairs), (cur, cur_pairs), (win, win_pairs)] {
        if !kernels.flatten(stretch, pairs) {
            return None;
        }
    }
    kernels.merge_runs(cur_pairs.get(..pairs(cur))?, win_pairs.get(..pairs(win))?, merged);
    let merged = merged.get(..both)?;
    // The largest.
    if u64::from(u32_at(merged, both.checked_sub(4)?)) >= rows {
        return None;
    }
    let Slots { heads, offsets, tail, place, .. } = writer.slots()?;
    if tail.len() < both / 2 + SLACK {
        return None;
    }
    let base_pairs = base_pairs.get(..pairs(base))?;
    let union = kernels.split_pairs(merged, base_pairs, tail, [keys, starts, common])?;
    // A container ends where the next one begins.
    let all = u32::try_from(union.values).ok()?;
    *starts.as_chunks_mut::<4>().0.get_mut(union.containers)? = all.to_le_bytes();
    let starts = starts.as_chunks::<4>().0.get(..=union.containers)?;
    let keys = keys.as_chunks::<4>().0.get(..union.containers)?;
    let heads = heads.get_mut(..union.containers)?;
    if kernels.put_heads(keys, starts, place, heads, offsets) > ARRAY_MAX
        || (union.joined != 0 && any_may_be_runs(kernels, starts, tail, union.joined))
    {
        return None;
    }
    let written = Written {
        containers: union.containers,
        len: 2 * union.values,
        rows: union.values as u64,
        runs: false,
    };
    let passed = |stretch: &Stretch<'_>| {
        let bytes = stretch.payload.len();
        (bytes, (bytes / 2) as u64)
    };
    Some((written, [passed(base), passed(cur), passed(win)]))
}

/// Whether one of the arrays that begin at these values may be smaller as runs, or may be later on, when the rest of the
/// bitmap is known. `joined`: how many values follow on the one before at the most.
#[inline(never)]
fn any_may_be_runs<K: Kernels>(kernels: K, starts: &[[u8; 4]], values: &[u8], joined: u32) -> bool {
    starts.iter().zip(starts.iter().skip(1)).any(|(start, next)| {
        let [start, next] = [start, next].map(|at| u32::from_le_bytes(*at));
        let card = next - start;
        // Most cannot have so many.
        2 * joined >= card
            && values
                .get(2 * start as usize..2 * next as usize)
                .and_then(|array| kernels.check_array(array))
                .is_none_or(|runs| 2 * runs <= card)
    })
}

/// The arguments of [`flat_runs`]. Apart from its caller, which has no registers left for it.
struct FlatRunsWork<'u, 'a, 'o> {
    scratch: &'u mut Scratch,
    writer: &'u mut Writer<'o>,
    stretches: &'u [Stretch<'a>; 3],
    rows: u64,
}

impl Work for FlatRunsWork<'_, '_, '_> {
    type Done = Option<FlatUnion>;

    #[inline(always)]
    fn on<K: Kernels>(self, kernels: K) -> Self::Done {
        flat_runs(kernels, self)
    }
}

/// Bytes of a list of the runs of one side in [`flat_runs`] at most: all of its lists fit into [`FLAT_BYTES`].
const SPAN_BYTES: usize = 8 << 10;

/// As [`flat_arrays`], for arrays and runs.
///
/// Where each of `cur` and `win` is a list of runs that do not overlap, the number of them that hold a row is the number
/// of starts up to it less the number of ends in front of it. So starts and ends can be put in order apart from each
/// other, whichever belong together, and pairing them in this order gives runs that hold each row as often as before. If
/// those do not overlap but for some that come twice, these are what both sides have in common.
#[inline(always)]
fn flat_runs<K: Kernels>(
    kernels: K,
    FlatRunsWork { scratch, writer, stretches, rows }: FlatRunsWork<'_, '_, '_>,
) -> Option<FlatUnion> {
    if stretches.iter().any(|stretch| !stretch.is_sparse()) {
        return None;
    }
    let [base, cur, win] = stretches;
    // An array has a run for every two bytes at most, which makes four in each list.
    let bytes = |stretch: &Stretch<'_>| (2 * stretch.payload.len()).min(SPAN_BYTES);
    let both = bytes(cur) + bytes(win);
    let most = 4 * (cur.heads.len() + win.heads.len());
    let needed = 4 * bytes(base) + 4 * both + most + 11 * SLACK;
    debug_assert!(needed <= FLAT_BYTES);
    let mut memory = scratch.memory(needed.next_power_of_two());
    let mut next = |len: usize| memory.split_off_mut(..len + SLACK);
    let (base_starts, base_ends) = (next(bytes(base))?, next(bytes(base))?);
    // Those of both sides, and later on of their union.
    let (starts, ends) = (next(both + SLACK)?, next(both + SLACK)?);
    let (merged_starts, merged_ends) = (next(both)?, next(both)?);
    let (firsts, common) = (next(most)?, next(2 * bytes(base) + SLACK)?);
    let base = kernels.flatten_runs(base, base_starts, base_ends)?;
    let (cur_starts, win_starts) = starts.split_at_mut(bytes(cur) + SLACK);
    let (cur_ends, win_ends) = ends.split_at_mut(bytes(cur) + SLACK);
    let cur = kernels.flatten_runs(cur, cur_starts, cur_ends)?;
    let win = kernels.flatten_runs(win, win_starts, win_ends)?;
    for (cur_list, win_list, merged) in
        [(cur_starts, win_starts, &mut *merged_starts), (cur_ends, win_ends, merged_ends)]
    {
        kernels.merge_runs(cur_list.get(..4 * cur.runs)?, win_list.get(..4 * win.runs)?, merged);
    }
    let runs = 4 * (cur.runs + win.runs);
    let merged = [merged_starts.get(..runs)?, merged_ends.get(..runs)?];
    // The largest row.
    if u64::from(u32_at(merged[1], runs.checked_sub(4)?)) >= rows {
        return None;
    }
    let base_lists = [base_starts.get(..4 * base.runs)?, base_ends.get(..4 * base.runs)?];
    let lists = [&mut *starts, &mut *ends, &mut *firsts];
    let (runs, containers) = kernels.split_spans(merged, base_lists, lists, common)?;
    // A container ends where the next one begins.
    let all = u32::try_from(runs).ok()?;
    *firsts.as_chunks_mut::<4>().0.get_mut(containers)? = all.to_le_bytes();
    let firsts = firsts.as_chunks::<4>().0.get(..=containers)?;
    let mut union = RunContainers {
        nearly_runs: false,
        containers: writer.containers(),
        slots: writer.slots()?,
        written: Written::default(),
    };
    let done = union.write(kernels, starts, ends, firsts);
    let RunContainers { mut slots, written, nearly_runs, .. } = union;
    // Of an array that would hardly be larger as runs the writer has to take note itself.
    if done.is_none() || (nearly_runs && !written.runs) {
        slots.clear_flags();
        return None;
    }
    let passed = |flat: FlatRuns| (flat.bytes, flat.rows);
    Some((written, [passed(base), passed(cur), passed(win)]))
}

/// The containers of a union of runs while they are being written.
struct RunContainers<'w> {
    slots: Slots<'w>,
    written: Written,
    /// Of the whole bitmap.
    containers: usize,
    /// Whether there is an array that would be two bytes larger as runs.
    nearly_runs: bool,
}

impl RunContainers<'_> {
    /// Writes the containers of runs given as keys, of which those that begin at the indexes `firsts` are the first of one;
    /// the last of `firsts` is the number of runs. None if one is not small.
    #[inline(always)]
    fn write<K: Kernels>(
        &mut self,
        kernels: K,
        mut starts: &[u8],
        mut ends: &[u8],
        firsts: &[[u8; 4]],
    ) -> Option<()> {
        let (_, nexts) = firsts.split_first()?;
        for (first, next) in firsts.iter().zip(nexts) {
            let runs = u32::from_le_bytes(*next).wrapping_sub(u32::from_le_bytes(*first));
            let bytes = 4 * runs as usize;
            let here = (starts.get(..bytes + SLACK)?, ends.get(..bytes + SLACK)?);
            self.add(kernels, here, runs)?;
            (starts, ends) = (starts.get(bytes..)?, ends.get(bytes..)?);
        }
        Some(())
    }

    /// Adds the container of so many runs. None if it is not small.
    #[inline(always)]
    fn add<K: Kernels>(
        &mut self,
        kernels: K,
        (starts, ends): (&[u8], &[u8]),
        runs: u32,
    ) -> Option<()> {
        let Slots { flags, heads, offsets, tail, next, place } = &mut self.slots;
        let Written { containers, len: at, rows, runs: any_runs } = &mut self.written;
        let room = tail.get_mut(*at..)?;
        let (count, run_room) = room.split_first_chunk_mut::<2>()?;
        let card = kernels.put_runs(starts, ends, run_room.get_mut(..starts.len())?);
        let len = match smallest_kind(card, runs, self.containers) {
            Kind::Runs => {
                *count = count_word(runs);
                let index = *next + *containers;
                *flags.get_mut(index >> 3)? |= 1 << (index & 7);
                *any_runs = true;
                run_bytes(runs)
            }
            Kind::Array => {
                put_values(starts, ends, runs, room.get_mut(..plain_bytes(card))?);
                self.nearly_runs |= run_bytes(runs) == plain_bytes(card) + 2;
                plain_bytes(card)
            }
            Kind::Bitset => return None,
        };
        *heads.get_mut(*containers)? = head_word(u32_at(starts, 0) >> 16, card);
        if let Some(offset) = offsets.get_mut(*containers) {
            *offset = offset_word(*place + *at);
        }
        *containers += 1;
        *at += len;
        *rows += u64::from(card);
        Some(())
    }
}

/// Writes the values of runs given as keys.
#[inline(never)]
fn put_values(starts: &[u8], ends: &[u8], runs: u32, out: &mut [u8]) {
    let pairs = starts.as_chunks::<4>().0.iter().zip(ends.as_chunks::<4>().0);
    let values =
        pairs.take(runs as usize).flat_map(|(start, end)| u16_at(start, 0)..=u16_at(end, 0));
    for (slot, value) in out.as_chunks_mut::<2>().0.iter_mut().zip(values) {
        *slot = value.to_le_bytes();
    }
}

/// Unites the containers with the smallest key, `key`, if all of them and their union are bitsets, looking at their bytes
/// once: so much memory has to come from far away. False, with nothing done, if that is not so or anything else is wrong
/// about them, which is left to [`unite_next`].
#[inline(always)]
fn unite_bitsets<K: Kernels>(
    kernels: K,
    writer: &mut Writer<'_>,
    Cursors { base, cur, win }: &mut Cursors<'_>,
    key: u64,
) -> Result<bool, Stop> {
    if cur.key != key || win.key != key {
        return Ok(false);
    }
    let (Some((cur_card, cur_bits)), Some((win_card, win_bits))) = (cur.bitset(), win.bitset())
    else {
        return Ok(false);
    };
    let in_base = base.key == key;
    let (base_card, base_bits) = match base.bitset() {
        Some((card, bits)) if in_base => (card, Some(bits)),
        None if in_base => return Ok(false),
        _ => (0, None),
    };
    let containers = writer.containers();
    let Some(union) = writer.tail().first_chunk_mut::<BITSET_BYTES>() else { return Ok(false) };
    let Some(counts) = kernels.merge_bits(base_bits, cur_bits, win_bits, union) else {
        return Ok(false);
    };
    // What is in both is the base, so this is its cardinality, too.
    if (counts.cur, counts.win, counts.cur + counts.win - counts.union)
        != (cur_card, win_card, base_card)
    {
        return Ok(false);
    }
    let runs = kernels.count_runs(union);
    if smallest_kind(counts.union, runs, containers) != Kind::Bitset {
        return Ok(false);
    }
    writer.commit(low_key(key), Kind::Bitset, counts.union, runs, BITSET_BYTES);
    cur.pass_bitset(cur_card).map_err(in_role(Role::Current))?;
    win.pass_bitset(win_card).map_err(in_role(Role::Winner))?;
    if in_base {
        base.pass_bitset(base_card).map_err(in_role(Role::Base))?;
    }
    Ok(true)
}

/// Unites the containers with the smallest key, `key`, or stops with what is wrong about them.
#[inline(always)]
fn unite_next<K: Kernels>(
    kernels: K,
    scratch: &mut Scratch,
    writer: &mut Writer<'_>,
    cursors: &mut Cursors<'_>,
    key: u64,
) -> Result<(), Stop> {
    let three = cursors.read(kernels, key)?;
    let Three { base, cur, win } = &three;
    if cur.card == 0 || win.card == 0 {
        if base.card != 0 {
            return Err(conflict(scratch, &three, key));
        }
        let one = if cur.card != 0 { cur } else { win };
        writer.copy(low_key(key), one, one.count_runs(kernels))?;
        return Ok(());
    }
    if unite(kernels, scratch, writer, low_key(key), &three)? {
        Ok(())
    } else {
        Err(conflict(scratch, &three, key))
    }
}

/// Completes a container whose values stand, as an array, where its payload goes.
#[inline(always)]
fn finish_array(
    writer: &mut Writer<'_>,
    key: u16,
    (count, runs): (u32, u32),
    card: u32,
) -> Result<bool, Stop> {
    if count != card {
        return Err(Stop::Internal("the union of two arrays has the wrong cardinality"));
    }
    if smallest_kind(card, runs, writer.containers()) == Kind::Array {
        writer.commit(key, Kind::Array, card, runs, 2 * card as usize);
        return Ok(true);
    }
    turn_into_runs(writer, key, card, runs)
}

/// As [`finish_array`] where runs are smaller.
#[cold]
#[inline(never)]
fn turn_into_runs(writer: &mut Writer<'_>, key: u16, card: u32, runs: u32) -> Result<bool, Stop> {
    let mut values = [0; BITSET_BYTES];
    let values = values.get_mut(..2 * card as usize).unwrap_or(&mut []);
    values.copy_from_slice(writer.room(2 * card as usize)?);
    writer.copy(key, &Container { kind: Kind::Array, card, bytes: values }, runs)?;
    Ok(true)
}

/// Writes `cur ∪ win`; false when `cur ∩ win` differs from `base`.
#[inline(never)]
fn unite<K: Kernels>(
    kernels: K,
    scratch: &mut Scratch,
    writer: &mut Writer<'_>,
    key: u16,
    three: &Three<'_>,
) -> Result<bool, Stop> {
    let Three { base, cur, win } = three;
    if base.card > cur.card || base.card > win.card {
        return Ok(false);
    }
    let card = cur.card + win.card - base.card;
    if card > CONTAINER_VALUES {
        return Ok(false);
    }
    let all_arrays = cur.kind == Kind::Array && win.kind == Kind::Array && base.kind == Kind::Array;
    if all_arrays && card <= ARRAY_MAX {
        let total = cur.bytes.len() + win.bytes.len();
        if base.card == 0 && writer.tail().len() >= total + SLACK {
            return unite_disjoint_arrays(kernels, writer, key, (cur, win), card);
        }
        if total <= FEW_BYTES {
            let mut memory = [0; memory_for(2, FEW_BYTES)];
            return unite_arrays(kernels, &mut memory, writer, key, three, card);
        }
        return unite_arrays(kernels, scratch.lists(2, total), writer, key, three, card);
    }
    let runs = stored_runs(cur) + stored_runs(win);
    if !all_arrays
        && [base, cur, win].iter().all(|one| one.kind != Kind::Bitset)
        && 4 * runs <= 2 * BITSET_BYTES
    {
        let done = if 4 * runs <= FEW_BYTES {
            let mut memory = [0; memory_for(Lists::PARTS, FEW_BYTES)];
            unite_runs(kernels, Lists::new(&mut memory), writer, key, three, card)?
        } else {
            let lists = Lists::new(scratch.lists(Lists::PARTS, 4 * runs));
            unite_runs(kernels, lists, writer, key, three, card)?
        };
        if let Some(done) = done {
            return Ok(done);
        }
    }
    unite_bits(kernels, scratch.bits(), writer, key, three, card)
}

/// Two arrays that may have nothing in common, with enough room to write their union where it belongs.
fn unite_disjoint_arrays<K: Kernels>(
    kernels: K,
    writer: &mut Writer<'_>,
    key: u16,
    (cur, win): (&Container<'_>, &Container<'_>),
    card: u32,
) -> Result<bool, Stop> {
    let tail = writer.tail();
    kernels.merge_arrays(cur.bytes, win.bytes, tail);
    let union = tail.get(..cur.bytes.len() + win.bytes.len()).unwrap_or(&[]);
    // A common value stands twice, so that the union does not ascend strictly.
    match kernels.check_array(union) {
        Some(runs) => finish_array(writer, key, (cur.card + win.card, runs), card),
        None => Ok(false),
    }
}

fn unite_arrays<K: Kernels>(
    kernels: K,
    memory: &mut [u8],
    writer: &mut Writer<'_>,
    key: u16,
    Three { base, cur, win }: &Three<'_>,
    card: u32,
) -> Result<bool, Stop> {
    let total = cur.bytes.len() + win.bytes.len();
    let (merged, apart) = memory.split_at_mut(memory.len() / 2);
    kernels.merge_arrays(cur.bytes, win.bytes, merged);
    let merged = merged.get(..total).unwrap_or(&[]);
    let in_place = writer.tail().len() >= total + SLACK;
    let union = if in_place { writer.tail() } else { &mut apart[..] };
    let Some((count, runs)) = kernels.split_arrays(merged, base.bytes, union) else {
        return Ok(false);
    };
    if in_place {
        return finish_array(writer, key, (count, runs), card);
    }
    if count != card {
        return Err(Stop::Internal("the union of two arrays has the wrong cardinality"));
    }
    let bytes = apart.get(..2 * card as usize).unwrap_or(&[]);
    writer.copy(key, &Container { kind: Kind::Array, card, bytes }, runs)?;
    Ok(true)
}

/// Number of runs that [`as_runs`] gives.
#[inline]
fn stored_runs(container: &Container<'_>) -> usize {
    match container.kind {
        Kind::Array => container.card as usize,
        Kind::Runs | Kind::Bitset => container.bytes.len() / 4,
    }
}

/// The container's runs; for an array each value as one, written to `scratch`.
#[inline]
fn as_runs<'b>(container: &Container<'b>, scratch: &'b mut [u8]) -> &'b [u8] {
    match container.kind {
        Kind::Runs | Kind::Bitset => container.bytes,
        Kind::Array => {
            let runs = scratch.get_mut(..4 * container.card as usize).unwrap_or(&mut []);
            portable::values_to_runs(container.bytes, runs);
            runs
        }
    }
}

/// For containers without many runs. None when that was not enough to tell: what `cur` and `win` have in common need
/// not be the same runs in both.
fn unite_runs<K: Kernels>(
    kernels: K,
    lists: Lists<'_>,
    writer: &mut Writer<'_>,
    key: u16,
    Three { base, cur, win }: &Three<'_>,
    card: u32,
) -> Result<Option<bool>, Stop> {
    let cur_runs = as_runs(cur, lists.cur);
    let win_runs = as_runs(win, lists.win);
    kernels.merge_runs(cur_runs, win_runs, lists.merged);
    let merged = lists.merged.get(..cur_runs.len() + win_runs.len()).unwrap_or(&[]);
    let in_place = writer.tail().len() >= 2 + merged.len() + SLACK;
    let union = match writer.tail().get_mut(2..) {
        Some(tail) if in_place => tail,
        _ => &mut lists.union[..],
    };
    let base_runs = as_runs(base, lists.base);
    let split = kernels.split_runs(merged, base_runs, union, lists.ends);
    let Some((runs, count)) = split else { return Ok(None) };
    if count != card {
        return Err(Stop::Internal("the union of two lists of runs is wrong"));
    }
    if in_place && smallest_kind(card, runs, writer.containers()) == Kind::Runs {
        if let Some(place) = writer.tail().first_chunk_mut::<2>() {
            *place = count_word(runs);
        }
        writer.commit(key, Kind::Runs, card, runs, run_bytes(runs));
        return Ok(Some(true));
    }
    let len = 4 * runs as usize;
    let bytes = if in_place {
        let copy = lists.union.get_mut(..len).unwrap_or(&mut []);
        copy.copy_from_slice(writer.room(2 + len)?.get(2..).unwrap_or(&[]));
        copy
    } else {
        lists.union.get(..len).unwrap_or(&[])
    };
    writer.copy(key, &Container { kind: Kind::Runs, card, bytes }, runs)?;
    Ok(Some(true))
}

/// As [`Container::as_bits`], faster for large arrays.
fn bits_of<'b, K: Kernels>(
    kernels: K,
    container: &Container<'b>,
    map: &mut Map,
    scratch: &'b mut Bits,
) -> &'b Bits {
    if container.kind == Kind::Array && container.card > 1024 {
        kernels.arrays_to_bits(container.bytes, &[], map, scratch);
        return scratch;
    }
    container.as_bits(scratch)
}

fn unite_bits<K: Kernels>(
    kernels: K,
    buffers: &mut BitBuffers,
    writer: &mut Writer<'_>,
    key: u16,
    Three { base, cur, win }: &Three<'_>,
    card: u32,
) -> Result<bool, Stop> {
    let in_place = card > ARRAY_MAX && writer.tail().len() >= BITSET_BYTES;
    let union = match writer.tail().first_chunk_mut::<BITSET_BYTES>() {
        Some(tail) if in_place => tail,
        _ => &mut buffers.out,
    };
    if base.card == 0 && cur.kind == Kind::Array && win.kind == Kind::Array {
        // A common value sets the same bit twice, so that there are fewer bits than values.
        if kernels.arrays_to_bits(cur.bytes, win.bytes, &mut buffers.map, union) != card {
            return Ok(false);
        }
    } else {
        let map = &mut buffers.map;
        let base_bits = (base.card != 0).then(|| bits_of(kernels, base, map, &mut buffers.base));
        let cur_bits = bits_of(kernels, cur, map, &mut buffers.cur);
        let win_bits = bits_of(kernels, win, map, &mut buffers.win);
        match kernels.merge_bits(base_bits, cur_bits, win_bits, union) {
            None => return Ok(false),
            Some(counts) if counts.union != card => {
                return Err(Stop::Internal("the union of two bitsets has the wrong cardinality"));
            }
            Some(_) => {}
        }
    }
    let runs = kernels.count_runs(union);
    if in_place {
        if smallest_kind(card, runs, writer.containers()) == Kind::Bitset {
            writer.commit(key, Kind::Bitset, card, runs, BITSET_BYTES);
            return Ok(true);
        }
        buffers.out.copy_from_slice(writer.room(BITSET_BYTES)?);
    }
    writer.copy_bits(key, &buffers.out, card, runs)?;
    Ok(true)
}

/// Answers for a file that the losing transaction does not touch: `base ⊆ winner` is all that has to hold.
fn check_untouched<K: Kernels>(
    kernels: K,
    scratch: &mut Scratch,
    cursors: &mut Cursors<'_>,
) -> Result<Verdict, Stop> {
    loop {
        let key = cursors.key();
        if key == END {
            return Ok(Verdict::UntouchedOk);
        }
        let three = cursors.read(kernels, key)?;
        let Three { base, win, .. } = &three;
        let identical = base.kind == win.kind && base.bytes == win.bytes;
        if base.card != 0 && !identical {
            let buffers = scratch.bits();
            let covered =
                kernels.covers(base.as_bits(&mut buffers.base), win.as_bits(&mut buffers.win));
            if !covered {
                let difference = |base: u64, _: u64, win: u64| base & !win;
                return match first_difference(buffers, &three, difference) {
                    Some((low, ..)) => Err(Stop::Verdict(Verdict::NotAnExtension {
                        first_row: first_row_of(key) + u64::from(low),
                    })),
                    None => Err(Stop::Internal("a conflict could not be found again")),
                };
            }
        }
    }
}

/// Names the conflict that the containers with this key are known to have, at its first row.
#[cold]
#[inline(never)]
fn conflict(scratch: &mut Scratch, three: &Three<'_>, key: u64) -> Stop {
    let Three { base, cur, win } = three;
    let found = if [base, cur, win].iter().all(|one| one.kind == Kind::Array) {
        portable::first_difference(base.bytes, cur.bytes, win.bytes)
    } else {
        first_difference(scratch.bits(), three, |base, cur, win| (cur & win) ^ base)
    };
    let Some((low, in_base, in_cur)) = found else {
        return Stop::Internal("a conflict could not be found again");
    };
    let first_row = first_row_of(key) + u64::from(low);
    Stop::Verdict(match (in_base, in_cur) {
        (false, _) => Verdict::Overlap { first_row },
        (true, false) => Verdict::BaseNotInCurrent { first_row },
        (true, true) => Verdict::NotAnExtension { first_row },
    })
}

/// The first value at which `difference` has a bit set, whether `base` has it and whether `cur` has it.
fn first_difference(
    buffers: &mut BitBuffers,
    Three { base, cur, win }: &Three<'_>,
    difference: impl Fn(u64, u64, u64) -> u64,
) -> Option<(u32, bool, bool)> {
    let base = base.as_bits(&mut buffers.base).as_chunks::<8>().0;
    let cur = cur.as_bits(&mut buffers.cur).as_chunks::<8>().0;
    let win = win.as_bits(&mut buffers.win).as_chunks::<8>().0;
    for (at, ((base, cur), win)) in (0u32..).step_by(64).zip(base.iter().zip(cur).zip(win)) {
        let (base, cur) = (u64::from_le_bytes(*base), u64::from_le_bytes(*cur));
        let different = difference(base, cur, u64::from_le_bytes(*win));
        if different != 0 {
            let bit = different.trailing_zeros();
            return Some((at + bit, base >> bit & 1 == 1, cur >> bit & 1 == 1));
        }
    }
    None
}

fn count_with<K: Kernels>(
    kernels: K,
    scratch: &mut Scratch,
    file: &FileInput<'_>,
) -> Result<u64, Malformed> {
    let mut cursors = Cursors::absent();
    cursors.open(file)?;
    let mut count = 0;
    loop {
        let key = cursors.key();
        if key == END {
            return Ok(count);
        }
        let Three { base, cur, win } = cursors.read(kernels, key)?;
        if cur.card != 0 && win.card != 0 {
            let buffers = scratch.bits();
            count += u64::from(kernels.count_common(
                base.as_bits(&mut buffers.base),
                cur.as_bits(&mut buffers.cur),
                win.as_bits(&mut buffers.win),
            ));
        }
    }
}
