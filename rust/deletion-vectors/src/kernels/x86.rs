//! The same loops compiled for newer x86-64 instruction sets, and hand-written ones where that pays.
#![allow(
    unsafe_code,
    reason = "functions for an instruction set may only be called where it exists"
)]
#![allow(clippy::indexing_slicing, reason = "ranges are bounded by the lengths taken right before")]

use super::{Kernels, MAP_VALUES, Map, RunFacts, SLACK, SMALL, SMALL_RUNS, portable};
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

/// Defines the kernels of a level. Each function of `$module` is compiled for the features of the level.
macro_rules! kernels {
    ($name:ident, $module:ident) => {
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
            ) -> (usize, usize, usize) {
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
            fn merge_small_runs(
                self,
                base: &[u8],
                cur: &[u8],
                win: &[u8],
                out: &mut [u8; 4 * SMALL_RUNS],
            ) -> Option<(u32, u32)> {
                // SAFETY: see above.
                unsafe { $module::merge_small_runs(base, cur, win, out) }
            }
            #[inline(always)]
            fn arrays_to_bits(self, cur: &[u8], win: &[u8], map: &mut Map, out: &mut Bits) -> u32 {
                // SAFETY: see above.
                unsafe { $module::arrays_to_bits(cur, win, map, out) }
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

kernels!(Avx2, avx2);
kernels!(Avx512, avx512);

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
    use std::arch::x86_64::*;
    use std::hint::select_unpredictable;

    use super::*;

    compile_portable! { "avx2,bmi1,bmi2,lzcnt,popcnt";
        check_array(values: &[u8]) -> Option<u32>;
        check_runs(runs: &[u8]) -> Option<RunFacts>;
        popcount(bits: &Bits) -> u32;
        merge_bits(base: Option<&Bits>, cur: &Bits, win: &Bits, out: &mut Bits) -> Option<u32>;
        covers(base: &Bits, win: &Bits) -> bool;
        count_common(base: &Bits, cur: &Bits, win: &Bits) -> u32;
        count_runs(bits: &Bits) -> u32;
        split_arrays(merged: &[u8], out: &mut [u8], common: &mut [u8]) -> (usize, usize, usize);
        merge_small(base: &[u8], cur: &[u8], win: &[u8], out: &mut [u8; 2 * SMALL]) -> Option<(u32, u32)>;
        merge_runs(cur: &[u8], win: &[u8], out: &mut [u8]);
        merge_small_runs(base: &[u8], cur: &[u8], win: &[u8], out: &mut [u8; 4 * SMALL_RUNS]) -> Option<(u32, u32)>;
    }

    /// The first 16 values, or as many as there are; other lanes have all bits set.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn load_values(values: &[u8]) -> __m256i {
        if let Some(block) = values.first_chunk::<32>() {
            // SAFETY: `block` is 32 bytes.
            return unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
        }
        let mut block = [0xff; 32];
        block[..values.len()].copy_from_slice(values);
        // SAFETY: `block` is 32 bytes.
        unsafe { _mm256_loadu_si256(block.as_ptr().cast()) }
    }

    /// Stores the whole block at byte `at` if it fits into `out`.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn store(out: &mut [u8], at: usize, block: __m256i) {
        let room = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<32>());
        debug_assert!(room.is_some());
        if let Some(room) = room {
            // SAFETY: `room` is 32 bytes that may be written.
            unsafe { _mm256_storeu_si256(room.as_mut_ptr().cast(), block) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn reverse_values(v: __m256i) -> __m256i {
        let within_half = _mm256_broadcastsi128_si256(_mm_set_epi8(
            1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14,
        ));
        let v = _mm256_shuffle_epi8(v, within_half);
        _mm256_permute2x128_si256::<1>(v, v)
    }

    /// Sorts 16 values of which the first part ascends and the second descends. Each step leaves the smaller of two
    /// lanes in the lower one.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn sort_values(v: __m256i) -> __m256i {
        let t = _mm256_permute2x128_si256::<1>(v, v);
        let v = _mm256_blend_epi32::<0xf0>(_mm256_min_epu16(v, t), _mm256_max_epu16(v, t));
        let t = _mm256_shuffle_epi32::<0b01_00_11_10>(v);
        let v = _mm256_blend_epi32::<0xcc>(_mm256_min_epu16(v, t), _mm256_max_epu16(v, t));
        let t = _mm256_shuffle_epi32::<0b10_11_00_01>(v);
        let v = _mm256_blend_epi32::<0xaa>(_mm256_min_epu16(v, t), _mm256_max_epu16(v, t));
        let t = _mm256_or_si256(_mm256_slli_epi32::<16>(v), _mm256_srli_epi32::<16>(v));
        _mm256_blend_epi16::<0xaa>(_mm256_min_epu16(v, t), _mm256_max_epu16(v, t))
    }

    /// Blocks of 16 values merged by a bitonic network; see the version of [`super::avx512`] for how and why.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn merge_arrays<'a>(mut cur: &'a [u8], mut win: &'a [u8], out: &mut [u8]) {
        let total = cur.len() + win.len();
        let behind_first = |values: &'a [u8]| &values[32.min(values.len())..];
        let first = |values: &[u8]| {
            values.first_chunk().map_or(u32::MAX, |value| u32::from(u16::from_le_bytes(*value)))
        };
        let mut high = load_values(cur);
        let mut block = load_values(win);
        (cur, win) = (behind_first(cur), behind_first(win));
        let mut written = 0;
        loop {
            let block_down = reverse_values(block);
            store(out, written, sort_values(_mm256_min_epu16(high, block_down)));
            high = sort_values(_mm256_max_epu16(high, block_down));
            written += 32;
            if written >= total {
                return;
            }
            if cur.is_empty() && win.is_empty() {
                store(out, written, high);
                return;
            }
            let take = first(cur) <= first(win);
            let from = select_unpredictable(take, cur, win);
            block = load_values(from);
            let rest = behind_first(from);
            cur = select_unpredictable(take, rest, cur);
            win = select_unpredictable(take, win, rest);
        }
    }

    /// See the version of [`super::avx512`] for how and why.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn arrays_to_bits(cur: &[u8], win: &[u8], map: &mut Map, out: &mut Bits) -> u32 {
        let (mut cur, mut win) = (cur.as_chunks::<2>().0, win.as_chunks::<2>().0);
        let mut count = 0;
        for (part, out) in out.as_chunks_mut::<{ MAP_VALUES / 8 }>().0.iter_mut().enumerate() {
            for values in [&mut cur, &mut win] {
                *values = portable::fill_map(values, part, map);
            }
            for (bytes, word) in
                map.as_chunks_mut::<32>().0.iter_mut().zip(out.as_chunks_mut::<4>().0)
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
    use std::hint::select_unpredictable;

    use super::*;

    compile_portable! { "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt";
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

    /// The keys of up to 16 runs.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn load_keys(runs: &[u8]) -> __m512i {
        _mm512_rol_epi32::<16>(load_runs(runs, 0))
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

    /// For each lane the smaller of itself and its partner, or the larger where `upper` has all bits set.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn exchange_values(v: __m512i, partner: __m512i, upper: __m512i) -> __m512i {
        let (low, high) = (_mm512_min_epu16(v, partner), _mm512_max_epu16(v, partner));
        _mm512_ternarylogic_epi64::<SELECT>(upper, high, low)
    }

    /// As [`exchange_values`], for 32-bit numbers.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn exchange_keys(v: __m512i, partner: __m512i, upper: __m512i) -> __m512i {
        let (low, high) = (_mm512_min_epu32(v, partner), _mm512_max_epu32(v, partner));
        _mm512_ternarylogic_epi64::<SELECT>(upper, high, low)
    }

    /// The truth table of "second where the first is set, else third".
    const SELECT: i32 = 0xca;

    /// Sorts 32 values of which the first part ascends and the second descends.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn sort_values(v: __m512i) -> __m512i {
        let upper = _mm512_set_epi64(-1, -1, -1, -1, 0, 0, 0, 0);
        let v = exchange_values(v, _mm512_shuffle_i64x2::<0b01_00_11_10>(v, v), upper);
        let upper = _mm512_set_epi64(-1, -1, 0, 0, -1, -1, 0, 0);
        let v = exchange_values(v, _mm512_shuffle_i64x2::<0b10_11_00_01>(v, v), upper);
        let upper = _mm512_set_epi64(-1, 0, -1, 0, -1, 0, -1, 0);
        let v = exchange_values(v, _mm512_shuffle_epi32::<0b01_00_11_10>(v), upper);
        let upper = _mm512_set1_epi64(!0xffff_ffff);
        let v = exchange_values(v, _mm512_shuffle_epi32::<0b10_11_00_01>(v), upper);
        exchange_values(v, _mm512_rol_epi32::<16>(v), _mm512_set1_epi32(!0xffff))
    }

    /// Sorts 16 numbers of which the first part ascends and the second descends.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn sort_keys(v: __m512i) -> __m512i {
        let upper = _mm512_set_epi64(-1, -1, -1, -1, 0, 0, 0, 0);
        let v = exchange_keys(v, _mm512_shuffle_i64x2::<0b01_00_11_10>(v, v), upper);
        let upper = _mm512_set_epi64(-1, -1, 0, 0, -1, -1, 0, 0);
        let v = exchange_keys(v, _mm512_shuffle_i64x2::<0b10_11_00_01>(v, v), upper);
        let upper = _mm512_set_epi64(-1, 0, -1, 0, -1, 0, -1, 0);
        let v = exchange_keys(v, _mm512_shuffle_epi32::<0b01_00_11_10>(v), upper);
        exchange_keys(v, _mm512_shuffle_epi32::<0b10_11_00_01>(v), _mm512_set1_epi64(!0xffff_ffff))
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
    pub(super) fn check_runs(runs: &[u8]) -> Option<RunFacts> {
        let count = runs.len() / 4;
        let low_half = _mm512_set1_epi32(0xffff);
        let one = _mm512_set1_epi32(1);
        let mut lengths = _mm512_setzero_si512();
        let (mut bad, mut joined, mut at) = (0, 0, 0);
        while at < count {
            // The last run has none behind it.
            let (mask, behind) = (low16(count - at), low16(count - at - 1));
            let place = runs.as_ptr().wrapping_add(4 * at);
            // SAFETY: lanes outside of the masks are not read, and those inside them lie within `runs`.
            let (run, next) = unsafe {
                (
                    _mm512_maskz_loadu_epi32(mask, place.cast()),
                    _mm512_maskz_loadu_epi32(behind, place.wrapping_add(4).cast()),
                )
            };
            let more = _mm512_srli_epi32::<16>(run);
            let end = _mm512_add_epi32(_mm512_and_si512(run, low_half), more);
            let next_start = _mm512_and_si512(next, low_half);
            bad |= _mm512_cmpgt_epu32_mask(end, low_half);
            bad |= _mm512_mask_cmple_epu32_mask(behind, next_start, end);
            let touching =
                _mm512_mask_cmpeq_epu32_mask(behind, next_start, _mm512_add_epi32(end, one));
            joined += touching.count_ones();
            lengths = _mm512_add_epi32(lengths, more);
            at += 16;
        }
        #[allow(
            clippy::cast_sign_loss,
            clippy::cast_possible_truncation,
            reason = "at most 65535 runs"
        )]
        let card = (_mm512_reduce_add_epi32(lengths) as u32).wrapping_add(count as u32);
        (bad == 0).then_some(RunFacts { card, joined })
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
        if cur.len() + win.len() < 512 {
            merge_ascending(cur, win, out);
        } else {
            merge_from_both_ends(cur, win, out);
        }
    }

    /// What is left of `values` behind the first block.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn behind_first(values: &[u8]) -> &[u8] {
        &values[64.min(values.len())..]
    }

    /// What is left of `values` in front of the last block.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn before_last(values: &[u8]) -> &[u8] {
        &values[..values.len() - 64.min(values.len())]
    }

    /// The last 32 values, in order; where there are fewer, the lower lanes are zero.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn load_last(values: &[u8]) -> __m512i {
        let mask = !low32(32 - 32.min(values.len() / 2));
        let place = values.as_ptr().wrapping_add(values.len()).wrapping_sub(64).cast();
        // SAFETY: lanes outside of the mask are not read, and those inside it lie within `values`.
        unsafe { _mm512_maskz_loadu_epi16(mask, place) }
    }

    /// The first value, more than any where there is none.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn first(values: &[u8]) -> u32 {
        values.first_chunk().map_or(u32::MAX, |value| u32::from(u16::from_le_bytes(*value)))
    }

    /// The last value, less than any where there is none.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn last(values: &[u8]) -> i32 {
        values.last_chunk().map_or(-1, |value| i32::from(u16::from_le_bytes(*value)))
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn merge_ascending<'a>(mut cur: &'a [u8], mut win: &'a [u8], out: &mut [u8]) {
        let total = cur.len() + win.len();
        let mut high = load_values(cur, 0);
        let mut block = load_values(win, 0);
        (cur, win) = (behind_first(cur), behind_first(win));
        let mut written = 0;
        loop {
            // The block comes in descending order against what was held back in ascending order.
            let block_down = reverse_values(block);
            store(out, written, sort_values(_mm512_min_epu16(high, block_down)));
            high = sort_values(_mm512_max_epu16(high, block_down));
            written += 64;
            if written >= total {
                return;
            }
            if cur.is_empty() && win.is_empty() {
                store(out, written, high);
                return;
            }
            // Which side the next block comes from is as good as random: no branch. A block from the side with the
            // smaller next value leaves nothing behind that is smaller than what has been written.
            let take = first(cur) <= first(win);
            let from = select_unpredictable(take, cur, win);
            block = load_values(from, 0);
            let rest = behind_first(from);
            cur = select_unpredictable(take, rest, cur);
            win = select_unpredictable(take, win, rest);
        }
    }

    /// As [`merge_ascending`], with the smallest values written from the front and the largest from the back: two
    /// chains of dependent steps instead of one. Where both meet they may write the same values twice.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    fn merge_from_both_ends<'a>(cur: &'a [u8], win: &'a [u8], out: &mut [u8]) {
        let (mut front, mut back) = (0, cur.len() + win.len());
        let mut high = load_values(cur, 0);
        let mut block = load_values(win, 0);
        let (mut cur_up, mut win_up) = (behind_first(cur), behind_first(win));
        let mut low = load_last(cur);
        let mut block_back = load_last(win);
        let (mut cur_down, mut win_down) = (before_last(cur), before_last(win));
        loop {
            let block_down = reverse_values(block);
            store(out, front, sort_values(_mm512_min_epu16(high, block_down)));
            high = sort_values(_mm512_max_epu16(high, block_down));
            front += 64;
            let block_down = reverse_values(block_back);
            back -= 64;
            store(out, back, sort_values(_mm512_max_epu16(low, block_down)));
            low = sort_values(_mm512_min_epu16(low, block_down));
            if front >= back {
                return;
            }
            let take = first(cur_up) <= first(win_up);
            let from = select_unpredictable(take, cur_up, win_up);
            block = load_values(from, 0);
            let rest = behind_first(from);
            cur_up = select_unpredictable(take, rest, cur_up);
            win_up = select_unpredictable(take, win_up, rest);

            let take = last(cur_down) >= last(win_down);
            let from = select_unpredictable(take, cur_down, win_down);
            block_back = load_last(from);
            let rest = before_last(from);
            cur_down = select_unpredictable(take, rest, cur_down);
            win_down = select_unpredictable(take, win_down, rest);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn split_arrays(
        merged: &[u8],
        out: &mut [u8],
        common: &mut [u8],
    ) -> (usize, usize, usize) {
        let count = merged.len() / 2;
        let (mut written, mut shared, mut joined, mut at) = (0, 0, 0, 0);
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
            let plus_one = _mm512_add_epi16(previous, _mm512_set1_epi16(1));
            joined += _mm512_mask_cmpeq_epu16_mask(before, block, plus_one).count_ones() as usize;
            store(out, 2 * written, _mm512_maskz_compress_epi16(once, block));
            written += once.count_ones() as usize;
            store(common, 2 * shared, _mm512_maskz_compress_epi16(again, block));
            shared += again.count_ones() as usize;
            at += 32;
        }
        (written, shared, written - joined)
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn merge_runs<'a>(mut cur: &'a [u8], mut win: &'a [u8], out: &mut [u8]) {
        let total = cur.len() + win.len();
        let rest_of = |runs: &[u8]| 64.min(runs.len());
        let head = |runs: &[u8]| match runs.first_chunk() {
            Some(run) => u64::from(portable::run_key(u32::from_le_bytes(*run))),
            None => u64::MAX,
        };
        let mut high = load_keys(cur);
        cur = &cur[rest_of(cur)..];
        let mut block = load_keys(win);
        win = &win[rest_of(win)..];
        let mut written = 0;
        loop {
            let block_down = reverse_keys(block);
            let low = _mm512_min_epu32(high, block_down);
            high = sort_keys(_mm512_max_epu32(high, block_down));
            store(out, written, sort_keys(low));
            written += 64;
            if written >= total {
                return;
            }
            if cur.is_empty() && win.is_empty() {
                store(out, written, high);
                return;
            }
            let take = head(cur) <= head(win);
            let from = select_unpredictable(take, cur, win);
            block = load_keys(from);
            let rest = &from[rest_of(from)..];
            cur = select_unpredictable(take, rest, cur);
            win = select_unpredictable(take, win, rest);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn merge_small_runs(
        base: &[u8],
        cur: &[u8],
        win: &[u8],
        out: &mut [u8; 4 * SMALL_RUNS],
    ) -> Option<(u32, u32)> {
        let (cur_count, win_count) = (cur.len() / 4, win.len() / 4);
        debug_assert!(cur_count + win_count <= SMALL_RUNS);
        let descending = reverse_keys(load_keys(win));
        let keys = sort_keys(_mm512_mask_mov_epi32(descending, low16(cur_count), load_keys(cur)));
        let mask = low16(cur_count + win_count);
        // Lane i of `previous` is lane i - 1; lane 0 has nothing before it.
        let order = _mm512_set_epi32(14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0);
        let previous = _mm512_permutexvar_epi32(order, keys);
        let before = mask & !1;
        let again = _mm512_mask_cmpeq_epu32_mask(before, keys, previous);
        if again != 0 || !base.is_empty() {
            let common = _mm512_rol_epi32::<16>(_mm512_maskz_compress_epi32(again, keys));
            let shared = again.count_ones() as usize;
            let different =
                _mm512_mask_cmpneq_epu32_mask(low16(shared), common, load_runs(base, 0));
            if 4 * shared != base.len() || different != 0 {
                return None;
            }
        }
        let low_half = _mm512_set1_epi32(0xffff);
        let start = _mm512_srli_epi32::<16>(keys);
        let end = _mm512_add_epi32(start, _mm512_and_si512(keys, low_half));
        let previous_end = _mm512_permutexvar_epi32(order, end);
        if _mm512_mask_cmple_epu32_mask(before & !again, start, previous_end) != 0 {
            return None;
        }
        let after_previous = _mm512_add_epi32(previous_end, _mm512_set1_epi32(1));
        let goes_on = again | _mm512_mask_cmpeq_epu32_mask(before, start, after_previous);
        let starts = mask & !goes_on;
        let stops = mask & !(goes_on >> 1);
        let start = _mm512_maskz_compress_epi32(starts, start);
        let more = _mm512_sub_epi32(_mm512_maskz_compress_epi32(stops, end), start);
        store(out, 0, _mm512_or_si512(start, _mm512_slli_epi32::<16>(more)));
        let runs = starts.count_ones();
        #[allow(clippy::cast_sign_loss, reason = "a sum of at most 16 numbers below 65536")]
        let card = _mm512_mask_reduce_add_epi32(low16(runs as usize), more) as u32 + runs;
        Some((runs, card))
    }

    /// Sets the bits of the values of two arrays and gives the number of bits set.
    ///
    /// A byte is written for every value and the bytes are collected to bits: on sorted values that come close to one
    /// another this is faster than setting bits in memory, where each has to wait for the one before. `map` must
    /// be zero and is again in the end.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2,avx512vpopcntdq,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn arrays_to_bits(cur: &[u8], win: &[u8], map: &mut Map, out: &mut Bits) -> u32 {
        let (mut cur, mut win) = (cur.as_chunks::<2>().0, win.as_chunks::<2>().0);
        let mut count = 0;
        for (part, out) in out.as_chunks_mut::<{ MAP_VALUES / 8 }>().0.iter_mut().enumerate() {
            for values in [&mut cur, &mut win] {
                *values = portable::fill_map(values, part, map);
            }
            for (bytes, word) in
                map.as_chunks_mut::<64>().0.iter_mut().zip(out.as_chunks_mut::<8>().0)
            {
                // SAFETY: `bytes` is 64 bytes.
                let bits = unsafe {
                    let block = _mm512_loadu_si512(bytes.as_ptr().cast());
                    _mm512_storeu_si512(bytes.as_mut_ptr().cast(), _mm512_setzero_si512());
                    _mm512_movepi8_mask(block)
                };
                count += bits.count_ones();
                *word = bits.to_le_bytes();
            }
        }
        count
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
        // Nothing can be told without enough memory; no caller gives less.
        if out.len().min(ends.len()) < merged.len() + SLACK {
            debug_assert!(false, "out and ends are too short");
            return None;
        }
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
            // SAFETY: lanes outside of the mask are not read, and those inside it lie within the slices: `started` is at
            // most `count`, and both are longer than `merged`.
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
