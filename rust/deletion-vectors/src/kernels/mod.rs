//! The inner loops over the bytes of containers.
//!
//! [`Kernels`] is what the rest of the crate calls; [`Portable`] is the plain implementation. On x86-64 the same
//! loops, and some hand-written ones, exist for newer instruction sets, chosen once at run time by [`with_kernels`].
//! Every implementation gives the same answers: the tests run each one against a set model.

pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

use crate::cursor::Stretch;
use crate::format::Bits;

/// Something to be done with kernels. Not a closure, as those cannot be told to be inlined.
pub(crate) trait Work {
    /// What comes of it.
    type Done;

    /// Does it; to be inlined always.
    fn on<K: Kernels>(self, kernels: K) -> Self::Done;
}

/// The inner loops. Arrays and runs are little endian bytes as they are in the serialized form.
pub(crate) trait Kernels: Copy {
    /// Bytes of the average array of a bucket up to which it takes less time to unite its arrays as one list of pairs than
    /// one by one.
    const SPARSE_ARRAY_BYTES: usize;

    /// Does `work`, with all that is inlined into it compiled for the instruction set of these kernels.
    fn run<W: Work>(self, work: W) -> W::Done;

    /// Whether the values are strictly increasing.
    fn is_ascending(self, values: &[u8]) -> bool;

    /// Number of maximal runs of consecutive values, or none when the values are not strictly increasing.
    fn check_array(self, values: &[u8]) -> Option<u32>;

    /// Number of values of the runs, or none when they overlap, are out of order or pass 65535.
    fn check_runs(self, runs: &[u8]) -> Option<u32>;

    /// Number of bits set.
    fn popcount(self, bits: &Bits) -> u32;

    /// Writes `cur | win` to `out` and counts the bits set, or none when `cur & win` differs from `base`.
    fn merge_bits(
        self,
        base: Option<&Bits>,
        cur: &Bits,
        win: &Bits,
        out: &mut Bits,
    ) -> Option<BitCounts>;

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

    /// Writes each value of a result of [`Self::merge_arrays`] once to `out`; gives the numbers of its values and of
    /// its runs, or none when those that came twice are not `base`.
    ///
    /// `out` must hold all of `merged` and [`SLACK`] bytes more.
    fn split_arrays(self, merged: &[u8], base: &[u8], out: &mut [u8]) -> Option<(u32, u32)>;

    /// Sets the bits of the values of two arrays, and no others, and gives the number of bits set.
    ///
    /// `map` must be zero, and is again in the end.
    fn arrays_to_bits(self, cur: &[u8], win: &[u8], map: &mut Map, out: &mut Bits) -> u32;

    /// Merges two lists of runs by their first values; they come out as [`run_keys`](portable::run_key).
    ///
    /// `out` must hold all runs of both and [`SLACK`] bytes more.
    fn merge_runs(self, cur: &[u8], win: &[u8], out: &mut [u8]);

    /// Writes the union of the runs of a result of [`Self::merge_runs`], as maximal runs, to `out`; gives the numbers
    /// of its runs and of its values. None when runs overlap that are not the same, or when those that came twice are
    /// not `base`: what both sides have in common may still be `base`, as other runs.
    ///
    /// `out` and `ends` must hold all of `merged` and [`SLACK`] bytes more.
    fn split_runs(
        self,
        merged: &[u8],
        base: &[u8],
        out: &mut [u8],
        ends: &mut [u8],
    ) -> Option<(u32, u32)>;

    /// Writes the values of array containers as pairs, laid out as runs are: the key of the container where a run has its
    /// first value, the value where it has its length. So [`Self::merge_runs`] puts them in order.
    ///
    /// False when the payload of `arrays` is not what their heads and offsets say, or the values of a container are not
    /// strictly increasing; keys must be.
    ///
    /// `out` must hold a pair for each value and [`SLACK`] bytes more.
    fn flatten(self, arrays: &Stretch<'_>, out: &mut [u8]) -> bool;

    /// Writes each value of a result of [`Self::merge_runs`] on pairs of [`Self::flatten`] once to `out`, and for each
    /// container its first pair as a key to the first of `lists` and the index of that among the values of the union to
    /// the second; none when the pairs that came twice are not `base`.
    ///
    /// `out` must hold all values, the first two of `lists` a number for each container, the third half of `merged`, and
    /// all of them [`SLACK`] bytes more.
    fn split_pairs(
        self,
        merged: &[u8],
        base: &[u8],
        out: &mut [u8],
        lists: [&mut [u8]; 3],
    ) -> Option<PairUnion>;

    /// Writes the heads of array containers, and their offsets if there is room for any, from what [`Self::split_pairs`]
    /// gives: a key for each, and where it begins among the values, with where the last one ends. Gives the largest of
    /// their cardinalities; if one is more than an array has, what is written is good for nothing.
    ///
    /// `place`: the offset of the first.
    fn put_heads(
        self,
        keys: &[[u8; 4]],
        starts: &[[u8; 4]],
        place: usize,
        heads: &mut [[u8; 4]],
        offsets: &mut [[u8; 4]],
    ) -> u32;

    /// Writes the first and the last value of each run of small containers as pairs as those of [`Self::flatten`]; each
    /// value of an array counts as a run.
    ///
    /// None when there is more than `starts` and `ends` hold less [`SLACK`], when a container is a bitset, or when
    /// anything is wrong about one; keys must be strictly increasing.
    fn flatten_runs(
        self,
        containers: &Stretch<'_>,
        starts: &mut [u8],
        ends: &mut [u8],
    ) -> Option<FlatRuns>;

    /// Of runs given by their first and their last values, each a result of [`Self::merge_runs`] on what
    /// [`Self::flatten_runs`] gives for two sides: writes the union, as maximal runs within each container, as keys to
    /// the first two of `lists`, and to the third the index of the first run of each container. Gives the numbers of its
    /// runs and of its containers. None when runs overlap that are not the same, or when those that came twice are not
    /// `base`.
    ///
    /// `lists` must hold as much as `starts` and [`SLACK`] bytes more, and the third a number for each container; `common`
    /// as much as both of `base`, and twice [`SLACK`].
    fn split_spans(
        self,
        spans: [&[u8]; 2],
        base: [&[u8]; 2],
        lists: [&mut [u8]; 3],
        common: &mut [u8],
    ) -> Option<(usize, usize)>;

    /// Writes the runs of one container of a result of [`Self::split_spans`] as they are serialized, without their count;
    /// gives the number of their values.
    ///
    /// `starts` and `ends` must be followed by [`SLACK`] bytes, which are passed with them, and `out` must hold as much.
    fn put_runs(self, starts: &[u8], ends: &[u8], out: &mut [u8]) -> u32;
}

/// What [`Kernels::merge_bits`] has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BitCounts {
    pub(crate) cur: u32,
    pub(crate) win: u32,
    pub(crate) union: u32,
}

