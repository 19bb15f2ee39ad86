//! `export` and `import`: a store as lines of JSON (`schema/export.md`).
//!
//! An export holds everything that the store holds, byte for byte, beside what people want to read of
//! it. What it says is proven by its last line; what it means is proven when it is imported. A
//! redacted export is for showing to others: no bodies, no keys, no texts, and no way back.

pub(super) mod export;
pub(super) mod import;
mod redact;

use serde::{Deserialize, Serialize};

use super::super::exit::Exit;
use crate::domain::tables::TableId;
use crate::event::kind::StoreKind;

/// Version of the format.
const VERSION: u32 = 1;

/// Longest line in bytes: the largest body in Base64, and what stands around it.
const MAX_LINE: u64 = 8 << 20;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    interlink_export: u32,
    /// `bus` or `agent`.
    store: String,
    /// Store format.
    format: u32,
    redacted: bool,
    /// Version of the program that wrote it.
    program: String,
}

/// Every other line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
enum Line {
    Meta {
        key: String,
        value: String,
    },
    BaseRow {
        table: String,
        key: String,
        value: String,
    },
    Record {
        seq: u64,
        /// For people; the frame counts.
        #[serde(default)]
        at: u64,
        #[serde(default)]
        kind: String,
        #[serde(default)]
        event: serde_json::Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        frame: Option<String>,
    },
    Body {
        seq: u64,
        len: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<String>,
    },
    Row {
        table: String,
        key: String,
        value: String,
    },
    /// The last line.
    End {
        /// Lines before this one.
        lines: u64,
        /// SHA-256 of them with their line ends, in hex.
        sha256: String,
    },
}

/// An export could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum LinesError {
    #[error("line {line}: {reason}")]
    Line { line: u64, reason: String },
    #[error("this is no export of a store")]
    NotAnExport,
    #[error("the export has version {found}; this program reads version {VERSION}")]
    Newer { found: u32 },
    #[error("the export has store format {found}; this program reads up to {supported}")]
    NewerStore { found: u32, supported: u32 },
    #[error("the export is redacted: what was left out cannot be brought back")]
    Redacted,
    #[error("the export ends too early: its last line is missing")]
    CutShort,
    #[error("the export was changed: its last line does not fit what stands before")]
    Digest,
    #[error("a record does not read: {0}")]
    Record(#[from] crate::event::DecodeRecordError),
}

impl LinesError {
    pub(super) fn exit(&self) -> Exit {
        match self {
            LinesError::Newer { .. } | LinesError::NewerStore { .. } => Exit::StoreNewer,
            LinesError::Redacted => Exit::Failure,
            _ => Exit::StoreCorrupt,
        }
    }

    pub(super) const fn next(&self) -> Option<&'static str> {
        match self {
            LinesError::Newer { .. } | LinesError::NewerStore { .. } => {
                Some("use a newer interlink-admin")
            }
            LinesError::Redacted => Some("export it again without --redact"),
            LinesError::CutShort | LinesError::Digest => Some("export it again"),
            _ => None,
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    data_encoding::BASE64.encode(bytes)
}

fn kind_of(name: &str) -> Option<StoreKind> {
    [StoreKind::Bus, StoreKind::Agent]
        .into_iter()
        .find(|kind| kind.name() == name)
}

fn table_of(name: &str) -> Option<TableId> {
    TableId::ALL.iter().copied().find(|id| id.name() == name)
}
