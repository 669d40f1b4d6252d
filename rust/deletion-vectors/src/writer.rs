//! Writing the portable form straight into memory that the caller owns.
//!
//! The layout of a 32-bit bitmap depends on whether any of its containers is a run container, which is only known once
//! the last one has been written. The writer lays the bitmap out for what it expects, and moves the payload when that
//! turns out wrong.

use crate::cursor::{Container, Kind};
use crate::format::{
    ARRAY_MAX, BITSET_BYTES, Bits, COOKIE_NO_RUNS, COOKIE_RUNS, NO_OFFSET_THRESHOLD,
    PORTABLE_MAGIC, PORTABLE_PREAMBLE, plain_bytes, run_bytes, u16_at, u32_at,
};
use crate::kernels::portable;

/// The memory given for the result is too small: what is to be written next ends here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoSpace {
    pub(crate) needed_at_least: usize,
}

/// Containers up to which the header of a bitmap with run containers is not larger than that of one without.
pub(crate) const SMALL_HEADER: usize = 32;

/// The smallest of the three kinds for a container among `containers` of its bitmap.
///
/// Between a run container and another kind of equal size the run container wins as long as the header of a bitmap
/// with run containers is not the larger one, which holds for up to [`SMALL_HEADER`] containers. Delta's code may end up with either.
#[inline]
pub(crate) fn smallest_kind(card: u32, runs: u32, containers: usize) -> Kind {
    let plain = plain_bytes(card);
    let as_runs = run_bytes(runs);
    if as_runs < plain || (as_runs == plain && containers <= SMALL_HEADER) {
        Kind::Runs
    } else if card <= ARRAY_MAX {
        Kind::Array
    } else {
        Kind::Bitset
    }
}

/// Writes one bitmap, bucket by bucket and container by container, all ascending.
#[derive(Debug)]
pub(crate) struct Writer<'o> {
    out: &'o mut [u8],
    /// Bytes written so far.
    at: usize,
    buckets: u64,
    bucket: Bucket,
    /// Rows written so far.
    pub(crate) rows: u64,
}

/// The bitmap being written.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Where its cookie stands.
    start: usize,
    /// Number of containers it has room for.
    count: usize,
    /// Number of containers it has.
    next: usize,
    /// Where the head of the next container goes.
    next_head: usize,
    /// How far behind its head the offset of a container stands; zero in a layout without offsets.
    offsets: usize,
    /// Whether the header is laid out for run containers.
    run_layout: bool,
    has_runs: bool,
    /// Bytes by which the header grows if it has to be laid out the other way; kept free behind the payload.
    reserve: usize,
    /// An array that would be two bytes larger as runs, with its place.
    nearly_runs: Option<(usize, usize)>,
}

impl Bucket {
    const fn has_offsets(count: usize, run_layout: bool) -> bool {
        !run_layout || count >= NO_OFFSET_THRESHOLD
    }

    const fn heads(&self, run_layout: bool) -> usize {
        self.start + if run_layout { 4 + self.count.div_ceil(8) } else { 8 }
    }

    /// Chooses a layout.
    fn lay_out(&mut self, run_layout: bool) {
        self.run_layout = run_layout;
        self.next_head = self.heads(run_layout) + 4 * self.next;
        self.offsets = if Self::has_offsets(self.count, run_layout) { 4 * self.count } else { 0 };
    }

    const fn payload(&self, run_layout: bool) -> usize {
        let words = if Self::has_offsets(self.count, run_layout) { 2 } else { 1 };
        self.heads(run_layout) + 4 * self.count * words
    }
}

