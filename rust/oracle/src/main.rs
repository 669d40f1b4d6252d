//! `dv-oracle --file X.parquet [--dv DESCRIPTOR.json] [--table-dir DIR]`: prints the rows that are left, a JSON object
//! a line.
//!
//! The descriptor is the object `deletionVector` of the log, in a file of its own. Without `--table-dir` the directory
//! of the Parquet file is taken for that of the table.

use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dv_oracle::{live_rows, read_descriptor};

const USAGE: &str = "usage: dv-oracle --file X.parquet [--dv DESCRIPTOR.json] [--table-dir DIR]";

fn run() -> Result<(), Box<dyn Error>> {
    let (mut file, mut dv, mut table_dir) = (None, None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let place = match argument.as_str() {
            "--file" => &mut file,
            "--dv" => &mut dv,
            "--table-dir" => &mut table_dir,
            other => return Err(format!("unknown argument {other}\n{USAGE}").into()),
        };
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"))?;
        *place = Some(PathBuf::from(value));
    }
    let file = file.ok_or(USAGE)?;
    let table_dir = table_dir.unwrap_or_else(|| file.parent().unwrap_or(Path::new("")).to_owned());
    let descriptor = dv.as_deref().map(read_descriptor).transpose()?;
    let rows =
        live_rows(&file, descriptor.as_ref().map(|descriptor| (descriptor, table_dir.as_path())))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for row in rows {
        writeln!(out, "{row}")?;
    }
    Ok(out.flush()?)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be done when standard error is closed as well.
            let _ = writeln!(std::io::stderr(), "dv-oracle: {error}");
            ExitCode::FAILURE
        }
    }
}
