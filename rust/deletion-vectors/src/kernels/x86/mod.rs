//! The same loops compiled for newer x86-64 instruction sets, and hand-written ones where that pays.
//!
//! Two sorted lists are merged block by block. Of two ascending blocks, one of them reversed, the smaller value of each
//! lane belongs to the smallest of both, and the block of these first ascends and then descends. A bitonic network
//! sorts it: each step compares every lane with a partner and leaves the smaller of both in the lower one. How many
//! lanes came from which list says where the next blocks begin.
//!
//! Lists are merged from both ends at once, smallest first from the front and largest first from the back: two chains of
//! dependent steps instead of one. Where both meet they may write the same numbers twice.
#![allow(
    unsafe_code,
    reason = "functions for an instruction set may only be called where it exists"
)]
#![allow(clippy::indexing_slicing, reason = "ranges are bounded by the lengths taken right before")]

use super::{BitCounts, FlatRuns, Kernels, MAP_VALUES, Map, PairUnion, SLACK, Work, portable};
use crate::cursor::{SPARSE_BYTES, Stretch};
use crate::format::{ARRAY_MAX, Bits, u16_at, u32_at};

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

super::kernels!(Avx2, avx2, unsafe);
super::kernels!(Avx512, avx512, unsafe);

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

mod avx2;
mod avx512;
