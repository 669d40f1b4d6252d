//! Walking over a serialized bitmap, container by container, and checking all of it on the way.
//!
//! A [`Cursor`] has checked structure, order and size of everything in front of the container it stands on. Only when
//! it has come to the end has the whole bitmap been checked, the declared cardinality included.

use crate::error::{BitmapError, ErrorCode};
use crate::format::{
    ARRAY_MAX, BITSET_BYTES, BUCKET_KEY_LIMIT, BUCKET_MIN_BYTES, Bits, CONTAINER_VALUES,
    COOKIE_NO_RUNS, COOKIE_RUNS, NATIVE_MAGIC, NO_OFFSET_THRESHOLD, PORTABLE_MAGIC, u16_at, u32_at,
    u64_at,
};
use crate::kernels::{Kernels, portable};

/// How a container holds its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Strictly increasing values, two bytes each.
    Array,
    /// One bit for each of the 65536 possible values.
    Bitset,
    /// Runs: first value and number of further values, two bytes each.
    Runs,
}

/// One checked container.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Container<'a> {
    pub(crate) kind: Kind,
    /// Number of values, 1 to 65536.
    pub(crate) card: u32,
    /// Values, bits or runs; the count in front of the runs is left out.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Container<'a> {
    /// No value at all, as an array.
    pub(crate) const EMPTY: Container<'static> =
        Container { kind: Kind::Array, card: 0, bytes: &[] };

    /// The bits of a bitset container.
    #[inline]
    pub(crate) fn bits(&self) -> Option<&'a Bits> {
        match self.kind {
            Kind::Bitset => self.bytes.first_chunk::<BITSET_BYTES>(),
            Kind::Array | Kind::Runs => None,
        }
    }

    /// Number of maximal runs of consecutive values; of a bitset exact only as long as runs may be worth it.
    #[inline(always)]
    pub(crate) fn count_runs<K: Kernels>(&self, kernels: K) -> u32 {
        match (self.kind, self.bits()) {
            (Kind::Array, _) => kernels.check_array(self.bytes).unwrap_or(self.card),
            (_, Some(bits)) => kernels.count_runs(bits),
            (_, None) => portable::maximal_runs(self.bytes),
        }
    }

    /// The bits of the container, in place where it is a bitset, else written to `scratch`.
    #[inline]
    pub(crate) fn as_bits<'b>(&self, scratch: &'b mut Bits) -> &'b Bits
    where
        'a: 'b,
    {
        match self.bits() {
            Some(bits) => bits,
            None => {
                scratch.fill(0);
                match self.kind {
                    Kind::Runs => portable::set_runs(self.bytes, scratch),
                    Kind::Array | Kind::Bitset => portable::set_values(self.bytes, scratch),
                }
                scratch
            }
        }
    }

    /// The largest value.
    #[inline]
    fn last(&self) -> u32 {
        let len = self.bytes.len();
        match self.kind {
            Kind::Array => u32::from(u16_at(self.bytes, len.wrapping_sub(2))),
            Kind::Runs => {
                let run = u32_at(self.bytes, len.wrapping_sub(4));
                (run & 0xffff) + (run >> 16)
            }
            Kind::Bitset => {
                let mut at = len.wrapping_sub(8);
                loop {
                    let word = u64_at(self.bytes, at);
                    if word != 0 || at == 0 || at >= len {
                        // At most 8184 * 8 + 63.
                        #[allow(clippy::cast_possible_truncation, reason = "below 65536")]
                        return (at * 8) as u32 + (63 - word.leading_zeros().min(63));
                    }
                    at -= 8;
                }
            }
        }
    }
}

/// The key of no container: behind all that exist.
pub(crate) const END: u64 = u64::MAX;

/// The row index of value zero of the container with this key, of a bucket below 2^31.
#[inline]
pub(crate) const fn first_row_of(key: u64) -> u64 {
    (key >> 32 << 32) | (key & 0xffff) << 16
}

/// As [`END`], within a bucket.
pub(crate) const NO_KEY: u32 = 1 << 16;

/// Bytes of the average container up to which a bucket is sparse.
pub(crate) const SPARSE_BYTES: usize = 64;

