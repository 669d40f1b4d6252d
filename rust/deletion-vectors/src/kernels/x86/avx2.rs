//! Blocks of 32 bytes: 16 values or 8 runs.

use std::arch::x86_64::*;

use super::*;

compile_portable! { "avx2,bmi1,bmi2,lzcnt,popcnt";
    popcount(bits: &Bits) -> u32;
    covers(base: &Bits, win: &Bits) -> bool;
    count_common(base: &Bits, cur: &Bits, win: &Bits) -> u32;
    count_runs(bits: &Bits) -> u32;
    put_heads(keys: &[[u8; 4]], starts: &[[u8; 4]], place: usize, heads: &mut [[u8; 4]], offsets: &mut [[u8; 4]]) -> u32;
}

/// See [`super::Kernels::SPARSE_ARRAY_BYTES`].
pub(super) const SPARSE_ARRAY_BYTES: usize = SPARSE_BYTES;

/// For each mask of 8 lanes their indexes, in an order that moves those that are not set to the front, ascending, and
/// those that are to the back, descending: these instruction sets have no instruction that moves lanes together.
#[allow(clippy::cast_possible_truncation, reason = "below 8")]
const fn lanes_apart() -> [[u8; 8]; 256] {
    let mut table = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut clear, mut set) = (0, 0, 0);
        while lane < 8 {
            if mask >> lane & 1 == 0 {
                table[mask][clear] = lane as u8;
                clear += 1;
            } else {
                set += 1;
                table[mask][8 - set] = lane as u8;
            }
            lane += 1;
        }
        mask += 1;
    }
    table
}

/// The same for the bytes of lanes of 16 bits.
const fn values_apart() -> [[u8; 16]; 256] {
    let lanes = lanes_apart();
    let mut table = [[0; 16]; 256];
    let mut mask = 0;
    while mask < 256 {
        let mut lane = 0;
        while lane < 8 {
            table[mask][2 * lane] = 2 * lanes[mask][lane];
            table[mask][2 * lane + 1] = 2 * lanes[mask][lane] + 1;
            lane += 1;
        }
        mask += 1;
    }
    table
}

/// A table of which no entry lies in two cache lines.
#[repr(align(64))]
struct Aligned<const BYTES: usize>([[u8; BYTES]; 256]);

static LANES: Aligned<8> = Aligned(lanes_apart());
static VALUES: Aligned<16> = Aligned(values_apart());

/// See [`super::Kernels::run`].
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn run<K: Kernels, W: Work>(kernels: K, work: W) -> W::Done {
    work.on(kernels)
}

/// All bits of the lowest `count` of 8 lanes, which is any number.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn low_lanes(count: usize) -> __m256i {
    // Within one cache line.
    #[repr(align(64))]
    struct Masks([i32; 16]);
    static MASKS: Masks = Masks([-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let first = 8 - count.min(8);
    // SAFETY: at least 8 are left from there on.
    unsafe { _mm256_loadu_si256(MASKS.0.as_ptr().wrapping_add(first).cast()) }
}

/// All bits of the lanes of 16 bits from index `from` on, at most 16.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "at most 16")]
fn high_values(from: usize) -> __m256i {
    let lanes = _mm256_set_epi16(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    _mm256_cmpgt_epi16(lanes, _mm256_set1_epi16(from as i16 - 1))
}

/// The lanes of 32 bits, of which all bits are equal, as a mask.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(clippy::cast_sign_loss, reason = "a mask of 8 bits")]
fn mask_of(lanes: __m256i) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(lanes)) as u32
}

/// The indexes of the lanes of `mask`, a number of 8 bits, one in each lane of 32 bits, and those of all others behind
/// them.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn indexes_of(mask: u32) -> __m256i {
    // SAFETY: an entry is 8 bytes.
    unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(LANES.0[!mask as usize & 0xff].as_ptr().cast())) }
}

/// The lanes of `mask`, a number of 8 bits, moved together.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn compress(mask: u32, lanes: __m256i) -> __m256i {
    _mm256_permutevar8x32_epi32(lanes, indexes_of(mask))
}

/// The 32 bytes from `at` on.
///
/// # Safety
/// They are there.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn load(bytes: &[u8], at: usize) -> __m256i {
    debug_assert!(at + 32 <= bytes.len());
    // SAFETY: see above.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().wrapping_add(at).cast()) }
}

/// The 16 values from `at` on in descending order; also the keys of 8 runs, as a key has the halves of its run
/// exchanged. Loading the halves in the other order takes less than exchanging them afterwards.
///
/// # Safety
/// As of [`load`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn load_reversed(bytes: &[u8], at: usize) -> __m256i {
    debug_assert!(at + 32 <= bytes.len());
    let place = bytes.as_ptr().wrapping_add(at);
    // SAFETY: see above.
    reverse_in_halves(unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(place.wrapping_add(16).cast()));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(place.cast()))
    })
}

/// The 16 values from byte `at` on, or as many as there are; other lanes have all bits set.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn load_values(values: &[u8], at: usize) -> __m256i {
    let mut block = [0xff; 32];
    let rest = values.get(at..).unwrap_or(&[]);
    match rest.first_chunk() {
        Some(chunk) => block = *chunk,
        None => block[..rest.len()].copy_from_slice(rest),
    }
    // SAFETY: `block` is 32 bytes.
    unsafe { load(&block, 0) }
}

/// The up to 16 values in front of byte `end`, in order, the last in the highest lane; where there are fewer, the
/// lower lanes are zero.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn load_before(values: &[u8], end: usize) -> __m256i {
    let mut block = [0; 32];
    let rest = values.get(..end).unwrap_or(&[]);
    match rest.last_chunk() {
        Some(chunk) => block = *chunk,
        None => block[32 - rest.len()..].copy_from_slice(rest),
    }
    // SAFETY: `block` is 32 bytes.
    unsafe { load(&block, 0) }
}

/// The 8 numbers of 32 bits from byte `at` on, or as many as there are; other lanes have all bits set.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn load_runs(runs: &[u8], at: usize) -> __m256i {
    let left = runs.len().saturating_sub(at) / 4;
    // With a branch, which is foreseen, the block need not wait for the mask.
    if left >= 8 {
        // SAFETY: 8 numbers are left.
        return unsafe { load(runs, at) };
    }
    let mask = low_lanes(left);
    // SAFETY: lanes outside of the mask are not read, and those inside it lie within `runs`.
    let block = unsafe { _mm256_maskload_epi32(runs.as_ptr().wrapping_add(at).cast(), mask) };
    _mm256_or_si256(block, _mm256_xor_si256(mask, _mm256_set1_epi32(-1)))
}

/// Runs as keys, and keys as runs.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn swap_halves(v: __m256i) -> __m256i {
    let order = _mm_set_epi8(13, 12, 15, 14, 9, 8, 11, 10, 5, 4, 7, 6, 1, 0, 3, 2);
    _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order))
}

