//! The instructions of AVX-512 that `src/kernels/x86/avx512.rs` uses, in plain Rust, so that its loops can be tested on
//! machines that do not have them: see `./dev test-avx512`.
//!
//! Each function does what Intel's guide to intrinsics says of the one with its name, a lane at a time.
#![allow(
    unsafe_code,
    non_camel_case_types,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    missing_docs,
    missing_debug_implementations,
    reason = "names and types are Intel's"
)]

use std::arch::x86_64::__m256i;
use std::array::from_fn;
use std::mem::transmute;

pub(super) type __mmask16 = u16;
pub(super) type __mmask32 = u32;

/// 32 lanes of 16 bits or 16 of 32 bits.
#[derive(Clone, Copy)]
pub(super) struct __m512i([u16; 32]);

type Words = [u16; 32];
type Doubles = [u32; 16];

fn words(v: __m512i) -> Words {
    v.0
}

fn doubles(v: __m512i) -> Doubles {
    from_fn(|i| u32::from(v.0[2 * i]) | u32::from(v.0[2 * i + 1]) << 16)
}

fn of_doubles(v: Doubles) -> __m512i {
    __m512i(from_fn(|i| (v[i / 2] >> (16 * (i % 2))) as u16))
}

fn has(mask: impl Into<u32>, lane: usize) -> bool {
    mask.into() >> lane & 1 == 1
}

fn map_words(a: __m512i, b: __m512i, f: impl Fn(u16, u16) -> u16) -> __m512i {
    let (a, b) = (words(a), words(b));
    __m512i(from_fn(|i| f(a[i], b[i])))
}

fn map_doubles(a: __m512i, b: __m512i, f: impl Fn(u32, u32) -> u32) -> __m512i {
    let (a, b) = (doubles(a), doubles(b));
    of_doubles(from_fn(|i| f(a[i], b[i])))
}

fn choose_words(mask: u32, yes: __m512i, no: __m512i) -> __m512i {
    __m512i(from_fn(|i| if has(mask, i) { yes.0[i] } else { no.0[i] }))
}

fn choose_doubles(mask: u16, yes: __m512i, no: __m512i) -> __m512i {
    let (yes, no) = (doubles(yes), doubles(no));
    of_doubles(from_fn(|i| if has(mask, i) { yes[i] } else { no[i] }))
}

fn test_words(mask: u32, a: __m512i, b: __m512i, f: impl Fn(u16, u16) -> bool) -> u32 {
    let (a, b) = (words(a), words(b));
    (0..32).filter(|i| has(mask, *i) && f(a[*i], b[*i])).fold(0, |bits, i| bits | 1 << i)
}

fn test_doubles(mask: u16, a: __m512i, b: __m512i, f: impl Fn(u32, u32) -> bool) -> u16 {
    let (a, b) = (doubles(a), doubles(b));
    (0..16).filter(|i| has(mask, *i) && f(a[*i], b[*i])).fold(0, |bits, i| bits | 1 << i)
}

fn compress<T: Copy + Default, const N: usize>(
    mask: impl Into<u32> + Copy,
    lanes: [T; N],
) -> [T; N] {
    let mut left = (0..N).filter(|i| has(mask, *i)).map(|i| lanes[i]);
    from_fn(|_| left.next().unwrap_or_default())
}

pub(super) fn _bzhi_u32(a: u32, index: u32) -> u32 {
    (0..32).filter(|i| *i < (index & 0xff)).fold(0, |bits, i| bits | a & 1 << i)
}

pub(super) fn _pext_u32(a: u32, mask: u32) -> u32 {
    let bits = (0..32).filter(|i| has(mask, *i)).map(|i| a >> i & 1);
    bits.enumerate().fold(0, |all, (place, bit)| all | bit << place)
}

pub(super) fn _mm512_add_epi16(a: __m512i, b: __m512i) -> __m512i {
    map_words(a, b, u16::wrapping_add)
}

pub(super) fn _mm512_max_epu16(a: __m512i, b: __m512i) -> __m512i {
    map_words(a, b, u16::max)
}

pub(super) fn _mm512_min_epu16(a: __m512i, b: __m512i) -> __m512i {
    map_words(a, b, u16::min)
}