/// Containers that stand one behind the other, none of which has been checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch<'a> {
    /// Key and cardinality of each.
    pub(crate) heads: &'a [[u8; 4]],
    /// Index in `flags`, which are those of the whole bucket, of the first.
    first: usize,
    flags: &'a [u8],
    /// Empty where the bucket has none.
    pub(crate) offsets: &'a [[u8; 4]],
    /// The offset at which the first is to stand.
    pub(crate) place: usize,
    /// Their bytes, and perhaps what stands behind them.
    pub(crate) payload: &'a [u8],
}

impl<'a> Stretch<'a> {
    const EMPTY: Stretch<'static> =
        Stretch { heads: &[], first: 0, flags: &[], offsets: &[], place: 0, payload: &[] };

    /// Whether there are few bytes for each container, or few at all.
    pub(crate) fn is_sparse(&self) -> bool {
        self.payload.len() <= SPARSE_BYTES * (self.heads.len() + 16)
    }

    /// The same with a payload of their values alone. None where they are not all arrays.
    #[inline]
    pub(crate) fn arrays(&self) -> Option<Stretch<'a>> {
        let (mut values, mut most) = (self.heads.len(), 0);
        for head in self.heads {
            let more = u32::from_le_bytes(*head) >> 16;
            values += more as usize;
            most = most.max(more);
        }
        if !self.flags.is_empty() || most >= ARRAY_MAX {
            return None;
        }
        Some(Stretch { payload: self.payload.get(..2 * values)?, ..*self })
    }

    /// Whether the container with this index is marked as one of runs.
    #[inline(always)]
    pub(crate) fn is_runs(&self, index: usize) -> bool {
        let bit = self.first + index;
        self.flags.get(bit >> 3).is_some_and(|flags| flags >> (bit & 7) & 1 == 1)
    }

    /// As [`Self::is_runs`], for 64 containers from this index on, the first in the lowest bit.
    #[inline]
    pub(crate) fn flags_from(&self, index: usize) -> u64 {
        let bit = self.first + index;
        let rest = self.flags.get(bit >> 3..).unwrap_or(&[]);
        let mut bytes = [0; 16];
        for (byte, flags) in bytes.iter_mut().zip(rest) {
            *byte = *flags;
        }
        #[allow(clippy::cast_possible_truncation, reason = "the lowest 64 bits")]
        let flags = (u128::from_le_bytes(bytes) >> (bit & 7)) as u64;
        flags
    }

    /// Whether a container with this index that begins at byte `at` of the payload is where its offset says.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "compared as the 32 bits that are stored")]
    pub(crate) fn is_at(&self, index: usize, at: usize) -> bool {
        let place = (self.place + at) as u32;
        self.offsets.get(index).is_none_or(|offset| u32::from_le_bytes(*offset) == place)
    }
}

/// A place in a serialized bitmap.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    /// Of the container the cursor stands on, which has not been read. High 32 bits: key of the bucket; low 16 bits: key
    /// of the container. [`END`] behind the last container.
    pub(crate) key: u64,
    /// Sum of the cardinalities of all containers in front of it.
    pub(crate) seen: u64,
    declared: u64,
    num_records: u64,
    native: bool,
    buckets_left: u64,
    /// The least key that the next bucket may have; in the native form, the key it has.
    next_bucket: u64,
    /// Where the next thing to be read begins.
    at: usize,
    /// Where the current bucket must end at the latest.
    limit: usize,
    start: usize,
    /// Key and cardinality of each container of the current bucket.
    heads: &'a [[u8; 4]],
    /// Index in the current bucket of the container the cursor stands on.
    next: usize,
    flags: &'a [u8],
    offsets: &'a [[u8; 4]],
}

