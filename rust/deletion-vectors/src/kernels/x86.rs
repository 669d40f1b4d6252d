//! The same loops compiled for newer x86-64 instruction sets, and hand-written ones where that pays.
#![allow(
    unsafe_code,
    reason = "functions for an instruction set may only be called where it exists"
)]

use super::{Kernels, RunFacts, SMALL, portable};
use crate::format::Bits;

/// Machines from about 2013 on. That a value exists proves that this one has the features.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

/// Machines from about 2019 on, servers first. AVX-512 VBMI2 implies BW, that F, and that AVX2, FMA and F16C. That a value exists proves that this one has the features.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx2 {
    /// The token, if this machine has the instructions.
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt"))
        .then_some(Avx2(()))
    }
}

impl Avx512 {
    /// The token, if this machine has the instructions.
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        (Avx2::detect().is_some()
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("avx512vpopcntdq"))
        .then_some(Avx512(()))
    }
}

/// Defines the kernels of a level. Each function of `$module` is compiled for the features of the level; those not
/// listed as hand-written are the portable loops.
macro_rules! kernels {
    ($name:ident, $module:ident, { $($hand:ident)* }) => {
        // SAFETY of every call below: a value of this type exists only where `detect` has found all the features
        // that the called function is compiled for.
        impl Kernels for $name {
            #[inline(always)]
            fn check_array(self, values: &[u8]) -> Option<u32> {
                // SAFETY: see above.
                unsafe { $module::check_array(values) }
            }
            #[inline(always)]
            fn check_runs(self, runs: &[u8]) -> Option<RunFacts> {
                // SAFETY: see above.
                unsafe { $module::check_runs(runs) }
            }
            #[inline(always)]
            fn popcount(self, bits: &Bits) -> u32 {
                // SAFETY: see above.
                unsafe { $module::popcount(bits) }
            }
            #[inline(always)]
            fn merge_bits(
                self,
                base: Option<&Bits>,
                cur: &Bits,
                win: &Bits,
                out: &mut Bits,
            ) -> Option<u32> {
                // SAFETY: see above.
                unsafe { $module::merge_bits(base, cur, win, out) }
            }
            #[inline(always)]
            fn covers(self, base: &Bits, win: &Bits) -> bool {
                // SAFETY: see above.
                unsafe { $module::covers(base, win) }
            }
            #[inline(always)]
            fn count_common(self, base: &Bits, cur: &Bits, win: &Bits) -> u32 {
                // SAFETY: see above.
                unsafe { $module::count_common(base, cur, win) }
            }
            #[inline(always)]
            fn count_runs(self, bits: &Bits) -> u32 {
                // SAFETY: see above.
                unsafe { $module::count_runs(bits) }
            }
            #[inline(always)]
            fn merge_arrays(self, cur: &[u8], win: &[u8], out: &mut [u8]) {
                // SAFETY: see above.
                unsafe { $module::merge_arrays(cur, win, out) }
            }
            #[inline(always)]
            fn split_arrays(
                self,
                merged: &[u8],
                out: &mut [u8],
                common: &mut [u8],
            ) -> (usize, usize) {
                // SAFETY: see above.
                unsafe { $module::split_arrays(merged, out, common) }
            }
            #[inline(always)]
            fn merge_small(
                self,
                base: &[u8],
                cur: &[u8],
                win: &[u8],
                out: &mut [u8; 2 * SMALL],
            ) -> Option<(u32, u32)> {
                // SAFETY: see above.
                unsafe { $module::merge_small(base, cur, win, out) }
            }
            #[inline(always)]
            fn merge_runs(self, cur: &[u8], win: &[u8], out: &mut [u8]) {
                // SAFETY: see above.
                unsafe { $module::merge_runs(cur, win, out) }
            }
            #[inline(always)]
            fn split_runs(
                self,
                merged: &[u8],
                out: &mut [u8],
                ends: &mut [u8],
                common: &mut [u8],
            ) -> Option<(usize, usize)> {
                // SAFETY: see above.
                unsafe { $module::split_runs(merged, out, ends, common) }
            }
        }
    };
}