/// The keys of the 8 runs from byte `at` on.
///
/// # Safety
/// As of [`load`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn load_run_keys(runs: &[u8], at: usize) -> __m256i {
    // SAFETY: see above.
    swap_halves(unsafe { load(runs, at) })
}

/// The keys of up to 8 runs from byte `at` on.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn load_keys(runs: &[u8], at: usize) -> __m256i {
    swap_halves(load_runs(runs, at))
}

/// The keys of up to 8 runs in front of byte `end`; see [`load_before`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn load_keys_before(runs: &[u8], end: usize) -> __m256i {
    debug_assert!(end <= runs.len());
    if end >= 32 {
        // SAFETY: `end` starts at the length and only shrinks.
        return swap_halves(unsafe { load(runs, end - 32) });
    }
    let place = runs.as_ptr().wrapping_add(end).wrapping_sub(32);
    let mask = _mm256_xor_si256(low_lanes(8 - end / 4), _mm256_set1_epi32(-1));
    // SAFETY: lanes outside of the mask are not read, and those inside it lie within `runs`.
    swap_halves(unsafe { _mm256_maskload_epi32(place.cast(), mask) })
}

/// Stores the whole block at byte `at` if it fits into `out`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn store(out: &mut [u8], at: usize, block: __m256i) {
    // So that nothing but the comparison is left in a loop.
    match out.len().checked_sub(32) {
        // SAFETY: it ends within `out`.
        Some(last) if at <= last => unsafe { put(out, at, block) },
        _ => debug_assert!(false, "out is too short"),
    }
}

/// As [`store`], where it has been asked before whether it fits.
///
/// # Safety
/// It must fit.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn put(out: &mut [u8], at: usize, block: __m256i) {
    debug_assert!(at + 32 <= out.len());
    // SAFETY: see above.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().wrapping_add(at).cast(), block) }
}

/// As [`put`], for half a block.
///
/// # Safety
/// As there.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn put_half(out: &mut [u8], at: usize, block: __m128i) {
    debug_assert!(at + 16 <= out.len());
    // SAFETY: see above.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().wrapping_add(at).cast(), block) }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn reverse_in_halves(v: __m256i) -> __m256i {
    let order = _mm_set_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order))
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn reverse_values(v: __m256i) -> __m256i {
    let v = reverse_in_halves(v);
    _mm256_permute2x128_si256::<1>(v, v)
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn reverse_keys(v: __m256i) -> __m256i {
    _mm256_permutevar8x32_epi32(v, _mm256_set_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

/// Sorts two blocks of 16 values, in each of which the first part ascends and the second descends.
///
/// Each step leaves the smaller of two values that are half a block apart in the lower half, and then deals the halves
/// alternately: so the next step, which needs values a quarter apart, can do the same, and after the last one all stand
/// where they belong. The lower halves of both blocks are in one register, and the upper ones in another.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn sort_values(front: __m256i, back: __m256i) -> (__m256i, __m256i) {
    let mut low = _mm256_permute2x128_si256::<0x20>(front, back);
    let mut high = _mm256_permute2x128_si256::<0x31>(front, back);
    for _ in 0..4 {
        let (less, more) = (_mm256_min_epu16(low, high), _mm256_max_epu16(low, high));
        low = _mm256_unpacklo_epi16(less, more);
        high = _mm256_unpackhi_epi16(less, more);
    }
    (_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high))
}

/// As [`sort_values`], for blocks of 8 numbers of 32 bits.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn sort_keys(front: __m256i, back: __m256i) -> (__m256i, __m256i) {
    let mut low = _mm256_permute2x128_si256::<0x20>(front, back);
    let mut high = _mm256_permute2x128_si256::<0x31>(front, back);
    for _ in 0..3 {
        let (less, more) = (_mm256_min_epu32(low, high), _mm256_max_epu32(low, high));
        low = _mm256_unpacklo_epi32(less, more);
        high = _mm256_unpackhi_epi32(less, more);
    }
    (_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high))
}

/// Whether values are strictly increasing, and of those how many follow on the one before.
///
/// # Safety
/// They must be 17 at least.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn check_order(values: &[u8]) -> Option<u32> {
    debug_assert!(values.len() >= 34);
    let one = _mm256_set1_epi16(1);
    // The least difference, which stays zero where a value is not above the one before.
    let mut least = one;
    let mut joined = _mm256_setzero_si256();
    // SAFETY: `at` is at least 2, and 32 bytes are left there.
    let difference =
        |at: usize| unsafe { _mm256_subs_epu16(load(values, at), load(values, at - 2)) };
    let mut at = 2;
    while at + 32 <= values.len() {
        let above = difference(at);
        least = _mm256_min_epu16(least, above);
        joined = _mm256_sub_epi16(joined, _mm256_cmpeq_epi16(above, one));
        at += 32;
    }
    // The last 16, of which the lowest have been looked at.
    let from = values.len() - 32;
    let above = difference(from);
    least = _mm256_min_epu16(least, above);
    let follows = _mm256_and_si256(_mm256_cmpeq_epi16(above, one), high_values((at - from) / 2));
    joined = _mm256_sub_epi16(joined, follows);
    let ascend = _mm256_testc_si256(least, one) == 1;
    // No list that ascends has so many values that a lane could overflow.
    ascend.then(|| sum(_mm256_madd_epi16(joined, one)))
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn is_ascending(values: &[u8]) -> bool {
    if values.len() < 34 {
        return portable::is_ascending(values);
    }
    // SAFETY: see the length.
    unsafe { check_order(values) }.is_some()
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(clippy::cast_possible_truncation, reason = "at most 65536 where they ascend")]
pub(super) fn check_array(values: &[u8]) -> Option<u32> {
    if values.len() < 34 {
        return portable::check_array(values);
    }
    // SAFETY: see the length.
    unsafe { check_order(values) }.map(|joined| (values.len() / 2) as u32 - joined)
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(clippy::cast_possible_truncation, reason = "at most 65535 runs")]
pub(super) fn check_runs(runs: &[u8]) -> Option<u32> {
    let len = runs.len();
    if len < 36 {
        return portable::check_runs(runs);
    }
    let low_half = _mm256_set1_epi32(0xffff);
    let ends_before = |run: __m256i, next: __m256i| {
        let end = _mm256_add_epi32(_mm256_and_si256(run, low_half), _mm256_srli_epi32::<16>(run));
        _mm256_cmpgt_epi32(_mm256_and_si256(next, low_half), end)
    };
    let mut lengths = _mm256_setzero_si256();
    let mut good = _mm256_set1_epi32(-1);
    let mut at = 0;
    while at + 36 <= len {
        // SAFETY: 36 bytes are left.
        let (run, next) = unsafe { (load(runs, at), load(runs, at + 4)) };
        good = _mm256_and_si256(good, ends_before(run, next));
        lengths = _mm256_add_epi32(lengths, _mm256_srli_epi32::<16>(run));
        at += 32;
    }
    // The last 8 and the one in front of them, some of which have been looked at.
    // SAFETY: 36 bytes are there.
    let (run, last) = unsafe { (load(runs, len - 36), load(runs, len - 32)) };
    good = _mm256_and_si256(good, ends_before(run, last));
    let done = low_lanes(8 - (len - at) / 4);
    lengths = _mm256_add_epi32(lengths, _mm256_andnot_si256(done, _mm256_srli_epi32::<16>(last)));
    // A run with another one behind it ends in front of that.
    let last = u32_at(runs, len - 4);
    let ends = (last & 0xffff) + (last >> 16) <= 0xffff;
    let ascend = _mm256_testc_si256(good, _mm256_set1_epi32(-1)) == 1;
    (ascend && ends).then(|| sum(lengths).wrapping_add((len / 4) as u32))
}