impl<'o> Writer<'o> {
    /// Begins a bitmap at the start of `out`.
    pub(crate) fn new(out: &'o mut [u8]) -> Result<Writer<'o>, NoSpace> {
        let mut writer = Writer { out, at: 0, buckets: 0, bucket: Bucket::default(), rows: 0 };
        writer.room(PORTABLE_PREAMBLE)?;
        writer.put(0, &PORTABLE_MAGIC.to_le_bytes());
        writer.at = PORTABLE_PREAMBLE;
        Ok(writer)
    }

    /// Number of containers that the bitmap being written has room for.
    #[inline]
    pub(crate) fn containers(&self) -> usize {
        self.bucket.count
    }

    /// Begins the 32-bit bitmap with this key, which will have at most `count` containers, and more than
    /// [`SMALL_HEADER`] if `count` is more.
    pub(crate) fn begin_bucket(
        &mut self,
        key: u32,
        count: usize,
        expect_runs: bool,
    ) -> Result<(), NoSpace> {
        let key_at = self.at;
        let start = key_at + 4;
        let mut bucket = Bucket { start, count, ..Bucket::default() };
        bucket.lay_out(expect_runs);
        bucket.reserve = bucket.payload(!expect_runs).saturating_sub(bucket.payload(expect_runs));
        self.bucket.reserve = 0;
        self.room(bucket.payload(expect_runs) + bucket.reserve - key_at)?;
        self.put(key_at, &key.to_le_bytes());
        self.bucket = bucket;
        self.buckets += 1;
        self.at = bucket.payload(expect_runs);
        self.write_fixed();
        Ok(())
    }

    /// All memory behind what has been written, where the next container's payload goes.
    #[inline]
    pub(crate) fn tail(&mut self) -> &mut [u8] {
        let end = self.out.len().saturating_sub(self.bucket.reserve);
        self.out.get_mut(self.at..end).unwrap_or(&mut [])
    }

    /// The next `len` bytes.
    #[inline]
    pub(crate) fn room(&mut self, len: usize) -> Result<&mut [u8], NoSpace> {
        let end = self.at.saturating_add(len);
        if end.saturating_add(self.bucket.reserve) > self.out.len() {
            return Err(NoSpace { needed_at_least: end });
        }
        self.out.get_mut(self.at..end).ok_or(NoSpace { needed_at_least: end })
    }

    /// Takes note of a container whose payload stands at the start of [`Self::tail`]: `len` bytes, and for runs
    /// the count in front of them included.
    #[inline(always)]
    pub(crate) fn commit(&mut self, key: u16, kind: Kind, card: u32, runs: u32, len: usize) {
        debug_assert!(self.bucket.next < self.bucket.count);
        if kind == Kind::Runs {
            self.note_runs(len);
        } else if kind == Kind::Array
            && !self.bucket.has_runs
            && run_bytes(runs) == plain_bytes(card) + 2
        {
            self.bucket.nearly_runs.get_or_insert((self.bucket.next, self.at));
        }
        let head = self.bucket.next_head;
        self.put(head, &head_word(u32::from(key), card));
        if self.bucket.offsets != 0 {
            self.put(head + self.bucket.offsets, &offset_word(self.at - self.bucket.start));
        }
        self.bucket.next_head = head + 4;
        self.at += len;
        self.bucket.next += 1;
        self.rows += u64::from(card);
    }

    /// Where the containers that are still to come go.
    #[inline(always)]
    pub(crate) fn slots(&mut self) -> Option<Slots<'_>> {
        let Bucket { start, count, next, next_head, offsets, run_layout, reserve, .. } =
            self.bucket;
        let end = self.out.len().saturating_sub(reserve);
        let (header, tail) = self.out.get_mut(..end)?.split_at_mut_checked(self.at)?;
        let (fixed, header) = header.split_at_mut_checked(next_head)?;
        let flags = start + 4..start + 4 + if run_layout { count.div_ceil(8) } else { 0 };
        let (heads, header) = header.split_at_mut_checked(4 * (count - next))?;
        let offsets = match offsets.checked_sub(heads.len()) {
            Some(between) => header.get_mut(between..between + heads.len())?,
            None => &mut [],
        };
        Some(Slots {
            flags: fixed.get_mut(flags)?,
            heads: heads.as_chunks_mut().0,
            offsets: offsets.as_chunks_mut().0,
            tail,
            next,
            place: self.at - start,
        })
    }

    /// Takes note of containers that were written to [`Self::slots`].
    #[inline(always)]
    pub(crate) fn skip(&mut self, Written { containers, len, rows, runs }: Written) {
        self.bucket.next += containers;
        self.bucket.next_head += 4 * containers;
        self.bucket.has_runs |= runs;
        self.at += len;
        self.rows += rows;
    }