impl<'a> Cursor<'a> {
    /// A cursor over no bitmap at all.
    pub(crate) const fn absent() -> Cursor<'static> {
        Cursor {
            data: &[],
            key: END,
            seen: 0,
            declared: 0,
            num_records: 0,
            native: false,
            buckets_left: 0,
            next_bucket: 0,
            at: 0,
            limit: 0,
            start: 0,
            heads: &[],
            next: 0,
            flags: &[],
            offsets: &[],
        }
    }

    /// Stands on the first container of `data`. Rows must lie below `num_records`.
    pub(crate) fn open(
        data: &'a [u8],
        declared: u64,
        num_records: u64,
    ) -> Result<Cursor<'a>, BitmapError> {
        let mut cursor = Cursor::absent();
        cursor.begin(data, declared, num_records)?;
        Ok(cursor)
    }

    /// Turns a cursor over nothing into one that stands on the first container of `data`, as [`Self::open`] does,
    /// without moving it.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        data: &'a [u8],
        declared: u64,
        num_records: u64,
    ) -> Result<(), BitmapError> {
        self.read_preamble(data)?;
        self.declared = declared;
        self.num_records = num_records;
        self.enter_bucket()
    }

    #[inline]
    fn read_preamble(&mut self, data: &'a [u8]) -> Result<(), BitmapError> {
        let truncated =
            |need: usize| BitmapError::new(ErrorCode::Truncated, 0, need as u64, data.len() as u64);
        if data.len() < 4 {
            return Err(truncated(4));
        }
        let magic = u32_at(data, 0);
        let (native, count, at) = match magic {
            PORTABLE_MAGIC if data.len() < 12 => return Err(truncated(12)),
            NATIVE_MAGIC if data.len() < 8 => return Err(truncated(8)),
            PORTABLE_MAGIC => (false, u64_at(data, 4), 12),
            NATIVE_MAGIC => (true, u64::from(u32_at(data, 4)), 8),
            _ => {
                return Err(BitmapError::new(
                    ErrorCode::BadMagic,
                    0,
                    u64::from(PORTABLE_MAGIC),
                    u64::from(magic),
                ));
            }
        };
        let most = ((data.len() - at) / BUCKET_MIN_BYTES) as u64;
        if count > most {
            return Err(BitmapError::new(ErrorCode::TooMany, 4, most, count));
        }
        self.data = data;
        self.native = native;
        self.buckets_left = count;
        self.at = at;
        self.limit = at;
        Ok(())
    }

    /// Key and cardinality word of every container of the bucket the cursor stands in, if that has key `high`.
    #[inline]
    pub(crate) fn heads_of_bucket(&self, high: u64) -> &'a [[u8; 4]] {
        if self.in_bucket(high) { self.heads } else { &[] }
    }

    /// Whether the cursor stands in the bucket with key `high`.
    #[inline]
    pub(crate) fn in_bucket(&self, high: u64) -> bool {
        // That of no bucket is the upper half of `END`.
        self.key >> 32 == high
    }

    /// Whether the bucket the cursor stands in has the cookie of bitmaps with run containers.
    #[inline]
    pub(crate) fn bucket_has_runs(&self) -> bool {
        !self.flags.is_empty()
    }

    /// Reads and checks the container the cursor stands on, and goes on to the next; at the end checks what can only
    /// be known there. Must not be called at the end.
    #[inline(always)]
    pub(crate) fn read<K: Kernels>(&mut self, kernels: K) -> Result<Container<'a>, BitmapError> {
        let index = self.next;
        let at = self.at;
        if let Some(offset) = self.offsets.get(index) {
            let offset = u32::from_le_bytes(*offset) as usize;
            if offset != at - self.start {
                return Err(self.wrong_offset(index, offset));
            }
        }
        let head = self.heads.get(index).map_or(0, |head| u32::from_le_bytes(*head));
        let card = (head >> 16) + 1;
        let is_runs = self.flags.get(index >> 3).is_some_and(|byte| byte >> (index & 7) & 1 == 1);
        let container = if is_runs {
            self.read_runs(kernels, card)?
        } else if card <= ARRAY_MAX {
            let bytes = self.take(2 * card as usize)?;
            if !kernels.is_ascending(bytes) {
                return Err(unordered_array(at, bytes));
            }
            Container { kind: Kind::Array, card, bytes }
        } else {
            let bytes = self.take(BITSET_BYTES)?;
            let got = bytes.first_chunk().map_or(0, |bits| kernels.popcount(bits));
            if got != card {
                return Err(BitmapError::new(
                    ErrorCode::BitsetCardinality,
                    at,
                    u64::from(card),
                    u64::from(got),
                ));
            }
            Container { kind: Kind::Bitset, card, bytes }
        };
        let first_row = first_row_of(self.key);
        // The bucket key is below 2^31, so this cannot overflow.
        if first_row + u64::from(CONTAINER_VALUES) > self.num_records {
            let last_row = first_row + u64::from(container.last());
            if last_row >= self.num_records {
                return Err(BitmapError::new(ErrorCode::RowRange, at, self.num_records, last_row));
            }
        }
        self.seen += u64::from(card);
        self.go_to(index + 1)?;
        Ok(container)
    }

    /// Stands on a container of the current bucket, or of the next one where it has no more.
    #[inline(always)]
    fn go_to(&mut self, index: usize) -> Result<(), BitmapError> {
        self.next = index;
        match self.heads.get(index) {
            Some([low, high, ..]) => {
                self.key = (self.key & !0xffff) | u64::from(u16::from_le_bytes([*low, *high]));
                Ok(())
            }
            None if self.buckets_left == 0 => self.finish(),
            None => self.enter_bucket(),
        }
    }

    /// Whether the cursor stands before a bucket of containers with up to so many bytes each, as far as can be told at a
    /// glance.
    #[inline]
    pub(crate) fn bucket_is_sparse(&self, bytes: usize) -> bool {
        let end = match (self.offsets.last(), self.bucket_has_runs()) {
            (Some(last), false) => self.start + u32::from_le_bytes(*last) as usize,
            _ => self.limit,
        };
        self.next == 0 && end <= self.at + bytes * self.heads.len()
    }

    /// Cardinality and bits of the container the cursor stands on, unchecked, if it is a bitset and not the last of the
    /// file.
    #[inline]
    pub(crate) fn bitset(&self) -> Option<(u32, &'a Bits)> {
        let index = self.next;
        let card = (u32::from_le_bytes(*self.heads.get(index)?) >> 16) + 1;
        let flag = self.flags.get(index >> 3).copied().unwrap_or(0);
        if card <= ARRAY_MAX || flag >> (index & 7) & 1 == 1 {
            return None;
        }
        if let Some(offset) = self.offsets.get(index)
            && u32::from_le_bytes(*offset) as usize != self.at - self.start
        {
            return None;
        }
        let behind = first_row_of(self.key) + u64::from(CONTAINER_VALUES);
        let bits = self.data.get(self.at..self.limit)?.first_chunk()?;
        (behind <= self.num_records).then_some((card, bits))
    }

    /// Goes on behind what [`Self::bitset`] gave, and has been checked.
    #[inline]
    pub(crate) fn pass_bitset(&mut self, card: u32) -> Result<(), BitmapError> {
        self.at += BITSET_BYTES;
        self.seen += u64::from(card);
        self.go_to(self.next + 1)
    }

    /// The key of the container `count` behind the next one, if the cursor stands in the bucket with key `high`.
    #[inline]
    pub(crate) fn key_behind(&self, high: u64, count: usize) -> u32 {
        let head = self.heads_of_bucket(high).get(self.next + count);
        head.map_or(NO_KEY, |head| u32::from(u16_at(head, 0)))
    }

    /// The containers in front of key `until`, if the cursor stands in the bucket with key `high`.
    #[inline]
    pub(crate) fn stretch(&self, high: u64, until: u32) -> Stretch<'a> {
        let heads = self.heads_of_bucket(high).get(self.next..).unwrap_or(&[]);
        let heads = match heads.last() {
            None => return Stretch::EMPTY,
            Some(last) if u32::from(u16_at(last, 0)) < until => heads,
            Some(_) => {
                heads.split_at(heads.partition_point(|head| u32::from(u16_at(head, 0)) < until)).0
            }
        };
        let next = self.next + heads.len();
        let behind = self.offsets.get(next).map(|offset| u32::from_le_bytes(*offset) as usize);
        // If that is not where they end, it will be found.
        let end = behind.map_or(self.limit, |offset| self.start + offset).min(self.limit);
        Stretch {
            heads,
            first: self.next,
            flags: self.flags,
            offsets: self.offsets.get(self.next..next).unwrap_or(&[]),
            place: self.at - self.start,
            payload: self.data.get(self.at..end).unwrap_or(&[]),
        }
    }

    /// Goes on behind containers of `stretch`, taken from here, that have been checked, with what they take.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        stretch: &Stretch<'a>,
        bytes: usize,
        rows: u64,
    ) -> Result<(), BitmapError> {
        if stretch.heads.is_empty() {
            return Ok(());
        }
        self.at += bytes;
        self.seen += rows;
        self.go_to(self.next + stretch.heads.len())
    }

    /// The next `len` bytes of the current bucket.
    #[inline(always)]
    fn take(&mut self, len: usize) -> Result<&'a [u8], BitmapError> {
        let end = self.at + len;
        match self.data.get(self.at..end) {
            Some(bytes) if end <= self.limit => {
                self.at = end;
                Ok(bytes)
            }
            _ => Err(self.truncated(end)),
        }
    }

    #[cold]
    fn truncated(&self, need: usize) -> BitmapError {
        BitmapError::new(ErrorCode::Truncated, self.at, need as u64, self.limit as u64)
    }

    #[cold]
    fn wrong_offset(&self, index: usize, got: usize) -> BitmapError {
        let header = self.offsets.len().saturating_sub(index) * 4;
        let place = self.start + self.header_len(self.heads.len()) - header;
        BitmapError::new(ErrorCode::OffsetHeader, place, (self.at - self.start) as u64, got as u64)
    }

    /// Length of everything in front of the first container of the current bucket.
    fn header_len(&self, containers: usize) -> usize {
        let fixed = if self.flags.is_empty() { 8 } else { 4 + self.flags.len() };
        fixed + 4 * containers + 4 * self.offsets.len()
    }

    #[inline]
    fn read_runs<K: Kernels>(
        &mut self,
        kernels: K,
        card: u32,
    ) -> Result<Container<'a>, BitmapError> {
        let at = self.at;
        let count = match self.take(2)? {
            [low, high] => u16::from_le_bytes([*low, *high]),
            _ => 0,
        };
        if count == 0 {
            return Err(BitmapError::new(ErrorCode::ContainerSize, at, 1, 0));
        }
        let bytes = self.take(4 * usize::from(count))?;
        let Some(got) = kernels.check_runs(bytes) else { return Err(wrong_runs(at + 2, bytes)) };
        if got != card {
            let (card, got) = (u64::from(card), u64::from(got));
            return Err(BitmapError::new(ErrorCode::ContainerSize, at, card, got));
        }
        Ok(Container { kind: Kind::Runs, card, bytes })
    }

    /// Stands on the first container of the next bucket that is not empty, or at the end if there is none.
    #[inline(never)]
    fn enter_bucket(&mut self) -> Result<(), BitmapError> {
        loop {
            if self.buckets_left == 0 {
                return self.finish();
            }
            self.check_end()?;
            self.buckets_left -= 1;
            self.limit = self.data.len();
            let at = self.at;
            let word = match self.take(4)? {
                [a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]),
                _ => 0,
            };
            let high = if self.native {
                self.limit = self.at.saturating_add(word as usize);
                if self.limit > self.data.len() {
                    let got = (self.data.len() - self.at) as u64;
                    return Err(BitmapError::new(ErrorCode::Truncated, at, u64::from(word), got));
                }
                self.next_bucket
            } else {
                u64::from(word)
            };
            if high >= u64::from(BUCKET_KEY_LIMIT) {
                let limit = u64::from(BUCKET_KEY_LIMIT);
                return Err(BitmapError::new(ErrorCode::KeyRange, at, limit, high));
            }
            if high < self.next_bucket {
                return Err(BitmapError::new(ErrorCode::KeyOrder, at, self.next_bucket, high));
            }
            self.next_bucket = high + 1;
            self.read_header()?;
            if let Some(first) = self.heads.first() {
                self.key = high << 32 | u64::from(u16_at(first, 0));
                return Ok(());
            }
        }
    }

    /// In the native form a bucket says how long it is; this is where it must have ended.
    #[inline(always)]
    fn check_end(&self) -> Result<(), BitmapError> {
        if self.at == self.limit || !self.native {
            return Ok(());
        }
        let [end, limit] = [self.at, self.limit].map(|at| (at - self.start) as u64);
        Err(BitmapError::new(ErrorCode::OffsetHeader, self.at, end, limit))
    }

    /// Reads what stands in front of the containers of a 32-bit bitmap, and checks that its keys ascend.
    fn read_header(&mut self) -> Result<(), BitmapError> {
        let start = self.at;
        self.start = start;
        let cookie = match self.take(4)? {
            [a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]),
            _ => 0,
        };
        let count = if cookie == COOKIE_NO_RUNS {
            self.flags = &[];
            let count = match self.take(4)? {
                [a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]),
                _ => 0,
            };
            if count > CONTAINER_VALUES {
                let most = u64::from(CONTAINER_VALUES);
                return Err(BitmapError::new(
                    ErrorCode::TooMany,
                    start + 4,
                    most,
                    u64::from(count),
                ));
            }
            count as usize
        } else if cookie & 0xffff == COOKIE_RUNS {
            let count = (cookie >> 16) as usize + 1;
            self.flags = self.take(count.div_ceil(8))?;
            count
        } else {
            return Err(BitmapError::new(
                ErrorCode::BadCookie,
                start,
                u64::from(COOKIE_NO_RUNS),
                u64::from(cookie),
            ));
        };
        let heads_at = self.at;
        self.heads = self.take(4 * count)?.as_chunks().0;
        self.next = 0;
        self.offsets = if self.flags.is_empty() || count >= NO_OFFSET_THRESHOLD {
            self.take(4 * count)?.as_chunks().0
        } else {
            &[]
        };
        let key = |head: &[u8; 4]| u32::from_le_bytes(*head) & 0xffff;
        let mut unordered = 0;
        for (low, high) in self.heads.iter().zip(self.heads.get(1..).unwrap_or(&[])) {
            unordered |= u32::from(key(low) >= key(high));
        }
        if unordered != 0 { Err(unordered_heads(heads_at, self.heads)) } else { Ok(()) }
    }

    /// Checks that nothing is left over and that the bitmap holds as many rows as was declared.
    #[inline]
    fn finish(&mut self) -> Result<(), BitmapError> {
        self.check_end()?;
        self.key = END;
        self.heads = &[];
        self.next = 0;
        if self.at != self.data.len() {
            return Err(BitmapError::new(
                ErrorCode::TrailingBytes,
                self.at,
                self.at as u64,
                self.data.len() as u64,
            ));
        }
        if self.seen != self.declared {
            return Err(BitmapError::new(ErrorCode::Cardinality, 0, self.declared, self.seen));
        }
        Ok(())
    }
}

