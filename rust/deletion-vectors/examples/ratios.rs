//! Prints one table: time of the `roaring` crate divided by ours, for every shape. Beside them stands what copying the
//! three bitmaps takes, which is less than anything that looks at all of their bytes and writes as many can take.
//!
//! Arguments: a part of the shape's name (all shapes without), milliseconds for each measurement (400).
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::indexing_slicing, reason = "a report")]

#[path = "../benches/shapes/mod.rs"]
mod shapes;

use std::time::{Duration, Instant};

use deletion_vectors::{Merger, max_merged_len};

/// The shortest of many rounds, in nanoseconds: the least disturbed on a busy machine.
fn best(budget: Duration, mut body: impl FnMut()) -> f64 {
    body();
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    while begin.elapsed() < budget {
        // Short bodies are repeated, so that reading the clock does not count.
        let start = Instant::now();
        let mut times = 0u32;
        while times == 0 || start.elapsed() < Duration::from_micros(200) {
            body();
            times += 1;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(times));
    }
    best
}

fn main() {
    let only = std::env::args().nth(1);
    let millis = std::env::args().nth(2).and_then(|millis| millis.parse().ok());
    let budget = Duration::from_millis(millis.unwrap_or(400));
    for with_base in [false, true] {
        println!(
            "\n{}",
            if with_base { "with rows deleted before" } else { "nothing deleted before" }
        );
        println!(
            "{:34}{:>12}{:>12}{:>12}{:>12}{:>8}{:>8}{:>12}",
            "shape", "roaring ns", "portable ns", "avx2 ns", "ours ns", "ratio", "goal", "copy ns"
        );
        let mut logs = Vec::new();
        for shape in shapes::shapes(with_base) {
            if only.as_ref().is_some_and(|only| !shape.name.contains(only.as_str())) {
                continue;
            }
            let most =
                shape.files.iter().map(|f| max_merged_len(f.cur.0.len(), f.win.0.len())).max();
            let mut out = vec![0; most.unwrap_or(0)];
            let mut ours = |new: fn() -> Option<Merger>| {
                let Some(mut merger) = new() else { return f64::NAN };
                best(budget, || {
                    for file in &shape.files {
                        let verdict = merger.merge(&file.input(), &mut out).unwrap();
                        assert_eq!(verdict.is_positive(), !shape.conflict, "{verdict:?}");
                    }
                })
            };
            let fast = ours(|| Some(Merger::new()));
            let portable = ours(|| Merger::with_level("portable"));
            let avx2 = ours(|| Merger::with_level("avx2"));
            let mut written = Vec::new();
            let peer = best(budget, || {
                for file in &shape.files {
                    assert_eq!(shapes::peer(file, &mut written), !shape.conflict);
                }
            });
            let all: usize = shape.files.iter().flat_map(|f| f.bytes()).map(<[u8]>::len).sum();
            let mut copies = vec![0; all];
            let copy = best(budget, || {
                let mut rest = &mut copies[..];
                for bytes in shape.files.iter().flat_map(|f| f.bytes()) {
                    let (place, more) = rest.split_at_mut(bytes.len());
                    place.copy_from_slice(std::hint::black_box(bytes));
                    rest = more;
                }
            });
            let per = shape.files.len() as f64;
            logs.push((peer / fast).ln());
            println!(
                "{:34}{:>12.0}{:>12.0}{:>12.0}{:>12.0}{:>8.1}{:>8.1}{:>12.0}",
                shape.name,
                peer / per,
                portable / per,
                avx2 / per,
                fast / per,
                peer / fast,
                shape.goal_over_port,
                copy / per
            );
        }
        println!("geometric mean {:.2}", (logs.iter().sum::<f64>() / logs.len() as f64).exp());
    }
}
