//! The inner loops over the bytes of containers.
//!
//! [`Kernels`] is what the rest of the crate calls; [`Portable`] is the plain implementation. On x86-64 the same
//! loops, and some hand-written ones, exist for newer instruction sets, chosen once at run time by [`with_kernels`].
//! Every implementation gives the same answers: the tests run each one against a set model.

pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

use crate::format::Bits;

/// What a pass over a run container finds out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunFacts {
    /// Number of values.
    pub(crate) card: u32,
    /// Number of runs that begin right behind the previous one.
    pub(crate) joined: u32,
}

/// The inner loops. Arrays and runs are little endian bytes as they are in the serialized form.
pub(crate) trait Kernels: Copy {
    /// Number of maximal runs of consecutive values, or none when the values are not strictly increasing.
    fn check_array(self, values: &[u8]) -> Option<u32>;

    /// Facts about the runs, or none when they overlap, are out of order or pass 65535.
    fn check_runs(self, runs: &[u8]) -> Option<RunFacts>;

    /// Number of bits set.
    fn popcount(self, bits: &Bits) -> u32;

    /// Writes `cur | win` to `out` and gives its cardinality, or none when `cur & win` differs from `base`.
    fn merge_bits(self, base: Option<&Bits>, cur: &Bits, win: &Bits, out: &mut Bits)
    -> Option<u32>;

    /// Whether every bit of `base` is set in `win`.
    fn covers(self, base: &Bits, win: &Bits) -> bool;

    /// Number of bits set in `(cur & !base) & win`.
    fn count_common(self, base: &Bits, cur: &Bits, win: &Bits) -> u32;

    /// Number of maximal runs of bits set; exact up to `USEFUL_RUNS_MAX`, beyond that any larger number.
    fn count_runs(self, bits: &Bits) -> u32;

    /// Merges two strictly increasing arrays into one that is not decreasing: values in both come twice.
    ///
    /// `out` must hold all values of both and [`SLACK`] bytes more.
    fn merge_arrays(self, cur: &[u8], win: &[u8], out: &mut [u8]);

    /// Takes a result of [`Self::merge_arrays`] apart: each value once into `out`, those that came twice into
    /// `common`; gives the number of values of both, and the number of runs in `out`.
    ///
    /// `out` must hold all of `merged`, `common` half of it, both with [`SLACK`] bytes more.
    fn split_arrays(
        self,
        merged: &[u8],
        out: &mut [u8],
        common: &mut [u8],
    ) -> (usize, usize, usize);

    /// Writes the union of two strictly increasing arrays of [`SMALL`] values together to `out`; gives the numbers
    /// of its values and of its runs, or none when what the two have in common differs from `base`.
    fn merge_small(
        self,
        base: &[u8],
        cur: &[u8],
        win: &[u8],
        out: &mut [u8; 2 * SMALL],
    ) -> Option<(u32, u32)>;

    /// As [`Self::merge_small`] for two lists of [`SMALL_RUNS`] runs together. Gives the numbers of runs and of values
    /// of the union. None says less: what the two have in common may still be `base`, as other runs.
    fn merge_small_runs(
        self,
        base: &[u8],
        cur: &[u8],
        win: &[u8],
        out: &mut [u8; 4 * SMALL_RUNS],
    ) -> Option<(u32, u32)>;

    /// Sets the bits of the values of two arrays, and no others, and gives the number of bits set.
    ///
    /// `map` must be zero, and is again in the end.
    fn arrays_to_bits(self, cur: &[u8], win: &[u8], map: &mut Map, out: &mut Bits) -> u32;

    /// Merges two lists of runs by their first values; they come out as [`run_keys`](portable::run_key).
    ///
    /// `out` must hold all runs of both and [`SLACK`] bytes more.
    fn merge_runs(self, cur: &[u8], win: &[u8], out: &mut [u8]);

    /// Takes a result of [`Self::merge_runs`] apart: the union, as maximal runs, into `out` and the runs that came
    /// twice into `common`; gives the number of runs of both. None when runs overlap that are not the same.
    ///
    /// `out` and `ends` must hold all of `merged`, `common` half of it, each with [`SLACK`] bytes more.
    fn split_runs(
        self,
        merged: &[u8],
        out: &mut [u8],
        ends: &mut [u8],
        common: &mut [u8],
    ) -> Option<(usize, usize)>;
}

