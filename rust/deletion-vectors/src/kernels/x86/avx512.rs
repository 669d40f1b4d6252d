//! Blocks of 64 bytes: 32 values or 16 runs.

use std::arch::x86_64::*;

// With few values or runs in a container, larger blocks are of no use.
pub(super) use super::avx2::{
    SPARSE_ARRAY_BYTES, arrays_to_bits, flatten, flatten_runs, put_runs, split_spans,
};

use super::*;

compile_portable! { "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt";
    popcount(bits: &Bits) -> u32;
    merge_bits(base: Option<&Bits>, cur: &Bits, win: &Bits, out: &mut Bits) -> Option<BitCounts>;
    covers(base: &Bits, win: &Bits) -> bool;
    count_common(base: &Bits, cur: &Bits, win: &Bits) -> u32;
    count_runs(bits: &Bits) -> u32;
    put_heads(keys: &[[u8; 4]], starts: &[[u8; 4]], place: usize, heads: &mut [[u8; 4]], offsets: &mut [[u8; 4]]) -> u32;
}

/// See [`super::Kernels::run`].
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn run<K: Kernels, W: Work>(kernels: K, work: W) -> W::Done {
    work.on(kernels)
}

/// The mask of the lowest `count` lanes, all 32 from that on.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
#[allow(clippy::cast_possible_truncation, reason = "at most 32")]
fn low32(count: usize) -> __mmask32 {
    _bzhi_u32(u32::MAX, count.min(32) as u32)
}

/// The mask of the lowest `count` lanes, all 16 from that on.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
#[allow(clippy::cast_possible_truncation, reason = "at most 16 bits")]
fn low16(count: usize) -> __mmask16 {
    _bzhi_u32(0xffff, count.min(16) as u32) as __mmask16
}

/// The values of `values` from index `from` on, as many as there are; other lanes have all bits set.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn load_values(values: &[u8], from: usize) -> __m512i {
    let place = values.as_ptr().wrapping_add(2 * from).cast();
    let left = (values.len() / 2).saturating_sub(from);
    // With a branch, which is foreseen, the block need not wait for the mask.
    if left >= 32 {
        // SAFETY: 32 values are left at `place`.
        return unsafe { _mm512_loadu_epi16(place) };
    }
    // SAFETY: lanes outside of the mask are not read, and those inside it lie within `values`.
    unsafe { _mm512_mask_loadu_epi16(_mm512_set1_epi16(-1), low32(left), place) }
}

/// The up to 32 values in front of index `end`, in order, the last in the highest lane; where there are fewer, the
/// lower lanes are zero.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn load_before(values: &[u8], end: usize) -> __m512i {
    let place = values.as_ptr().wrapping_add(2 * end).wrapping_sub(64).cast();
    if end >= 32 {
        debug_assert!(2 * end <= values.len());
        // SAFETY: `end` starts at the number of values and only shrinks, so 32 values stand in front of it.
        return unsafe { _mm512_loadu_epi16(place) };
    }
    // SAFETY: lanes outside of the mask are not read, and those inside it lie within `values`.
    unsafe { _mm512_maskz_loadu_epi16(!low32(32 - end), place) }
}

/// As [`load_values`], for 32-bit numbers.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn load_runs(runs: &[u8], from: usize) -> __m512i {
    let place = runs.as_ptr().wrapping_add(4 * from).cast();
    let left = (runs.len() / 4).saturating_sub(from);
    if left >= 16 {
        // SAFETY: 16 runs are left at `place`.
        return unsafe { _mm512_loadu_epi32(place) };
    }
    // SAFETY: as in `load_values`.
    unsafe { _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), low16(left), place) }
}

/// The keys of up to 16 runs from index `from` on.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn load_keys(runs: &[u8], from: usize) -> __m512i {
    _mm512_rol_epi32::<16>(load_runs(runs, from))
}

/// The keys of up to 16 runs in front of index `end`; see [`load_before`].
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn load_keys_before(runs: &[u8], end: usize) -> __m512i {
    let place = runs.as_ptr().wrapping_add(4 * end).wrapping_sub(64).cast();
    // SAFETY: as in `load_before`.
    let block = unsafe {
        if end >= 16 {
            debug_assert!(4 * end <= runs.len());
            _mm512_loadu_epi32(place)
        } else {
            _mm512_maskz_loadu_epi32(!low16(16 - end), place)
        }
    };
    _mm512_rol_epi32::<16>(block)
}

