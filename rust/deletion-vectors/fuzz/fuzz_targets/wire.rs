//! Any bytes as a request: refused or answered, into memory of any size, and every instruction set gives the same
//! verdicts and bytes.
#![no_main]

use deletion_vectors::wire::{Request, WireError, overlap_count, read_response, resolve};
use deletion_vectors::{Merger, Verdict, max_merged_len};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut response = vec![0xa5; bytes.len()];
    let answer = match resolve(bytes, &mut response) {
        Err(WireError::NoSpace { needed }) => {
            response.resize(needed, 0);
            resolve(bytes, &mut response)
        }
        answer => answer,
    };
    match answer {
        Ok(used) => {
            let entries = read_response(&response[..used]).expect("a response");
            assert_eq!(entries.len(), Request::parse(bytes).expect("a request").files());
        }
        Err(WireError::NoSpace { .. }) => panic!("the space asked for was not enough"),
        Err(WireError::Internal { what, .. }) => panic!("{what}"),
        Err(_) => {}
    }
    let Ok(request) = Request::parse(bytes) else { return };
    for index in 0..request.files().min(4) {
        let _ = overlap_count(bytes, index);
        let Ok(file) = request.file(index) else { continue };
        let len =
            |bitmap: Option<deletion_vectors::Bitmap<'_>>| bitmap.map_or(0, |b| b.bytes.len());
        let mut first: Option<(Verdict, Vec<u8>)> = None;
        for (level, mut merger) in Merger::all_levels() {
            let mut out = vec![0; max_merged_len(len(file.current), len(file.winner))];
            let verdict = merger.merge(&file, &mut out).expect("enough space");
            out.truncate(if let Verdict::Merged { len, .. } = verdict { len } else { 0 });
            let (right, bytes) = first.get_or_insert((verdict, out.clone()));
            assert_eq!((&verdict, &out), (&*right, &*bytes), "{level}");
        }
    }
});