/// Bytes behind a result that the loops may overwrite.
pub(crate) const SLACK: usize = 64;

/// The largest number of values for [`Kernels::merge_small`].
pub(crate) const SMALL: usize = 32;

/// The largest number of runs for [`Kernels::merge_small_runs`].
pub(crate) const SMALL_RUNS: usize = 16;

/// Values that a [`Map`] has room for.
pub(crate) const MAP_VALUES: usize = 16_384;

/// A byte for each value of a quarter of a container.
pub(crate) type Map = [u8; MAP_VALUES];

/// The plain implementation, for every target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

impl Kernels for Portable {
    #[inline]
    fn check_array(self, values: &[u8]) -> Option<u32> {
        portable::check_array(values)
    }
    #[inline]
    fn check_runs(self, runs: &[u8]) -> Option<RunFacts> {
        portable::check_runs(runs)
    }
    #[inline]
    fn popcount(self, bits: &Bits) -> u32 {
        portable::popcount(bits)
    }
    #[inline]
    fn merge_bits(
        self,
        base: Option<&Bits>,
        cur: &Bits,
        win: &Bits,
        out: &mut Bits,
    ) -> Option<u32> {
        portable::merge_bits(base, cur, win, out)
    }
    #[inline]
    fn covers(self, base: &Bits, win: &Bits) -> bool {
        portable::covers(base, win)
    }
    #[inline]
    fn count_common(self, base: &Bits, cur: &Bits, win: &Bits) -> u32 {
        portable::count_common(base, cur, win)
    }
    #[inline]
    fn count_runs(self, bits: &Bits) -> u32 {
        portable::count_runs(bits)
    }
    #[inline]
    fn merge_arrays(self, cur: &[u8], win: &[u8], out: &mut [u8]) {
        portable::merge_arrays(cur, win, out);
    }
    #[inline]
    fn split_arrays(
        self,
        merged: &[u8],
        out: &mut [u8],
        common: &mut [u8],
    ) -> (usize, usize, usize) {
        portable::split_arrays(merged, out, common)
    }
    #[inline]
    fn merge_small(
        self,
        base: &[u8],
        cur: &[u8],
        win: &[u8],
        out: &mut [u8; 2 * SMALL],
    ) -> Option<(u32, u32)> {
        portable::merge_small(base, cur, win, out)
    }
    #[inline]
    fn merge_small_runs(
        self,
        base: &[u8],
        cur: &[u8],
        win: &[u8],
        out: &mut [u8; 4 * SMALL_RUNS],
    ) -> Option<(u32, u32)> {
        portable::merge_small_runs(base, cur, win, out)
    }
    #[inline]
    fn arrays_to_bits(self, cur: &[u8], win: &[u8], map: &mut Map, out: &mut Bits) -> u32 {
        portable::arrays_to_bits(cur, win, map, out)
    }
    #[inline]
    fn merge_runs(self, cur: &[u8], win: &[u8], out: &mut [u8]) {
        portable::merge_runs(cur, win, out);
    }
    #[inline]
    fn split_runs(
        self,
        merged: &[u8],
        out: &mut [u8],
        _ends: &mut [u8],
        common: &mut [u8],
    ) -> Option<(usize, usize)> {
        portable::split_runs(merged, out, common)
    }
}

/// The best kernels that this machine has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512),
}

impl Default for Level {
    fn default() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(token) = x86::Avx512::detect() {
                return Level::Avx512(token);
            }
            if let Some(token) = x86::Avx2::detect() {
                return Level::Avx2(token);
            }
        }
        Level::Portable
    }
}

impl Level {
    /// All that this machine has, with their names.
    pub(crate) fn all() -> impl Iterator<Item = (&'static str, Level)> {
        #[cfg(target_arch = "x86_64")]
        let faster = [
            x86::Avx2::detect().map(|token| ("avx2", Level::Avx2(token))),
            x86::Avx512::detect().map(|token| ("avx512", Level::Avx512(token))),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let faster: [Option<(&'static str, Level)>; 0] = [];
        std::iter::once(("portable", Level::Portable)).chain(faster.into_iter().flatten())
    }
}