/// Stores the whole block at byte `at` if it fits into `out`.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn store(out: &mut [u8], at: usize, block: __m512i) {
    let room = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<64>());
    debug_assert!(room.is_some());
    if let Some(room) = room {
        // SAFETY: `room` is 64 bytes that may be written.
        unsafe { _mm512_storeu_si512(room.as_mut_ptr().cast(), block) }
    }
}

/// For each lane the smaller of itself and its partner, or the larger in the lanes of `upper`.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn exchange_values(v: __m512i, partner: __m512i, upper: __mmask32) -> __m512i {
    _mm512_mask_max_epu16(_mm512_min_epu16(v, partner), upper, v, partner)
}

/// As [`exchange_values`], for 32-bit numbers.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn exchange_keys(v: __m512i, partner: __m512i, upper: __mmask16) -> __m512i {
    _mm512_mask_max_epu32(_mm512_min_epu32(v, partner), upper, v, partner)
}

/// Sorts 32 values of which the first part ascends and the second descends.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn sort_values(v: __m512i) -> __m512i {
    let v = exchange_values(v, _mm512_shuffle_i64x2::<0b01_00_11_10>(v, v), 0xffff_0000);
    let v = exchange_values(v, _mm512_shuffle_i64x2::<0b10_11_00_01>(v, v), 0xff00_ff00);
    let v = exchange_values(v, _mm512_shuffle_epi32::<0b01_00_11_10>(v), 0xf0f0_f0f0);
    let v = exchange_values(v, _mm512_shuffle_epi32::<0b10_11_00_01>(v), 0xcccc_cccc);
    exchange_values(v, _mm512_rol_epi32::<16>(v), 0xaaaa_aaaa)
}

