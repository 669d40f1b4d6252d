//! Plain loops, written so that the compiler can vectorise them for whatever target they are inlined into.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "indices are bounded by the lengths taken right before; counts are at most 65536"
)]

use super::RunFacts;
use crate::format::{Bits, USEFUL_RUNS_MAX};

/// See [`super::Kernels::check_array`].
#[inline(always)]
pub(crate) fn check_array(values: &[u8]) -> Option<u32> {
    let values = values.as_chunks::<2>().0;
    let Some((_, next)) = values.split_first() else { return Some(0) };
    let mut bad = 0u16;
    let mut joined = 0u16;
    for (low, high) in values.iter().zip(next) {
        let (low, high) = (u16::from_le_bytes(*low), u16::from_le_bytes(*high));
        bad |= u16::from(high <= low);
        joined = joined.wrapping_add(u16::from(high == low.wrapping_add(1)));
    }
    (bad == 0).then(|| values.len() as u32 - u32::from(joined))
}

/// See [`super::Kernels::check_runs`].
#[inline(always)]
pub(crate) fn check_runs(runs: &[u8]) -> Option<RunFacts> {
    let runs = runs.as_chunks::<4>().0;
    let mut bad = 0u32;
    let mut joined = 0u32;
    let mut lengths = 0u32;
    for run in runs {
        let run = u32::from_le_bytes(*run);
        lengths += run >> 16;
        bad |= u32::from((run & 0xffff) + (run >> 16) > 0xffff);
    }
    for (low, high) in runs.iter().zip(runs.get(1..).unwrap_or(&[])) {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        let end = (low & 0xffff) + (low >> 16);
        let start = high & 0xffff;
        bad |= u32::from(start <= end);
        joined += u32::from(start == end + 1);
    }
    (bad == 0).then_some(RunFacts { card: lengths.wrapping_add(runs.len() as u32), joined })
}

/// Index of the first value that is not above the one before it.
#[cold]
pub(crate) fn first_unordered_value(values: &[u8]) -> usize {
    let values = values.as_chunks::<2>().0;
    (1..values.len())
        .find(|&i| u16::from_le_bytes(values[i]) <= u16::from_le_bytes(values[i - 1]))
        .unwrap_or(0)
}

#[inline(always)]
fn words(bits: &Bits) -> &[[u8; 8]] {
    bits.as_chunks::<8>().0
}

/// See [`super::Kernels::popcount`].
#[inline(always)]
pub(crate) fn popcount(bits: &Bits) -> u32 {
    let mut count = 0u64;
    for word in words(bits) {
        count += u64::from(u64::from_le_bytes(*word).count_ones());
    }
    count as u32
}

/// See [`super::Kernels::merge_bits`].
#[inline(always)]
pub(crate) fn merge_bits(base: Option<&Bits>, cur: &Bits, win: &Bits, out: &mut Bits) -> Option<u32> {
    let mut count = 0u64;
    let mut wrong = 0u64;
    let out = out.as_chunks_mut::<8>().0;
    let inputs = words(cur).iter().zip(words(win));
    match base {
        None => {
            for ((cur, win), out) in inputs.zip(out) {
                let (cur, win) = (u64::from_le_bytes(*cur), u64::from_le_bytes(*win));
                wrong |= cur & win;
                count += u64::from((cur | win).count_ones());
                *out = (cur | win).to_le_bytes();
            }
        }
        Some(base) => {
            for (((cur, win), base), out) in inputs.zip(words(base)).zip(out) {
                let (cur, win) = (u64::from_le_bytes(*cur), u64::from_le_bytes(*win));
                wrong |= (cur & win) ^ u64::from_le_bytes(*base);
                count += u64::from((cur | win).count_ones());
                *out = (cur | win).to_le_bytes();
            }
        }
    }
    (wrong == 0).then_some(count as u32)
}

/// See [`super::Kernels::covers`].
#[inline(always)]
pub(crate) fn covers(base: &Bits, win: &Bits) -> bool {
    let mut wrong = 0u64;
    for (base, win) in words(base).iter().zip(words(win)) {
        wrong |= u64::from_le_bytes(*base) & !u64::from_le_bytes(*win);
    }
    wrong == 0
}