pub(super) fn _mm512_add_epi32(a: __m512i, b: __m512i) -> __m512i {
    map_doubles(a, b, u32::wrapping_add)
}

pub(super) fn _mm512_sub_epi32(a: __m512i, b: __m512i) -> __m512i {
    map_doubles(a, b, u32::wrapping_sub)
}

pub(super) fn _mm512_and_si512(a: __m512i, b: __m512i) -> __m512i {
    map_doubles(a, b, |a, b| a & b)
}

pub(super) fn _mm512_or_si512(a: __m512i, b: __m512i) -> __m512i {
    map_doubles(a, b, |a, b| a | b)
}

pub(super) fn _mm512_xor_si512(a: __m512i, b: __m512i) -> __m512i {
    map_doubles(a, b, |a, b| a ^ b)
}

pub(super) fn _mm512_max_epu32(a: __m512i, b: __m512i) -> __m512i {
    map_doubles(a, b, u32::max)
}

pub(super) fn _mm512_min_epu32(a: __m512i, b: __m512i) -> __m512i {
    map_doubles(a, b, u32::min)
}

pub(super) fn _mm512_cmpeq_epu16_mask(a: __m512i, b: __m512i) -> __mmask32 {
    test_words(!0, a, b, |a, b| a == b)
}

pub(super) fn _mm512_cmpgt_epu16_mask(a: __m512i, b: __m512i) -> __mmask32 {
    test_words(!0, a, b, |a, b| a > b)
}

pub(super) fn _mm512_cmple_epu16_mask(a: __m512i, b: __m512i) -> __mmask32 {
    test_words(!0, a, b, |a, b| a <= b)
}

pub(super) fn _mm512_cmpgt_epu32_mask(a: __m512i, b: __m512i) -> __mmask16 {
    test_doubles(!0, a, b, |a, b| a > b)
}

pub(super) fn _mm512_cmple_epu32_mask(a: __m512i, b: __m512i) -> __mmask16 {
    test_doubles(!0, a, b, |a, b| a <= b)
}

pub(super) fn _mm512_cmpeq_epi32_mask(a: __m512i, b: __m512i) -> __mmask16 {
    test_doubles(!0, a, b, |a, b| a == b)
}

pub(super) fn _mm512_mask_cmpeq_epu16_mask(mask: __mmask32, a: __m512i, b: __m512i) -> __mmask32 {
    test_words(mask, a, b, |a, b| a == b)
}

pub(super) fn _mm512_mask_cmple_epu16_mask(mask: __mmask32, a: __m512i, b: __m512i) -> __mmask32 {
    test_words(mask, a, b, |a, b| a <= b)
}

pub(super) fn _mm512_mask_cmpneq_epu16_mask(mask: __mmask32, a: __m512i, b: __m512i) -> __mmask32 {
    test_words(mask, a, b, |a, b| a != b)
}

pub(super) fn _mm512_mask_cmple_epu32_mask(mask: __mmask16, a: __m512i, b: __m512i) -> __mmask16 {
    test_doubles(mask, a, b, |a, b| a <= b)
}

pub(super) fn _mm512_mask_cmpeq_epi32_mask(mask: __mmask16, a: __m512i, b: __m512i) -> __mmask16 {
    test_doubles(mask, a, b, |a, b| a.cast_signed() == b.cast_signed())
}

pub(super) fn _mm512_mask_cmpneq_epi32_mask(mask: __mmask16, a: __m512i, b: __m512i) -> __mmask16 {
    test_doubles(mask, a, b, |a, b| a.cast_signed() != b.cast_signed())
}

pub(super) fn _mm512_mask_cmple_epi32_mask(mask: __mmask16, a: __m512i, b: __m512i) -> __mmask16 {
    test_doubles(mask, a, b, |a, b| a.cast_signed() <= b.cast_signed())
}

pub(super) fn _mm512_mask_test_epi32_mask(mask: __mmask16, a: __m512i, b: __m512i) -> __mmask16 {
    test_doubles(mask, a, b, |a, b| a & b != 0)
}

