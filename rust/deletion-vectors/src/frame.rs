//! Deletion vectors as they lie in a file.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version of the file, 1; once, at the start |
//! | 4 | size of the data in bytes, big endian |
//! | size | the data: a serialized bitmap |
//! | 4 | CRC-32 of the data, big endian |
//!
//! The last three repeat for every deletion vector of the file. The offset in a descriptor is that of the size.
//!
//! Source: the section "Deletion Vector File Storage Format" of Delta's `PROTOCOL.md`.

/// The only version of the file format that there is.
pub const FILE_VERSION: u8 = 1;
/// Offset of the first deletion vector of a file, for descriptors that have none.
pub const FIRST_OFFSET: u64 = 1;

/// Why a frame was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The file has another version, or is empty.
    #[error("DV_FILE_VERSION at byte 0: expected version {FILE_VERSION}, got {got:?}")]
    Version {
        /// The first byte of the file, if it has one.
        got: Option<u8>,
    },
    /// The size in the file is not that in the descriptor.
    #[error("DV_FILE_SIZE at byte {offset}: expected {expected} bytes, got {got}")]
    Size {
        /// Where the frame begins.
        offset: u64,
        /// The size in the descriptor.
        expected: u64,
        /// The size in the file.
        got: u64,
    },
    /// The file ends before the frame does.
    #[error("DV_FILE_TRUNCATED: frame at byte {offset} ends at byte {expected} of {got}")]
    Truncated {
        /// Where the frame begins.
        offset: u64,
        /// Where it ends.
        expected: u64,
        /// Length of the file.
        got: u64,
    },
    /// The checksum in the file is not that of the data.
    #[error("DV_CHECKSUM at byte {offset}: expected {expected:#010x}, got {got:#010x}")]
    Checksum {
        /// Where the frame begins.
        offset: u64,
        /// The checksum in the file.
        expected: u32,
        /// The checksum of the data.
        got: u32,
    },
}

/// The data of the deletion vector at `offset` of a file, checked against `size` and its checksum.
///
/// # Errors
/// [`FrameError`], the version of the file included.
pub fn read_frame(file: &[u8], offset: u64, size: u64) -> Result<&[u8], FrameError> {
    let version = file.first().copied();
    if version != Some(FILE_VERSION) {
        return Err(FrameError::Version { got: version });
    }
    let len = file.len() as u64;
    let frame = usize::try_from(offset).ok().and_then(|at| file.get(at..)).unwrap_or(&[]);
    let truncated = |data: u64| FrameError::Truncated {
        offset,
        expected: offset.saturating_add(data).saturating_add(8),
        got: len,
    };
    let Some((stated, rest)) = frame.split_first_chunk::<4>() else { return Err(truncated(size)) };
    let stated = u64::from(u32::from_be_bytes(*stated));
    if stated != size {
        return Err(FrameError::Size { offset, expected: size, got: stated });
    }
    let data = usize::try_from(size).ok().and_then(|size| rest.split_at_checked(size));
    let Some((data, Some(checksum))) = data.map(|(data, rest)| (data, rest.first_chunk::<4>()))
    else {
        return Err(truncated(size));
    };
    let (expected, got) = (u32::from_be_bytes(*checksum), crc32(data));
    if expected != got {
        return Err(FrameError::Checksum { offset, expected, got });
    }
    Ok(data)
}

/// Appends a deletion vector to the bytes of a file, which get their version first if there are none yet; gives its
/// offset. For tests and tools: the real files are written through Hadoop.
pub fn append_frame(file: &mut Vec<u8>, data: &[u8]) -> u64 {
    if file.is_empty() {
        file.push(FILE_VERSION);
    }
    let offset = file.len() as u64;
    file.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    file.extend_from_slice(data);
    file.extend_from_slice(&crc32(data).to_be_bytes());
    offset
}

/// The CRC-32 of zip and of `java.util.zip.CRC32`.
pub fn crc32(data: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0u32;
        while byte < 256 {
            let mut crc = byte;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
                bit += 1;
            }
            #[allow(clippy::indexing_slicing, reason = "below 256, and at compile time")]
            {
                table[byte as usize] = crc;
            }
            byte += 1;
        }
        table
    };
    !data.iter().fold(u32::MAX, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        crc >> 8 ^ TABLE.get(usize::from(low ^ byte)).copied().unwrap_or(0)
    })
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]
mod tests {
    use super::*;

    #[test]
    fn crc32_of_the_usual_check_string() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn frames_round_trip_and_every_defect_is_found() {
        let mut file = Vec::new();
        let first = append_frame(&mut file, b"first");
        let second = append_frame(&mut file, b"the second");
        assert_eq!(first, FIRST_OFFSET);
        assert_eq!(read_frame(&file, first, 5), Ok(&b"first"[..]));
        assert_eq!(read_frame(&file, second, 10), Ok(&b"the second"[..]));
        assert!(matches!(
            read_frame(&file, second, 9),
            Err(FrameError::Size { expected: 9, got: 10, .. })
        ));
        assert!(matches!(read_frame(&file, 999, 5), Err(FrameError::Truncated { .. })));
        assert!(matches!(read_frame(&file, u64::MAX, 5), Err(FrameError::Truncated { .. })));
        assert!(matches!(read_frame(&[], 1, 5), Err(FrameError::Version { got: None })));
        assert!(matches!(read_frame(&[2], 1, 5), Err(FrameError::Version { got: Some(2) })));
        for len in 1..file.len() {
            assert!(read_frame(&file[..len], second, 10).is_err(), "{len}");
        }
        let mut bad = file.clone();
        bad[second as usize + 6] ^= 1;
        assert!(matches!(read_frame(&bad, second, 10), Err(FrameError::Checksum { .. })));
    }
}