kernels!(Avx2, avx2, {});
kernels!(Avx512, avx512, {});

/// Compiles portable loops for a set of features.
macro_rules! compile_portable {
    ($features:expr; $($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[inline]
            #[target_feature(enable = $features)]
            pub(super) fn $name($($argument: $type),*) $(-> $result)? {
                portable::$name($($argument),*)
            }
        )*
    };
}

mod avx2 {
    use super::*;

    compile_portable! { "avx2,bmi1,bmi2,lzcnt,popcnt";
        check_array(values: &[u8]) -> Option<u32>;
        check_runs(runs: &[u8]) -> Option<RunFacts>;
        popcount(bits: &Bits) -> u32;
        merge_bits(base: Option<&Bits>, cur: &Bits, win: &Bits, out: &mut Bits) -> Option<u32>;
        covers(base: &Bits, win: &Bits) -> bool;
        count_common(base: &Bits, cur: &Bits, win: &Bits) -> u32;
        count_runs(bits: &Bits) -> u32;
        merge_arrays(cur: &[u8], win: &[u8], out: &mut [u8]);
        split_arrays(merged: &[u8], out: &mut [u8], common: &mut [u8]) -> (usize, usize);
        merge_small(base: &[u8], cur: &[u8], win: &[u8], out: &mut [u8; 2 * SMALL]) -> Option<(u32, u32)>;
        merge_runs(cur: &[u8], win: &[u8], out: &mut [u8]);
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn split_runs(
        merged: &[u8],
        out: &mut [u8],
        _ends: &mut [u8],
        common: &mut [u8],
    ) -> Option<(usize, usize)> {
        portable::split_runs(merged, out, common)
    }
}

/// Blocks of 64 bytes: 32 values or 16 runs. Sorted blocks are merged by a bitonic network, in which each step
/// compares every lane with a partner and leaves the smaller of both in the lower one.
mod avx512 {
    use std::arch::x86_64::*;

    use super::*;

    compile_portable! { "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt";
        check_runs(runs: &[u8]) -> Option<RunFacts>;
        popcount(bits: &Bits) -> u32;
        merge_bits(base: Option<&Bits>, cur: &Bits, win: &Bits, out: &mut Bits) -> Option<u32>;
        covers(base: &Bits, win: &Bits) -> bool;
        count_common(base: &Bits, cur: &Bits, win: &Bits) -> u32;
        count_runs(bits: &Bits) -> u32;
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
        let mask = low32((values.len() / 2).saturating_sub(from));
        let place = values.as_ptr().wrapping_add(2 * from).cast();
        // SAFETY: lanes outside of the mask are not read, and those inside it lie within `values`.
        unsafe { _mm512_mask_loadu_epi16(_mm512_set1_epi16(-1), mask, place) }
    }

