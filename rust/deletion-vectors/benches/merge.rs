//! How long does resolving the files of a pass take, against the same on the `roaring` crate?
//!
//! `cargo bench -p deletion-vectors` for criterion's report; `cargo run --release -p deletion-vectors --example ratios`
//! for one table.
#![allow(missing_docs, clippy::unwrap_used, reason = "benches")]

mod shapes;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use deletion_vectors::{Merger, max_merged_len};
use shapes::{peer, shapes};

fn merge(criterion: &mut Criterion) {
    for with_base in [false, true] {
        let mut group = criterion.benchmark_group(if with_base { "merge, base" } else { "merge" });
        for shape in shapes(with_base) {
            let bytes: usize =
                shape.files.iter().map(|file| file.cur.0.len() + file.win.0.len()).sum();
            group.throughput(Throughput::Bytes(bytes as u64));
            let most =
                shape.files.iter().map(|f| max_merged_len(f.cur.0.len(), f.win.0.len())).max();
            let mut out = vec![0; most.unwrap_or(0)];
            group.bench_with_input(
                BenchmarkId::new("ours", shape.name),
                &shape,
                |bencher, shape| {
                    bencher.iter(|| {
                        let mut merger = Merger::new();
                        for file in &shape.files {
                            let verdict = merger.merge(black_box(&file.input()), &mut out).unwrap();
                            assert_eq!(verdict.is_positive(), !shape.conflict);
                        }
                    });
                },
            );
            let mut out = Vec::new();
            group.bench_with_input(
                BenchmarkId::new("roaring", shape.name),
                &shape,
                |bencher, shape| {
                    bencher.iter(|| {
                        for file in &shape.files {
                            assert_eq!(peer(black_box(file), &mut out), !shape.conflict);
                        }
                    });
                },
            );
        }
        group.finish();
    }
}

criterion_group!(benches, merge);
criterion_main!(benches);
