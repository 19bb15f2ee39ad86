//! `export`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::super::care::{self, CareError};
use super::super::error::AdminError;
use super::super::file::FileReader;
use super::super::locate::{Access, Target};
use super::super::print::{Printer, Style, bytes, note_source};
use super::super::reader::{Origin, StoreReader as _};
use super::super::status::count;
use super::redact::Redactor;
use super::{Head, Line, LinesError, VERSION, base64};
use crate::crypto::hash::Sha256Stream;
use crate::event::agent::AgentEvent;
use crate::event::bus::BusEvent;
use crate::event::kind::StoreKind;
use crate::event::{Recorded, StoredEvent};
use crate::store::{Fresh, Part, Snapshot};
use crate::types::seq::Seq;
use crate::types::text::visible_json;

#[derive(Debug, clap::Args)]
pub(in super::super) struct Args {
    /// The file to write; a file of that name is left alone [default: standard output, as `-`]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Leave out bodies, texts and rows, and put stable names in the place of keys and ids: for
    /// showing the log to somebody. Such a file cannot be imported
    #[arg(long)]
    redact: bool,
}

#[derive(Serialize, JsonSchema)]
pub(in super::super) struct Answer {
    #[serde(flatten)]
    origin: Origin,
    export: String,
    export_bytes: u64,
    redacted: bool,
    lines: u64,
}

pub(in super::super) fn run(
    args: &Args,
    targets: &[Target],
    p: &mut Printer,
) -> Result<(), AdminError> {
    let target = care::one(targets)?;
    if let Some(path) = &args.file {
        care::expect_folder(path)?;
    }
    let access = target.access()?;
    let origin = access.reader().origin().clone();
    note_source(&origin);
    match args.file.as_deref().filter(|path| *path != Path::new("-")) {
        None => {
            let out = BufWriter::new(io::stdout().lock());
            write_all(&access, args.redact, out)?;
            Ok(())
        }
        Some(path) => {
            let (lines, export_bytes) = to_file(&access, args.redact, path)?;
            let answer = Answer {
                origin,
                export: path.display().to_string(),
                export_bytes,
                redacted: args.redact,
                lines,
            };
            if p.json {
                return Ok(p.json(&answer)?);
            }
            p.whole_line(Style::Good, &format!("exported: {}", answer.origin.name()))?;
            let text = format!(
                "{}, {}, {}{}",
                answer.export,
                count(lines, "line"),
                bytes(export_bytes),
                if args.redact { ", redacted" } else { "" }
            );
            Ok(p.field("file", &text)?)
        }
    }
}

/// Writes a file (0600) that has its name once it is whole; gives its lines and bytes.
fn to_file(access: &Access, redact: bool, path: &Path) -> Result<(u64, u64), AdminError> {
    let failed = |source| CareError::File {
        path: path.to_owned(),
        source,
    };
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let fresh = Fresh::in_folder(dir, ".interlink-export-").map_err(failed)?;
    let lines = write_all(access, redact, BufWriter::new(fresh.file()))?;
    fresh.file().sync_all().map_err(failed)?;
    let len = fresh.file().metadata().map_err(failed)?.len();
    fresh.publish(path).map_err(failed)?;
    Ok((lines, len))
}

fn write_all(access: &Access, redact: bool, out: impl Write) -> Result<u64, AdminError> {
    match access {
        Access::File(reader) => of_file(reader, redact, out),
        // The bus gives away a copy of its store, and that is read.
        Access::Endpoint(bus) => {
            let copy = care::Lent::of(bus)?;
            of_file(&copy.reader, redact, out)
        }
    }
}

fn of_file(reader: &FileReader, redact: bool, out: impl Write) -> Result<u64, AdminError> {
    let kind = reader.origin().kind;
    let snapshot = reader.snapshot()?;
    let mut writer = Lines {
        out,
        digest: Sha256Stream::default(),
        lines: 0,
    };
    writer.line(&Head {
        interlink_export: VERSION,
        store: kind.name().to_owned(),
        format: snapshot.format().map_err(CareError::from)?,
        redacted: redact,
        program: env!("CARGO_PKG_VERSION").to_owned(),
    })?;
    let mut redactor = redact.then(Redactor::default);
    export(kind, &snapshot, &mut |line| match &mut redactor {
        None => writer.line(&line),
        Some(redactor) => match redactor.line(line) {
            Some(line) => writer.line(&line),
            None => Ok(()),
        },
    })?;
    writer.end()
}

fn export(
    kind: StoreKind,
    snapshot: &Snapshot,
    write: &mut dyn FnMut(Line) -> Result<(), AdminError>,
) -> Result<(), AdminError> {
    snapshot
        .parts::<Failed>(&mut |part| {
            let line = match part {
                Part::Meta { key, value } => Line::Meta {
                    key: key.to_owned(),
                    value: base64(value),
                },
                Part::Record { seq, frame } => match kind {
                    StoreKind::Bus => record::<BusEvent>(seq, frame),
                    StoreKind::Agent => record::<AgentEvent>(seq, frame),
                }
                .map_err(CareError::from)
                .map_err(AdminError::from)?,
                Part::Body { seq, bytes } => Line::Body {
                    seq: seq.0,
                    len: bytes.len() as u64,
                    bytes: Some(base64(bytes)),
                },
                Part::Row {
                    table,
                    base,
                    key,
                    value,
                } => {
                    let (table, key, value) = (table.name().to_owned(), base64(key), base64(value));
                    if base {
                        Line::BaseRow { table, key, value }
                    } else {
                        Line::Row { table, key, value }
                    }
                }
            };
            Ok(write(line)?)
        })
        .map_err(|failed| failed.0)
}

/// What ends an export early.
struct Failed(AdminError);

impl From<AdminError> for Failed {
    fn from(e: AdminError) -> Self {
        Failed(e)
    }
}

impl From<crate::store::ReadError> for Failed {
    fn from(e: crate::store::ReadError) -> Self {
        Failed(CareError::from(e).into())
    }
}

fn record<E: StoredEvent>(seq: Seq, frame: &[u8]) -> Result<Line, LinesError> {
    let record = Recorded::<E>::from_frame(seq, frame)?;
    Ok(Line::Record {
        seq: seq.0,
        at: record.at.0,
        kind: record.event.kind().name().to_owned(),
        event: record.event.to_json(),
        frame: Some(base64(frame)),
    })
}

/// Lines on their way out.
struct Lines<W> {
    out: W,
    digest: Sha256Stream,
    lines: u64,
}

impl<W: Write> Lines<W> {
    fn line(&mut self, line: &impl Serialize) -> Result<(), AdminError> {
        let text = serde_json::to_string(line).map_err(io::Error::from)?;
        let mut text = visible_json(&text).into_owned();
        text.push('\n');
        self.digest.update(text.as_bytes());
        self.lines += 1;
        Ok(self.out.write_all(text.as_bytes())?)
    }

    fn end(mut self) -> Result<u64, AdminError> {
        let sha256 = data_encoding::HEXLOWER.encode(&self.digest.clone().finish());
        let lines = self.lines;
        self.line(&Line::End { lines, sha256 })?;
        self.out.flush()?;
        Ok(lines)
    }
}
