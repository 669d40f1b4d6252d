//! The same loops compiled for newer x86-64 instruction sets, and hand-written ones where that pays.
#![allow(unsafe_code, reason = "functions for an instruction set may only be called where it exists")]

use super::{Kernels, RunFacts, portable};
use crate::format::Bits;

/// Defines a token type whose existence proves that the features are there, and its kernels.
macro_rules! level {
    ($(#[$doc:meta])* $name:ident, $module:ident, $features:literal, [$($feature:tt),*], $merge_arrays:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name(());

        impl $name {
            /// The token, if this machine has the instructions.
            #[inline]
            pub(crate) fn detect() -> Option<Self> {
                ($(std::arch::is_x86_feature_detected!($feature))&&*).then_some(Self(()))
            }
        }

        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            pub(super) fn check_array(values: &[u8]) -> Option<u32> {
                portable::check_array(values)
            }
            #[target_feature(enable = $features)]
            pub(super) fn check_runs(runs: &[u8]) -> Option<RunFacts> {
                portable::check_runs(runs)
            }
            #[target_feature(enable = $features)]
            pub(super) fn popcount(bits: &Bits) -> u32 {
                portable::popcount(bits)
            }
            #[target_feature(enable = $features)]
            pub(super) fn merge_bits(
                base: Option<&Bits>,
                cur: &Bits,
                win: &Bits,
                out: &mut Bits,
            ) -> Option<u32> {
                portable::merge_bits(base, cur, win, out)
            }
            #[target_feature(enable = $features)]
            pub(super) fn covers(base: &Bits, win: &Bits) -> bool {
                portable::covers(base, win)
            }
            #[target_feature(enable = $features)]
            pub(super) fn count_common(base: &Bits, cur: &Bits, win: &Bits) -> u32 {
                portable::count_common(base, cur, win)
            }
            #[target_feature(enable = $features)]
            pub(super) fn count_runs(bits: &Bits) -> u32 {
                portable::count_runs(bits)
            }
            #[target_feature(enable = $features)]
            pub(super) fn merge_arrays(
                cur: &[u8],
                win: &[u8],
                out: &mut [u8],
                common: &mut [u8],
            ) -> (usize, usize) {
                $merge_arrays(cur, win, out, common)
            }
        }

        // SAFETY of every call below: a value of this type exists only where `detect` has found all the features
        // that the called function is compiled for.
        impl Kernels for $name {
            #[inline]
            fn check_array(self, values: &[u8]) -> Option<u32> {
                // SAFETY: see above.
                unsafe { $module::check_array(values) }
            }
            #[inline]
            fn check_runs(self, runs: &[u8]) -> Option<RunFacts> {
                // SAFETY: see above.
                unsafe { $module::check_runs(runs) }
            }
            #[inline]
            fn popcount(self, bits: &Bits) -> u32 {
                // SAFETY: see above.
                unsafe { $module::popcount(bits) }
            }
            #[inline]
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
            #[inline]
            fn covers(self, base: &Bits, win: &Bits) -> bool {
                // SAFETY: see above.
                unsafe { $module::covers(base, win) }
            }
            #[inline]
            fn count_common(self, base: &Bits, cur: &Bits, win: &Bits) -> u32 {
                // SAFETY: see above.
                unsafe { $module::count_common(base, cur, win) }
            }
            #[inline]
            fn count_runs(self, bits: &Bits) -> u32 {
                // SAFETY: see above.
                unsafe { $module::count_runs(bits) }
            }
            #[inline]
            fn merge_arrays(
                self,
                cur: &[u8],
                win: &[u8],
                out: &mut [u8],
                common: &mut [u8],
            ) -> (usize, usize) {
                // SAFETY: see above.
                unsafe { $module::merge_arrays(cur, win, out, common) }
            }
        }
    };
}

level!(
    /// Machines from about 2013 on.
    Avx2,
    avx2,
    "avx2,bmi1,bmi2,lzcnt,popcnt",
    ["avx2", "bmi1", "bmi2", "lzcnt", "popcnt"],
    portable::merge_arrays
);

level!(
    /// Machines from about 2019 on, servers first.
    Avx512,
    avx512,
    "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl,avx512vpopcntdq",
    ["avx2", "bmi1", "bmi2", "lzcnt", "popcnt", "avx512f", "avx512bw", "avx512vl", "avx512vpopcntdq"],
    portable::merge_arrays
);
