//! Direct buffers as slices.
#![allow(unsafe_code, reason = "turns addresses that the JVM gives into slices")]

use jni::objects::JByteBuffer;
use jni::sys::jlong;

use crate::jvm::Jvm;
use crate::throw::Failure;

/// The first bytes of a direct buffer to write to, checked to lie inside of it.
#[derive(Debug)]
pub(crate) struct Region<'a> {
    start: *mut u8,
    len: usize,
    _buffer: std::marker::PhantomData<&'a mut [u8]>,
}

impl<'a> Region<'a> {
    /// The first `len` bytes of `buffer`.
    pub(crate) fn of(
        jvm: &Jvm<'_>,
        buffer: &'a JByteBuffer<'_>,
        len: jlong,
        name: &'static str,
    ) -> Result<Region<'a>, Failure> {
        let bad = |what, expected, got| Failure::Buffer { name, what, expected, got };
        if buffer.is_null() {
            return Err(bad("is null", 1, 0));
        }
        let Some((start, capacity)) = jvm.direct_buffer(buffer) else {
            return Err(bad("is not direct", 1, 0));
        };
        match usize::try_from(len) {
            Ok(len) if len <= capacity && isize::try_from(len).is_ok() => {
                Ok(Region { start, len, _buffer: std::marker::PhantomData })
            }
            _ => {
                let capacity = i64::try_from(capacity).unwrap_or(i64::MAX);
                Err(bad("stated length is not within its capacity", capacity, len))
            }
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `of` has found `start` to be the address of a direct buffer and `len` to be within its capacity,
        // and not null. The buffer stays reachable for as long as `'a`, which borrows a local reference to it, so
        // the memory stays. That nobody else uses it during the call is the Java side's part: a request keeps its
        // response buffer to itself while a call is running. The bytes are initialised: the JVM fills direct
        // buffers with zeros when it allocates them.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}