/// How far two lists have been merged from both ends, in bytes. What lies between `front` and `back` is still to be
/// written.
struct Ends {
    from_cur: usize,
    from_win: usize,
    to_cur: usize,
    to_win: usize,
    front: usize,
    back: usize,
}

impl Ends {
    fn new(cur: &[u8], win: &[u8]) -> Self {
        let (to_cur, to_win) = (cur.len(), win.len());
        Ends { from_cur: 0, from_win: 0, to_cur, to_win, front: 0, back: to_cur + to_win }
    }

    /// Whether more than one block is still to be written.
    #[inline(always)]
    fn apart(&self) -> bool {
        self.front + 32 < self.back
    }

    /// Whether the next block from each end lies within each list.
    #[inline(always)]
    fn within(&self, cur: &[u8], win: &[u8]) -> bool {
        self.from_cur + 32 <= cur.len()
            && self.from_win + 32 <= win.len()
            && self.to_cur >= 32
            && self.to_win >= 32
    }

    /// Takes note of a block from each end, of which so many bytes were those of `cur`. Where a list has ended, bytes
    /// that are not its own may be counted too.
    #[inline(always)]
    fn pass(&mut self, first: usize, last: usize) {
        self.from_cur += first;
        self.from_win += 32 - first;
        self.front += 32;
        self.to_cur = self.to_cur.saturating_sub(last);
        self.to_win = self.to_win.saturating_sub(32 - last);
        self.back -= 32;
    }
}

/// Merges two lists block by block, as [`super`] says.
macro_rules! merge_lists {
    ($cur:ident, $win:ident, $out:ident; $min:ident, $max:ident, $sort:ident, $taken:expr;
        within $next:expr, $next_reversed:expr;
        first $first:ident, last $last:ident, reversed $reverse:ident) => {
        if $out.len() < $cur.len() + $win.len() + SLACK {
            debug_assert!(false, "out is too short");
            return;
        }
        let mut ends = Ends::new($cur, $win);
        let mut step = |ends: &mut Ends, [first_cur, first_win, last_cur, last_win]: [__m256i; 4]| {
            let smallest = $min(first_cur, first_win);
            let largest = $max(last_cur, last_win);
            let (front, back) = (ends.front, ends.back - 32);
            ends.pass($taken(first_cur, smallest), $taken(last_cur, largest));
            let (smallest, largest) = $sort(smallest, largest);
            // SAFETY: both lie between the ends, which lie within what is to be written.
            unsafe {
                put($out, front, smallest);
                put($out, back, largest);
            }
        };
        // As long as no list comes to its end there is less to be asked, and the loop is faster by half.
        while ends.apart() && ends.within($cur, $win) {
            // SAFETY: see `within`.
            let blocks = unsafe {
                [
                    $next($cur, ends.from_cur),
                    $next_reversed($win, ends.from_win),
                    $next($cur, ends.to_cur - 32),
                    $next_reversed($win, ends.to_win - 32),
                ]
            };
            step(&mut ends, blocks);
        }
        while ends.apart() {
            let blocks = [
                $first($cur, ends.from_cur),
                $reverse($first($win, ends.from_win)),
                $last($cur, ends.to_cur),
                $reverse($last($win, ends.to_win)),
            ];
            step(&mut ends, blocks);
        }
        if ends.front < ends.back {
            let up = $first($cur, ends.from_cur);
            let down = $reverse($first($win, ends.from_win));
            let rest = $min(up, down);
            // SAFETY: `out` has more than a block behind what is to be written.
            unsafe { put($out, ends.front, $sort(rest, rest).0) }
        }
    };
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn merge_arrays(cur: &[u8], win: &[u8], out: &mut [u8]) {
    let taken = |from: __m256i, block: __m256i| {
        _mm256_movemask_epi8(_mm256_cmpeq_epi16(from, block)).count_ones() as usize
    };
    merge_lists!(cur, win, out; _mm256_min_epu16, _mm256_max_epu16, sort_values, taken;
        within load, load_reversed;
        first load_values, last load_before, reversed reverse_values);
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn merge_runs(cur: &[u8], win: &[u8], out: &mut [u8]) {
    let taken = |from: __m256i, block: __m256i| {
        4 * mask_of(_mm256_cmpeq_epi32(from, block)).count_ones() as usize
    };
    merge_lists!(cur, win, out; _mm256_min_epu32, _mm256_max_epu32, sort_keys, taken;
        within load_run_keys, load_reversed;
        first load_keys, last load_keys_before, reversed reverse_keys);
}

/// Whether what was gathered at `place` is `base`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn is_base(out: &[u8], place: usize, common: usize, base: &[u8]) -> bool {
    common == base.len() && out.get(place..place + common) == Some(base)
}

/// What [`split_arrays`] has done so far, in bytes.
struct SplitArrays<'s> {
    out: &'s mut [u8],
    /// Of the union, which grows from the start of `out`.
    written: usize,
    /// Where in `out` the values that came twice begin, less what has been looked at and is not among them: they grow from
    /// the end of `out`, the first one last.
    common: usize,
    looked_at: usize,
    /// For each lane how many values follow on the one before.
    joined: __m256i,
}