/// What [`Kernels::split_pairs`] has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PairUnion {
    pub(crate) values: usize,
    pub(crate) containers: usize,
    /// Values that follow on the one before, or more.
    pub(crate) joined: u32,
}

/// What [`Kernels::flatten_runs`] has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlatRuns {
    /// Bytes of the containers.
    pub(crate) bytes: usize,
    pub(crate) runs: usize,
    /// Values of the containers.
    pub(crate) rows: u64,
}

/// Bytes behind a result that the loops may overwrite.
pub(crate) const SLACK: usize = 64;

/// Values that a [`Map`] has room for.
pub(crate) const MAP_VALUES: usize = 16_384;

/// A byte for each value of a quarter of a container.
pub(crate) type Map = [u8; MAP_VALUES];

/// The plain implementation, for every target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

/// Gives a type the kernels of a module.
macro_rules! kernels {
    ($type:ty, $module:ident $(, $unsafe:tt)?) => {
        impl $crate::kernels::Kernels for $type {
            const SPARSE_ARRAY_BYTES: usize = $module::SPARSE_ARRAY_BYTES;

            #[inline(always)]
            fn run<W: $crate::kernels::Work>(self, work: W) -> W::Done {
                // SAFETY: see below.
                $($unsafe)? { $module::run(self, work) }
            }
            $crate::kernels::delegate! { $module $(, $unsafe)?;
                is_ascending(values: &[u8]) -> bool;
                check_array(values: &[u8]) -> Option<u32>;
                check_runs(runs: &[u8]) -> Option<u32>;
                popcount(bits: &Bits) -> u32;
                merge_bits(base: Option<&Bits>, cur: &Bits, win: &Bits, out: &mut Bits) -> Option<BitCounts>;
                covers(base: &Bits, win: &Bits) -> bool;
                count_common(base: &Bits, cur: &Bits, win: &Bits) -> u32;
                count_runs(bits: &Bits) -> u32;
                merge_arrays(cur: &[u8], win: &[u8], out: &mut [u8]) -> ();
                split_arrays(merged: &[u8], base: &[u8], out: &mut [u8]) -> Option<(u32, u32)>;
                arrays_to_bits(cur: &[u8], win: &[u8], map: &mut Map, out: &mut Bits) -> u32;
                merge_runs(cur: &[u8], win: &[u8], out: &mut [u8]) -> ();
                split_runs(merged: &[u8], base: &[u8], out: &mut [u8], ends: &mut [u8]) -> Option<(u32, u32)>;
                flatten(arrays: &Stretch<'_>, out: &mut [u8]) -> bool;
                split_pairs(merged: &[u8], base: &[u8], out: &mut [u8], lists: [&mut [u8]; 3]) -> Option<PairUnion>;
                put_heads(keys: &[[u8; 4]], starts: &[[u8; 4]], place: usize, heads: &mut [[u8; 4]], offsets: &mut [[u8; 4]]) -> u32;
                flatten_runs(containers: &Stretch<'_>, starts: &mut [u8], ends: &mut [u8]) -> Option<FlatRuns>;
                split_spans(spans: [&[u8]; 2], base: [&[u8]; 2], lists: [&mut [u8]; 3], common: &mut [u8]) -> Option<(usize, usize)>;
                put_runs(starts: &[u8], ends: &[u8], out: &mut [u8]) -> u32;
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use kernels;

/// Methods that call the function of the same name in a module.
macro_rules! delegate {
    ($module:ident; $($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($argument: $type),*) -> $result { $module::$name($($argument),*) }
        )*
    };
    ($module:ident, unsafe; $($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($argument: $type),*) -> $result {
                // SAFETY: a value of this type exists only where its `detect` has found all the features that the
                // functions of the module are compiled for.
                unsafe { $module::$name($($argument),*) }
            }
        )*
    };
}
pub(crate) use delegate;

kernels!(Portable, portable);

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
