//! The functions of JNI that every call needs, without what the `jni` crate does around them.
#![allow(unsafe_code, reason = "calls functions of the JVM")]

use std::marker::PhantomData;

use jni::EnvUnowned;
use jni::errors::Error;
use jni::objects::{JByteArray, JByteBuffer, JLongArray, JObjectArray};
use jni::sys::{JNIEnv, JNINativeInterface_, jarray, jlong, jsize};

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

    /// All numbers of a `long[]` of at most `out.len()`, and how many they are; the length alone if there are more.
    pub(crate) fn numbers(
        &self,
        array: &JLongArray<'_>,
        out: &mut [jlong],
    ) -> Result<usize, Error> {
        let array = array.as_raw();
        let len = self.len(array, "table")?;
        if let (Some(out), Ok(count)) = (out.get_mut(..len), jsize::try_from(len)) {
            // SAFETY: a `long[]` of that length, as the signature of the native method says, and `out` is as long.
            unsafe {
                (self.functions().v1_1.GetLongArrayRegion)(
                    self.env,
                    array,
                    0,
                    count,
                    out.as_mut_ptr(),
                );
            }
        }
        Ok(len)
    }

    /// Number of the arrays in an array.
    pub(crate) fn count(&self, arrays: &JObjectArray<'_, JByteArray<'_>>) -> Result<usize, Error> {
        self.len(arrays.as_raw(), "arrays")
    }

    fn len(&self, array: jarray, name: &'static str) -> Result<usize, Error> {
        if array.is_null() {
            return Err(Error::NullPtr(name));
        }
        // SAFETY: an array, as the signature of the native method says, and not null.
        let len = unsafe { (self.functions().v1_1.GetArrayLength)(self.env, array) };
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