/// Sorts 16 numbers of which the first part ascends and the second descends.
#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn sort_keys(v: __m512i) -> __m512i {
    let v = exchange_keys(v, _mm512_shuffle_i64x2::<0b01_00_11_10>(v, v), 0xff00);
    let v = exchange_keys(v, _mm512_shuffle_i64x2::<0b10_11_00_01>(v, v), 0xf0f0);
    let v = exchange_keys(v, _mm512_shuffle_epi32::<0b01_00_11_10>(v), 0xcccc);
    exchange_keys(v, _mm512_shuffle_epi32::<0b10_11_00_01>(v), 0xaaaa)
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn reverse_values(v: __m512i) -> __m512i {
    let order = _mm512_set_epi16(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
        25, 26, 27, 28, 29, 30, 31,
    );
    _mm512_permutexvar_epi16(order, v)
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
fn reverse_keys(v: __m512i) -> __m512i {
    let order = _mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_permutexvar_epi32(order, v)
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn check_runs(runs: &[u8]) -> Option<u32> {
    let count = runs.len() / 4;
    let low_half = _mm512_set1_epi32(0xffff);
    let mut lengths = _mm512_setzero_si512();
    let mut bad: __mmask16 = 0;
    let mut place = runs.as_ptr();
    let mut left = count;
    while left > 16 {
        // SAFETY: at least 17 runs are left at `place`.
        let (run, next) =
            unsafe { (_mm512_loadu_epi32(place.cast()), _mm512_loadu_epi32(place.add(4).cast())) };
        let more = _mm512_srli_epi32::<16>(run);
        let end = _mm512_add_epi32(_mm512_and_si512(run, low_half), more);
        bad |= _mm512_cmple_epu32_mask(_mm512_and_si512(next, low_half), end);
        lengths = _mm512_add_epi32(lengths, more);
        place = place.wrapping_add(64);
        left -= 16;
    }
    // The last run has none behind it.
    let (mask, behind) = (low16(left), low16(left.saturating_sub(1)));
    // SAFETY: lanes outside of the masks are not read, and those inside them lie within `runs`.
    let (run, next) = unsafe {
        (
            _mm512_maskz_loadu_epi32(mask, place.cast()),
            _mm512_maskz_loadu_epi32(behind, place.wrapping_add(4).cast()),
        )
    };
    let more = _mm512_srli_epi32::<16>(run);
    let end = _mm512_add_epi32(_mm512_and_si512(run, low_half), more);
    bad |= _mm512_mask_cmple_epu32_mask(behind, _mm512_and_si512(next, low_half), end);
    // A run with another one behind it ends in front of that.
    bad |= _mm512_cmpgt_epu32_mask(end, low_half);
    lengths = _mm512_add_epi32(lengths, more);
    #[allow(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "at most 65535 runs"
    )]
    let card = (_mm512_reduce_add_epi32(lengths) as u32).wrapping_add(count as u32);
    (bad == 0).then_some(card)
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn is_ascending(values: &[u8]) -> bool {
    let mut place = values.as_ptr();
    let mut pairs = (values.len() / 2).saturating_sub(1);
    let mut bad: __mmask32 = 0;
    while pairs > 32 {
        // SAFETY: at least 33 values are left at `place`.
        let (low, high) =
            unsafe { (_mm512_loadu_epi16(place.cast()), _mm512_loadu_epi16(place.add(2).cast())) };
        bad |= _mm512_cmple_epu16_mask(high, low);
        place = place.wrapping_add(64);
        pairs -= 32;
    }
    let mask = low32(pairs);
    // SAFETY: as in `check_array`.
    let (low, high) = unsafe {
        (
            _mm512_maskz_loadu_epi16(mask, place.cast()),
            _mm512_maskz_loadu_epi16(mask, place.wrapping_add(2).cast()),
        )
    };
    (bad | _mm512_mask_cmple_epu16_mask(mask, high, low)) == 0
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn check_array(values: &[u8]) -> Option<u32> {
    let count = values.len() / 2;
    let one = _mm512_set1_epi16(1);
    let mut place = values.as_ptr();
    let mut pairs = count.saturating_sub(1);
    let mut bad: __mmask32 = 0;
    let mut joined = 0u32;
    if pairs > 32 {
        let mut joined_lanes = _mm512_setzero_si512();
        while pairs > 32 {
            // SAFETY: at least 33 values are left at `place`.
            let (low, high) = unsafe {
                (_mm512_loadu_epi16(place.cast()), _mm512_loadu_epi16(place.add(2).cast()))
            };
            bad |= _mm512_cmple_epu16_mask(high, low);
            let follows = _mm512_cmpeq_epu16_mask(high, _mm512_add_epi16(low, one));
            joined_lanes = _mm512_mask_add_epi16(joined_lanes, follows, joined_lanes, one);
            place = place.wrapping_add(64);
            pairs -= 32;
        }
        // At most 128 rounds, so that no lane and no pair of lanes overflows.
        let sums = _mm512_madd_epi16(joined_lanes, one);
        #[allow(clippy::cast_sign_loss, reason = "a count")]
        {
            joined = _mm512_reduce_add_epi32(sums) as u32;
        }
    }
    let mask = low32(pairs);
    // SAFETY: lanes outside of the mask are not read, and those inside it lie within `values`: `pairs` + 1 values
    // are left at `place`, or none at all.
    let (low, high) = unsafe {
        (
            _mm512_maskz_loadu_epi16(mask, place.cast()),
            _mm512_maskz_loadu_epi16(mask, place.wrapping_add(2).cast()),
        )
    };
    bad |= _mm512_mask_cmple_epu16_mask(mask, high, low);
    joined += _mm512_mask_cmpeq_epu16_mask(mask, high, _mm512_add_epi16(low, one)).count_ones();
    #[allow(clippy::cast_possible_truncation, reason = "at most 8192")]
    let count = count as u32;
    (bad == 0).then_some(count - joined)
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn merge_arrays(cur: &[u8], win: &[u8], out: &mut [u8]) {
    let (mut from_cur, mut from_win) = (0, 0);
    let (mut to_cur, mut to_win) = (cur.len() / 2, win.len() / 2);
    let (mut front, mut back) = (0, to_cur + to_win);
    while front + 32 < back {
        let up = load_values(cur, from_cur);
        let down = reverse_values(load_values(win, from_win));
        let taken = _mm512_cmple_epu16_mask(up, down).count_ones() as usize;
        store(out, 2 * front, sort_values(_mm512_min_epu16(up, down)));
        from_cur += taken;
        from_win += 32 - taken;
        front += 32;

        let up = load_before(cur, to_cur);
        let down = reverse_values(load_before(win, to_win));
        let taken = _mm512_cmpgt_epu16_mask(up, down).count_ones() as usize;
        back -= 32;
        store(out, 2 * back, sort_values(_mm512_max_epu16(up, down)));
        to_cur = to_cur.saturating_sub(taken);
        to_win = to_win.saturating_sub(32 - taken);
    }
    if front < back {
        let up = load_values(cur, from_cur);
        let down = reverse_values(load_values(win, from_win));
        store(out, 2 * front, sort_values(_mm512_min_epu16(up, down)));
    }
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn split_arrays(merged: &[u8], base: &[u8], out: &mut [u8]) -> Option<(u32, u32)> {
    let count = merged.len() / 2;
    let (mut written, mut shared, mut joined) = (0, 0, 0);
    let mut wrong: __mmask32 = 0;
    let one = _mm512_set1_epi16(1);
    // For the values from index `at` on: the lanes of those, and of those that have one before them.
    let mut step = |at: usize, mask: __mmask32, before: __mmask32| {
        let block = load_values(merged, at);
        let place = merged.as_ptr().wrapping_add(2 * at).wrapping_sub(2);
        // SAFETY: lanes outside of the mask are not read, and those inside it lie within `merged`.
        let previous = unsafe { _mm512_maskz_loadu_epi16(before, place.cast()) };
        let again = _mm512_mask_cmpeq_epu16_mask(before, block, previous);
        let plus_one = _mm512_add_epi16(previous, one);
        joined += _mm512_mask_cmpeq_epu16_mask(before, block, plus_one).count_ones();
        let once = mask & !again;
        store(out, 2 * written, _mm512_maskz_compress_epi16(once, block));
        written += once.count_ones() as usize;
        let expected = _mm512_maskz_expand_epi16(again, load_values(base, shared));
        wrong |= _mm512_mask_cmpneq_epu16_mask(again, block, expected);
        shared += again.count_ones() as usize;
    };
    step(0, low32(count), low32(count) & !1);
    let mut at = 32;
    while at + 32 <= count {
        step(at, !0, !0);
        at += 32;
    }
    if at < count {
        step(at, low32(count - at), low32(count - at));
    }
    #[allow(clippy::cast_possible_truncation, reason = "at most 8192")]
    let written = written as u32;
    (wrong == 0 && 2 * shared == base.len()).then_some((written, written - joined))
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn merge_runs(cur: &[u8], win: &[u8], out: &mut [u8]) {
    let (mut from_cur, mut from_win) = (0, 0);
    let (mut to_cur, mut to_win) = (cur.len() / 4, win.len() / 4);
    let (mut front, mut back) = (0, to_cur + to_win);
    while front + 16 < back {
        let up = load_keys(cur, from_cur);
        let down = reverse_keys(load_keys(win, from_win));
        let taken = _mm512_cmple_epu32_mask(up, down).count_ones() as usize;
        store(out, 4 * front, sort_keys(_mm512_min_epu32(up, down)));
        from_cur += taken;
        from_win += 16 - taken;
        front += 16;

        let up = load_keys_before(cur, to_cur);
        let down = reverse_keys(load_keys_before(win, to_win));
        let taken = _mm512_cmpgt_epu32_mask(up, down).count_ones() as usize;
        back -= 16;
        store(out, 4 * back, sort_keys(_mm512_max_epu32(up, down)));
        to_cur = to_cur.saturating_sub(taken);
        to_win = to_win.saturating_sub(16 - taken);
    }
    if front < back {
        let up = load_keys(cur, from_cur);
        let down = reverse_keys(load_keys(win, from_win));
        store(out, 4 * front, sort_keys(_mm512_min_epu32(up, down)));
    }
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn split_runs(
    merged: &[u8],
    base: &[u8],
    out: &mut [u8],
    ends: &mut [u8],
) -> Option<(u32, u32)> {
    let count = merged.len() / 4;
    // Nothing can be told without enough memory; no caller gives less.
    if out.len().min(ends.len()) < merged.len() + SLACK {
        debug_assert!(false, "out and ends are too short");
        return None;
    }
    let low_half = _mm512_set1_epi32(0xffff);
    let one = _mm512_set1_epi32(1);
    // In front of the first run stands one that equals no other and ends in front of all.
    let mut last_keys = _mm512_set1_epi32(-1);
    let mut last_ends = _mm512_set1_epi32(-2);
    let (mut written, mut shared, mut at) = (0, 0, 0);
    let mut bad: __mmask16 = 0;
    while at < count {
        let mask = low16(count - at);
        let keys = load_runs(merged, at);
        let start = _mm512_srli_epi32::<16>(keys);
        let end = _mm512_add_epi32(start, _mm512_and_si512(keys, low_half));
        // Lane i of these is lane i - 1.
        let before = _mm512_alignr_epi32::<15>(keys, last_keys);
        let end_before = _mm512_alignr_epi32::<15>(end, last_ends);
        (last_keys, last_ends) = (keys, end);
        let again = _mm512_mask_cmpeq_epi32_mask(mask, keys, before);
        bad |= _mm512_mask_cmple_epi32_mask(mask & !again, start, end_before);
        let joins = _mm512_cmpeq_epi32_mask(start, _mm512_add_epi32(end_before, one));
        // A run of the union ends in front of where the next one starts.
        let starts = mask & !again & !joins;
        store(out, 4 * written, _mm512_maskz_compress_epi32(starts, start));
        store(ends, 4 * written, _mm512_maskz_compress_epi32(starts, end_before));
        written += starts.count_ones() as usize;
        let here = again.count_ones() as usize;
        let common = _mm512_maskz_compress_epi32(again, keys);
        bad |= _mm512_mask_cmpneq_epi32_mask(low16(here), common, load_keys(base, shared));
        shared += here;
        at += 16;
    }
    if bad != 0 || 4 * shared != base.len() {
        return None;
    }
    // The last run ends where the last one of `merged` does.
    if let Some(last) = merged.last_chunk()
        && let Some(place) = ends.get_mut(4 * written..).and_then(|rest| rest.first_chunk_mut())
    {
        let key = u32::from_le_bytes(*last);
        *place = ((key >> 16) + (key & 0xffff)).to_le_bytes();
    }
    let mut lengths = _mm512_setzero_si512();
    let mut at = 0;
    while at < written {
        let mask = low16(written - at);
        let (place, end_place) =
            (out.as_ptr().wrapping_add(4 * at), ends.as_ptr().wrapping_add(4 * at + 4));
        // SAFETY: lanes outside of the mask are not read, and those inside it lie within the slices: `written` is at
        // most `count`, and both are longer than `merged`.
        let (start, end) = unsafe {
            (
                _mm512_maskz_loadu_epi32(mask, place.cast()),
                _mm512_maskz_loadu_epi32(mask, end_place.cast()),
            )
        };
        let more = _mm512_sub_epi32(end, start);
        lengths = _mm512_add_epi32(lengths, more);
        store(out, 4 * at, _mm512_or_si512(start, _mm512_slli_epi32::<16>(more)));
        at += 16;
    }
    #[allow(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "at most 32768 runs, of at most 65536 values together"
    )]
    let (runs, more) = (written as u32, _mm512_reduce_add_epi32(lengths) as u32);
    Some((runs, runs.wrapping_add(more)))
}

#[inline]
#[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    reason = "indexes of the values of a few containers, and masks of 16 lanes"
)]
pub(super) fn split_pairs(
    merged: &[u8],
    base: &[u8],
    out: &mut [u8],
    [keys, starts, _]: [&mut [u8]; 3],
) -> Option<PairUnion> {
    let count = merged.len() / 4;
    let one = _mm512_set1_epi32(1);
    let upper_half = _mm512_set1_epi32(0xffff << 16);
    let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    // In front of the first stands one of another container.
    let first = merged.first_chunk().map_or(0, |first| u32::from_le_bytes(*first));
    let mut last = _mm512_set1_epi32(!first as i32);
    let mut union = PairUnion { values: 0, containers: 0, joined: 0 };
    let (mut shared, mut at) = (0, 0);
    let mut bad: __mmask16 = 0;
    while at < count {
        let mask = low16(count - at);
        let pairs = load_runs(merged, at);
        // Lane i is lane i - 1 of the pairs.
        let before = _mm512_alignr_epi32::<15>(pairs, last);
        last = pairs;
        let again = _mm512_mask_cmpeq_epi32_mask(mask, pairs, before);
        let once = mask & !again;
        let differ = _mm512_xor_si512(pairs, before);
        let begins = _mm512_mask_test_epi32_mask(once, differ, upper_half);
        let follows = _mm512_cmpeq_epi32_mask(pairs, _mm512_add_epi32(before, one));
        union.joined += (follows & once & !begins).count_ones();
        let values = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(once, pairs));
        super::avx2::store(out, 2 * union.values, values);
        store(keys, 4 * union.containers, _mm512_maskz_compress_epi32(begins, pairs));
        // Where they begin among those that are there once.
        let ranks = _pext_u32(u32::from(begins), u32::from(once)) as __mmask16;
        let indexes = _mm512_add_epi32(lanes, _mm512_set1_epi32(union.values as i32));
        store(starts, 4 * union.containers, _mm512_maskz_compress_epi32(ranks, indexes));
        union.values += once.count_ones() as usize;
        union.containers += begins.count_ones() as usize;
        let here = again.count_ones() as usize;
        let common = _mm512_maskz_compress_epi32(again, pairs);
        bad |= _mm512_mask_cmpneq_epi32_mask(low16(here), common, load_keys(base, shared));
        shared += here;
        at += 16;
    }
    (bad == 0 && 4 * shared == base.len()).then_some(union)
}
