//! Direct buffers as slices.
#![allow(unsafe_code, reason = "turns addresses that the JVM gives into slices")]

use std::marker::PhantomData;

use jni::objects::JByteBuffer;
use jni::sys::jlong;

use crate::jvm::Jvm;
use crate::throw::Failure;

fn bad(what: &'static str, expected: i64, got: i64) -> Failure {
    Failure::Argument { name: "response buffer", what, expected, got }
}

/// Where the memory of a direct buffer is.
pub(crate) fn address(jvm: &Jvm<'_>, buffer: &JByteBuffer<'_>) -> Result<usize, Failure> {
    if buffer.is_null() {
        return Err(bad("is null", 1, 0));
    }
    match jvm.direct_buffer(buffer) {
        Some(start) => Ok(start.expose_provenance()),
        None => Err(bad("is not direct", 1, 0)),
    }
}

/// Memory of a direct buffer to write to.
#[derive(Debug)]
pub(crate) struct Region<'a> {
    start: *mut u8,
    len: usize,
    _buffer: PhantomData<&'a mut [u8]>,
}

impl Region<'_> {
    /// The `len` bytes from `address` on, which the Java side has from [`address`].
    pub(crate) fn of(address: jlong, len: jlong) -> Result<Self, Failure> {
        let start = match usize::try_from(address) {
            Ok(start) if start != 0 => std::ptr::with_exposed_provenance_mut(start),
            _ => return Err(bad("has no address", 1, address)),
        };
        match usize::try_from(len) {
            Ok(len) if isize::try_from(len).is_ok() => {
                Ok(Region { start, len, _buffer: PhantomData })
            }
            _ => Err(bad("has a negative length", 0, len)),
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: that `start` is the address of a direct buffer which has `len` bytes and stays reachable is the Java
        // side's part, which has it from `address` and nowhere else. So is that nobody else uses it during the call: a
        // request keeps its response buffer to itself while a call is running. The bytes are initialised: the JVM fills
        // direct buffers with zeros when it allocates them.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}
