//! Deletion vectors of Delta Lake: reading, checking and merging them as the bytes they are.
//!
//! The crate knows nothing of Spark, of files or of the JVM. It answers one question, [`Merger::merge`]: may the rows
//! that a losing transaction deleted be put on top of those that the winners deleted, and if so, what are both
//! together? It never builds a bitmap in memory to do that: it walks over the serialized containers, looks at those
//! it must, and writes the answer where the caller wants it.
//!
//! What it accepts is exactly what Delta 4.4.0 accepts and a well-formed writer produces; everything else is refused
//! with an [`ErrorCode`]. It panics on no input.
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