pub(super) fn _mm512_mask_add_epi16(
    src: __m512i,
    mask: __mmask32,
    a: __m512i,
    b: __m512i,
) -> __m512i {
    choose_words(mask, _mm512_add_epi16(a, b), src)
}

pub(super) fn _mm512_mask_max_epu16(
    src: __m512i,
    mask: __mmask32,
    a: __m512i,
    b: __m512i,
) -> __m512i {
    choose_words(mask, _mm512_max_epu16(a, b), src)
}

pub(super) fn _mm512_mask_max_epu32(
    src: __m512i,
    mask: __mmask16,
    a: __m512i,
    b: __m512i,
) -> __m512i {
    choose_doubles(mask, _mm512_max_epu32(a, b), src)
}

pub(super) fn _mm512_maskz_compress_epi16(mask: __mmask32, a: __m512i) -> __m512i {
    __m512i(compress(mask, words(a)))
}

pub(super) fn _mm512_maskz_compress_epi32(mask: __mmask16, a: __m512i) -> __m512i {
    of_doubles(compress(mask, doubles(a)))
}

pub(super) fn _mm512_maskz_expand_epi16(mask: __mmask32, a: __m512i) -> __m512i {
    let mut next = words(a).into_iter();
    __m512i(from_fn(|i| if has(mask, i) { next.next().unwrap_or_default() } else { 0 }))
}

pub(super) fn _mm512_madd_epi16(a: __m512i, b: __m512i) -> __m512i {
    let (a, b) = (words(a), words(b));
    let product = |i: usize| i32::from(a[i].cast_signed()) * i32::from(b[i].cast_signed());
    of_doubles(from_fn(|i| product(2 * i).wrapping_add(product(2 * i + 1)).cast_unsigned()))
}

pub(super) fn _mm512_reduce_add_epi32(a: __m512i) -> i32 {
    doubles(a).into_iter().fold(0, u32::wrapping_add).cast_signed()
}

pub(super) fn _mm512_slli_epi32<const COUNT: u32>(a: __m512i) -> __m512i {
    of_doubles(doubles(a).map(|a| a << COUNT))
}

pub(super) fn _mm512_srli_epi32<const COUNT: u32>(a: __m512i) -> __m512i {
    of_doubles(doubles(a).map(|a| a >> COUNT))
}

pub(super) fn _mm512_rol_epi32<const COUNT: i32>(a: __m512i) -> __m512i {
    of_doubles(doubles(a).map(|a| a.rotate_left(COUNT.cast_unsigned())))
}

/// `b` stands below `a`.
pub(super) fn _mm512_alignr_epi32<const COUNT: i32>(a: __m512i, b: __m512i) -> __m512i {
    let (a, b) = (doubles(a), doubles(b));
    let from = |i: usize| i + COUNT as usize;
    of_doubles(from_fn(|i| if from(i) < 16 { b[from(i)] } else { a[from(i) - 16] }))
}

pub(super) fn _mm512_shuffle_epi32<const ORDER: i32>(a: __m512i) -> __m512i {
    let a = doubles(a);
    of_doubles(from_fn(|i| a[i / 4 * 4 + (ORDER as usize >> (2 * (i % 4)) & 3)]))
}

pub(super) fn _mm512_shuffle_i64x2<const ORDER: i32>(a: __m512i, b: __m512i) -> __m512i {
    let (a, b) = (doubles(a), doubles(b));
    of_doubles(from_fn(|i| {
        let from = 4 * (ORDER as usize >> (2 * (i / 4)) & 3) + i % 4;
        if i < 8 { a[from] } else { b[from] }
    }))
}

pub(super) fn _mm512_permutexvar_epi16(index: __m512i, a: __m512i) -> __m512i {
    __m512i(words(index).map(|i| words(a)[usize::from(i & 31)]))
}

pub(super) fn _mm512_permutexvar_epi32(index: __m512i, a: __m512i) -> __m512i {
    of_doubles(doubles(index).map(|i| doubles(a)[i as usize & 15]))
}

pub(super) fn _mm512_set1_epi16(a: i16) -> __m512i {
    __m512i([a.cast_unsigned(); 32])
}

pub(super) fn _mm512_set1_epi32(a: i32) -> __m512i {
    of_doubles([a.cast_unsigned(); 16])
}

