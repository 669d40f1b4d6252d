//! Plain loops, written so that the compiler can vectorise them for whatever target they are inlined into.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "indices are bounded by the lengths taken right before; counts are at most 65536"
)]

use super::{BitCounts, FlatRuns, Kernels, MAP_VALUES, Map, PairUnion, SLACK, Work};
use crate::cursor::Stretch;
use crate::format::{ARRAY_MAX, Bits, USEFUL_RUNS_MAX};

/// See [`super::Kernels::SPARSE_ARRAY_BYTES`].
pub(crate) const SPARSE_ARRAY_BYTES: usize = 20;

/// See [`super::Kernels::run`].
#[inline(never)]
pub(crate) fn run<K: Kernels, W: Work>(kernels: K, work: W) -> W::Done {
    work.on(kernels)
}

/// See [`super::Kernels::is_ascending`].
#[inline(always)]
pub(crate) fn is_ascending(values: &[u8]) -> bool {
    let values = values.as_chunks::<2>().0;
    let mut bad = 0u16;
    for (low, high) in values.iter().zip(values.get(1..).unwrap_or(&[])) {
        bad |= u16::from(u16::from_le_bytes(*high) <= u16::from_le_bytes(*low));
    }
    bad == 0
}

/// See [`super::Kernels::check_array`].
#[inline(always)]
pub(crate) fn check_array(values: &[u8]) -> Option<u32> {
    let values = values.as_chunks::<2>().0;
    let mut bad = 0u16;
    let mut joined = 0u16;
    for (low, high) in values.iter().zip(values.get(1..).unwrap_or(&[])) {
        let (low, high) = (u16::from_le_bytes(*low), u16::from_le_bytes(*high));
        bad |= u16::from(high <= low);
        joined = joined.wrapping_add(u16::from(high == low.wrapping_add(1)));
    }
    (bad == 0).then(|| values.len() as u32 - u32::from(joined))
}

/// See [`super::Kernels::check_runs`].
#[inline(always)]
pub(crate) fn check_runs(runs: &[u8]) -> Option<u32> {
    let runs = runs.as_chunks::<4>().0;
    let end = |run: u32| (run & 0xffff) + (run >> 16);
    let mut bad = 0u32;
    let mut lengths = 0u32;
    for run in runs {
        lengths += u32::from_le_bytes(*run) >> 16;
    }
    for (low, high) in runs.iter().zip(runs.get(1..).unwrap_or(&[])) {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        bad |= u32::from((high & 0xffff) <= end(low));
    }
    // A run with another one behind it ends in front of that.
    bad |= u32::from(runs.last().is_some_and(|last| end(u32::from_le_bytes(*last)) > 0xffff));
    (bad == 0).then_some(lengths.wrapping_add(runs.len() as u32))
}

/// Number of runs when those that begin right behind another are joined to it.
#[inline(always)]
pub(crate) fn maximal_runs(runs: &[u8]) -> u32 {
    let runs = runs.as_chunks::<4>().0;
    let mut joined = 0u32;
    for (low, high) in runs.iter().zip(runs.get(1..).unwrap_or(&[])) {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        joined += u32::from((low & 0xffff) + (low >> 16) + 1 == high & 0xffff);
    }
    runs.len() as u32 - joined
}

/// Index of the first value that is not above the one before it.
#[cold]
pub(crate) fn first_unordered_value(values: &[u8]) -> usize {
    let values = values.as_chunks::<2>().0;
    (1..values.len())
        .find(|&i| u16::from_le_bytes(values[i]) <= u16::from_le_bytes(values[i - 1]))
        .unwrap_or(0)
}

