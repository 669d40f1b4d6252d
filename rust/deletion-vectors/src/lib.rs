//! Deletion vectors of Delta Lake: reading, checking and merging them as the bytes they are.
//!
//! The crate knows nothing of Spark, of files or of the JVM. It answers one question, [`Merger::merge`]: may the rows
//! that a losing transaction deleted be put on top of those that the winners deleted, and if so, what are both
//! together? It never builds a bitmap in memory to do that: it walks over the serialized containers, looks at those
//! it must, and writes the answer where the caller wants it.
//!
//! # What is accepted
//!
//! The two forms that Delta 4.4.0 reads, the portable and the older native one, if every byte of them is as the Roaring
//! format says: keys and values strictly ascend, bucket keys are below 2^31, offsets, sizes and cardinalities are those
//! of the containers behind them, nothing is left over, and there are as many rows as declared. Everything else is
//! refused with an [`ErrorCode`] and the byte at which it is wrong; nothing panics.
//!
//! That is less than Delta's decoder takes, which trusts counts, order and offsets and ignores what is left over. In
//! two places it is more, both of them right by the format and written by nobody: a bucket may have the cookie of
//! run containers without having one, where Delta's decoder looks for the next bucket in the wrong place, and a bucket
//! without containers may have any key, where that decoder allocates all buckets below it. What is *written* is always
//! portable, without such buckets, and in the smallest of each container's three kinds.
//!
//! - [`merge`]: the question, and the rule by which it is answered.
//! - [`wire`]: requests and responses for many files at once, as they cross the JNI boundary.
//! - [`Descriptor`], [`read_frame`]: where a deletion vector is kept, and how it lies in its file.
//! - [`rows`], [`encode`], [`validate`]: whole bitmaps, for oracles and tests.

#![deny(unsafe_code)]

mod cursor;
mod descriptor;
mod error;
mod format;
mod frame;
mod kernels;
pub mod merge;
mod rows;
pub mod wire;
mod writer;

pub use descriptor::{Descriptor, DescriptorError, Location, StorageType, decode_z85, encode_z85};
pub use error::{BitmapError, ErrorCode};
pub use format::{NATIVE_MAGIC, PORTABLE_MAGIC};
pub use frame::{FILE_VERSION, FIRST_OFFSET, FrameError, append_frame, crc32, read_frame};
pub use merge::{Bitmap, FileInput, Malformed, MergeError, Merger, Role, Verdict, max_merged_len};
pub use rows::{EncodeError, encode, for_each_interval, rows, validate};