    /// Writes a checked container in its smallest kind.
    pub(crate) fn copy(
        &mut self,
        key: u16,
        container: &Container<'_>,
        runs: u32,
    ) -> Result<(), NoSpace> {
        let kind = smallest_kind(container.card, runs, self.bucket.count);
        let verbatim = kind == container.kind
            && (kind != Kind::Runs || container.bytes.len() == 4 * runs as usize);
        if verbatim {
            let prefix = if kind == Kind::Runs { 2 } else { 0 };
            let len = prefix + container.bytes.len();
            let room = self.room(len)?;
            if let Some((count, payload)) = room.split_at_mut_checked(prefix) {
                count.copy_from_slice(count_word(runs).get(..prefix).unwrap_or(&[]));
                payload.copy_from_slice(container.bytes);
            }
            self.commit(key, kind, container.card, runs, len);
            return Ok(());
        }
        match (container.kind, kind) {
            (Kind::Array, _) => self.write_runs(key, container.card, runs, |sink| {
                for value in container.bytes.as_chunks::<2>().0 {
                    let value = u16::from_le_bytes(*value);
                    sink(value, value);
                }
            }),
            (Kind::Runs, Kind::Bitset) => {
                let bits = self.room(BITSET_BYTES)?;
                bits.fill(0);
                if let Some(bits) = bits.first_chunk_mut() {
                    portable::set_runs(container.bytes, bits);
                }
                self.commit(key, kind, container.card, runs, BITSET_BYTES);
                Ok(())
            }
            (Kind::Runs, _) => self.write_intervals(key, kind, container.card, runs, |sink| {
                for run in container.bytes.as_chunks::<4>().0 {
                    let (first, more) = (u16_at(run, 0), u16_at(run, 2));
                    sink(first, first.saturating_add(more));
                }
            }),
            (Kind::Bitset, _) => match container.bits() {
                Some(bits) => self.write_runs(key, container.card, runs, |sink| {
                    portable::for_each_run(bits, sink);
                }),
                None => Ok(()),
            },
        }
    }

    /// Writes a container given as a bitset in its smallest kind.
    pub(crate) fn copy_bits(
        &mut self,
        key: u16,
        bits: &Bits,
        card: u32,
        runs: u32,
    ) -> Result<(), NoSpace> {
        let kind = smallest_kind(card, runs, self.bucket.count);
        if kind == Kind::Bitset {
            self.room(BITSET_BYTES)?.copy_from_slice(bits);
            self.commit(key, kind, card, runs, BITSET_BYTES);
            return Ok(());
        }
        self.write_intervals(key, kind, card, runs, |sink| {
            portable::for_each_run(bits, sink);
        })
    }

    /// Writes a container from ascending intervals as runs, or as the array that is smaller. Intervals may touch one
    /// another.
    fn write_intervals(
        &mut self,
        key: u16,
        kind: Kind,
        card: u32,
        runs: u32,
        intervals: impl FnOnce(&mut dyn FnMut(u16, u16)),
    ) -> Result<(), NoSpace> {
        if kind == Kind::Runs {
            return self.write_runs(key, card, runs, intervals);
        }
        let len = 2 * card as usize;
        let mut slots = self.room(len)?.as_chunks_mut::<2>().0.iter_mut();
        intervals(&mut |first, last| {
            for value in first..=last {
                if let Some(slot) = slots.next() {
                    *slot = value.to_le_bytes();
                }
            }
        });
        self.commit(key, Kind::Array, card, runs, len);
        Ok(())
    }

    /// Writes a run container from ascending intervals, joining those that touch; `runs` remain.
    fn write_runs(
        &mut self,
        key: u16,
        card: u32,
        runs: u32,
        intervals: impl FnOnce(&mut dyn FnMut(u16, u16)),
    ) -> Result<(), NoSpace> {
        let len = run_bytes(runs);
        fill_runs(self.room(len)?, runs, intervals);
        self.commit(key, Kind::Runs, card, runs, len);
        Ok(())
    }

    /// Completes the bitmap being written.
    pub(crate) fn end_bucket(&mut self) {
        let Bucket { next, count, run_layout, has_runs, .. } = self.bucket;
        if next != count || run_layout != has_runs {
            self.relayout(has_runs, next, 0);
        }
        self.prefer_small_header();
    }