impl SplitArrays<'_> {
    /// Goes on with the 16 values of `merged` from here, but passes only the first `count` of them.
    ///
    /// # Safety
    /// They must be there, and one in front of them, and `out` must hold `merged` and two blocks more.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[allow(clippy::cast_sign_loss, reason = "a mask")]
    unsafe fn step(&mut self, merged: &[u8], count: usize) {
        // SAFETY: see above.
        let (block, previous) =
            unsafe { (load(merged, self.looked_at), load(merged, self.looked_at - 2)) };
        let above = _mm256_sub_epi16(block, previous);
        let again = _mm256_cmpeq_epi16(above, _mm256_setzero_si256());
        let follows = _mm256_cmpeq_epi16(above, _mm256_set1_epi16(1));
        let follows =
            if count < 16 { _mm256_andnot_si256(high_values(count), follows) } else { follows };
        self.joined = _mm256_sub_epi16(self.joined, follows);
        // Eight bits for the lower half, and eight from bit 16 on for the upper one.
        let again = _mm256_movemask_epi8(_mm256_packs_epi16(again, again)) as u32;
        let halves = [
            (again & 0xff, count.min(8), _mm256_castsi256_si128(block)),
            (again >> 16 & 0xff, count.saturating_sub(8), _mm256_extracti128_si256::<1>(block)),
        ];
        for (again, count, half) in halves {
            let order = &VALUES.0[again as usize];
            // SAFETY: an entry is 16 bytes. In `out`, what came once and what came twice are together as much as has
            // been looked at, and between them is room for two blocks more.
            unsafe {
                let apart = _mm_shuffle_epi8(half, _mm_loadu_si128(order.as_ptr().cast()));
                put_half(self.out, self.written, apart);
                put_half(self.out, self.common + self.written - self.looked_at, apart);
            }
            let again = again & !(0xff << count);
            self.looked_at += 2 * count;
            self.written += 2 * count - 2 * again.count_ones() as usize;
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(clippy::cast_possible_truncation, reason = "lengths below 65536")]
pub(super) fn split_arrays(merged: &[u8], base: &[u8], out: &mut [u8]) -> Option<(u32, u32)> {
    let len = merged.len();
    if len < 34 || !len.is_multiple_of(2) || out.len() < len + SLACK {
        return portable::split_arrays(merged, base, out);
    }
    let out = &mut out[..len + SLACK];
    out[..2].copy_from_slice(&merged[..2]);
    let joined = _mm256_setzero_si256();
    let mut split = SplitArrays { common: out.len() - 16, out, written: 2, looked_at: 2, joined };
    // First as many as are over, so that the last block ends where the values do.
    let over = (len / 2 - 1) % 16;
    // SAFETY: there are 17 values at least, and room in `out`.
    unsafe { split.step(merged, over) };
    while split.looked_at < len {
        // SAFETY: a whole number of blocks is left.
        unsafe { split.step(merged, 16) };
    }
    let SplitArrays { out, written, joined, .. } = split;
    let joined = sum(_mm256_madd_epi16(joined, _mm256_set1_epi16(1)));
    let values = (written / 2) as u32;
    is_descending_base(out, len - written, base).then_some((values, values - joined))
}

/// Whether the last `common` bytes of `list`, which must be longer by a block, are the numbers of `base` in descending
/// order. Of numbers of 32 bits, those of one list have the halves of the other exchanged.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn is_descending_base(list: &[u8], common: usize, base: &[u8]) -> bool {
    if common != base.len() || list.len() < common + 32 {
        return false;
    }
    let len = common;
    // SAFETY: `list` has a block in front of what is compared.
    let listed = |at: usize| reverse_values(unsafe { load(list, list.len() - at - 32) });
    let mut differ = _mm256_setzero_si256();
    let mut at = 0;
    while at + 32 <= len {
        // SAFETY: the block ends within `base`.
        let here = _mm256_xor_si256(listed(at), unsafe { load(base, at) });
        differ = _mm256_or_si256(differ, here);
        at += 32;
    }
    if at < len {
        // The last 16 where there are so many, some of them again.
        let from = len.saturating_sub(32);
        let here = _mm256_xor_si256(listed(from), load_values(base, from));
        differ = _mm256_or_si256(differ, _mm256_andnot_si256(high_values((len - from) / 2), here));
    }
    _mm256_testz_si256(differ, differ) == 1
}

/// The numbers of 32 bits from byte `at` on, or the last 8 where there are fewer, with those one in front of each, the
/// mask of the lanes from `at` on, and where it goes on.
///
/// # Safety
/// `numbers` are at least 9, and `at`, which is at least 4, is below their length.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn load_with_previous(numbers: &[u8], at: usize) -> (__m256i, __m256i, u32, usize) {
    if at + 32 <= numbers.len() {
        // SAFETY: the block ends within `numbers`, and one stands in front of it.
        return unsafe { (load(numbers, at), load(numbers, at - 4), 0xff, at + 32) };
    }
    let from = numbers.len() - 32;
    // SAFETY: `from` is at least 4, and 32 bytes are left there.
    let (block, previous) = unsafe { (load(numbers, from), load(numbers, from - 4)) };
    (block, previous, 0xff << ((at - from) / 4) & 0xff, from + 32)
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn split_runs(
    merged: &[u8],
    base: &[u8],
    out: &mut [u8],
    ends: &mut [u8],
) -> Option<(u32, u32)> {
    if merged.len() < 36 || out.len().min(ends.len()) < merged.len() + SLACK {
        return portable::split_runs(merged, base, out, ends);
    }
    // What came twice is gathered behind what the union can have at most, if that is `base`, and a block, as the last store
    // of the union may be one.
    let place = merged.len().checked_sub(base.len())? + 32;
    let low_half = _mm256_set1_epi32(0xffff);
    let one = _mm256_set1_epi32(1);
    let start_of = |keys: __m256i| _mm256_srli_epi32::<16>(keys);
    let end_of = |keys: __m256i| _mm256_add_epi32(start_of(keys), _mm256_and_si256(keys, low_half));
    out[..4].copy_from_slice(&(u32::from(u16_at(merged, 2))).to_le_bytes());
    let (mut written, mut shared, mut wrong, mut at) = (4, 0, 0, 4);
    while at < merged.len() {
        // SAFETY: see the lengths above.
        let (keys, before, lanes, next) = unsafe { load_with_previous(merged, at) };
        let (start, end_before) = (start_of(keys), end_of(before));
        let again = mask_of(_mm256_cmpeq_epi32(keys, before)) & lanes;
        let apart = mask_of(_mm256_cmpgt_epi32(start, end_before));
        wrong |= lanes & !again & !apart;
        let after = _mm256_add_epi32(end_before, one);
        let joins = mask_of(_mm256_cmpeq_epi32(start, after));
        // A run of the union ends in front of where the next one starts.
        let starts = lanes & !again & !joins;
        let common = compress(again, swap_halves(keys));
        // SAFETY: all have room for what has been looked at, this block and another one; what came twice and what did
        // not are no more than that.
        unsafe {
            put(out, written, compress(starts, start));
            put(ends, written, compress(starts, end_before));
            put(out, place + shared.min(base.len()), common);
        }
        written += 4 * starts.count_ones() as usize;
        shared += 4 * again.count_ones() as usize;
        at = next;
    }
    if wrong != 0 || !is_base(out, place, shared, base) {
        return None;
    }
    // The last run ends where the last one of `merged` does.
    let last = u32_at(merged, merged.len() - 4);
    let end = (last >> 16) + (last & 0xffff);
    ends[written..written + 4].copy_from_slice(&end.to_le_bytes());
    let (starts, ends) = (&mut out[..written + 32], &ends[4..written + 36]);
    let mut lengths = _mm256_setzero_si256();
    let mut at = 0;
    while at < written {
        // SAFETY: both have 32 bytes more than were written.
        let (start, end) = unsafe { (load(starts, at), load(ends, at)) };
        let more = _mm256_sub_epi32(end, start);
        let lanes = low_lanes((written - at) / 4);
        lengths = _mm256_add_epi32(lengths, _mm256_and_si256(more, lanes));
        store(starts, at, _mm256_or_si256(start, _mm256_slli_epi32::<16>(more)));
        at += 32;
    }
    #[allow(
        clippy::cast_possible_truncation,
        reason = "at most 32768 runs, of at most 65536 values together"
    )]
    let runs = (written / 4) as u32;
    Some((runs, runs.wrapping_add(sum(lengths))))
}

