//! The functions of JNI that every call needs, without what the `jni` crate does around them.
#![allow(unsafe_code, reason = "calls functions of the JVM")]

use std::marker::PhantomData;

use jni::EnvUnowned;
use jni::errors::Error;
use jni::objects::{JByteArray, JByteBuffer, JLongArray, JObjectArray};
use jni::sys::{JNIEnv, JNINativeInterface_, jbyte, jbyteArray, jlong, jsize};

/// The environment of the current thread during one native call. The borrow keeps all else from using it.
#[derive(Debug)]
pub(crate) struct Jvm<'a> {
    env: *mut JNIEnv,
    borrow: PhantomData<&'a mut ()>,
}

impl<'a> Jvm<'a> {
    pub(crate) fn new(env: &'a mut EnvUnowned<'_>) -> Self {
        Jvm { env: env.as_raw(), borrow: PhantomData }
    }

    pub(crate) fn env(&self) -> *mut JNIEnv {
        self.env
    }

    pub(crate) fn functions(&self) -> &'a JNINativeInterface_ {
        // SAFETY: `env` is that of the current thread, and its table lives as long as the JVM.
        unsafe { &**self.env }
    }

    /// The first numbers of a `long[]`, which has as many as `out`; with fewer, an exception is pending afterwards.
    pub(crate) fn numbers(&self, array: &JLongArray<'_>, out: &mut [jlong]) -> Result<(), Error> {
        let array = array.as_raw();
        if array.is_null() {
            return Err(Error::NullPtr("table"));
        }
        let count = jsize::try_from(out.len()).unwrap_or(jsize::MAX);
        // SAFETY: a `long[]`, as the signature of the native method says, and `out` has room for what is copied.
        unsafe {
            (self.functions().v1_1.GetLongArrayRegion)(self.env, array, 0, count, out.as_mut_ptr());
        }
        Ok(())
    }

    /// As [`Self::numbers`], from place `start` of a `byte[]` on.
    pub(crate) fn bytes(
        &self,
        array: jbyteArray,
        start: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        if array.is_null() {
            return Err(Error::NullPtr("array"));
        }
        let start = jsize::try_from(start).unwrap_or(jsize::MAX);
        let count = jsize::try_from(out.len()).unwrap_or(jsize::MAX);
        // SAFETY: as above, of a `byte[]`.
        unsafe {
            (self.functions().v1_1.GetByteArrayRegion)(
                self.env,
                array,
                start,
                count,
                out.as_mut_ptr().cast::<jbyte>(),
            );
        }
        Ok(())
    }

    /// Number of the arrays in an array.
    pub(crate) fn count(&self, arrays: &JObjectArray<'_, JByteArray<'_>>) -> Result<usize, Error> {
        if arrays.is_null() {
            return Err(Error::NullPtr("arrays"));
        }
        // SAFETY: an array, as the signature of the native method says, and not null.
        let len = unsafe { (self.functions().v1_1.GetArrayLength)(self.env, arrays.as_raw()) };
        Ok(usize::try_from(len).unwrap_or(0))
    }

    /// Address of a direct buffer; none for any other.
    pub(crate) fn direct_buffer(&self, buffer: &JByteBuffer<'_>) -> Option<*mut u8> {
        // SAFETY: a buffer, as the signature of the native method says; of one that is not direct this tells so.
        let start =
            unsafe { (self.functions().v1_4.GetDirectBufferAddress)(self.env, buffer.as_raw()) };
        (!start.is_null()).then_some(start.cast())
    }
}