    /// Completes the whole and gives its length.
    pub(crate) fn finish(mut self) -> usize {
        let buckets = self.buckets;
        self.put(4, &buckets.to_le_bytes());
        self.at
    }

    /// Turns one container into runs where that costs two bytes and saves more of the header.
    ///
    /// Without it the result could be some bytes larger than what Delta's code writes, which keeps a run container as
    /// long as it is at most two bytes larger than the array.
    #[inline]
    fn prefer_small_header(&mut self) {
        let bucket = self.bucket;
        let saved = bucket.payload(false).saturating_sub(bucket.payload(true));
        if let Some((index, _)) = bucket.nearly_runs
            && !bucket.has_runs
            && saved > 2
        {
            self.turn_into_runs(index);
        }
    }

    #[cold]
    fn turn_into_runs(&mut self, index: usize) {
        // The header shrinks first, by more than the two bytes that the container then grows by.
        self.relayout(true, self.bucket.count, 0);
        let Some((_, place)) = self.bucket.nearly_runs else { return };
        let heads = self.bucket.heads(true);
        let card = (u32_at(self.out, heads + 4 * index) >> 16) + 1;
        let old_len = plain_bytes(card);
        let Some(values) = self.out.get(place..place + old_len).map(<[u8]>::to_vec) else { return };
        self.out.copy_within(place + old_len..self.at, place + old_len + 2);
        self.at += 2;
        let runs = u32::try_from(old_len / 4).unwrap_or(0);
        if let Some(room) = self.out.get_mut(place..place + old_len + 2) {
            fill_runs(room, runs, |sink| {
                for value in values.as_chunks::<2>().0 {
                    let value = u16::from_le_bytes(*value);
                    sink(value, value);
                }
            });
        }
        self.set_flag(index);
        self.bucket.has_runs = true;
        if Bucket::has_offsets(self.bucket.count, true) {
            self.write_offsets(self.bucket.count);
        }
    }

    /// Marks the next container, whose `pending` bytes have been written, as a run container.
    #[inline]
    fn note_runs(&mut self, pending: usize) {
        if !self.bucket.run_layout {
            self.relayout(true, self.bucket.count, pending);
        }
        self.bucket.has_runs = true;
        self.set_flag(self.bucket.next);
    }

    fn set_flag(&mut self, index: usize) {
        if let Some(byte) = self.out.get_mut(self.bucket.start + 4 + (index >> 3)) {
            *byte |= 1 << (index & 7);
        }
    }

    /// Writes the part of the header in front of the keys.
    fn write_fixed(&mut self) {
        let Bucket { start, count, run_layout, .. } = self.bucket;
        let count_word = u32::try_from(count).unwrap_or(0);
        if run_layout {
            self.put(start, &(COOKIE_RUNS | count_word.saturating_sub(1) << 16).to_le_bytes());
            if let Some(flags) = self.out.get_mut(start + 4..start + 4 + count.div_ceil(8)) {
                flags.fill(0);
            }
        } else {
            self.put(start, &COOKIE_NO_RUNS.to_le_bytes());
            self.put(start + 4, &count_word.to_le_bytes());
        }
    }

    /// Changes the layout of the header after some containers have been written, `pending` bytes of the next one
    /// among them. The bytes by which it may grow have been kept free.
    #[cold]
    #[inline(never)]
    fn relayout(&mut self, run_layout: bool, count: usize, pending: usize) {
        let old = self.bucket;
        let new = Bucket { count, ..old };
        let (from, to) = (old.payload(old.run_layout), new.payload(run_layout));
        let heads =
            self.out.get(old.heads(old.run_layout)..).and_then(|rest| rest.get(..4 * old.next));
        let heads = heads.unwrap_or(&[]).to_vec();
        let keeps_flags = old.has_runs && run_layout;
        let flags = if keeps_flags { old.next.div_ceil(8) } else { 0 };
        let flags_at = old.start + 4;
        let flags = self.out.get(flags_at..flags_at + flags).unwrap_or(&[]).to_vec();
        self.out.copy_within(from..self.at + pending, to);
        self.at = self.at - from + to;
        self.bucket.count = count;
        self.bucket.lay_out(run_layout);
        self.bucket.reserve = 0;
        if let Some((_, place)) = &mut self.bucket.nearly_runs {
            *place = *place - from + to;
        }
        self.write_fixed();
        self.put(flags_at, &flags);
        let at = self.bucket.heads(run_layout);
        self.put(at, &heads);
        if Bucket::has_offsets(count, run_layout) {
            self.write_offsets(old.next);
        }
    }

