//! Why a serialized bitmap is refused: one closed table of codes, shared with the Java side.

use core::fmt;

/// Declares [`ErrorCode`] together with its number, its stable name and its explanation, so that the three
/// cannot drift apart.
macro_rules! error_codes {
    ($($variant:ident = $number:literal, $name:literal, $what:literal;)*) => {
        /// What is wrong with a serialized bitmap.
        ///
        /// Numbers and names are part of the interface: they appear in responses, messages, logs and docs
        /// and never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(#[doc = $what] $variant = $number,)*
        }

        impl ErrorCode {
            /// All codes, ascending by number.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant),*];

            /// The stable name, such as `DV_TRUNCATED`.
            pub const fn name(self) -> &'static str {
                match self { $(ErrorCode::$variant => $name,)* }
            }

            /// One sentence that says what the code means.
            pub const fn explanation(self) -> &'static str {
                match self { $(ErrorCode::$variant => $what,)* }
            }

            /// The code with this number, if there is one.
            pub const fn from_number(number: u32) -> Option<ErrorCode> {
                match number { $($number => Some(ErrorCode::$variant),)* _ => None }
            }
        }
    };
}

error_codes! {
    Truncated = 1, "DV_TRUNCATED",
        "The bytes end before the structure does; expected and got are lengths in bytes.";
    BadMagic = 2, "DV_BAD_MAGIC",
        "The magic number is neither 1681511377 (portable) nor 1681511376 (native).";
    BadCookie = 3, "DV_BAD_COOKIE",
        "A 32-bit bitmap begins with neither cookie 12346 nor cookie 12347.";
    KeyOrder = 4, "DV_KEY_ORDER",
        "Keys of buckets or of containers are not strictly ascending.";
    KeyRange = 5, "DV_KEY_RANGE",
        "The key of a bucket is 2^31 or more.";
    ContainerSize = 6, "DV_CONTAINER_SIZE",
        "A container holds no run, or its runs do not add up to its stated cardinality.";
    ValueOrder = 7, "DV_VALUE_ORDER",
        "The values of an array container or the runs of a run container are not strictly increasing.";
    RunRange = 8, "DV_RUN_RANGE",
        "A run passes the end of its container, position 65535.";
    BitsetCardinality = 9, "DV_BITSET_CARDINALITY",
        "The number of bits set in a bitmap container differs from its stated cardinality.";
    OffsetHeader = 10, "DV_OFFSET_HEADER",
        "An entry of the offset header, or a stated size, differs from where the container really is.";
    TrailingBytes = 11, "DV_TRAILING_BYTES",
        "Bytes are left over after the last bitmap; expected and got are lengths in bytes.";
    Cardinality = 12, "DV_CARDINALITY",
        "The declared cardinality differs from the number of rows in the bitmap.";
    RowRange = 13, "DV_ROW_RANGE",
        "A row index is not below the number of records of the file.";
    TooMany = 14, "DV_TOO_MANY",
        "A count is larger than the bytes that follow could hold, or than the format allows.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A serialized bitmap that is not what the format allows or what was declared about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{code} at byte {offset}: expected {expected}, got {got}")]
#[non_exhaustive]
pub struct BitmapError {
    /// What is wrong.
    pub code: ErrorCode,
    /// Where, in bytes from the start of the serialized bitmap.
    pub offset: u64,
    /// The value or bound that would have been right; its unit depends on the code.
    pub expected: u64,
    /// The value found.
    pub got: u64,
}

impl BitmapError {
    /// Built on the cold path only; widening from `usize` never loses anything on supported targets.
    #[cold]
    #[inline(never)]
    pub(crate) fn new(code: ErrorCode, offset: usize, expected: u64, got: u64) -> Self {
        BitmapError { code, offset: offset as u64, expected, got }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_are_numbered_from_one_without_gap() {
        for (index, code) in ErrorCode::ALL.iter().enumerate() {
            assert_eq!(*code as usize, index + 1);
            assert_eq!(ErrorCode::from_number(*code as u32), Some(*code));
            assert!(code.name().starts_with("DV_"));
            assert!(code.explanation().ends_with('.'));
        }
        assert_eq!(ErrorCode::from_number(0), None);
        assert_eq!(ErrorCode::from_number(15), None);
    }
}
