//! Direct buffers as slices: the only place where memory of the JVM is touched.
#![allow(unsafe_code, reason = "turns addresses that the JVM gives into slices")]

use jni::Env;
use jni::objects::JByteBuffer;
use jni::sys::jlong;

use crate::throw::Failure;

/// The first bytes of a direct buffer, checked to lie inside of it.
#[derive(Debug)]
pub(crate) struct Region<'a> {
    start: *mut u8,
    len: usize,
    _buffer: std::marker::PhantomData<&'a [u8]>,
}

impl<'a> Region<'a> {
    /// The first `len` bytes of `buffer`.
    pub(crate) fn of(
        env: &Env<'_>,
        buffer: &'a JByteBuffer<'_>,
        len: jlong,
        name: &'static str,
    ) -> Result<Region<'a>, Failure> {
        let bad = |what, expected, got| Failure::Buffer { name, what, expected, got };
        if buffer.is_null() {
            return Err(bad("is null", 1, 0));
        }
        let start =
            env.get_direct_buffer_address(buffer).map_err(|_| bad("is not direct", 1, 0))?;
        let capacity =
            env.get_direct_buffer_capacity(buffer).map_err(|_| bad("is not direct", 1, 0))?;
        match usize::try_from(len) {
            Ok(len) if len <= capacity && isize::try_from(len).is_ok() && !start.is_null() => {
                Ok(Region { start, len, _buffer: std::marker::PhantomData })
            }
            _ => {
                let capacity = i64::try_from(capacity).unwrap_or(i64::MAX);
                Err(bad("stated length is not within its capacity", capacity, len))
            }
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `of` has found `start` to be the address of a direct buffer and `len` to be within its capacity,
        // and not null. The buffer stays reachable for as long as `'a`, which borrows a local reference to it, so
        // the memory stays. That nobody writes to it during the call is the Java side's part: `NativeBridge` keeps
        // its buffers private to one thread while a call is running.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    fn overlaps(&self, other: &Region<'_>) -> bool {
        let (a, b) = (self.start.addr(), other.start.addr());
        a < b.saturating_add(other.len) && b < a.saturating_add(self.len)
    }
}

/// A request to read and a response to write, checked to be apart.
#[derive(Debug)]
pub(crate) struct Pair<'a> {
    request: Region<'a>,
    response: Region<'a>,
}

impl<'a> Pair<'a> {
    /// The first bytes of two direct buffers.
    pub(crate) fn of(
        env: &Env<'_>,
        request: &'a JByteBuffer<'_>,
        request_len: jlong,
        response: &'a JByteBuffer<'_>,
        response_len: jlong,
    ) -> Result<Pair<'a>, Failure> {
        let request = Region::of(env, request, request_len, "request")?;
        let response = Region::of(env, response, response_len, "response")?;
        if request.overlaps(&response) {
            return Err(Failure::Buffer {
                name: "response",
                what: "shares memory with the request",
                expected: 0,
                got: 1,
            });
        }
        Ok(Pair { request, response })
    }

    /// Both as slices.
    pub(crate) fn slices(&mut self) -> (&[u8], &mut [u8]) {
        // SAFETY: as for `Region::bytes`; besides, `of` has found that the two share no memory, and `self` is
        // borrowed for writing, so that this is the only slice of the response. Its bytes are initialised: the JVM
        // fills direct buffers with zeros when it allocates them.
        let response =
            unsafe { std::slice::from_raw_parts_mut(self.response.start, self.response.len) };
        (self.request.bytes(), response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_only_when_a_byte_is_shared() {
        let mut memory = [0u8; 16];
        let start = memory.as_mut_ptr();
        let region = |from: usize, len| Region {
            start: start.wrapping_add(from),
            len,
            _buffer: std::marker::PhantomData,
        };
        assert!(!region(0, 8).overlaps(&region(8, 8)));
        assert!(region(0, 9).overlaps(&region(8, 8)));
        assert!(region(8, 8).overlaps(&region(0, 9)));
        assert!(region(2, 2).overlaps(&region(0, 16)));
        assert!(!region(4, 0).overlaps(&region(4, 0)));
    }
}
