//! `import FILE`: a new store of an export. Nothing is ever merged into a store that is there.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::care::{self, CareError};
use super::super::error::AdminError;
use super::super::print::{Printer, Style};
use super::super::restore::place_of;
use super::super::status::count;
use super::{Head, Line, LinesError, MAX_LINE, VERSION, kind_of, table_of};
use crate::crypto::hash::Sha256Stream;
use crate::event::kind::StoreKind;
use crate::store::{FORMAT, Part, Parts, build};
use crate::types::seq::Seq;
use crate::wire::admin::Verification;

#[cfg(not(feature = "agent"))]
#[derive(Debug, clap::Args)]
pub(in super::super) struct Args {
    /// The export; `-` is standard input. The new store is the one that --store names, or a bus's
    /// usual one; it must not be there yet
    #[arg(value_name = "FILE")]
    pub(in super::super) file: std::path::PathBuf,
}

#[derive(Serialize, JsonSchema)]
pub(in super::super) struct Answer {
    /// The new store.
    store: String,
    kind: &'static str,
    import: String,
    #[serde(flatten)]
    proof: Verification,
}

pub(in super::super) fn run(
    file: &Path,
    place: Option<&Path>,
    p: &mut Printer,
) -> Result<(), AdminError> {
    let input: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(file).map_err(|source| CareError::File {
            path: file.to_owned(),
            source,
        })?;
        Box::new(BufReader::new(file))
    };
    let mut lines = Input {
        input,
        digest: Sha256Stream::default(),
        line: 0,
    };
    let kind = head(&mut lines)?;
    let store = place_of(place, kind)?;
    let mut proof = None;
    let made = build::<CareError>(
        &store,
        kind,
        |parts| fill(&mut lines, kind, parts),
        |snapshot| {
            proof = Some(care::proven(care::proof(kind, snapshot), file)?);
            Ok(())
        },
    );
    if let Err(e) = made {
        return care::differs(e, p);
    }
    let answer = Answer {
        store: store.display().to_string(),
        kind: kind.name(),
        import: file.display().to_string(),
        proof: proof.unwrap_or_default(),
    };
    if p.json {
        return Ok(p.json(&answer)?);
    }
    p.whole_line(Style::Good, &format!("imported: {}", answer.store))?;
    let text = format!(
        "{} up to {}, proven",
        count(answer.proof.records, "record"),
        answer.proof.head
    );
    Ok(p.field("", &text)?)
}

/// Reads the first line.
fn head(lines: &mut Input) -> Result<StoreKind, CareError> {
    let text = lines.next()?.ok_or(LinesError::NotAnExport)?;
    let head: Head = serde_json::from_slice(&text).map_err(|_| LinesError::NotAnExport)?;
    if head.interlink_export != VERSION {
        let found = head.interlink_export;
        return Err(LinesError::Newer { found }.into());
    }
    if head.redacted {
        return Err(LinesError::Redacted.into());
    }
    if head.format > FORMAT {
        let (found, supported) = (head.format, FORMAT);
        return Err(LinesError::NewerStore { found, supported }.into());
    }
    Ok(kind_of(&head.store).ok_or(LinesError::NotAnExport)?)
}

fn fill(lines: &mut Input, kind: StoreKind, parts: &mut Parts<'_>) -> Result<(), CareError> {
    loop {
        let (before, digest) = (lines.line, lines.digest.clone());
        let text = lines.next()?.ok_or(LinesError::CutShort)?;
        let line: Line = serde_json::from_slice(&text).map_err(|e| lines.wrong(e))?;
        match line {
            Line::Meta { key, value } => {
                let value = lines.bytes(&value)?;
                if key == "kind" && value != kind.name().as_bytes() {
                    return Err(lines
                        .wrong("the store is of another kind than the export says")
                        .into());
                }
                parts.put(Part::Meta {
                    key: &key,
                    value: &value,
                })?;
            }
            Line::BaseRow { table, key, value } => lines.row(parts, true, &table, &key, &value)?,
            Line::Row { table, key, value } => lines.row(parts, false, &table, &key, &value)?,
            Line::Record { seq, frame, .. } => {
                let frame = lines.bytes(&frame.unwrap_or_default())?;
                parts.put(Part::Record {
                    seq: Seq(seq),
                    frame: &frame,
                })?;
            }
            Line::Body { seq, bytes, .. } => {
                let bytes = lines.bytes(&bytes.unwrap_or_default())?;
                parts.put(Part::Body {
                    seq: Seq(seq),
                    bytes: &bytes,
                })?;
            }
            Line::End { lines: n, sha256 } => {
                let fits = data_encoding::HEXLOWER.encode(&digest.finish()) == sha256;
                if !fits || n != before || lines.next()?.is_some() {
                    return Err(LinesError::Digest.into());
                }
                return Ok(());
            }
        }
    }
}

/// Lines on their way in.
struct Input {
    input: Box<dyn BufRead>,
    digest: Sha256Stream,
    /// Lines read.
    line: u64,
}

impl Input {
    /// The next line; `None` at the end, also when the last one has no end.
    fn next(&mut self) -> Result<Option<Vec<u8>>, LinesError> {
        let mut text = vec![];
        let read = self
            .input
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', &mut text);
        self.line += 1;
        read.map_err(|e| self.wrong(e))?;
        if text.last() != Some(&b'\n') {
            if text.len() as u64 == MAX_LINE {
                return Err(self.wrong("it is too long"));
            }
            self.line -= 1;
            return Ok(None);
        }
        self.digest.update(&text);
        Ok(Some(text))
    }

    fn wrong(&self, reason: impl ToString) -> LinesError {
        LinesError::Line {
            line: self.line,
            reason: reason.to_string(),
        }
    }

    fn bytes(&self, text: &str) -> Result<Vec<u8>, LinesError> {
        let bytes = data_encoding::BASE64.decode(text.as_bytes());
        bytes.map_err(|e| self.wrong(e))
    }

    fn row(
        &self,
        parts: &mut Parts<'_>,
        base: bool,
        table: &str,
        key: &str,
        value: &str,
    ) -> Result<(), CareError> {
        let known = table_of(table);
        let table = known.ok_or_else(|| self.wrong(format!("there is no table {table:?}")))?;
        let (key, value) = (self.bytes(key)?, self.bytes(value)?);
        parts.put(Part::Row {
            table,
            base,
            key: &key,
            value: &value,
        })?;
        Ok(())
    }
}