/// The sum of 8 lanes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(clippy::cast_sign_loss, reason = "a sum without a sign")]
fn sum(v: __m256i) -> u32 {
    let v = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    let v = _mm_add_epi32(v, _mm_shuffle_epi32::<0b01_00_11_10>(v));
    _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32::<0b10_11_00_01>(v))) as u32
}

/// The 8 values from byte `at` on, or as many as there are; other lanes hold anything.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(clippy::cast_possible_wrap, clippy::cast_possible_truncation, reason = "below 32")]
fn load_eight(values: &[u8], at: usize) -> __m128i {
    let Some(last) = values.len().checked_sub(16) else {
        let mut block = [0; 16];
        let rest = values.get(at..).unwrap_or(&[]);
        block[..rest.len()].copy_from_slice(rest);
        // SAFETY: `block` is 16 bytes.
        return unsafe { _mm_loadu_si128(block.as_ptr().cast()) };
    };
    let from = at.min(last);
    // SAFETY: 16 bytes are there.
    let block = unsafe { _mm_loadu_si128(values.as_ptr().wrapping_add(from).cast()) };
    let bytes = _mm_set_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    // Only the lowest bits of an index of a byte count.
    _mm_shuffle_epi8(block, _mm_add_epi8(bytes, _mm_set1_epi8((at - from) as i8)))
}

/// Whether arrays begin where their offsets say if the first one begins at `place`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "compared as the 32 bits that are stored"
)]
fn follow_one_another(heads: &[[u8; 4]], offsets: &[[u8; 4]], place: usize) -> bool {
    if heads.len() != offsets.len() {
        return false;
    }
    if heads.len() < 9 {
        let mut place = place as u32;
        return heads.iter().zip(offsets).all(|(head, offset)| {
            let here = place;
            place += 2 * (u32::from_le_bytes(*head) >> 16) + 2;
            u32::from_le_bytes(*offset) == here
        });
    }
    let (heads, offsets) = (heads.as_flattened(), offsets.as_flattened());
    let one = _mm256_set1_epi32(1);
    let mut wrong = _mm256_setzero_si256();
    let mut at = 0;
    // The last one has none behind it.
    while at + 4 < heads.len() {
        let from = at.min(heads.len() - 36);
        // SAFETY: 36 bytes are left in both.
        let (head, offset, next) =
            unsafe { (load(heads, from), load(offsets, from), load(offsets, from + 4)) };
        let card = _mm256_add_epi32(_mm256_srli_epi32::<16>(head), one);
        let end = _mm256_add_epi32(offset, _mm256_add_epi32(card, card));
        wrong = _mm256_or_si256(wrong, _mm256_xor_si256(end, next));
        at += 32;
    }
    u32_at(offsets, 0) == place as u32 && _mm256_testz_si256(wrong, wrong) == 1
}

/// Whether each value is above the one before it where both have the same key.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn ascend_in_containers(values: &[u8], keys: &[u8]) -> bool {
    let len = values.len();
    if len < 34 || keys.len() < len {
        debug_assert!(keys.len() >= len);
        return (2..len).step_by(2).all(|at| {
            u16_at(values, at) > u16_at(values, at - 2) || u16_at(keys, at) != u16_at(keys, at - 2)
        });
    }
    let zero = _mm256_setzero_si256();
    let mut wrong = zero;
    let mut at = 2;
    while at < len {
        let from = at.min(len - 32);
        // SAFETY: `from` is at least 2, and 32 bytes are left there in both.
        let (above, same_key) = unsafe {
            (
                _mm256_subs_epu16(load(values, from), load(values, from - 2)),
                _mm256_cmpeq_epi16(load(keys, from), load(keys, from - 2)),
            )
        };
        let not_above = _mm256_cmpeq_epi16(above, zero);
        wrong = _mm256_or_si256(wrong, _mm256_and_si256(not_above, same_key));
        at += 32;
    }
    _mm256_testz_si256(wrong, wrong) == 1
}

// Apart from its caller, which has no registers left for it.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn flatten(arrays: &Stretch<'_>, out: &mut [u8]) -> bool {
    let Stretch { heads, offsets, payload, .. } = *arrays;
    let len = payload.len();
    if out.len() < 2 * len + SLACK {
        debug_assert!(false, "out is too short");
        return false;
    }
    if heads.is_empty() {
        return len == 0;
    }
    // First the key of each value, as far behind the start that the pairs, which are written from there on, only
    // overwrite keys that have been read.
    let keys = len + 32;
    let mut at = 0;
    for [low, high, more_low, more_high] in heads {
        let key = _mm256_set1_epi16(i16::from_le_bytes([*low, *high]));
        let end = at + 2 * usize::from(u16::from_le_bytes([*more_low, *more_high])) + 2;
        if end > len {
            return false;
        }
        loop {
            // What is written behind the container is overwritten by the next one, or slack.
            // SAFETY: `at` is below `len`, and `out` has `SLACK` bytes more than twice that.
            unsafe { put(out, keys + at, key) };
            at += 32;
            if at >= end {
                break;
            }
        }
        at = end;
    }
    if at != len
        || !follow_one_another(heads, offsets, arrays.place)
        || !ascend_in_containers(payload, &out[keys..])
    {
        return false;
    }
    if len < 32 {
        let mut values = [0; 32];
        values[..len].copy_from_slice(payload);
        // SAFETY: `out` has room for 16 pairs, and as many keys.
        unsafe { put_pairs(load(&values, 0), out, keys, 0) };
        return true;
    }
    let mut at = 0;
    while at < len {
        // At the end the last 16, some of them again.
        let from = at.min(len - 32);
        // SAFETY: 32 bytes lie there in `payload`, and behind `keys` in `out`, which has room for twice as many.
        unsafe { put_pairs(load(payload, from), out, keys, from) };
        at += 32;
    }
    true
}