/// See [`super::Kernels::count_common`].
#[inline(always)]
pub(crate) fn count_common(base: &Bits, cur: &Bits, win: &Bits) -> u32 {
    let mut count = 0u64;
    for ((base, cur), win) in words(base).iter().zip(words(cur)).zip(words(win)) {
        let own = u64::from_le_bytes(*cur) & !u64::from_le_bytes(*base);
        count += u64::from((own & u64::from_le_bytes(*win)).count_ones());
    }
    count as u32
}

/// See [`super::Kernels::count_runs`].
#[inline(always)]
pub(crate) fn count_runs(bits: &Bits) -> u32 {
    // A run begins where a bit is set and the one below it is not. Stops after each 64 words once there are too
    // many to be useful: on dense random bitmaps after a fraction of the container.
    let mut count = 0u64;
    let mut carry = 0u64;
    for block in words(bits).chunks(64) {
        for word in block {
            let word = u64::from_le_bytes(*word);
            count += u64::from((word & !(word << 1 | carry)).count_ones());
            carry = word >> 63;
        }
        if count > u64::from(USEFUL_RUNS_MAX) + 1 {
            break;
        }
    }
    count as u32
}

/// See [`super::Kernels::merge_arrays`].
#[inline(always)]
pub(crate) fn merge_arrays(cur: &[u8], win: &[u8], out: &mut [u8], common: &mut [u8]) -> (usize, usize) {
    let (cur, win) = (cur.as_chunks::<2>().0, win.as_chunks::<2>().0);
    let (out, common) = (out.as_chunks_mut::<2>().0, common.as_chunks_mut::<2>().0);
    let (mut i, mut j, mut written, mut shared) = (0, 0, 0, 0);
    while i < cur.len() && j < win.len() {
        let (left, right) = (u16::from_le_bytes(cur[i]), u16::from_le_bytes(win[j]));
        out[written] = left.min(right).to_le_bytes();
        written += 1;
        if left == right {
            common[shared] = left.to_le_bytes();
            shared += 1;
        }
        i += usize::from(left <= right);
        j += usize::from(right <= left);
    }
    let rest = if i < cur.len() { &cur[i..] } else { &win[j..] };
    out[written..written + rest.len()].copy_from_slice(rest);
    (written + rest.len(), shared)
}

/// Sets the bit of every value.
#[inline]
pub(crate) fn set_values(values: &[u8], bits: &mut Bits) {
    for value in values.as_chunks::<2>().0 {
        let value = usize::from(u16::from_le_bytes(*value));
        bits[value >> 3] |= 1 << (value & 7);
    }
}

/// Sets the bits of every run; runs must not pass 65535.
#[inline]
pub(crate) fn set_runs(runs: &[u8], bits: &mut Bits) {
    for run in runs.as_chunks::<4>().0 {
        let run = u32::from_le_bytes(*run);
        let first = (run & 0xffff) as usize;
        let last = (first + (run >> 16) as usize).min(0xffff);
        let (low, high) = (first >> 3, last >> 3);
        let low_mask = 0xffu8 << (first & 7);
        let high_mask = 0xffu8 >> (7 - (last & 7));
        if low == high {
            bits[low] |= low_mask & high_mask;
        } else {
            bits[low] |= low_mask;
            bits[low + 1..high].fill(0xff);
            bits[high] |= high_mask;
        }
    }
}

/// Calls `sink(first, last)` for every maximal run of bits set, ascending.
#[inline]
pub(crate) fn for_each_run(bits: &Bits, mut sink: impl FnMut(u16, u16)) {
    let mut open: Option<u32> = None;
    for (index, word) in words(bits).iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let at = index as u32 * 64;
        // Each step flips between looking for the next bit set and the next bit clear.
        let mut done = 0u32;
        while done < 64 {
            let rest = word >> done;
            match open {
                None => {
                    if rest == 0 {
                        break;
                    }
                    done += rest.trailing_zeros();
                    open = Some(at + done);
                }
                Some(first) => {
                    let ones = rest.trailing_ones();
                    if done + ones >= 64 {
                        break;
                    }
                    done += ones;
                    sink(first as u16, (at + done - 1) as u16);
                    open = None;
                }
            }
        }
    }
    if let Some(first) = open {
        sink(first as u16, u16::MAX);
    }
}