/// The first value of strictly increasing arrays that is in `cur` and in `win` but not in `base`, or the other way round;
/// whether it is in `base`, and whether it is in `cur`.
#[cold]
pub(crate) fn first_difference(base: &[u8], cur: &[u8], win: &[u8]) -> Option<(u32, bool, bool)> {
    let mut lists = [base, cur, win].map(|list| list.as_chunks::<2>().0);
    let first = |list: &[[u8; 2]]| list.first().map(|value| u32::from(u16::from_le_bytes(*value)));
    loop {
        let firsts = lists.map(first);
        let value = firsts.into_iter().flatten().min()?;
        let [in_base, in_cur, in_win] = firsts.map(|first| first == Some(value));
        if (in_cur && in_win) != in_base {
            return Some((value, in_base, in_cur));
        }
        for (list, has_it) in lists.iter_mut().zip([in_base, in_cur, in_win]) {
            *list = &list[usize::from(has_it)..];
        }
    }
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
pub(crate) fn merge_bits(
    base: Option<&Bits>,
    cur: &Bits,
    win: &Bits,
    out: &mut Bits,
) -> Option<BitCounts> {
    let (mut in_cur, mut in_win, mut in_union, mut wrong) = (0u64, 0u64, 0u64, 0u64);
    let mut step = |base: u64, cur: &[u8; 8], win: &[u8; 8], out: &mut [u8; 8]| {
        let (cur, win) = (u64::from_le_bytes(*cur), u64::from_le_bytes(*win));
        wrong |= (cur & win) ^ base;
        in_cur += u64::from(cur.count_ones());
        in_win += u64::from(win.count_ones());
        in_union += u64::from((cur | win).count_ones());
        *out = (cur | win).to_le_bytes();
    };
    let out = out.as_chunks_mut::<8>().0;
    let inputs = words(cur).iter().zip(words(win));
    match base {
        None => inputs.zip(out).for_each(|((cur, win), out)| step(0, cur, win, out)),
        Some(base) => inputs
            .zip(words(base))
            .zip(out)
            .for_each(|(((cur, win), base), out)| step(u64::from_le_bytes(*base), cur, win, out)),
    }
    (wrong == 0).then_some(BitCounts {
        cur: in_cur as u32,
        win: in_win as u32,
        union: in_union as u32,
    })
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

/// Steps that [`merge`] takes from each end between two checks of bounds. With so few the compiler knows by itself that sums
/// of as many comparisons are indexes within the block.
const STEPS: usize = 4;

/// Merges two ascending lists. Numbers in both come twice.
#[inline(always)]
fn merge<const N: usize, T: Copy + Ord>(
    mut cur: &[[u8; N]],
    mut win: &[[u8; N]],
    out: &mut [[u8; N]],
    read: impl Fn([u8; N]) -> T,
    write: impl Fn(T) -> [u8; N],
) {
    let mut out = &mut out[..cur.len() + win.len()];
    // Which list the next number comes from is as good as random, so nothing may branch on it. Then it is the time from
    // one comparison to the next that counts: there are two chains of them, one from each end, and what may be compared
    // next is loaded from both lists before it is known of which it is. The ends cannot meet in these steps, nor can a
    // list run out of numbers.
    while let (Some(cur_first), Some(cur_last), Some(win_first), Some(win_last)) = (
        cur.first_chunk::<{ STEPS + 1 }>(),
        cur.last_chunk::<{ STEPS + 1 }>(),
        win.first_chunk::<{ STEPS + 1 }>(),
        win.last_chunk::<{ STEPS + 1 }>(),
    ) {
        let Some((first, rest)) = out.split_first_chunk_mut::<STEPS>() else { return };
        let Some((rest, last)) = rest.split_last_chunk_mut::<STEPS>() else { return };
        let (mut left, mut right, mut rights) = (read(cur_first[0]), read(win_first[0]), 0);
        for step in 0..STEPS {
            let next_left = read(cur_first[step + 1 - rights]);
            let next_right = read(win_first[rights + 1]);
            let is_right = right < left;
            first[step] = write(if is_right { right } else { left });
            left = if is_right { left } else { next_left };
            right = if is_right { next_right } else { right };
            rights += usize::from(is_right);
        }
        let (mut left, mut right, mut lefts) = (read(cur_last[STEPS]), read(win_last[STEPS]), 0);
        for step in 0..STEPS {
            let next_left = read(cur_last[STEPS - 1 - lefts]);
            let next_right = read(win_last[STEPS - 1 - (step - lefts)]);
            let is_left = right < left;
            last[STEPS - 1 - step] = write(if is_left { left } else { right });
            left = if is_left { next_left } else { left };
            right = if is_left { right } else { next_right };
            lefts += usize::from(is_left);
        }
        cur = &cur[STEPS - rights..cur.len() - lefts];
        win = &win[rights..win.len() - (STEPS - lefts)];
        out = rest;
    }
    // One list is nearly at its end.
    let mut written = 0;
    while let (Some((left, more_cur)), Some((right, more_win))) =
        (cur.split_first(), win.split_first())
    {
        let (left, right) = (read(*left), read(*right));
        if left <= right {
            out[written] = write(left);
            cur = more_cur;
        } else {
            out[written] = write(right);
            win = more_win;
        }
        written += 1;
    }
    let rest = if cur.is_empty() { win } else { cur };
    for (slot, number) in out[written..].iter_mut().zip(rest) {
        *slot = write(read(*number));
    }
}

/// See [`super::Kernels::merge_arrays`].
#[inline(always)]
pub(crate) fn merge_arrays(cur: &[u8], win: &[u8], out: &mut [u8]) {
    let (cur, win) = (cur.as_chunks().0, win.as_chunks().0);
    merge(cur, win, out.as_chunks_mut().0, u16::from_le_bytes, u16::to_le_bytes);
}

/// Numbers that are looked at between two checks of bounds where each is written once or not at all; see [`STEPS`].
const BLOCK: usize = 8;

/// Moves together those numbers of a block for which `keep` holds, given the one before and the number; `block` begins with
/// the one before the first. Gives how many they are; behind them anything may be written.
#[inline(always)]
fn compact<const N: usize, const M: usize>(
    block: &[[u8; N]; BLOCK + 1],
    out: &mut [[u8; M]; BLOCK],
    keep: impl Fn([u8; N], [u8; N]) -> bool,
    write: impl Fn([u8; N]) -> [u8; M],
) -> usize {
    // Which are kept is as good as random: each is written, and the next one over it if it is not.
    let mut kept = 0;
    for i in 0..BLOCK {
        out[kept] = write(block[i + 1]);
        kept += usize::from(keep(block[i], block[i + 1]));
    }
    kept
}

/// See [`super::Kernels::split_arrays`].
#[inline(always)]
pub(crate) fn split_arrays(merged: &[u8], base: &[u8], out: &mut [u8]) -> Option<(u32, u32)> {
    let merged = merged.as_chunks::<2>().0;
    let base = base.as_chunks::<2>().0;
    let slots = out.as_chunks_mut::<2>().0;
    let Some(first) = merged.first() else { return base.is_empty().then_some((0, 0)) };
    let ascend = |low: [u8; 2], high: [u8; 2]| u16::from_le_bytes(low) < u16::from_le_bytes(high);
    // Values that came twice are collected behind where the union ends if they are the base.
    let place = merged.len().checked_sub(base.len())? + 1;
    let place_of = |shared: usize| place + shared.min(base.len());
    slots[0] = *first;
    let (mut at, mut written) = (1, 1);
    while let Some(block) = merged[at - 1..].first_chunk() {
        let shared = at - written;
        let union = slots[written..].first_chunk_mut()?;
        written += compact(block, union, ascend, |value| value);
        let common = slots[place_of(shared)..].first_chunk_mut()?;
        compact(block, common, |low, high| !ascend(low, high), |value| value);
        at += BLOCK;
    }
    for at in at..merged.len() {
        slots[place_of(at - written)] = merged[at];
        slots[written] = merged[at];
        written += usize::from(ascend(merged[at - 1], merged[at]));
    }
    if merged.len() - written != base.len() || slots[place..][..base.len()] != *base {
        return None;
    }
    let runs = check_array(&out[..2 * written])?;
    Some((written as u32, runs))
}

/// A run as a number that sorts by its first value: that in the upper half, the number of further values in the lower.
#[inline(always)]
pub(crate) const fn run_key(run: u32) -> u32 {
    run.rotate_left(16)
}

/// See [`super::Kernels::merge_runs`].
#[inline(always)]
pub(crate) fn merge_runs(cur: &[u8], win: &[u8], out: &mut [u8]) {
    let (cur, win) = (cur.as_chunks().0, win.as_chunks().0);
    let read = |run| run_key(u32::from_le_bytes(run));
    merge(cur, win, out.as_chunks_mut().0, read, u32::to_le_bytes);
}

/// See [`super::Kernels::split_runs`].
#[inline(always)]
pub(crate) fn split_runs(
    merged: &[u8],
    base: &[u8],
    out: &mut [u8],
    _ends: &mut [u8],
) -> Option<(u32, u32)> {
    let merged = merged.as_chunks::<4>().0;
    let mut bases = base.as_chunks::<4>().0.iter();
    let out = out.as_chunks_mut::<4>().0;
    let Some((first, rest)) = merged.split_first() else {
        return base.is_empty().then_some((0, 0));
    };
    let mut last_key = u32::from_le_bytes(*first);
    let mut start = last_key >> 16;
    let mut end = start + (last_key & 0xffff);
    let (mut written, mut card, mut bad) = (0, 0, false);
    let mut close = |start: u32, end: u32| {
        let more = end.wrapping_sub(start);
        out[written] = (start | more << 16).to_le_bytes();
        written += 1;
        card += more + 1;
    };
    for key in rest {
        let key = u32::from_le_bytes(*key);
        if key == last_key {
            bad |= bases.next() != Some(&run_key(key).to_le_bytes());
            continue;
        }
        last_key = key;
        let next = key >> 16;
        bad |= next <= end;
        if next != end + 1 {
            close(start, end);
            start = next;
        }
        end = next + (key & 0xffff);
    }
    close(start, end);
    (!bad && bases.next().is_none()).then_some((written as u32, card))
}

/// See [`super::Kernels::flatten`].
#[inline(always)]
pub(crate) fn flatten(arrays: &Stretch<'_>, out: &mut [u8]) -> bool {
    let mut values = arrays.payload.as_chunks::<2>().0;
    let mut slots = out.as_chunks_mut::<4>().0;
    let mut wrong = false;
    for (index, head) in arrays.heads.iter().enumerate() {
        let head = u32::from_le_bytes(*head);
        let card = (head >> 16) as usize + 1;
        let key = head & 0xffff;
        wrong |= !arrays.is_at(index, arrays.payload.len() - 2 * values.len());
        let (Some((here, later)), Some((room, rest))) =
            (values.split_at_checked(card), slots.split_at_mut_checked(card))
        else {
            return false;
        };
        // The value that may come next at the least.
        let mut least = 0;
        for (slot, value) in room.iter_mut().zip(here) {
            let value = u32::from(u16::from_le_bytes(*value));
            wrong |= value < least;
            least = value + 1;
            *slot = (value << 16 | key).to_le_bytes();
        }
        (values, slots) = (later, rest);
    }
    !wrong && values.is_empty()
}

/// See [`super::Kernels::put_heads`].
#[inline(always)]
pub(crate) fn put_heads(
    keys: &[[u8; 4]],
    starts: &[[u8; 4]],
    place: usize,
    heads: &mut [[u8; 4]],
    offsets: &mut [[u8; 4]],
) -> u32 {
    let Some((_, ends)) = starts.split_first() else { return 0 };
    let mut most = 0;
    for (((head, key), start), end) in heads.iter_mut().zip(keys).zip(starts).zip(ends) {
        let more =
            u32::from_le_bytes(*end).wrapping_sub(u32::from_le_bytes(*start)).wrapping_sub(1);
        most = most.max(more);
        *head = (u32::from_le_bytes(*key) >> 16 | more << 16).to_le_bytes();
    }
    for (offset, start) in offsets.iter_mut().zip(starts).take(ends.len()) {
        *offset = (place as u32 + 2 * u32::from_le_bytes(*start)).to_le_bytes();
    }
    most.saturating_add(1)
}

/// See [`super::Kernels::flatten_runs`].
#[inline(always)]
pub(crate) fn flatten_runs(
    containers: &Stretch<'_>,
    starts: &mut [u8],
    ends: &mut [u8],
) -> Option<FlatRuns> {
    let most = starts.len().min(ends.len()).checked_sub(SLACK)? / 4;
    let starts = &mut starts.as_chunks_mut::<4>().0[..most];
    let ends = &mut ends.as_chunks_mut::<4>().0[..most];
    let mut flat = FlatRuns { bytes: 0, runs: 0, rows: 0 };
    let mut wrong = false;
    for (index, head) in containers.heads.iter().enumerate() {
        let head = u32::from_le_bytes(*head);
        let (key, card) = (head & 0xffff, (head >> 16) + 1);
        wrong |= !containers.is_at(index, flat.bytes);
        // The value that may come next at the least.
        let (mut least, mut count) = (0, 0);
        let mut add = |first: u32, last: u32| -> Option<()> {
            wrong |= first < least || last > 0xffff;
            least = last + 1;
            count += least.wrapping_sub(first);
            *starts.get_mut(flat.runs)? = (first << 16 | key).to_le_bytes();
            *ends.get_mut(flat.runs)? = (last << 16 | key).to_le_bytes();
            flat.runs += 1;
            Some(())
        };
        let rest = containers.payload.get(flat.bytes..)?;
        if containers.is_runs(index) {
            let (runs, rest) = rest.split_first_chunk()?;
            let runs = usize::from(u16::from_le_bytes(*runs));
            for run in rest.get(..4 * runs)?.as_chunks::<4>().0 {
                let run = u32::from_le_bytes(*run);
                add(run & 0xffff, (run & 0xffff) + (run >> 16))?;
            }
            flat.bytes += 2 + 4 * runs;
        } else if card <= ARRAY_MAX {
            for value in rest.get(..2 * card as usize)?.as_chunks::<2>().0 {
                let value = u32::from(u16::from_le_bytes(*value));
                add(value, value)?;
            }
            flat.bytes += 2 * card as usize;
        } else {
            return None;
        }
        wrong |= count != card;
        flat.rows += u64::from(card);
    }
    (!wrong).then_some(flat)
}

/// See [`super::Kernels::split_spans`].
#[inline(always)]
pub(crate) fn split_spans(
    spans: [&[u8]; 2],
    base: [&[u8]; 2],
    [starts, ends, firsts]: [&mut [u8]; 3],
    _common: &mut [u8],
) -> Option<(usize, usize)> {
    let spans = spans.map(|list| list.as_chunks::<4>().0);
    let base = base.map(|list| list.as_chunks::<4>().0);
    let (starts, ends) = (starts.as_chunks_mut::<4>().0, ends.as_chunks_mut::<4>().0);
    let firsts = firsts.as_chunks_mut::<4>().0;
    let (mut runs, mut containers, mut shared, mut wrong) = (0, 0, 0, false);
    // Before the first stands one of another container, that ends in front of all.
    let mut last_start = !spans[0].first().map_or(0, |first| u32::from_le_bytes(*first));
    let mut last_end = None;
    for (start, end) in spans[0].iter().zip(spans[1]) {
        let (start, end) = (u32::from_le_bytes(*start), u32::from_le_bytes(*end));
        if start == last_start && Some(end) == last_end {
            let expected = base.map(|list| list.get(shared).map(|key| u32::from_le_bytes(*key)));
            wrong |= expected != [Some(run_key(start)), Some(run_key(end))];
            shared += 1;
            continue;
        }
        wrong |= last_end.is_some_and(|last_end| start <= last_end);
        let begins = (start ^ last_start) >> 16 != 0;
        if begins || last_end.is_none_or(|last_end: u32| start != last_end.wrapping_add(1)) {
            starts[runs] = start.to_le_bytes();
            runs += 1;
        }
        if begins {
            firsts[containers] = (runs as u32 - 1).to_le_bytes();
            containers += 1;
        }
        ends[runs - 1] = end.to_le_bytes();
        (last_start, last_end) = (start, Some(end));
    }
    (!wrong && shared == base[0].len()).then_some((runs, containers))
}

/// See [`super::Kernels::put_runs`].
#[inline(always)]
pub(crate) fn put_runs(starts: &[u8], ends: &[u8], out: &mut [u8]) -> u32 {
    let len = starts.len().min(ends.len()).saturating_sub(SLACK);
    let (starts, ends) = (starts[..len].as_chunks::<4>().0, ends[..len].as_chunks::<4>().0);
    let mut card = 0;
    for ((start, end), run) in starts.iter().zip(ends).zip(out[..len].as_chunks_mut::<4>().0) {
        let (start, end) = (u32::from_le_bytes(*start), u32::from_le_bytes(*end));
        let more = end - start;
        card += more + 1;
        *run = (start & 0xffff | more << 16).to_le_bytes();
    }
    card
}

/// See [`super::Kernels::split_pairs`].
#[inline(always)]
pub(crate) fn split_pairs(
    merged: &[u8],
    base: &[u8],
    out: &mut [u8],
    [keys, starts, common]: [&mut [u8]; 3],
) -> Option<PairUnion> {
    let merged = merged.as_chunks::<4>().0;
    let base = base.as_chunks::<4>().0;
    let out = out.as_chunks_mut::<2>().0;
    let [keys, starts, common] = [keys, starts, common].map(|list| list.as_chunks_mut::<4>().0);
    let Some(first) = merged.first() else {
        let none = PairUnion { values: 0, containers: 0, joined: 0 };
        return base.is_empty().then_some(none);
    };
    out[0] = (u32::from_le_bytes(*first) as u16).to_le_bytes();
    keys[0] = *first;
    starts[0] = [0; 4];
    let (mut at, mut values, mut containers) = (1, 1, 1);
    while let Some(block) = merged[at - 1..].first_chunk() {
        if !base.is_empty() {
            let common = common[(at - values).min(base.len())..].first_chunk_mut()?;
            let write = |pair| run_key(u32::from_le_bytes(pair)).to_le_bytes();
            compact(block, common, |last, pair| last == pair, write);
        }
        // Each pair is written as one that is not there yet, and as the first of its container.
        let keys = keys[containers..].first_chunk_mut::<BLOCK>()?;
        let starts = starts[containers..].first_chunk_mut::<BLOCK>()?;
        let out = out[values..].first_chunk_mut::<BLOCK>()?;
        let (mut new, mut begun) = (0, 0);
        for i in 0..BLOCK {
            let [last, pair] = [block[i], block[i + 1]].map(u32::from_le_bytes);
            out[new] = (pair as u16).to_le_bytes();
            keys[begun] = pair.to_le_bytes();
            starts[begun] = ((values + new) as u32).to_le_bytes();
            new += usize::from(last < pair);
            begun += usize::from(last >> 16 < pair >> 16);
        }
        values += new;
        containers += begun;
        at += BLOCK;
    }
    for at in at..merged.len() {
        let [last, pair] = [merged[at - 1], merged[at]].map(u32::from_le_bytes);
        common[(at - values).min(base.len())] = run_key(pair).to_le_bytes();
        out[values] = (pair as u16).to_le_bytes();
        keys[containers] = pair.to_le_bytes();
        starts[containers] = (values as u32).to_le_bytes();
        values += usize::from(last < pair);
        containers += usize::from(last >> 16 < pair >> 16);
    }
    if merged.len() - values != base.len() || common[..base.len()] != *base {
        return None;
    }
    // By itself this is vectorised. The last value of a container may count as followed by the first one of the next.
    let mut joined = 0u32;
    for (low, high) in merged.iter().zip(&merged[1..]) {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        joined += u32::from(high == low.wrapping_add(1));
    }
    Some(PairUnion { values, containers, joined })
}

/// See [`super::Kernels::arrays_to_bits`].
#[inline(always)]
pub(crate) fn arrays_to_bits(cur: &[u8], win: &[u8], _map: &mut Map, out: &mut Bits) -> u32 {
    out.fill(0);
    set_values(cur, out);
    set_values(win, out);
    popcount(out)
}

/// Writes every value as a run of its own.
#[inline]
pub(crate) fn values_to_runs(values: &[u8], out: &mut [u8]) {
    for (slot, value) in out.as_chunks_mut::<4>().0.iter_mut().zip(values.as_chunks::<2>().0) {
        *slot = u32::from(u16::from_le_bytes(*value)).to_le_bytes();
    }
}

/// Sets the bit of every value.
#[inline(always)]
pub(crate) fn set_values(values: &[u8], bits: &mut Bits) {
    let (fours, rest) = values.as_chunks::<8>();
    let mut set = |value: u16| bits[usize::from(value >> 3)] |= 1 << (value & 7);
    for four in fours {
        let four = u64::from_le_bytes(*four);
        set(four as u16);
        set((four >> 16) as u16);
        set((four >> 32) as u16);
        set((four >> 48) as u16);
    }
    for value in rest.as_chunks::<2>().0 {
        set(u16::from_le_bytes(*value));
    }
}

/// Sets the byte of every value that lies in a part of the container; gives the values behind it.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "the kernels of x86_64 call it"))]
pub(crate) fn fill_map<'a>(values: &'a [[u8; 2]], part: usize, map: &mut Map) -> &'a [[u8; 2]] {
    let index = |value: &[u8; 2]| usize::from(u16::from_le_bytes(*value));
    let (here, later) = values.split_at(values.partition_point(|v| index(v) / MAP_VALUES <= part));
    for value in here {
        map[index(value) % MAP_VALUES] = 0xff;
    }
    later
}

/// Sets the bits of every run; runs must not pass 65535.
#[inline]
pub(crate) fn set_runs(runs: &[u8], bits: &mut Bits) {
    let words = bits.as_chunks_mut::<8>().0;
    let mut set = |at: usize, mask: u64| {
        words[at] = (u64::from_le_bytes(words[at]) | mask).to_le_bytes();
    };
    for run in runs.as_chunks::<4>().0 {
        let run = u32::from_le_bytes(*run);
        let first = (run & 0xffff) as usize;
        let last = (first + (run >> 16) as usize).min(0xffff);
        let (low, high) = (first >> 6, last >> 6);
        let (low_mask, high_mask) = (u64::MAX << (first & 63), u64::MAX >> (63 - (last & 63)));
        if low == high {
            set(low, low_mask & high_mask);
        } else {
            set(low, low_mask);
            (low + 1..high).for_each(|at| set(at, u64::MAX));
            set(high, high_mask);
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