/// Writes 16 values, whose keys stand behind byte `keys`, as pairs to where those of byte `at` of the values belong.
///
/// # Safety
/// There must be 32 bytes of keys, and room for twice as many of pairs.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn put_pairs(values: __m256i, out: &mut [u8], keys: usize, at: usize) {
    // SAFETY: see above.
    unsafe {
        let keys = load(out, keys + at);
        // These stay within the halves.
        let (low, high) =
            (_mm256_unpacklo_epi16(keys, values), _mm256_unpackhi_epi16(keys, values));
        put(out, 2 * at, _mm256_permute2x128_si256::<0x20>(low, high));
        put(out, 2 * at + 32, _mm256_permute2x128_si256::<0x31>(low, high));
    }
}

/// All bits of the lanes of pairs that have the same key in both.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn same_keys(left: __m256i, right: __m256i) -> __m256i {
    let differ = _mm256_srli_epi32::<16>(_mm256_xor_si256(left, right));
    _mm256_cmpeq_epi32(differ, _mm256_setzero_si256())
}

/// What [`split_pairs`] has done so far.
struct SplitPairs<'s> {
    out: &'s mut [u8],
    keys: &'s mut [u8],
    starts: &'s mut [u8],
    /// Where in `keys` and in `starts` the last block may begin.
    last_block: usize,
    /// What came twice grows from its end, the first one last.
    common: &'s mut [u8],
    /// Numbers of pairs.
    looked_at: usize,
    written: usize,
    containers: usize,
    /// For each lane how many pairs follow on the one before.
    joined: __m256i,
}

impl SplitPairs<'_> {
    /// Goes on with the 8 pairs of `merged` from here, but passes only the first `count` of them.
    ///
    /// # Safety
    /// They must be there, and one in front of them. `out` must hold all values and a block more, and `common` a block, as
    /// `keys` and `starts` from `last_block` on.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[allow(
        clippy::cast_possible_wrap,
        clippy::cast_possible_truncation,
        reason = "indexes of the values of a few containers"
    )]
    unsafe fn step(&mut self, merged: &[u8], count: usize) {
        let at = 4 * self.looked_at;
        // SAFETY: see above.
        let (pairs, before) = unsafe { (load(merged, at), load(merged, at - 4)) };
        let again = mask_of(_mm256_cmpeq_epi32(pairs, before));
        let follows = _mm256_cmpeq_epi32(_mm256_sub_epi32(pairs, before), _mm256_set1_epi32(1));
        self.joined = _mm256_sub_epi32(self.joined, follows);
        let order = indexes_of(!again);
        let apart = _mm256_permutevar8x32_epi32(pairs, order);
        let once = count - (again & !(0xff << count)).count_ones() as usize;
        let same_key = _mm256_permutevar8x32_epi32(same_keys(pairs, before), order);
        let begins = _bzhi_u32(!mask_of(same_key), once as u32);
        let indexes = indexes_of(begins);
        let from_first = _mm256_set1_epi32(self.written as i32);
        let values = _mm256_shuffle_epi8(
            apart,
            _mm256_broadcastsi128_si256(_mm_set_epi8(
                -1, -1, -1, -1, -1, -1, -1, -1, 13, 12, 9, 8, 5, 4, 1, 0,
            )),
        );
        let values = _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(values));
        // No list that is merged from two has more, and with more it is not the base.
        let again_bytes = 4 * (self.looked_at - self.written);
        let common = (self.common.len() - 32).saturating_sub(again_bytes);
        let containers = (4 * self.containers).min(self.last_block);
        // SAFETY: what came once is no more than what has been looked at, and the others have room for a block.
        unsafe {
            put_half(self.out, 2 * self.written, values);
            put(self.common, common, apart);
            put(self.keys, containers, _mm256_permutevar8x32_epi32(apart, indexes));
            put(self.starts, containers, _mm256_add_epi32(indexes, from_first));
        }
        self.looked_at += count;
        self.written += once;
        self.containers += begins.count_ones() as usize;
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn split_pairs(
    merged: &[u8],
    base: &[u8],
    out: &mut [u8],
    [keys, starts, common]: [&mut [u8]; 3],
) -> Option<PairUnion> {
    let last_block = keys.len().min(starts.len()).saturating_sub(32);
    if merged.len() < 36
        || last_block == 0
        || out.len() < merged.len() / 2 + SLACK
        || common.len() < merged.len() / 2 + SLACK
        || common.len() < base.len() + SLACK
    {
        return portable::split_pairs(merged, base, out, [keys, starts, common]);
    }
    keys[..4].copy_from_slice(&merged[..4]);
    starts[..4].fill(0);
    out[..2].copy_from_slice(&merged[..2]);
    let pairs = merged.len() / 4;
    let joined = _mm256_setzero_si256();
    let mut split = SplitPairs {
        out,
        keys,
        starts,
        last_block,
        common,
        looked_at: 1,
        written: 1,
        containers: 1,
        joined,
    };
    // First as many as are over, so that the last block ends where the pairs do.
    let over = (pairs - 1) % 8;
    if over != 0 {
        // SAFETY: there are 9 pairs at least, and room.
        unsafe { split.step(merged, over) };
    }
    while split.looked_at < pairs {
        // SAFETY: a whole number of blocks is left.
        unsafe { split.step(merged, 8) };
    }
    let SplitPairs { common, written, containers, joined, .. } = split;
    let union = PairUnion { values: written, containers, joined: sum(joined) };
    let is_base = is_descending_base(common, 4 * (pairs - written), base);
    (is_base && 4 * containers <= last_block).then_some(union)
}