#[cold]
fn unordered_array(at: usize, values: &[u8]) -> BitmapError {
    let index = portable::first_unordered_value(values);
    let least = u64::from(u16_at(values, 2 * index.saturating_sub(1))) + 1;
    let got = u64::from(u16_at(values, 2 * index));
    BitmapError::new(ErrorCode::ValueOrder, at + 2 * index, least, got)
}

#[cold]
fn unordered_heads(at: usize, heads: &[[u8; 4]]) -> BitmapError {
    let mut least = 0u64;
    for (index, head) in heads.iter().enumerate() {
        let key = u64::from(u16_at(head, 0));
        if key < least {
            return BitmapError::new(ErrorCode::KeyOrder, at + 4 * index, least, key);
        }
        least = key + 1;
    }
    BitmapError::new(ErrorCode::KeyOrder, at, 0, 0)
}

#[cold]
fn wrong_runs(at: usize, runs: &[u8]) -> BitmapError {
    let mut least = 0u64;
    for (index, run) in runs.as_chunks::<4>().0.iter().enumerate() {
        let start = u64::from(u16_at(run, 0));
        let end = start + u64::from(u16_at(run, 2));
        let place = at + 4 * index;
        if start < least {
            return BitmapError::new(ErrorCode::ValueOrder, place, least, start);
        }
        if end > 0xffff {
            return BitmapError::new(ErrorCode::RunRange, place, 0xffff, end);
        }
        least = end + 1;
    }
    BitmapError::new(ErrorCode::ValueOrder, at, 0, 0)
}