pub(super) fn _mm512_setzero_si512() -> __m512i {
    __m512i([0; 32])
}

pub(super) fn _mm512_set_epi16(
    a31: i16,
    a30: i16,
    a29: i16,
    a28: i16,
    a27: i16,
    a26: i16,
    a25: i16,
    a24: i16,
    a23: i16,
    a22: i16,
    a21: i16,
    a20: i16,
    a19: i16,
    a18: i16,
    a17: i16,
    a16: i16,
    a15: i16,
    a14: i16,
    a13: i16,
    a12: i16,
    a11: i16,
    a10: i16,
    a9: i16,
    a8: i16,
    a7: i16,
    a6: i16,
    a5: i16,
    a4: i16,
    a3: i16,
    a2: i16,
    a1: i16,
    a0: i16,
) -> __m512i {
    __m512i(
        [
            a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18,
            a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31,
        ]
        .map(i16::cast_unsigned),
    )
}

pub(super) fn _mm512_set_epi32(
    a15: i32,
    a14: i32,
    a13: i32,
    a12: i32,
    a11: i32,
    a10: i32,
    a9: i32,
    a8: i32,
    a7: i32,
    a6: i32,
    a5: i32,
    a4: i32,
    a3: i32,
    a2: i32,
    a1: i32,
    a0: i32,
) -> __m512i {
    of_doubles(
        [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15]
            .map(i32::cast_unsigned),
    )
}

pub(super) fn _mm512_cvtepi32_epi16(a: __m512i) -> __m256i {
    let low: [u16; 16] = doubles(a).map(|a| a as u16);
    // SAFETY: both are 32 bytes, and any bytes will do.
    unsafe { transmute(low) }
}

/// # Safety
/// Only of the lanes of the mask need there be memory.
pub(super) unsafe fn _mm512_mask_loadu_epi16(
    src: __m512i,
    mask: __mmask32,
    from: *const i16,
) -> __m512i {
    let mut lanes = words(src);
    for (i, lane) in lanes.iter_mut().enumerate().filter(|(i, _)| has(mask, *i)) {
        // SAFETY: see above.
        *lane = unsafe { from.wrapping_add(i).cast::<u16>().read_unaligned() };
    }
    __m512i(lanes)
}

/// # Safety
/// As above.
pub(super) unsafe fn _mm512_mask_loadu_epi32(
    src: __m512i,
    mask: __mmask16,
    from: *const i32,
) -> __m512i {
    let mut lanes = doubles(src);
    for (i, lane) in lanes.iter_mut().enumerate().filter(|(i, _)| has(mask, *i)) {
        // SAFETY: see above.
        *lane = unsafe { from.wrapping_add(i).cast::<u32>().read_unaligned() };
    }
    of_doubles(lanes)
}

/// # Safety
/// As above.
pub(super) unsafe fn _mm512_maskz_loadu_epi16(mask: __mmask32, from: *const i16) -> __m512i {
    // SAFETY: as of that.
    unsafe { _mm512_mask_loadu_epi16(_mm512_setzero_si512(), mask, from) }
}

/// # Safety
/// As above, of all lanes.
pub(super) unsafe fn _mm512_loadu_epi16(from: *const i16) -> __m512i {
    // SAFETY: as of that.
    unsafe { _mm512_maskz_loadu_epi16(!0, from) }
}

/// # Safety
/// As above.
pub(super) unsafe fn _mm512_maskz_loadu_epi32(mask: __mmask16, from: *const i32) -> __m512i {
    // SAFETY: as of that.
    unsafe { _mm512_mask_loadu_epi32(_mm512_setzero_si512(), mask, from) }
}

/// # Safety
/// As above, of all lanes.
pub(super) unsafe fn _mm512_loadu_epi32(from: *const i32) -> __m512i {
    // SAFETY: as of that.
    unsafe { _mm512_maskz_loadu_epi32(!0, from) }
}

/// # Safety
/// There must be 64 bytes.
pub(super) unsafe fn _mm512_storeu_si512(to: *mut __m512i, a: __m512i) {
    // SAFETY: see above.
    unsafe { to.write_unaligned(a) }
}