    /// Works the offsets of the first `count` containers out from what the payload says of itself.
    fn write_offsets(&mut self, count: usize) {
        let bucket = self.bucket;
        let heads = bucket.heads(bucket.run_layout);
        let mut place = bucket.payload(bucket.run_layout);
        for index in 0..count {
            self.put(heads + 4 * (bucket.count + index), &offset_word(place - bucket.start));
            let card = (u32_at(self.out, heads + 4 * index) >> 16) + 1;
            let flag = self.out.get(bucket.start + 4 + (index >> 3)).copied().unwrap_or(0);
            let is_runs = bucket.run_layout && flag >> (index & 7) & 1 == 1;
            place += if is_runs {
                run_bytes(u32::from(u16_at(self.out, place)))
            } else {
                plain_bytes(card)
            };
        }
    }

    #[inline(always)]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

/// See [`Writer::slots`].
#[derive(Debug)]
pub(crate) struct Slots<'w> {
    /// A bit for each container of the bitmap, clear where it is still to come; empty in a layout without runs.
    pub(crate) flags: &'w mut [u8],
    pub(crate) heads: &'w mut [[u8; 4]],
    /// Empty in a layout without offsets.
    pub(crate) offsets: &'w mut [[u8; 4]],
    pub(crate) tail: &'w mut [u8],
    /// Index of the first of the containers to come.
    pub(crate) next: usize,
    /// How far behind the start of the bitmap `tail` begins.
    pub(crate) place: usize,
}

impl Slots<'_> {
    /// Takes back that any of the containers to come is one of runs.
    pub(crate) fn clear_flags(&mut self) {
        if let Some((first, rest)) =
            self.flags.get_mut(self.next >> 3..).and_then(<[u8]>::split_first_mut)
        {
            *first &= !(0xff << (self.next & 7));
            rest.fill(0);
        }
    }
}

/// What was written to [`Slots`].
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) containers: usize,
    /// Bytes of payload.
    pub(crate) len: usize,
    pub(crate) rows: u64,
    /// Whether there is a run container among them.
    pub(crate) runs: bool,
}

/// Key and cardinality of a container.
#[inline]
pub(crate) const fn head_word(key: u32, card: u32) -> [u8; 4] {
    (key | (card - 1) << 16).to_le_bytes()
}

/// A 32-bit bitmap has at most 65536 containers of 8194 bytes, so offsets fit in 32 bits.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "see above")]
pub(crate) fn offset_word(offset: usize) -> [u8; 4] {
    (offset as u32).to_le_bytes()
}

/// The count in front of runs.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "a container has at most 32768 runs")]
pub(crate) fn count_word(runs: u32) -> [u8; 2] {
    (runs as u16).to_le_bytes()
}

/// Fills `room` with a count and `runs` runs, joining intervals that touch.
fn fill_runs(room: &mut [u8], runs: u32, intervals: impl FnOnce(&mut dyn FnMut(u16, u16))) {
    let Some((count, payload)) = room.split_first_chunk_mut::<2>() else { return };
    *count = count_word(runs);
    let mut slots = payload.as_chunks_mut::<4>().0.iter_mut();
    let mut open: Option<(u16, u16)> = None;
    let mut close = |(first, last): (u16, u16)| {
        if let Some(slot) = slots.next() {
            *slot = (u32::from(last - first) << 16 | u32::from(first)).to_le_bytes();
        }
    };
    intervals(&mut |first, last| match &mut open {
        Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
        _ => {
            if let Some(done) = open.replace((first, last)) {
                close(done);
            }
        }
    });
    if let Some(done) = open {
        close(done);
    }
}