/// Writes the runs of one container as they are to where those behind `flat` belong, and the key of each to the same place
/// of `keys`. None as of [`flatten_runs`].
///
/// # Safety
/// `runs` and `keys` must hold `most` numbers and a block.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(clippy::cast_possible_wrap, reason = "16 bits")]
unsafe fn gather_runs(
    payload: &[u8],
    head: u32,
    is_runs: bool,
    flat: FlatRuns,
    most: usize,
    [runs, keys]: [&mut [u8]; 2],
) -> Option<FlatRuns> {
    let key = _mm256_set1_epi32((head & 0xffff) as i32);
    let card = (head >> 16) + 1;
    let rest = payload.get(flat.bytes..)?;
    let (count, skip, bytes) = if is_runs {
        let count = usize::from(u16::from_le_bytes(*rest.first_chunk()?));
        (count, 2, 4 * count)
    } else if card <= ARRAY_MAX {
        (card as usize, 0, 2 * card as usize)
    } else {
        return None;
    };
    let container = rest.get(skip..skip + bytes)?;
    if flat.runs + count > most {
        return None;
    }
    let mut lengths = _mm256_setzero_si256();
    for at in (0..count).step_by(8) {
        let block = if is_runs {
            let place = container.as_ptr().wrapping_add(4 * at).cast();
            // SAFETY: lanes outside of the mask are not read, and those inside it lie within `container`.
            unsafe { _mm256_maskload_epi32(place, low_lanes(count - at)) }
        } else {
            _mm256_cvtepu16_epi32(load_eight(container, 2 * at))
        };
        lengths = _mm256_add_epi32(lengths, _mm256_srli_epi32::<16>(block));
        let to = 4 * (flat.runs + at);
        // SAFETY: there is room for `most` and a block.
        unsafe {
            put(runs, to, block);
            put(keys, to, key);
        }
    }
    if is_runs && u64::from(sum(lengths)) + count as u64 != u64::from(card) {
        return None;
    }
    Some(FlatRuns {
        bytes: flat.bytes + skip + bytes,
        runs: flat.runs + count,
        rows: flat.rows + u64::from(card),
    })
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(
    clippy::cast_possible_truncation,
    reason = "8 runs, and offsets as the 32 bits that are stored"
)]
pub(super) fn flatten_runs(
    containers: &Stretch<'_>,
    starts: &mut [u8],
    ends: &mut [u8],
) -> Option<FlatRuns> {
    let most = starts.len().min(ends.len()).checked_sub(SLACK)? / 4;
    let Stretch { heads, payload, offsets, place, .. } = *containers;
    let low_half = _mm256_set1_epi32(0xffff);
    let (mut bytes, mut runs, mut rows) = (0, 0, 0);
    let mut wrong = 0;
    let mut flags = 0;
    // First the runs as they are, and the key of each: what follows then need not care where a container ends.
    for (index, head) in heads.iter().enumerate() {
        let head = u32::from_le_bytes(*head);
        let card = (head >> 16) + 1;
        if index % 64 == 0 {
            flags = containers.flags_from(index);
        }
        let is_runs = flags & 1 == 1;
        flags >>= 1;
        if let Some(offset) = offsets.get(index) {
            wrong |= u32::from_le_bytes(*offset) ^ (place + bytes) as u32;
        }
        if is_runs && bytes + 34 <= payload.len() && runs + 8 <= most {
            let at = payload.as_ptr().wrapping_add(bytes);
            // SAFETY: 34 bytes are left.
            let (count, block) = unsafe {
                let count = u16::from_le_bytes(at.cast::<[u8; 2]>().read());
                (usize::from(count), _mm256_loadu_si256(at.wrapping_add(2).cast()))
            };
            let block = _mm256_and_si256(block, low_lanes(count));
            let key = _mm256_and_si256(_mm256_set1_epi32(head.cast_signed()), low_half);
            // SAFETY: there is room for `most` and a block; what is written behind the container is overwritten by the
            // next one, or slack.
            unsafe {
                put(starts, 4 * runs, block);
                put(ends, 4 * runs, key);
            }
            let values = sum(_mm256_srli_epi32::<16>(block)) + count as u32;
            if count <= 8 && values == card {
                bytes += 2 + 4 * count;
                runs += count;
                rows += u64::from(card);
                continue;
            }
        }
        let flat = FlatRuns { bytes, runs, rows };
        // SAFETY: see `most`.
        let flat = unsafe { gather_runs(payload, head, is_runs, flat, most, [starts, ends])? };
        FlatRuns { bytes, runs, rows } = flat;
    }
    if wrong != 0 {
        return None;
    }
    let flat = FlatRuns { bytes, runs, rows };
    let downwards = _mm256_set_epi32(6, 5, 4, 3, 2, 1, 0, 7);
    let mut bad = _mm256_setzero_si256();
    // In front of the first run nothing ends.
    let mut end_before = _mm256_setzero_si256();
    let mut at = 0;
    while at < flat.runs {
        let to = 4 * at;
        // SAFETY: there is room for a block behind the last run.
        let (run, key) = unsafe { (load(starts, to), load(ends, to)) };
        let first = _mm256_and_si256(run, low_half);
        let last = _mm256_add_epi32(first, _mm256_srli_epi32::<16>(run));
        // SAFETY: as above.
        unsafe {
            put(starts, to, _mm256_or_si256(_mm256_slli_epi32::<16>(first), key));
            put(ends, to, _mm256_or_si256(_mm256_slli_epi32::<16>(last), key));
        }
        // As numbers that are in order where their runs are.
        let key = _mm256_slli_epi32::<16>(key);
        let end = _mm256_permutevar8x32_epi32(_mm256_or_si256(key, last), downwards);
        let before = _mm256_blend_epi32::<1>(end, end_before);
        end_before = end;
        let start = _mm256_or_si256(key, first);
        let not_behind = _mm256_cmpeq_epi32(_mm256_max_epu32(start, before), before);
        let passed = _mm256_cmpgt_epi32(last, low_half);
        // The very first may start at zero.
        let none = _mm256_setzero_si256();
        let not_behind =
            if at == 0 { _mm256_blend_epi32::<1>(not_behind, none) } else { not_behind };
        let wrong =
            _mm256_and_si256(_mm256_or_si256(not_behind, passed), low_lanes(flat.runs - at));
        bad = _mm256_or_si256(bad, wrong);
        at += 8;
    }
    (_mm256_testz_si256(bad, bad) == 1).then_some(flat)
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    reason = "indexes of the runs of a few containers"
)]
pub(super) fn split_spans(
    spans: [&[u8]; 2],
    base: [&[u8]; 2],
    lists: [&mut [u8]; 3],
    common: &mut [u8],
) -> Option<(usize, usize)> {
    let [all_starts, all_ends] = spans;
    let len = all_starts.len();
    let has_room = |list: &&mut [u8]| list.len() >= len + SLACK;
    if len < 36
        || all_ends.len() != len
        || !lists[..2].iter().all(has_room)
        || common.len() < 2 * (base[0].len() + SLACK)
    {
        return portable::split_spans(spans, base, lists, common);
    }
    let [starts, ends, firsts] = lists;
    let (common_starts, common_ends) = common.split_at_mut(common.len() / 2);
    starts[..4].copy_from_slice(&all_starts[..4]);
    firsts[..4].fill(0);
    let one = _mm256_set1_epi32(1);
    let (mut written, mut containers, mut shared, mut wrong, mut at) = (4, 4, 0, 0, 4);
    while at < len {
        // SAFETY: see the length above.
        let ((start, before, lanes, next), (end, end_before, ..)) =
            unsafe { (load_with_previous(all_starts, at), load_with_previous(all_ends, at)) };
        let same = _mm256_and_si256(
            _mm256_cmpeq_epi32(start, before),
            _mm256_cmpeq_epi32(end, end_before),
        );
        let again = mask_of(same) & lanes;
        let overlaps = mask_of(_mm256_cmpeq_epi32(_mm256_max_epu32(start, end_before), end_before));
        wrong |= overlaps & lanes & !again;
        let joins = mask_of(_mm256_cmpeq_epi32(start, _mm256_add_epi32(end_before, one)));
        let same_key = mask_of(same_keys(start, before));
        // A run of the union ends in front of where the next one starts.
        let kept = lanes & !again & !(joins & same_key);
        let left = compress(kept, start);
        // SAFETY: `starts` and `ends` have room for what has been looked at, this block and another one, and `common`
        // for `base` and a block.
        unsafe {
            put(starts, written, left);
            put(ends, written - 4, compress(kept, end_before));
            let to = shared.min(base[0].len());
            put(common_starts, to, compress(again, swap_halves(start)));
            put(common_ends, to, compress(again, swap_halves(end)));
        }
        // Which of the runs of the union are the first of their container.
        let begins = !mask_of(same_keys(left, compress(kept, before)));
        let begins = _bzhi_u32(begins, kept.count_ones());
        let from_first = _mm256_set1_epi32((written / 4) as i32);
        store(firsts, containers, _mm256_add_epi32(indexes_of(begins), from_first));
        containers += 4 * begins.count_ones() as usize;
        written += 4 * kept.count_ones() as usize;
        shared += 4 * again.count_ones() as usize;
        at = next;
    }
    ends[written - 4..written].copy_from_slice(&all_ends[len - 4..]);
    let is_base =
        is_base(common_starts, 0, shared, base[0]) && is_base(common_ends, 0, shared, base[1]);
    (wrong == 0 && is_base).then_some((written / 4, containers / 4))
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn put_runs(starts: &[u8], ends: &[u8], out: &mut [u8]) -> u32 {
    let len = starts.len().min(ends.len()).saturating_sub(SLACK);
    if out.len() < len + SLACK {
        return portable::put_runs(starts, ends, out);
    }
    let low_half = _mm256_set1_epi32(0xffff);
    let mut lengths = _mm256_setzero_si256();
    let mut at = 0;
    while at < len {
        // SAFETY: all have `SLACK` bytes more than `len`.
        unsafe {
            let start = load(starts, at);
            let more = _mm256_sub_epi32(load(ends, at), start);
            let run =
                _mm256_or_si256(_mm256_and_si256(start, low_half), _mm256_slli_epi32::<16>(more));
            put(out, at, run);
            let lanes = low_lanes((len - at) / 4);
            // One more than the difference for each.
            lengths = _mm256_add_epi32(lengths, _mm256_and_si256(more, lanes));
            lengths = _mm256_sub_epi32(lengths, lanes);
        }
        at += 32;
    }
    sum(lengths)
}

/// The number of bits of each byte.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn bits_of_bytes(v: __m256i) -> __m256i {
    let of_nibbles =
        _mm256_broadcastsi128_si256(_mm_set_epi8(4, 3, 3, 2, 3, 2, 2, 1, 3, 2, 2, 1, 2, 1, 1, 0));
    let low = _mm256_set1_epi8(0x0f);
    _mm256_add_epi8(
        _mm256_shuffle_epi8(of_nibbles, _mm256_and_si256(v, low)),
        _mm256_shuffle_epi8(of_nibbles, _mm256_and_si256(_mm256_srli_epi16::<4>(v), low)),
    )
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn merge_bits(
    base: Option<&Bits>,
    cur: &Bits,
    win: &Bits,
    out: &mut Bits,
) -> Option<BitCounts> {
    /// Blocks whose counts fit into a byte each.
    const BLOCKS: usize = 16;
    const PART: usize = 32 * BLOCKS;
    let zero = _mm256_setzero_si256();
    let (mut in_cur, mut in_win, mut in_base, mut wrong) = (zero, zero, zero, zero);
    let (cur, win) = (cur.as_chunks::<PART>().0, win.as_chunks::<PART>().0);
    let mut base = base.map(|base| base.as_chunks::<PART>().0.iter());
    for ((cur, win), out) in cur.iter().zip(win).zip(out.as_chunks_mut::<PART>().0) {
        let base = base.as_mut().and_then(Iterator::next);
        let (mut cur_bytes, mut win_bytes, mut base_bytes) = (zero, zero, zero);
        for at in (0..PART).step_by(32) {
            // SAFETY: there are so many blocks of 32 bytes.
            let (cur, win) = unsafe { (load(cur, at), load(win, at)) };
            let common = _mm256_and_si256(cur, win);
            let differ = match base {
                None => common,
                Some(base) => {
                    // SAFETY: as above.
                    let base = unsafe { load(base, at) };
                    base_bytes = _mm256_add_epi8(base_bytes, bits_of_bytes(base));
                    _mm256_xor_si256(common, base)
                }
            };
            wrong = _mm256_or_si256(wrong, differ);
            cur_bytes = _mm256_add_epi8(cur_bytes, bits_of_bytes(cur));
            win_bytes = _mm256_add_epi8(win_bytes, bits_of_bytes(win));
            // SAFETY: as above.
            unsafe { put(out, at, _mm256_or_si256(cur, win)) };
        }
        in_cur = _mm256_add_epi64(in_cur, _mm256_sad_epu8(cur_bytes, zero));
        in_win = _mm256_add_epi64(in_win, _mm256_sad_epu8(win_bytes, zero));
        in_base = _mm256_add_epi64(in_base, _mm256_sad_epu8(base_bytes, zero));
    }
    // Their upper halves are zero.
    let [cur, win, base] = [in_cur, in_win, in_base].map(|counts| sum(counts));
    let equal = _mm256_testz_si256(wrong, wrong) == 1;
    // What both have in common is the base, so that the union has as many.
    equal.then(|| BitCounts { cur, win, union: cur + win - base })
}

/// Sets the bits of the values of two arrays and gives the number of bits set.
///
/// A byte is written for every value and the bytes are collected to bits: on sorted values that come close to one
/// another this is faster than setting bits in memory, where each has to wait for the one before. `map` must
/// be zero and is again in the end.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn arrays_to_bits(cur: &[u8], win: &[u8], map: &mut Map, out: &mut Bits) -> u32 {
    let (mut cur, mut win) = (cur.as_chunks::<2>().0, win.as_chunks::<2>().0);
    let mut count = 0;
    for (part, out) in out.as_chunks_mut::<{ MAP_VALUES / 8 }>().0.iter_mut().enumerate() {
        for values in [&mut cur, &mut win] {
            *values = portable::fill_map(values, part, map);
        }
        for (bytes, word) in map.as_chunks_mut::<32>().0.iter_mut().zip(out.as_chunks_mut::<4>().0)
        {
            // SAFETY: `bytes` is 32 bytes.
            let bits = unsafe {
                let block = _mm256_loadu_si256(bytes.as_ptr().cast());
                _mm256_storeu_si256(bytes.as_mut_ptr().cast(), _mm256_setzero_si256());
                _mm256_movemask_epi8(block)
            };
            count += bits.count_ones();
            *word = bits.to_le_bytes();
        }
    }
    count
}
