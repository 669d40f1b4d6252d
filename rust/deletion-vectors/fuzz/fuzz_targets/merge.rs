//! Any three sets in any encoding. What must hold of them is in `tests/suite/hostile`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/suite/common/mod.rs"]
mod common;
#[path = "../../tests/suite/hostile/mod.rs"]
mod hostile;

fuzz_target!(|bytes: &[u8]| hostile::merge(bytes));