    /// As [`load_values`], for 32-bit numbers.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn load_runs(runs: &[u8], from: usize) -> __m512i {
        let mask = low16((runs.len() / 4).saturating_sub(from));
        let place = runs.as_ptr().wrapping_add(4 * from).cast();
        // SAFETY: as in `load_values`.
        unsafe { _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), mask, place) }
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

    /// Sorts 32 values of which the first part ascends and the second descends.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn sort_values(v: __m512i) -> __m512i {
        let t = _mm512_shuffle_i64x2::<0b01_00_11_10>(v, v);
        let v = _mm512_mask_max_epu16(_mm512_min_epu16(v, t), 0xffff_0000, v, t);
        let t = _mm512_shuffle_i64x2::<0b10_11_00_01>(v, v);
        let v = _mm512_mask_max_epu16(_mm512_min_epu16(v, t), 0xff00_ff00, v, t);
        let t = _mm512_shuffle_epi32::<0b01_00_11_10>(v);
        let v = _mm512_mask_max_epu16(_mm512_min_epu16(v, t), 0xf0f0_f0f0, v, t);
        let t = _mm512_shuffle_epi32::<0b10_11_00_01>(v);
        let v = _mm512_mask_max_epu16(_mm512_min_epu16(v, t), 0xcccc_cccc, v, t);
        let t = _mm512_rol_epi32::<16>(v);
        _mm512_mask_max_epu16(_mm512_min_epu16(v, t), 0xaaaa_aaaa, v, t)
    }

    /// Sorts 16 numbers of which the first part ascends and the second descends.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn sort_keys(v: __m512i) -> __m512i {
        let t = _mm512_shuffle_i64x2::<0b01_00_11_10>(v, v);
        let v = _mm512_mask_max_epu32(_mm512_min_epu32(v, t), 0xff00, v, t);
        let t = _mm512_shuffle_i64x2::<0b10_11_00_01>(v, v);
        let v = _mm512_mask_max_epu32(_mm512_min_epu32(v, t), 0xf0f0, v, t);
        let t = _mm512_shuffle_epi32::<0b01_00_11_10>(v);
        let v = _mm512_mask_max_epu32(_mm512_min_epu32(v, t), 0xcccc, v, t);
        let t = _mm512_shuffle_epi32::<0b10_11_00_01>(v);
        _mm512_mask_max_epu32(_mm512_min_epu32(v, t), 0xaaaa, v, t)
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn reverse_values(v: __m512i) -> __m512i {
        let order = _mm512_set_epi16(
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
            24, 25, 26, 27, 28, 29, 30, 31,
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
    pub(super) fn check_array(values: &[u8]) -> Option<u32> {
        let count = values.len() / 2;
        let start = values.as_ptr();
        let mut bad: __mmask32 = 0;
        let mut joined = 0u32;
        let mut at = 0;
        while at + 1 < count {
            let mask = low32(count - 1 - at);
            // SAFETY: lanes outside of the mask are not read; those inside it lie within `values`, for the second
            // load because its last lane is value `at + 32` or `count - 1`, whichever comes first.
            let (low, high) = unsafe {
                (
                    _mm512_maskz_loadu_epi16(mask, start.add(2 * at).cast()),
                    _mm512_maskz_loadu_epi16(mask, start.add(2 * at + 2).cast()),
                )
            };
            bad |= _mm512_mask_cmple_epu16_mask(mask, high, low);
            let next = _mm512_add_epi16(low, _mm512_set1_epi16(1));
            joined += _mm512_mask_cmpeq_epu16_mask(mask, high, next).count_ones();
            at += 32;
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most 8192")]
        let count = count as u32;
        (bad == 0).then_some(count - joined)
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn merge_small(
        base: &[u8],
        cur: &[u8],
        win: &[u8],
        out: &mut [u8; 2 * SMALL],
    ) -> Option<(u32, u32)> {
        let (cur_count, win_count) = (cur.len() / 2, win.len() / 2);
        debug_assert!(cur_count + win_count <= SMALL);
        let merged = {
            let descending = reverse_values(load_values(win, 0));
            let mask = low32(cur_count);
            // SAFETY: as in `load_values`.
            let both = unsafe { _mm512_mask_loadu_epi16(descending, mask, cur.as_ptr().cast()) };
            sort_values(both)
        };
        let total = cur_count + win_count;
        // Lane i of `next` is lane i + 1.
        let order = _mm512_set_epi16(
            31, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11,
            10, 9, 8, 7, 6, 5, 4, 3, 2, 1,
        );
        let next = _mm512_permutexvar_epi16(order, merged);
        let again = _mm512_mask_cmpeq_epu16_mask(low32(total.saturating_sub(1)), next, merged);
        let mut union = merged;
        let mut following = next;
        if again != 0 || !base.is_empty() {
            let shared = again.count_ones() as usize;
            if 2 * shared != base.len() {
                return None;
            }
            let common = _mm512_maskz_compress_epi16(again, merged);
            if _mm512_mask_cmpneq_epu16_mask(low32(shared), common, load_values(base, 0)) != 0 {
                return None;
            }
            union = _mm512_maskz_compress_epi16(!again, merged);
            following = _mm512_permutexvar_epi16(order, union);
        }
        let count = total - base.len() / 2;
        let pairs = low32(count.saturating_sub(1));
        let plus_one = _mm512_add_epi16(union, _mm512_set1_epi16(1));
        let joined = _mm512_mask_cmpeq_epu16_mask(pairs, following, plus_one).count_ones();
        store(out, 0, union);
        #[allow(clippy::cast_possible_truncation, reason = "at most 32")]
        let count = count as u32;
        Some((count, count - joined))
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn merge_arrays(cur: &[u8], win: &[u8], out: &mut [u8]) {
        let (cur_count, win_count) = (cur.len() / 2, win.len() / 2);
        let total = cur_count + win_count;
        let head = |values: &[u8], at: usize| match values.get(2 * at..2 * at + 2) {
            Some(&[low, high]) => u32::from(u16::from_le_bytes([low, high])),
            _ => u32::MAX,
        };
        let mut high = load_values(cur, 0);
        let mut block = load_values(win, 0);
        let (mut i, mut j, mut written) = (32, 32, 0);
        loop {
            // The block comes in descending order against what was held back in ascending order.
            let block_down = reverse_values(block);
            let low = _mm512_min_epu16(high, block_down);
            high = _mm512_max_epu16(high, block_down);
            store(out, 2 * written, sort_values(low));
            written += 32;
            if written >= total {
                return;
            }
            high = sort_values(high);
            if i >= cur_count && j >= win_count {
                store(out, 2 * written, high);
                return;
            }
            let take = head(cur, i) <= head(win, j);
            let (from, at) = if take { (cur, i) } else { (win, j) };
            block = load_values(from, at);
            i += if take { 32 } else { 0 };
            j += if take { 0 } else { 32 };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn split_arrays(merged: &[u8], out: &mut [u8], common: &mut [u8]) -> (usize, usize) {
        let count = merged.len() / 2;
        let (mut written, mut shared, mut at) = (0, 0, 0);
        while at < count {
            let mask = low32(count - at);
            // Lane 0 of the first block has nothing before it.
            let before = if at == 0 { mask & !1 } else { mask };
            let block = load_values(merged, at);
            let place = merged.as_ptr().wrapping_add(2 * at).wrapping_sub(2);
            // SAFETY: lanes outside of the mask are not read, and those inside it lie within `merged`.
            let previous = unsafe { _mm512_maskz_loadu_epi16(before, place.cast()) };
            let again = _mm512_mask_cmpeq_epu16_mask(before, block, previous);
            let once = mask & !again;
            store(out, 2 * written, _mm512_maskz_compress_epi16(once, block));
            written += once.count_ones() as usize;
            store(common, 2 * shared, _mm512_maskz_compress_epi16(again, block));
            shared += again.count_ones() as usize;
            at += 32;
        }
        (written, shared)
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn merge_runs(cur: &[u8], win: &[u8], out: &mut [u8]) {
        let (cur_count, win_count) = (cur.len() / 4, win.len() / 4);
        let total = cur_count + win_count;
        let keys = |runs: &[u8], from: usize| _mm512_rol_epi32::<16>(load_runs(runs, from));
        if total <= 16 {
            let both =
                _mm512_mask_mov_epi32(reverse_keys(keys(win, 0)), low16(cur_count), keys(cur, 0));
            store(out, 0, sort_keys(both));
            return;
        }
        let head = |runs: &[u8], at: usize| match runs.get(4 * at..4 * at + 4) {
            Some(&[a, b, c, d]) => u64::from(portable::run_key(u32::from_le_bytes([a, b, c, d]))),
            _ => u64::MAX,
        };
        let mut high = keys(cur, 0);
        let mut block = keys(win, 0);
        let (mut i, mut j, mut written) = (16, 16, 0);
        loop {
            let block_down = reverse_keys(block);
            let low = _mm512_min_epu32(high, block_down);
            high = _mm512_max_epu32(high, block_down);
            store(out, 4 * written, sort_keys(low));
            written += 16;
            if written >= total {
                return;
            }
            high = sort_keys(high);
            if i >= cur_count && j >= win_count {
                store(out, 4 * written, high);
                return;
            }
            let take = head(cur, i) <= head(win, j);
            let (from, at) = if take { (cur, i) } else { (win, j) };
            block = keys(from, at);
            i += if take { 16 } else { 0 };
            j += if take { 0 } else { 16 };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn split_runs(
        merged: &[u8],
        out: &mut [u8],
        ends: &mut [u8],
        common: &mut [u8],
    ) -> Option<(usize, usize)> {
        let count = merged.len() / 4;
        let one = _mm512_set1_epi32(1);
        let low_half = _mm512_set1_epi32(0xffff);
        let end_of = |key: __m512i| {
            _mm512_add_epi32(_mm512_srli_epi32::<16>(key), _mm512_and_si512(key, low_half))
        };
        let (mut started, mut ended, mut shared, mut at) = (0, 0, 0, 0);
        let mut bad: __mmask16 = 0;
        while at < count {
            let mask = low16(count - at);
            // Lane 0 of the first block has nothing before it, the last lane of the last block nothing behind it.
            let before = if at == 0 { mask & !1 } else { mask };
            let behind = low16(count - at - 1);
            let block = load_runs(merged, at);
            let place = merged.as_ptr().wrapping_add(4 * at);
            // SAFETY: lanes outside of the masks are not read, and those inside them lie within `merged`.
            let (previous, next) = unsafe {
                (
                    _mm512_maskz_loadu_epi32(before, place.wrapping_sub(4).cast()),
                    _mm512_maskz_loadu_epi32(behind, place.wrapping_add(4).cast()),
                )
            };
            let start = _mm512_srli_epi32::<16>(block);
            let end = end_of(block);
            let previous_end = end_of(previous);
            let again = _mm512_mask_cmpeq_epu32_mask(before, block, previous);
            bad |= _mm512_mask_cmple_epu32_mask(before & !again, start, previous_end);
            let joins =
                _mm512_mask_cmpeq_epu32_mask(before, start, _mm512_add_epi32(previous_end, one));
            let starts = mask & !again & !joins;
            store(out, 4 * started, _mm512_maskz_compress_epi32(starts, start));
            started += starts.count_ones() as usize;
            let again_behind = _mm512_mask_cmpeq_epu32_mask(behind, block, next);
            let next_start = _mm512_srli_epi32::<16>(next);
            let joins_behind =
                _mm512_mask_cmpeq_epu32_mask(behind, next_start, _mm512_add_epi32(end, one));
            let stops = mask & !again_behind & !joins_behind;
            store(ends, 4 * ended, _mm512_maskz_compress_epi32(stops, end));
            ended += stops.count_ones() as usize;
            if again != 0 {
                let runs = _mm512_rol_epi32::<16>(_mm512_maskz_compress_epi32(again, block));
                store(common, 4 * shared, runs);
                shared += again.count_ones() as usize;
            }
            at += 16;
        }
        if bad != 0 || started != ended {
            return None;
        }
        let mut at = 0;
        while at < started {
            let mask = low16(started - at);
            let (place, end_place) =
                (out.as_ptr().wrapping_add(4 * at), ends.as_ptr().wrapping_add(4 * at));
            // SAFETY: lanes outside of the mask are not read; inside it lie numbers that were stored above, for
            // which `store` has checked that they are within the slices.
            let (start, end) = unsafe {
                (
                    _mm512_maskz_loadu_epi32(mask, place.cast()),
                    _mm512_maskz_loadu_epi32(mask, end_place.cast()),
                )
            };
            let more = _mm512_slli_epi32::<16>(_mm512_sub_epi32(end, start));
            store(out, 4 * at, _mm512_or_si512(start, more));
            at += 16;
        }
        Some((started, shared))
    }
}
