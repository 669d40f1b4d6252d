//! A panic in the library is an exception in Java and leaves the JVM as it was. No call of the library panics, so one
//! that does is built beside it, with the same boundary (`examples/panic_probe.rs`), and loaded into a JVM that checks
//! every JNI call. Needs a JDK, as the rest of the build does.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROBE: &str = r#"
package io.github.deltarlc.jni;

public final class PanicProbe {
  static native long panic0(int how);

  public static void main(String[] args) throws Exception {
    System.load(args[0]);
    for (int round = 0; round < 2; round++) {
      for (int how = 0; how < 5; how++) {
        try {
          System.out.println(how + " " + panic0(how));
        } catch (NativeException e) {
          System.out.println(how + " " + e.getMessage());
        }
      }
    }
    // From many threads at once, each of which goes on.
    Thread[] threads = new Thread[4];
    int[] caught = new int[threads.length];
    for (int t = 0; t < threads.length; t++) {
      int mine = t;
      threads[t] = new Thread(() -> {
        for (int i = 0; i < 500; i++) {
          try {
            panic0(0);
          } catch (NativeException e) {
            caught[mine] += e.code().equals(NativeException.PANIC) ? 1 : 0;
          }
        }
      });
      threads[t].start();
    }
    int all = 0;
    for (int t = 0; t < threads.length; t++) {
      threads[t].join();
      all += caught[t];
    }
    System.out.println("caught " + all);
  }
}
"#;

fn java(tool: &str) -> Command {
    let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin").join(tool));
    Command::new(home.unwrap_or_else(|| tool.into()))
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    output
}

#[test]
fn panics_of_every_sort_are_exceptions_in_a_jvm_that_lives_on() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("panics");
    std::fs::create_dir_all(&folder).unwrap();
    let probe = folder.join("PanicProbe.java");
    std::fs::write(&probe, PROBE).unwrap();
    let exception = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../jvm/src/main/java/io/github/deltarlc/jni/NativeException.java");
    let classes = folder.join("classes");
    run(java("javac").arg("-Xdoclint:none").arg("-d").arg(&classes).arg(&probe).arg(&exception));

    // Cargo puts examples beside the folder of the tests.
    let library = std::env::current_exe().unwrap();
    let library = library.parent().unwrap().with_file_name("examples").join("libpanic_probe.so");
    let output = run(java("java")
        .arg("-Xcheck:jni")
        .arg("-cp")
        .arg(&classes)
        .arg("io.github.deltarlc.jni.PanicProbe")
        .arg(&library));
    let said = String::from_utf8_lossy(&output.stdout);
    let once = [
        "0 PANIC: on purpose",
        "1 PANIC: index out of bounds: the len is 0 but the index is 7",
        "2 PANIC: a panic without a message",
        "3 INTERNAL: 18446744073709551615 does not fit into a long",
        "4 42",
    ];
    let expected: Vec<&str> = once.iter().chain(&once).copied().chain(["caught 2000"]).collect();
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        expected,
        "with -Xcheck:jni and without a word of it"
    );
}
